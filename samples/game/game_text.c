/* game_text.c - faces, glyphs and the atlas. See game_text.h; lines are broken in game_wrap.c.
 *
 * The atlas is filled in rows of the height of the tallest glyph so far ("shelves"). When it is full, the next
 * frame begins with an empty one: all glyphs that are in sight come back on demand.
 */
#include "game_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ft2build.h>
#include FT_FREETYPE_H

#include "game_fonts.h"
#include "game_gpu.h"

enum { MOST_FACES = 2, TABLE_SIZE = 8192, REPLACEMENT = 0xFFFD };

typedef struct glyph {
    uint32_t character; /* 0: a free place of the table */
    uint32_t size;      /* pixels */
    float advance;
    int16_t left, top;  /* from the pen on the baseline; top is up */
    uint16_t x, y, width, height; /* in the atlas */
} glyph;

struct text {
    FT_Library library;
    FT_Face faces[MOST_FACES];
    size_t n_faces;
    uint32_t face_size[MOST_FACES]; /* that FreeType has set */
    bool chinese;
    uint8_t atlas[TEXT_ATLAS_SIZE * TEXT_ATLAS_SIZE];
    uint32_t shelf_x, shelf_y, shelf_height;
    uint32_t dirty_first, dirty_end; /* rows */
    bool full;
    size_t n_glyphs;
    glyph table[TABLE_SIZE];
};

/* ---- Faces ---------------------------------------------------------------------------------------- */

static bool add_face(text *text, const char *path)
{
    if (FT_New_Face(text->library, path, 0, &text->faces[text->n_faces]) != 0)
        return gpu_fail("%s is no font that FreeType can read", path);
    text->n_faces++;
    return true;
}

static bool open_faces(text *text, const char *latin, const char *chinese)
{
    if (!latin) latin = fonts_find_latin();
    if (!latin)
        return gpu_fail("no font in the usual places; name one with --font, or install one: Debian package "
                        "fonts-dejavu-core");
    if (!add_face(text, latin)) return false;
    if (!chinese) chinese = fonts_find_chinese();
    text->chinese = FT_Get_Char_Index(text->faces[0], 0x4E2D) != 0;
    if (!text->chinese && chinese) text->chinese = add_face(text, chinese);
    if (!text->chinese)
        gpu_fail("no Chinese font in the usual places, so the Chinese lines are left out; name one with "
                 "--font-chinese, or install one: Debian package fonts-wqy-microhei");
    return true;
}

text *text_open(const char *latin, const char *chinese)
{
    text *text = calloc(1, sizeof *text);
    if (!text) {
        gpu_fail("out of memory for text");
        return NULL;
    }
    text->dirty_end = TEXT_ATLAS_SIZE;
    if (FT_Init_FreeType(&text->library) != 0) {
        gpu_fail("FreeType could not start");
    } else if (open_faces(text, latin, chinese)) {
        return text;
    }
    text_close(text);
    return NULL;
}

void text_close(text *text)
{
    if (!text) return;
    for (size_t i = 0; i < text->n_faces; i++) FT_Done_Face(text->faces[i]);
    if (text->library) FT_Done_FreeType(text->library);
    free(text);
}

bool text_has_chinese(const text *text)
{
    return text->chinese;
}

/* ---- The atlas ------------------------------------------------------------------------------------ */

void text_begin_frame(text *text)
{
    if (!text->full && text->n_glyphs < TABLE_SIZE / 2) return;
    memset(text->table, 0, sizeof text->table);
    memset(text->atlas, 0, sizeof text->atlas);
    text->shelf_x = text->shelf_y = text->shelf_height = 0;
    text->n_glyphs = 0;
    text->full = false;
    text->dirty_first = 0;
    text->dirty_end = TEXT_ATLAS_SIZE;
}

text_change text_take_change(text *text)
{
    const text_change change = {text->atlas, text->dirty_first,
                                text->dirty_end > text->dirty_first ? text->dirty_end - text->dirty_first : 0};
    text->dirty_first = TEXT_ATLAS_SIZE;
    text->dirty_end = 0;
    return change;
}

/* Finds room for a glyph, a texel apart from its neighbours; false where the atlas is full. */
static bool reserve(text *text, glyph *glyph)
{
    if (text->shelf_x + glyph->width + 1 > TEXT_ATLAS_SIZE) {
        text->shelf_y += text->shelf_height;
        text->shelf_x = text->shelf_height = 0;
    }
    const uint32_t height = glyph->height + 1u;
    if (glyph->width + 1 > TEXT_ATLAS_SIZE || text->shelf_y + height > TEXT_ATLAS_SIZE) return false;
    glyph->x = (uint16_t)text->shelf_x;
    glyph->y = (uint16_t)text->shelf_y;
    text->shelf_x += glyph->width + 1u;
    if (text->shelf_height < height) text->shelf_height = height;
    return true;
}

static void copy_bitmap(text *text, const FT_Bitmap *bitmap, const glyph *glyph)
{
    for (uint32_t row = 0; row < glyph->height; row++) {
        const uint8_t *from = bitmap->buffer + (ptrdiff_t)row * bitmap->pitch;
        uint8_t *to = text->atlas + (size_t)(glyph->y + row) * TEXT_ATLAS_SIZE + glyph->x;
        if (bitmap->pixel_mode == FT_PIXEL_MODE_GRAY) {
            memcpy(to, from, glyph->width);
        } else {
            for (uint32_t x = 0; x < glyph->width; x++) to[x] = from[x / 8] >> (7 - x % 8) & 1 ? 255 : 0;
        }
    }
    if (text->dirty_first > glyph->y) text->dirty_first = glyph->y;
    if (text->dirty_end < glyph->y + glyph->height) text->dirty_end = glyph->y + glyph->height;
}

/* The first face that has the character; the first face's sign for what is missing where none has. */
static FT_Face find_face(text *text, uint32_t character, uint32_t size, FT_UInt *index)
{
    size_t found = 0;
    *index = 0;
    for (size_t i = 0; i < text->n_faces && *index == 0; i++) {
        *index = FT_Get_Char_Index(text->faces[i], character);
        if (*index) found = i;
    }
    if (text->face_size[found] != size && FT_Set_Pixel_Sizes(text->faces[found], 0, size) == 0)
        text->face_size[found] = size;
    return text->faces[found];
}

static void draw_glyph(text *text, glyph *glyph)
{
    FT_UInt index = 0;
    const FT_Face face = find_face(text, glyph->character, glyph->size, &index);
    if (FT_Load_Glyph(face, index, FT_LOAD_RENDER | FT_LOAD_TARGET_LIGHT) != 0) return; /* an empty one */
    const FT_GlyphSlot slot = face->glyph;
    glyph->advance = (float)slot->advance.x / 64;
    glyph->left = (int16_t)slot->bitmap_left;
    glyph->top = (int16_t)slot->bitmap_top;
    if (slot->bitmap.pixel_mode != FT_PIXEL_MODE_GRAY && slot->bitmap.pixel_mode != FT_PIXEL_MODE_MONO) return;
    glyph->width = (uint16_t)slot->bitmap.width;
    glyph->height = (uint16_t)slot->bitmap.rows;
    if (reserve(text, glyph)) {
        copy_bitmap(text, &slot->bitmap, glyph);
    } else {
        glyph->width = glyph->height = 0;
        text->full = true;
    }
}

/* The glyph of a character in whole pixels of size; drawn where it is new. */
static const glyph *find_glyph(text *text, uint32_t character, uint32_t size)
{
    uint32_t place = (character * 2654435761u ^ size * 40503u) % TABLE_SIZE;
    for (;; place = (place + 1) % TABLE_SIZE) {
        glyph *glyph = &text->table[place];
        if (glyph->character == character && glyph->size == size) return glyph;
        if (glyph->character) continue;
        if (text->n_glyphs >= TABLE_SIZE - 1) return glyph; /* an empty one until the next frame */
        text->n_glyphs++;
        glyph->character = character;
        glyph->size = size;
        draw_glyph(text, glyph);
        return glyph;
    }
}

/* ---- Lines ------------------------------------------------------------------------------------------ */

uint32_t text_decode(const char *utf8, size_t len, size_t *at)
{
    const uint8_t *bytes = (const uint8_t *)utf8 + *at;
    const size_t left = len - *at;
    const uint8_t first = bytes[0];
    const size_t more = first < 0x80 ? 0 : first >= 0xC2 && first < 0xE0 ? 1 : first >= 0xE0 && first < 0xF0 ? 2
                      : first >= 0xF0 && first < 0xF5 ? 3 : SIZE_MAX;
    ++*at;
    if (more == 0) return first ? first : REPLACEMENT;
    if (more >= left) return REPLACEMENT;
    uint32_t character = first & (0x3Fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((bytes[i] & 0xC0) != 0x80) return REPLACEMENT;
        character = character << 6 | (bytes[i] & 0x3Fu);
    }
    *at += more;
    return character;
}

static uint32_t whole_size(float size)
{
    return size < 6 ? 6 : size > 200 ? 200 : (uint32_t)(size + 0.5f);
}

float text_height(text *text, float size)
{
    (void)text;
    return roundf(size * 1.36f);
}

float text_width(text *text, float size, const char *utf8, size_t len)
{
    float width = 0;
    for (size_t at = 0; at < len;) width += find_glyph(text, text_decode(utf8, len, &at), whole_size(size))->advance;
    return width;
}

float text_draw(text *text, canvas *canvas, float x, float y, float size, uint32_t colour, const char *utf8,
                size_t len)
{
    const float baseline = roundf(y + size * 1.04f);
    x = roundf(x);
    for (size_t at = 0; at < len;) {
        const glyph *glyph = find_glyph(text, text_decode(utf8, len, &at), whole_size(size));
        const float left = roundf(x) + (float)glyph->left, top = baseline - (float)glyph->top;
        const shape shape = {.box = {left, top, left + (float)glyph->width, top + (float)glyph->height},
                             .more = {glyph->x, glyph->y, 0, 0},
                             .colour = colour,
                             .kind = SHAPE_GLYPH};
        if (glyph->width) canvas_add(canvas, &shape);
        x += glyph->advance;
    }
    return x;
}
