/* desktop_text.c - see desktop_text.h. */
#include "desktop_text.h"

#include <stdlib.h>

#include "sample_setup.h"

enum { REPLACEMENT = 0xfffd };

/* ---- Characters ------------------------------------------------------------------------------ */

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0u) == 0x80u;
}

uint32_t text_next(const char *bytes, size_t len, size_t *at)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)bytes[(*at)++];
    if (first < 0x80) return first;
    const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || len - *at < more) return REPLACEMENT;
    uint32_t code = first & (0x3fu >> more);
    for (size_t i = 0; i < more; i++) {
        if (!continues(bytes[*at + i])) return REPLACEMENT;
        code = code << 6 | ((unsigned char)bytes[*at + i] & 0x3fu);
    }
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return REPLACEMENT;
    *at += more;
    return code;
}

size_t text_before(const char *bytes, size_t at)
{
    if (at == 0) return 0;
    size_t begin = at - 1;
    for (int i = 0; i < 3 && begin > 0 && continues(bytes[begin]); i++) begin--;
    size_t end = begin;
    (void)text_next(bytes, at, &end);
    return end == at ? begin : at - 1;
}

static bool is_blank(uint32_t code)
{
    return code == ' ' || code == '\t' || code == 0x3000;
}

static bool is_one_of(uint32_t code, const uint32_t *codes)
{
    while (*codes && *codes != code) codes++;
    return *codes != 0;
}

/* Punctuation that no line begins with. */
static bool is_closing(uint32_t code)
{
    static const uint32_t codes[] = {',',    '.',    '!',    '?',    ';',    ':',    ')',    ']',    '}',    '%',
                                     0x2019, 0x201d, 0x2026, 0x3001, 0x3002, 0x3005, 0x3009, 0x300b, 0x300d, 0x300f,
                                     0x3011, 0x3015, 0x30fc, 0xff01, 0xff05, 0xff09, 0xff0c, 0xff0e, 0xff1a, 0xff1b,
                                     0xff1f, 0xff3d, 0xff5d, 0};
    return is_one_of(code, codes);
}

/* Punctuation that no line ends with. */
static bool is_opening(uint32_t code)
{
    static const uint32_t codes[] = {'(',    '[',    '{',    0x2018, 0x201c, 0x3008, 0x300a, 0x300c,
                                     0x300e, 0x3010, 0x3014, 0xff08, 0xff3b, 0xff5b, 0};
    return is_one_of(code, codes);
}

/* Written without blanks between words: Chinese, Japanese, and pictures. */
static bool is_ideographic(uint32_t code)
{
    return (code >= 0x2e80 && code < 0xa4d0) || (code >= 0xf900 && code < 0xfb00) ||
           (code >= 0xff00 && code < 0xffef) || (code >= 0x1f300 && code < 0x40000);
}

static bool may_break(uint32_t before, uint32_t code)
{
    if (is_blank(code)) return false;
    if (is_blank(before)) return true;
    if (is_closing(code) || is_opening(before)) return false;
    if (is_ideographic(before) || is_ideographic(code)) return true;
    return (before == '-' || before == 0x2013 || before == 0x2014) && code > '9';
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Words are runs of characters of one kind. */
static int kind_of(uint32_t code)
{
    if (is_blank(code) || code == '\n') return 0;
    if (is_ideographic(code)) return is_closing(code) || is_opening(code) ? 1 : 2;
    return code >= 0x80 || code == '_' || (code >= '0' && code <= '9') || ((code | 32u) >= 'a' && (code | 32u) <= 'z')
               ? 3
               : 1;
}

static int kind_at(const char *bytes, size_t len, size_t at)
{
    return kind_of(text_next(bytes, len, &at));
}

size_t text_word_begin(const char *bytes, size_t len, size_t at)
{
    size_t begin = text_before(bytes, at);
    while (begin > 0 && kind_at(bytes, len, begin) == 0) begin = text_before(bytes, begin);
    if (begin == at) return begin;
    const int kind = kind_at(bytes, len, begin);
    for (size_t next; begin > 0; begin = next) {
        next = text_before(bytes, begin);
        if (kind_at(bytes, len, next) != kind) break;
    }
    return begin;
}

size_t text_word_end(const char *bytes, size_t len, size_t at)
{
    while (at < len && kind_at(bytes, len, at) == 0) (void)text_next(bytes, len, &at);
    if (at == len) return at;
    const int kind = kind_at(bytes, len, at);
    while (at < len && kind_at(bytes, len, at) == kind) (void)text_next(bytes, len, &at);
    return at;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* The line in the making. */
typedef struct wrapping {
    text_lines *lines;
    size_t begin;               /* of the line */
    size_t break_at;            /* where it may end; begin: nowhere yet */
    int x, inked;               /* its width so far, with and without the blanks at its end */
    int break_x, break_inked;   /* the same at break_at */
} wrapping;

static void end_line(wrapping *w, size_t end, int width)
{
    text_lines *lines = w->lines;
    if (lines->n == lines->capacity) {
        lines->capacity = 2 * lines->capacity + 4;
        lines->lines = must_realloc(lines->lines, lines->capacity * sizeof *lines->lines);
    }
    lines->lines[lines->n++] = (text_line){w->begin, end - w->begin, width};
    if (width > lines->width) lines->width = width;
    w->begin = w->break_at = end;
}

/* Ends the line before the character at `at`, which does not fit. */
static void break_line(wrapping *w, size_t at)
{
    if (w->break_at > w->begin) {
        const int x = w->break_x;
        end_line(w, w->break_at, w->break_inked);
        w->x -= x;
        w->inked = w->inked > x ? w->inked - x : 0;
    } else {
        end_line(w, at, w->inked);
        w->x = w->inked = 0;
    }
}

void text_wrap(text_lines *lines, const char *bytes, size_t len, int limit, text_measure measure)
{
    lines->n = 0;
    lines->width = 0;
    wrapping w = {.lines = lines};
    uint32_t before = '\n';
    for (size_t at = 0; at < len;) {
        const size_t here = at;
        const uint32_t code = text_next(bytes, len, &at);
        if (code == '\n') {
            end_line(&w, here, w.inked);
            w.begin = w.break_at = at;
            w.x = w.inked = 0;
        } else {
            if (here > w.begin && may_break(before, code)) {
                w.break_at = here;
                w.break_x = w.x;
                w.break_inked = w.inked;
            }
            const int advance = measure.advance(measure.font, code);
            if (!is_blank(code) && w.x + advance > limit && here > w.begin) break_line(&w, here);
            w.x += advance;
            if (!is_blank(code)) w.inked = w.x;
        }
        before = code;
    }
    end_line(&w, len, w.inked);
}

void text_lines_free(text_lines *lines)
{
    free(lines->lines);
    *lines = (text_lines){0};
}

size_t text_line_of(const text_lines *lines, size_t at)
{
    size_t line = 0;
    while (line + 1 < lines->n && lines->lines[line + 1].at <= at) line++;
    return line;
}

int text_width(const char *bytes, size_t from, size_t to, text_measure measure)
{
    int width = 0;
    while (from < to) width += measure.advance(measure.font, text_next(bytes, to, &from));
    return width;
}

size_t text_offset_at(const char *bytes, const text_line *line, int x, text_measure measure)
{
    const size_t end = line->at + line->len;
    for (size_t at = line->at; at < end;) {
        const size_t here = at;
        const int advance = measure.advance(measure.font, text_next(bytes, end, &at));
        if (x < (advance + 1) / 2) return here;
        x -= advance;
    }
    return end;
}
