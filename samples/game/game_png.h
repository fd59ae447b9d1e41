/* game_png.h - pictures as PNG files, by libpng. */
#ifndef GAME_PNG_H
#define GAME_PNG_H

#include <stdbool.h>
#include <stdint.h>

/* rgba: height rows of width pixels of 4 bytes; their opacity is left out. False where the file cannot be written,
 * which was said on stderr. */
bool png_save(const char *path, uint32_t width, uint32_t height, const uint8_t *rgba);

#endif
