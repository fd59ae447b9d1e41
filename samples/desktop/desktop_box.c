/* desktop_box.c - see desktop_box.h. While something is composed, offsets in `shown` behind the cursor are those of
 * the text and the composed bytes more. */
#include "desktop_box.h"

#include <stdlib.h>
#include <string.h>

#include "desktop_colours.h"

enum { MOST_LINES = 6, PAD_X = 12, PAD_Y = 9 };

void box_free(box *b)
{
    text_lines_free(&b->lines);
    free(b->shown.bytes);
    *b = (box){0};
}

int box_measure(box *b, const edit *e, const paint *p, int width)
{
    b->shown.len = 0;
    text_append(&b->shown, e->text.bytes, e->cursor);
    text_append(&b->shown, e->composed, strlen(e->composed));
    text_append(&b->shown, e->text.len ? e->text.bytes + e->cursor : "", e->text.len - e->cursor);
    b->text.w = width - 2 * px(p, PAD_X);
    text_wrap(&b->lines, b->shown.bytes, b->shown.len, b->text.w, font_measure(p->body));
    const size_t n = b->lines.n < MOST_LINES ? b->lines.n : MOST_LINES;
    b->text.h = (int)n * font_line_height(p->body);
    return b->text.h + 2 * px(p, PAD_Y);
}

int box_least_height(const paint *p)
{
    return font_line_height(p->body) + 2 * px(p, PAD_Y);
}

static size_t caret_offset(const edit *e)
{
    return e->cursor + strlen(e->composed);
}

static void scroll_to_caret(box *b, const edit *e)
{
    const size_t line = text_line_of(&b->lines, caret_offset(e));
    if (b->lines.n <= MOST_LINES) b->top = 0;
    else if (b->top + MOST_LINES > b->lines.n) b->top = b->lines.n - MOST_LINES;
    if (line < b->top) b->top = line;
    if (line >= b->top + MOST_LINES) b->top = line - MOST_LINES + 1;
}

/* The part of a line between two offsets, as a rectangle; w 0: nothing of it. */
static SDL_Rect part_of_line(const box *b, const paint *p, size_t index, size_t from, size_t to)
{
    const text_line *line = &b->lines.lines[index];
    const size_t end = line->at + line->len;
    if (from < line->at) from = line->at;
    if (to > end) to = end;
    SDL_Rect part = {b->text.x, 0, 0, font_line_height(p->body)};
    part.y = b->text.y + ((int)index - (int)b->top) * part.h;
    if (from > to) return part;
    const text_measure measure = font_measure(p->body);
    part.x += text_width(b->shown.bytes, line->at, from, measure);
    part.w = text_width(b->shown.bytes, from, to, measure);
    return part;
}

static void draw_line(const box *b, const edit *e, const paint *p, size_t index)
{
    const text_line *line = &b->lines.lines[index];
    size_t from = 0, to = 0;
    edit_selection(e, &from, &to);
    if (!e->composed[0] && from < to) paint_box(p, part_of_line(b, p, index, from, to), COLOUR_SELECTION);
    const SDL_Rect whole = part_of_line(b, p, index, line->at, line->at + line->len);
    font_draw(p->body, whole.x, whole.y, b->shown.bytes + line->at, line->len, COLOUR_TEXT);
    if (!e->composed[0]) return;
    SDL_Rect under = part_of_line(b, p, index, e->cursor, caret_offset(e));
    under.y += under.h - px(p, 3);
    under.h = px(p, 1.5);
    if (under.w > 0) paint_box(p, under, COLOUR_ACCENT);
}

static void place_caret(box *b, const edit *e, const paint *p)
{
    const size_t at = caret_offset(e);
    b->caret = part_of_line(b, p, text_line_of(&b->lines, at), at, at);
    const int last = b->text.x + b->text.w - px(p, 1);
    if (b->caret.x > last) b->caret.x = last; /* behind blanks that hang over the line's end */
    b->caret.w = px(p, 1.5);
}

void box_draw(box *b, const edit *e, const paint *p, SDL_Rect area, bool has_focus, bool caret)
{
    const int line = px(p, 1);
    paint_round_box(p, area, px(p, 10), has_focus ? COLOUR_ACCENT : COLOUR_LINE);
    paint_round_box(p, (SDL_Rect){area.x + line, area.y + line, area.w - 2 * line, area.h - 2 * line},
                    px(p, 10) - line, COLOUR_PAPER);
    b->text.x = area.x + px(p, PAD_X);
    b->text.y = area.y + px(p, PAD_Y);
    scroll_to_caret(b, e);
    SDL_RenderSetClipRect(p->renderer, &b->text);
    if (b->shown.len == 0) paint_text(p->body, b->text.x, b->text.y, "Message", COLOUR_PALE);
    for (size_t i = b->top; i < b->lines.n && i < b->top + MOST_LINES; i++) draw_line(b, e, p, i);
    place_caret(b, e, p);
    if (has_focus && caret) paint_box(p, b->caret, COLOUR_TEXT);
    SDL_RenderSetClipRect(p->renderer, NULL);
}

/* From an offset in what is shown to one in the text. */
static size_t to_text(const edit *e, size_t shown)
{
    const size_t composed = strlen(e->composed);
    if (shown <= e->cursor) return shown;
    return shown < e->cursor + composed ? e->cursor : shown - composed;
}

size_t box_offset_at(const box *b, const edit *e, const paint *p, int x, int y)
{
    const int height = font_line_height(p->body), row = y < b->text.y ? -1 : (y - b->text.y) / height;
    const size_t wanted = row < 0 && b->top == 0 ? 0 : (size_t)((int)b->top + row);
    const size_t last = b->lines.n - 1;
    const text_line *line = &b->lines.lines[wanted < last ? wanted : last];
    return to_text(e, text_offset_at(b->shown.bytes, line, x - b->text.x, font_measure(p->body)));
}

size_t box_line_below(const box *b, const edit *e, const paint *p, int lines)
{
    const size_t at = caret_offset(e), index = text_line_of(&b->lines, at);
    const text_measure measure = font_measure(p->body);
    if (lines < 0 && index < (size_t)-lines) return 0;
    const size_t wanted = (size_t)((int)index + lines);
    if (wanted >= b->lines.n) return e->text.len;
    const int x = text_width(b->shown.bytes, b->lines.lines[index].at, at, measure);
    return to_text(e, text_offset_at(b->shown.bytes, &b->lines.lines[wanted], x, measure));
}

void box_line_ends(const box *b, const edit *e, size_t *begin, size_t *end)
{
    const size_t index = text_line_of(&b->lines, caret_offset(e));
    const text_line *line = &b->lines.lines[index];
    *begin = to_text(e, line->at);
    size_t last = line->at + line->len;
    const bool is_soft = index + 1 < b->lines.n && b->lines.lines[index + 1].at == last;
    if (is_soft) last = text_before(b->shown.bytes, last); /* behind it the cursor would be in the next line */
    *end = to_text(e, last);
}
