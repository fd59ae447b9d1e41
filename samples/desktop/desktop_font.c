/* desktop_font.c - see desktop_font.h. The glyphs' places are kept in a hash table with linear probing. */
#include "desktop_font.h"

#include <SDL_ttf.h>
#include <stdlib.h>

enum { ATLAS_SIZE = 1024, TABLE_SIZE = 8192, MOST_GLYPHS = TABLE_SIZE / 2 };

typedef struct glyph {
    uint32_t code; /* 0: a free slot */
    bool is_drawn; /* then it lies at `place` in the atlas, which may be empty */
    int advance, left;
    TTF_Font *from; /* borrowed from the font */
    SDL_Rect place;
} glyph;

struct font {
    SDL_Renderer *renderer;
    TTF_Font *files[FONT_FILES];
    size_t n_files;
    int ascent, line_height;
    SDL_Texture *atlas;
    int x, y, row_height; /* where the next glyph goes in the atlas */
    size_t n_glyphs;
    glyph glyphs[TABLE_SIZE];
};

/* ---- Files ----------------------------------------------------------------------------------- */

static const char *const latin_places[] = {
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",  "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu/DejaVuSans.ttf",           "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf", "/usr/share/fonts/noto/NotoSans-Regular.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf", "C:/Windows/Fonts/segoeui.ttf",
    "/System/Library/Fonts/Helvetica.ttc",              NULL,
};
static const char *const chinese_places[] = {
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc", "/usr/share/fonts/wqy-microhei/wqy-microhei.ttc",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf", "C:/Windows/Fonts/msyh.ttc",
    "/System/Library/Fonts/PingFang.ttc", "/System/Library/Fonts/STHeiti Light.ttc", NULL,
};
static const char *const symbol_places[] = {
    "/usr/share/fonts/truetype/ancient-scripts/Symbola_hint.ttf",
    "/usr/share/fonts/truetype/noto/NotoSansSymbols2-Regular.ttf", "C:/Windows/Fonts/seguisym.ttf",
    "/System/Library/Fonts/Apple Symbols.ttf", NULL,
};

static void add_file(font_files *files, const char *path)
{
    if (path && files->n < FONT_FILES) files->paths[files->n++] = path;
}

static const char *first_there(const char *const *places)
{
    for (; *places; places++) {
        SDL_RWops *file = SDL_RWFromFile(*places, "rb");
        if (!file) continue;
        SDL_RWclose(file);
        return *places;
    }
    return NULL;
}

font_files font_find(const char *first, const char *second)
{
    font_files files = {.n = 0};
    add_file(&files, first ? first : first_there(latin_places));
    add_file(&files, second);
    add_file(&files, first_there(chinese_places));
    add_file(&files, first_there(symbol_places));
    return files;
}

static void open_file(font *f, const char *path, int pixels)
{
    TTF_Font *file = TTF_OpenFontDPI(path, pixels, 72, 72); /* at 72 DPI a point is a pixel */
    if (!file) return;
    TTF_SetFontHinting(file, TTF_HINTING_LIGHT);
    f->files[f->n_files++] = file;
    const int ascent = TTF_FontAscent(file), descent = TTF_FontHeight(file) - ascent;
    const int below = f->line_height - f->ascent;
    if (ascent > f->ascent) f->ascent = ascent;
    f->line_height = f->ascent + (descent > below ? descent : below);
}

font *font_open(SDL_Renderer *renderer, const font_files *files, int pixels)
{
    font *f = must_realloc(NULL, sizeof *f);
    *f = (font){.renderer = renderer};
    for (size_t i = 0; i < files->n; i++) open_file(f, files->paths[i], pixels);
    if (f->n_files > 0) {
        f->line_height += pixels / 6; /* air between lines */
        font_reset(f);
        return f;
    }
    if (files->n == 0) SDL_SetError("no font is in the usual places; name one with --font FILE");
    free(f);
    return NULL;
}

void font_close(font *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->n_files; i++) TTF_CloseFont(f->files[i]);
    if (f->atlas) SDL_DestroyTexture(f->atlas);
    free(f);
}

/* ---- Glyphs ---------------------------------------------------------------------------------- */

static void forget_glyphs(font *f)
{
    for (size_t i = 0; i < TABLE_SIZE; i++) f->glyphs[i].code = 0;
    f->n_glyphs = 0;
    f->x = f->y = f->row_height = 0;
}

void font_reset(font *f)
{
    forget_glyphs(f);
    if (f->atlas) SDL_DestroyTexture(f->atlas);
    f->atlas =
        SDL_CreateTexture(f->renderer, SDL_PIXELFORMAT_ARGB8888, SDL_TEXTUREACCESS_STATIC, ATLAS_SIZE, ATLAS_SIZE);
    if (f->atlas) SDL_SetTextureBlendMode(f->atlas, SDL_BLENDMODE_BLEND);
}

/* Characters that change others, and have no shape of their own. */
static bool is_invisible(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) || code == 0xfeff ||
           (code >= 0xfe00 && code <= 0xfe0f) || (code >= 0x1f3fb && code <= 0x1f3ff);
}

static void measure_glyph(const font *f, glyph *g)
{
    size_t which = 0;
    while (which < f->n_files && !TTF_GlyphIsProvided32(f->files[which], g->code)) which++;
    g->from = f->files[which < f->n_files ? which : 0]; /* its box for what no font has */
    int left = 0, right = 0, bottom = 0, top = 0;
    if (is_invisible(g->code) ||
        TTF_GlyphMetrics32(g->from, g->code, &left, &right, &bottom, &top, &g->advance) != 0)
        g->advance = 0;
    g->left = left < 0 ? left : 0;
    g->is_drawn = g->advance == 0 || g->code == ' ';
}

static glyph *find_glyph(font *f, uint32_t code)
{
    if (f->n_glyphs >= MOST_GLYPHS) forget_glyphs(f);
    uint32_t slot = code * 2654435761u >> 19; /* Knuth's multiplicative hash, TABLE_SIZE slots */
    while (f->glyphs[slot].code != 0 && f->glyphs[slot].code != code) slot = (slot + 1) % TABLE_SIZE;
    glyph *g = &f->glyphs[slot];
    if (g->code == 0) {
        *g = (glyph){.code = code ? code : ' '};
        measure_glyph(f, g);
        f->n_glyphs++;
    }
    return g;
}

/* Finds room in the atlas; false where it is full. */
static bool place_glyph(font *f, SDL_Rect *place)
{
    if (f->x + place->w > ATLAS_SIZE) {
        f->x = 0;
        f->y += f->row_height + 1;
        f->row_height = 0;
    }
    if (place->w > ATLAS_SIZE || f->y + place->h > ATLAS_SIZE) return false;
    place->x = f->x;
    place->y = f->y;
    f->x += place->w + 1;
    if (place->h > f->row_height) f->row_height = place->h;
    return true;
}

static void draw_into_atlas(font *f, glyph *g)
{
    g->is_drawn = true;
    SDL_Surface *surface = TTF_RenderGlyph32_Blended(g->from, g->code, (SDL_Color){255, 255, 255, 255});
    if (!surface) return;
    SDL_Rect place = {.w = surface->w, .h = surface->h};
    if (f->atlas && place_glyph(f, &place) && SDL_UpdateTexture(f->atlas, &place, surface->pixels, surface->pitch) == 0)
        g->place = place;
    SDL_FreeSurface(surface);
}

/* A glyph that lies in the atlas. */
static const glyph *ready_glyph(font *f, uint32_t code)
{
    glyph *g = find_glyph(f, code);
    if (g->is_drawn) return g;
    if (f->y + 2 * f->line_height > ATLAS_SIZE) { /* the last row: begin anew before it is full */
        forget_glyphs(f);
        g = find_glyph(f, code);
    }
    draw_into_atlas(f, g);
    return g;
}

static int advance_of(void *user, uint32_t code)
{
    return find_glyph(user, code)->advance;
}

text_measure font_measure(font *f)
{
    return (text_measure){advance_of, f};
}

int font_line_height(const font *f)
{
    return f->line_height;
}

int font_draw(font *f, int x, int y, const char *bytes, size_t len, SDL_Color colour)
{
    if (!f->atlas) return x;
    SDL_SetTextureColorMod(f->atlas, colour.r, colour.g, colour.b);
    SDL_SetTextureAlphaMod(f->atlas, colour.a);
    for (size_t at = 0; at < len;) {
        const glyph *g = ready_glyph(f, text_next(bytes, len, &at));
        if (g->is_drawn && g->place.w > 0) {
            const SDL_Rect to = {x + g->left, y + f->ascent - TTF_FontAscent(g->from), g->place.w, g->place.h};
            SDL_RenderCopy(f->renderer, f->atlas, &g->place, &to);
        }
        x += g->advance;
    }
    return x;
}
