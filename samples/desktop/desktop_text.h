/* desktop_text.h - UTF-8 by characters, and text wrapped into lines. Knows neither windows nor fonts: widths
 * come through a callback.
 *
 * Lines break behind blanks and hyphens, and around each character of Chinese and Japanese, where no line begins with
 * closing punctuation or ends with opening one; a word longer than a line is cut. Offsets are in bytes.
 */
#ifndef DESKTOP_TEXT_H
#define DESKTOP_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Reads the character at *at (below len) and moves *at behind it. A byte that is no UTF-8 is U+FFFD. */
uint32_t text_next(const char *bytes, size_t len, size_t *at);

/* Where the character before `at` begins; 0 at 0. */
size_t text_before(const char *bytes, size_t at);

/* The beginning of the word at or before `at`, and the end of the one at or behind it. */
size_t text_word_begin(const char *bytes, size_t len, size_t at);
size_t text_word_end(const char *bytes, size_t len, size_t at);

typedef struct text_measure {
    int (*advance)(void *font, uint32_t code); /* pixels from this character to the next */
    void *font;
} text_measure;

typedef struct text_line {
    size_t at, len; /* the line's bytes, blanks at its end included, a newline not */
    int width;      /* without the blanks at its end */
} text_line;

typedef struct text_lines {
    text_line *lines; /* owned */
    size_t n, capacity;
    int width; /* of the widest */
} text_lines;

/* Replaces the lines by those of a text; there is one at least. limit: the most pixels of a line. */
void text_wrap(text_lines *lines, const char *bytes, size_t len, int limit, text_measure measure);
void text_lines_free(text_lines *lines);

/* The line that a cursor at `at` stands in. */
size_t text_line_of(const text_lines *lines, size_t at);

/* Width of bytes [from, to). */
int text_width(const char *bytes, size_t from, size_t to, text_measure measure);

/* The offset in a line that is nearest to x pixels from its begin. */
size_t text_offset_at(const char *bytes, const text_line *line, int x, text_measure measure);

#endif
