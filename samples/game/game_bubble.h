/* game_bubble.h - what the two say, in speech bubbles above their heads. */
#ifndef GAME_BUBBLE_H
#define GAME_BUBBLE_H

#include "game_text.h"
#include "game_talk.h"

/* Draws what each of the two said last. width, height: of the picture. */
void bubble_draw(const talk *talk, canvas *canvas, text *text, float width, float height);

#endif
