/* desktop_paint.h - what the window is drawn with: a renderer, two sizes of text, rounded boxes, a scale.
 *
 * Sizes in the sources are for a plain screen; px() scales them to the screen's density and the user's zoom.
 */
#ifndef DESKTOP_PAINT_H
#define DESKTOP_PAINT_H

#include <SDL.h>

#include "desktop_font.h"

typedef struct paint {
    SDL_Renderer *renderer; /* borrowed */
    font_files files;
    font *body, *small; /* owned */
    SDL_Texture *disc;  /* owned: a white disc, for round corners */
    double scale;
} paint;

/* Opens fonts and disc for a scale, in place of those for another; false, with SDL_GetError, where there is no font. */
bool paint_set_scale(paint *p, double scale);
void paint_close(paint *p);

/* After the renderer has lost its textures. */
void paint_reset(paint *p);

int px(const paint *p, double size);

void paint_box(const paint *p, SDL_Rect box, SDL_Color colour);

/* With corners of `radius` pixels. */
void paint_round_box(const paint *p, SDL_Rect box, int radius, SDL_Color colour);

/* One line of text, from its left upper corner. Returns the x behind it. */
int paint_text(font *f, int x, int y, const char *text, SDL_Color colour);
int paint_text_width(font *f, const char *text);

/* One line of text in the middle of a box. */
void paint_label(font *f, SDL_Rect box, const char *text, SDL_Color colour);

#endif
