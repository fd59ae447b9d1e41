/* game_wrap.c - where lines break; text_wrap of game_text.h. */
#include <string.h>

#include "game_text.h"

/* Han, kana, their punctuation and full-width forms: a line may break on either side. */
static bool is_wide(uint32_t c)
{
    return (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFE30 && c <= 0xFE4F) ||
           (c >= 0xFF00 && c <= 0xFFEF) || (c >= 0x20000 && c <= 0x3FFFF);
}

static bool is_one_of(const uint32_t *set, uint32_t c)
{
    while (*set && *set != c) set++;
    return *set != 0;
}

/* What must not begin a line: commas, stops and what closes. */
static bool closes(uint32_t c)
{
    static const uint32_t set[] = {',',    '.',    '!',    '?',    ';',    ':',    ')',    ']',    '}',   0x2019,
                                   0x201D, 0x2026, 0x3001, 0x3002, 0x3009, 0x300B, 0x300D, 0x300F, 0x3011, 0xFF01,
                                   0xFF09, 0xFF0C, 0xFF0E, 0xFF1A, 0xFF1B, 0xFF1F, 0xFF5E, 0};
    return is_one_of(set, c);
}

/* What must not end one. */
static bool opens(uint32_t c)
{
    static const uint32_t set[] = {'(',    '[',    '{',    0x2018, 0x201C, 0x3008, 0x300A,
                                   0x300C, 0x300E, 0x3010, 0xFF08, 0};
    return is_one_of(set, c);
}

static bool may_break(uint32_t before, uint32_t after)
{
    if (after == ' ' || closes(after) || opens(before)) return false;
    return before == ' ' || before == '-' || is_wide(before) || is_wide(after);
}

/* A line that is being filled. */
typedef struct filling {
    size_t start;       /* of the line */
    size_t break_at;    /* the last place where it may end; `start`: nowhere yet */
    float width;        /* up to where we are */
    float break_width;  /* up to break_at */
} filling;

static void end_line(text_line lines[TEXT_MOST_LINES], size_t *n_lines, const char *utf8, size_t start, size_t end)
{
    while (end > start && utf8[end - 1] == ' ') end--;
    if (*n_lines == TEXT_MOST_LINES) {
        memmove(lines, lines + 1, (TEXT_MOST_LINES - 1) * sizeof *lines);
        --*n_lines;
    }
    lines[(*n_lines)++] = (text_line){start, end - start};
}

size_t text_wrap(text *text, float size, const char *utf8, size_t len, float width,
                 text_line lines[TEXT_MOST_LINES])
{
    size_t n_lines = 0;
    filling line = {0};
    uint32_t before = '\n';
    for (size_t at = 0; at < len;) {
        const size_t here = at;
        const uint32_t c = text_decode(utf8, len, &at);
        const float advance = c == '\n' ? 0 : text_width(text, size, utf8 + here, at - here);
        if (before != '\n' && may_break(before, c)) {
            line.break_at = here;
            line.break_width = line.width;
        }
        if (line.width + advance > width && c != ' ' && here > line.start) {
            const bool mid_word = line.break_at == line.start;
            const size_t end = mid_word ? here : line.break_at;
            end_line(lines, &n_lines, utf8, line.start, end);
            line.width -= mid_word ? line.width : line.break_width;
            line.start = line.break_at = end;
        }
        line.width += advance;
        if (c == '\n') {
            end_line(lines, &n_lines, utf8, line.start, here);
            line = (filling){.start = at, .break_at = at};
        }
        before = c;
    }
    if (line.start < len) end_line(lines, &n_lines, utf8, line.start, len);
    return n_lines;
}
