/* desktop_font.h - characters drawn from one texture, each from the first of several fonts that has it.
 *
 * A character is drawn once, when it is first needed, into the texture (the atlas); where that is full it begins
 * anew. No shaping: scripts that need it (Arabic, Devanagari) show their separate letters.
 */
#ifndef DESKTOP_FONT_H
#define DESKTOP_FONT_H

#include <SDL.h>

#include "desktop_text.h"
#include "sample_setup.h"

/* Latin and its kin, Chinese and Japanese, symbols, and one more by the user's wish. */
enum { FONT_FILES = 4 };

typedef struct font_files {
    const char *paths[FONT_FILES]; /* borrowed; the first `n` count, in the order of preference */
    size_t n;
} font_files;

/* Fonts by the user's choice (NULL: none) before those of the usual places. */
font_files font_find(const char *first, const char *second);

typedef struct font font;

/* NULL, with SDL_GetError, where none of the files is a font that can be opened. pixels: the size of an em. */
font *font_open(SDL_Renderer *renderer, const font_files *files, int pixels);
void font_close(font *f);

/* After the renderer has lost its textures. */
void font_reset(font *f);

int font_line_height(const font *f);
text_measure font_measure(font *f);

/* Draws bytes in one line, (x, y) its left upper corner. Returns the x behind it. */
int font_draw(font *f, int x, int y, const char *bytes, size_t len, SDL_Color colour);

#endif
