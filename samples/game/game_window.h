/* game_window.h - the window and what the player does in it, by GLFW. */
#ifndef GAME_WINDOW_H
#define GAME_WINDOW_H

#include "game_loop.h"

/* Makes game->window. False where there is no display or no window to be had, which was said on stderr. */
bool window_open(game *game);
void window_close(game *game);

/* Takes keys and mouse: the slider, arrows and space for the budget, Escape to leave. */
void window_input(game *game);

#endif
