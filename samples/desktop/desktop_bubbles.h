/* desktop_bubbles.h - the conversation: wrapped bubbles that scroll, with text that can be selected.
 *
 * It stays at the end while replies grow, unless the user has scrolled up.
 */
#ifndef DESKTOP_BUBBLES_H
#define DESKTOP_BUBBLES_H

#include "desktop_paint.h"
#include "desktop_talk.h"

typedef struct bubbles {
    SDL_Rect area;
    int scroll, content; /* pixels above the area, and of the whole conversation */
    bool is_up;          /* the user has scrolled up */
    size_t item, anchor, cursor; /* the selection lies in this item */
} bubbles;

void bubbles_draw(bubbles *b, talk *t, const paint *p, SDL_Rect area);

/* Down by so many pixels; up where negative. */
void bubbles_scroll(bubbles *b, int pixels);

/* Puts the handle of the scroll bar at y. */
void bubbles_drag_bar(bubbles *b, int y);
bool bubbles_on_bar(const bubbles *b, const paint *p, int x, int y);

/* Begins a selection at a point (extend: moves its end there). */
void bubbles_select(bubbles *b, const talk *t, const paint *p, int x, int y, bool extend);
void bubbles_select_nothing(bubbles *b);

/* A copy of the selected text, from malloc; NULL where nothing is selected. */
char *bubbles_copy(const bubbles *b, const talk *t);

#endif
