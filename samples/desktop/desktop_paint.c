/* desktop_paint.c - see desktop_paint.h. */
#include "desktop_paint.h"

#include <math.h>
#include <string.h>

enum { BODY_SIZE = 16, SMALL_SIZE = 13, DISC_SIZE = 64 };

int px(const paint *p, double size)
{
    return (int)(size * p->scale + 0.5);
}

/* A white disc that fills its square, smooth at its edge. */
static SDL_Texture *make_disc(SDL_Renderer *renderer)
{
    uint32_t pixels[DISC_SIZE * DISC_SIZE];
    const double middle = (DISC_SIZE - 1) / 2.0;
    for (int i = 0; i < DISC_SIZE * DISC_SIZE; i++) {
        const double inside = DISC_SIZE / 2.0 - hypot(i % DISC_SIZE - middle, i / DISC_SIZE - middle);
        const double covered = fmin(fmax(inside / 2, 0), 1); /* over two pixels: it is drawn smaller */
        pixels[i] = (uint32_t)(covered * 255 + 0.5) << 24 | 0xffffffu;
    }
    SDL_SetHint(SDL_HINT_RENDER_SCALE_QUALITY, "linear");
    SDL_Texture *disc =
        SDL_CreateTexture(renderer, SDL_PIXELFORMAT_ARGB8888, SDL_TEXTUREACCESS_STATIC, DISC_SIZE, DISC_SIZE);
    SDL_SetHint(SDL_HINT_RENDER_SCALE_QUALITY, "nearest");
    if (!disc) return NULL;
    SDL_UpdateTexture(disc, NULL, pixels, DISC_SIZE * (int)sizeof *pixels);
    SDL_SetTextureBlendMode(disc, SDL_BLENDMODE_BLEND);
    return disc;
}

bool paint_set_scale(paint *p, double scale)
{
    paint_close(p);
    p->scale = scale;
    p->body = font_open(p->renderer, &p->files, px(p, BODY_SIZE));
    p->small = p->body ? font_open(p->renderer, &p->files, px(p, SMALL_SIZE)) : NULL;
    p->disc = make_disc(p->renderer);
    return p->small != NULL;
}

void paint_close(paint *p)
{
    font_close(p->body);
    font_close(p->small);
    if (p->disc) SDL_DestroyTexture(p->disc);
    p->body = p->small = NULL;
    p->disc = NULL;
}

void paint_reset(paint *p)
{
    font_reset(p->body);
    font_reset(p->small);
    if (p->disc) SDL_DestroyTexture(p->disc);
    p->disc = make_disc(p->renderer);
}

void paint_box(const paint *p, SDL_Rect box, SDL_Color colour)
{
    SDL_SetRenderDrawBlendMode(p->renderer, SDL_BLENDMODE_BLEND);
    SDL_SetRenderDrawColor(p->renderer, colour.r, colour.g, colour.b, colour.a);
    SDL_RenderFillRect(p->renderer, &box);
}

void paint_round_box(const paint *p, SDL_Rect box, int radius, SDL_Color colour)
{
    if (box.w < 1 || box.h < 1) return;
    const int shorter = box.w < box.h ? box.w : box.h;
    const int r = 2 * radius < shorter ? radius : shorter / 2, half = DISC_SIZE / 2;
    paint_box(p, (SDL_Rect){box.x, box.y + r, box.w, box.h - 2 * r}, colour);
    paint_box(p, (SDL_Rect){box.x + r, box.y, box.w - 2 * r, r}, colour);
    paint_box(p, (SDL_Rect){box.x + r, box.y + box.h - r, box.w - 2 * r, r}, colour);
    if (!p->disc) return;
    SDL_SetTextureColorMod(p->disc, colour.r, colour.g, colour.b);
    SDL_SetTextureAlphaMod(p->disc, colour.a);
    for (int corner = 0; corner < 4; corner++) {
        const int right = corner & 1, low = corner >> 1;
        const SDL_Rect from = {right * half, low * half, half, half};
        const SDL_Rect to = {box.x + right * (box.w - r), box.y + low * (box.h - r), r, r};
        SDL_RenderCopy(p->renderer, p->disc, &from, &to);
    }
}

int paint_text(font *f, int x, int y, const char *text, SDL_Color colour)
{
    return font_draw(f, x, y, text, strlen(text), colour);
}

int paint_text_width(font *f, const char *text)
{
    return text_width(text, 0, strlen(text), font_measure(f));
}

void paint_label(font *f, SDL_Rect box, const char *text, SDL_Color colour)
{
    const int x = box.x + (box.w - paint_text_width(f, text)) / 2;
    paint_text(f, x, box.y + (box.h - font_line_height(f)) / 2, text, colour);
}
