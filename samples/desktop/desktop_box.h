/* desktop_box.h - the box that the message is typed in: as tall as its text, up to some lines, then scrolling. */
#ifndef DESKTOP_BOX_H
#define DESKTOP_BOX_H

#include "desktop_edit.h"
#include "desktop_paint.h"

typedef struct box {
    text_lines lines;  /* owned, of `shown` */
    sample_text shown; /* owned: the text with what is composed at the cursor */
    size_t top;        /* the first line that is seen */
    SDL_Rect text;     /* where the lines are */
    SDL_Rect caret;
} box;

void box_free(box *b);

/* Lays the text out for a width and returns the height that the box wants. */
int box_measure(box *b, const edit *e, const paint *p, int width);

/* The height for one line. */
int box_least_height(const paint *p);

/* Settles where the box is, scrolls to the cursor, and draws. caret: whether the cursor is seen. */
void box_draw(box *b, const edit *e, const paint *p, SDL_Rect area, bool has_focus, bool caret);

/* The offset in the text at a point of the window. */
size_t box_offset_at(const box *b, const edit *e, const paint *p, int x, int y);

/* The offset `lines` lines below the cursor, at the same width; the text's begin or end where there is none. */
size_t box_line_below(const box *b, const edit *e, const paint *p, int lines);

/* Begin and end of the cursor's line. */
void box_line_ends(const box *b, const edit *e, size_t *begin, size_t *end);

#endif
