/* desktop_bubbles.c - see desktop_bubbles.h. Where a bubble is follows from those above it, each time anew; the lines
 * of a text are kept until it or the width changes. */
#include "desktop_bubbles.h"

#include <string.h>

#include "desktop_colours.h"

enum { GAP = 12, MARGIN = 18, PAD_X = 13, PAD_Y = 9, ROUND = 11, WIDEST = 680, BAR = 8 };

/* ---- Where things are ------------------------------------------------------------------------ */

static int widest_line(const bubbles *b, const paint *p)
{
    const int room = b->area.w - 2 * px(p, MARGIN), most = px(p, WIDEST);
    const int bubble = room * 4 / 5 < most ? room * 4 / 5 : most, line = bubble - 2 * px(p, PAD_X);
    return line > px(p, 40) ? line : px(p, 40);
}

static int note_height(const talk_item *item, const paint *p)
{
    return item->note[0] ? font_line_height(p->small) + px(p, 2) : 0;
}

/* The bubble of an item whose text is wrapped, `y` pixels below the conversation's begin. */
static SDL_Rect bubble_of(const bubbles *b, const talk_item *item, const paint *p, int y)
{
    const int pad = px(p, PAD_X), margin = px(p, MARGIN);
    SDL_Rect bubble = {.y = b->area.y + y - b->scroll, .w = item->lines.width + 2 * pad};
    bubble.h = (int)item->lines.n * font_line_height(p->body) + 2 * px(p, PAD_Y);
    bubble.x = b->area.x + margin;
    if (item->who == TALK_USER) bubble.x = b->area.x + b->area.w - margin - bubble.w;
    if (item->who == TALK_NOTICE) bubble.x = b->area.x + (b->area.w - bubble.w) / 2;
    return bubble;
}

static void wrap(const bubbles *b, talk_item *item, const paint *p)
{
    const int limit = widest_line(b, p);
    if (item->wrapped == limit) return;
    const char *dots = "\xe2\x80\xa6"; /* a reply to come */
    const bool is_empty = item->text.len == 0;
    text_wrap(&item->lines, is_empty ? dots : item->text.bytes, is_empty ? strlen(dots) : item->text.len, limit,
              font_measure(p->body));
    item->wrapped = limit;
}

static int last_scroll(const bubbles *b)
{
    return b->content > b->area.h ? b->content - b->area.h : 0;
}

void bubbles_scroll(bubbles *b, int pixels)
{
    const int last = last_scroll(b);
    b->scroll += pixels;
    b->is_up = b->scroll < last;
    if (b->scroll > last) b->scroll = last;
    if (b->scroll < 0) b->scroll = 0;
}

/* Wraps what is new and measures the conversation. */
static void measure(bubbles *b, talk *t, const paint *p)
{
    b->content = px(p, GAP);
    for (size_t i = 0; i < t->n; i++) {
        wrap(b, &t->items[i], p);
        b->content += bubble_of(b, &t->items[i], p, 0).h + note_height(&t->items[i], p) + px(p, GAP);
    }
    const int last = last_scroll(b);
    if (!b->is_up || b->scroll > last) b->scroll = last;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static SDL_Color pale(SDL_Color colour, bool is_pale)
{
    if (is_pale) colour.a = 110;
    return colour;
}

static void draw_selection(const bubbles *b, const talk_item *item, const paint *p, const text_line *line, int x, int y)
{
    const text_measure measure = font_measure(p->body);
    size_t from = b->anchor < b->cursor ? b->anchor : b->cursor, to = b->anchor < b->cursor ? b->cursor : b->anchor;
    if (from < line->at) from = line->at;
    if (to > line->at + line->len) to = line->at + line->len;
    if (from >= to) return;
    const SDL_Rect part = {x + text_width(item->text.bytes, line->at, from, measure), y,
                           text_width(item->text.bytes, from, to, measure), font_line_height(p->body)};
    SDL_Color colour = COLOUR_SELECTION;
    if (item->who == TALK_USER) colour = (SDL_Color){255, 255, 255, 80};
    paint_box(p, part, colour);
}

static void draw_bubble(const bubbles *b, const talk *t, size_t index, const paint *p, SDL_Rect bubble)
{
    const struct {
        SDL_Color ground, text;
    } looks[] = {{COLOUR_ACCENT, COLOUR_ON_ACCENT}, {COLOUR_PAPER, COLOUR_TEXT}, {COLOUR_NOTICE, COLOUR_ON_NOTICE}};
    const talk_item *item = &t->items[index];
    const bool is_pale = index < t->first;
    paint_round_box(p, bubble, px(p, ROUND), pale(looks[item->who].ground, is_pale));
    const int x = bubble.x + px(p, PAD_X), height = font_line_height(p->body);
    int y = bubble.y + px(p, PAD_Y);
    const char *bytes = item->text.len > 0 ? item->text.bytes : "\xe2\x80\xa6";
    for (size_t i = 0; i < item->lines.n; i++, y += height) {
        const text_line *line = &item->lines.lines[i];
        if (y + height < b->area.y || y > b->area.y + b->area.h) continue;
        if (b->item == index && item->text.len > 0) draw_selection(b, item, p, line, x, y);
        font_draw(p->body, x, y, bytes + line->at, line->len, pale(looks[item->who].text, is_pale));
    }
    if (item->note[0]) paint_text(p->small, x, bubble.y + bubble.h + px(p, 2), item->note, COLOUR_PALE);
}

/* The scroll bar's handle; h 0: everything is seen. */
static SDL_Rect bar_of(const bubbles *b, const paint *p)
{
    SDL_Rect bar = {b->area.x + b->area.w - px(p, BAR + 3), b->area.y, px(p, BAR), 0};
    if (b->content <= b->area.h) return bar;
    bar.h = b->area.h * b->area.h / b->content;
    if (bar.h < px(p, 24)) bar.h = px(p, 24);
    bar.y += (int)((int64_t)(b->area.h - bar.h) * b->scroll / last_scroll(b));
    return bar;
}

void bubbles_draw(bubbles *b, talk *t, const paint *p, SDL_Rect area)
{
    b->area = area;
    measure(b, t, p);
    SDL_RenderSetClipRect(p->renderer, &area);
    int y = px(p, GAP);
    for (size_t i = 0; i < t->n; i++) {
        const SDL_Rect bubble = bubble_of(b, &t->items[i], p, y);
        const int below = bubble.h + note_height(&t->items[i], p);
        if (bubble.y < area.y + area.h && bubble.y + below > area.y) draw_bubble(b, t, i, p, bubble);
        y += below + px(p, GAP);
    }
    paint_round_box(p, bar_of(b, p), px(p, BAR / 2), COLOUR_LINE);
    SDL_RenderSetClipRect(p->renderer, NULL);
}

/* ---- The mouse ------------------------------------------------------------------------------- */

bool bubbles_on_bar(const bubbles *b, const paint *p, int x, int y)
{
    return b->content > b->area.h && x >= b->area.x + b->area.w - px(p, BAR + 6) && y >= b->area.y &&
           y < b->area.y + b->area.h;
}

void bubbles_drag_bar(bubbles *b, int y)
{
    if (b->area.h <= 0) return;
    const int64_t middle = (int64_t)(y - b->area.y) * b->content / b->area.h;
    bubbles_scroll(b, (int)middle - b->area.h / 2 - b->scroll);
}

/* The offset in an item's text at a point, the nearest where the point is outside. */
static size_t offset_at(const talk_item *item, const paint *p, SDL_Rect bubble, int x, int y)
{
    const int below = y - bubble.y - px(p, PAD_Y);
    size_t line = below < 0 ? 0 : (size_t)(below / font_line_height(p->body));
    if (item->text.len == 0 || item->lines.n == 0) return 0;
    if (line >= item->lines.n) line = item->lines.n - 1;
    return text_offset_at(item->text.bytes, &item->lines.lines[line], x - bubble.x - px(p, PAD_X),
                          font_measure(p->body));
}

void bubbles_select(bubbles *b, const talk *t, const paint *p, int x, int y, bool extend)
{
    const SDL_Point point = {x, y};
    if (!extend) bubbles_select_nothing(b);
    int top = px(p, GAP);
    for (size_t i = 0; i < t->n; i++) {
        const talk_item *item = &t->items[i];
        const SDL_Rect bubble = bubble_of(b, item, p, top);
        top += bubble.h + note_height(item, p) + px(p, GAP);
        if (extend ? i != b->item : !SDL_PointInRect(&point, &bubble)) continue;
        b->item = i;
        b->cursor = offset_at(item, p, bubble, x, y);
        if (!extend) b->anchor = b->cursor;
        return;
    }
}

void bubbles_select_nothing(bubbles *b)
{
    b->item = SIZE_MAX;
    b->anchor = b->cursor = 0;
}

char *bubbles_copy(const bubbles *b, const talk *t)
{
    if (b->item >= t->n || b->anchor == b->cursor) return NULL;
    const size_t from = b->anchor < b->cursor ? b->anchor : b->cursor;
    const size_t to = b->anchor < b->cursor ? b->cursor : b->anchor;
    if (to > t->items[b->item].text.len) return NULL;
    char *copy = must_realloc(NULL, to - from + 1);
    memcpy(copy, t->items[b->item].text.bytes + from, to - from);
    copy[to - from] = '\0';
    return copy;
}
