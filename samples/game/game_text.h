/* game_text.h - text by FreeType: glyphs in an atlas, drawn on demand; lines that wrap.
 *
 * Faces are asked in turn, so that a Latin font and a Chinese one make one. No shaping: scripts whose letters join
 * or stack come out letter by letter. UTF-8 that is malformed shows as U+FFFD.
 */
#ifndef GAME_TEXT_H
#define GAME_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "game_canvas.h"

enum { TEXT_ATLAS_SIZE = 1024, TEXT_MOST_LINES = 24 };

typedef struct text text;

/* latin, chinese: font files; NULL: looked for in the usual places. Without a Latin font it is NULL, without a
 * Chinese one text_has_chinese says false; both have been told of on stderr. */
text *text_open(const char *latin, const char *chinese);
void text_close(text *text);
bool text_has_chinese(const text *text);

/* A part of a text that fits the width: bytes from `start`, `len` of them. */
typedef struct text_line {
    size_t start, len;
} text_line;

/* Breaks len bytes of UTF-8 into lines of at most `width` pixels: at blanks, behind hyphens, between Chinese
 * characters (not before one that closes, nor behind one that opens), and in the middle of a word that is wider.
 * Where there are more lines than TEXT_MOST_LINES the last ones are kept. Returns their number. */
size_t text_wrap(text *text, float size, const char *utf8, size_t len, float width,
                 text_line lines[TEXT_MOST_LINES]);

/* size: pixels of an em. */
float text_width(text *text, float size, const char *utf8, size_t len);
float text_height(text *text, float size); /* from one baseline to the next */

/* Draws one line from (x, y), its top left corner. Returns where it ends. */
float text_draw(text *text, canvas *canvas, float x, float y, float size, uint32_t colour, const char *utf8,
                size_t len);

/* The atlas: TEXT_ATLAS_SIZE rows of as many bytes, and which rows have changed since the last call. */
typedef struct text_change {
    const uint8_t *pixels;
    uint32_t first_row, n_rows; /* 0: none */
} text_change;
text_change text_take_change(text *text);

/* To be called before the canvas of a frame is filled: makes room where the last frame had too many glyphs. */
void text_begin_frame(text *text);

/* The next character of UTF-8 (U+FFFD where it is malformed); *at moves on by at least a byte. */
uint32_t text_decode(const char *utf8, size_t len, size_t *at);

#endif
