/* game_sparks.h - fireflies over the meadow: particles on paths that depend on the time alone. */
#ifndef GAME_SPARKS_H
#define GAME_SPARKS_H

#include "game_canvas.h"

void sparks_draw(canvas *canvas, double time, float width, float height);

#endif
