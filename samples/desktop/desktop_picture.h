/* desktop_picture.h - the window's picture in a file. */
#ifndef DESKTOP_PICTURE_H
#define DESKTOP_PICTURE_H

#include <SDL.h>
#include <stdbool.h>

/* Writes what the renderer has drawn: as PNG where the name ends in .png, else as BMP. False, with SDL_GetError, where
 * that is not possible. Call it before the picture is shown: what is behind it afterwards is not defined. */
bool picture_write(SDL_Renderer *renderer, const char *path);

#endif
