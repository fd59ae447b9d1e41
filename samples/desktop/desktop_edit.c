/* desktop_edit.c - see desktop_edit.h. */
#include "desktop_edit.h"

#include <stdlib.h>
#include <string.h>

#include "desktop_text.h"

void edit_free(edit *e)
{
    free(e->text.bytes);
    *e = (edit){0};
}

void edit_clear(edit *e)
{
    e->text.len = e->cursor = e->anchor = 0;
    text_append(&e->text, "", 0);
    e->composed[0] = '\0';
}

void edit_selection(const edit *e, size_t *from, size_t *to)
{
    *from = e->cursor < e->anchor ? e->cursor : e->anchor;
    *to = e->cursor < e->anchor ? e->anchor : e->cursor;
}

static void remove_bytes(edit *e, size_t from, size_t to)
{
    if (to > from) {
        memmove(e->text.bytes + from, e->text.bytes + to, e->text.len - to);
        e->text.len -= to - from;
        e->text.bytes[e->text.len] = '\0';
    }
    e->cursor = e->anchor = from;
}

static void remove_selection(edit *e)
{
    size_t from = 0, to = 0;
    edit_selection(e, &from, &to);
    remove_bytes(e, from, to);
}

/* Appends what of the bytes may stand in a message. */
static void append_clean(sample_text *text, const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        const size_t here = at;
        const uint32_t code = text_next(bytes, len, &at);
        if (code == '\r' && at < len && bytes[at] == '\n') continue;
        if (code == '\r' || code == 0x2028 || code == 0x2029) text_append(text, "\n", 1);
        else if (code == '\t') text_append(text, "    ", 4);
        else if (code == 0xfffd) text_append(text, "\xef\xbf\xbd", 3); /* also for bytes that are no UTF-8 */
        else if (code == '\n' || (code >= 0x20 && code != 0x7f)) text_append(text, bytes + here, at - here);
    }
}

void edit_insert(edit *e, const char *bytes, size_t len)
{
    remove_selection(e);
    sample_text clean = {0};
    append_clean(&clean, bytes, len);
    const size_t behind = e->text.len - e->cursor;
    text_append(&e->text, clean.bytes, clean.len); /* makes room; the order is put right below */
    char *at = e->text.bytes + e->cursor;
    memmove(at + clean.len, at, behind);
    if (clean.len > 0) memcpy(at, clean.bytes, clean.len);
    e->cursor = e->anchor = e->cursor + clean.len;
    free(clean.bytes);
}

static size_t find_place(const edit *e, edit_place to)
{
    const char *bytes = e->text.bytes;
    const size_t len = e->text.len;
    size_t at = e->cursor;
    switch (to) {
    case EDIT_LEFT: return text_before(bytes, at);
    case EDIT_RIGHT:
        if (at < len) (void)text_next(bytes, len, &at);
        return at;
    case EDIT_WORD_LEFT: return text_word_begin(bytes, len, at);
    case EDIT_WORD_RIGHT: return text_word_end(bytes, len, at);
    case EDIT_BEGIN: return 0;
    case EDIT_END: break;
    }
    return len;
}

void edit_erase(edit *e, edit_place to)
{
    if (e->cursor == e->anchor) e->anchor = find_place(e, to);
    remove_selection(e);
}

void edit_move_to(edit *e, size_t offset, bool select)
{
    e->cursor = offset < e->text.len ? offset : e->text.len;
    if (!select) e->anchor = e->cursor;
}

void edit_move(edit *e, edit_place to, bool select)
{
    size_t from = 0, end = 0;
    edit_selection(e, &from, &end);
    if (from < end && !select && to == EDIT_LEFT) edit_move_to(e, from, false);
    else if (from < end && !select && to == EDIT_RIGHT) edit_move_to(e, end, false);
    else edit_move_to(e, find_place(e, to), select);
}

void edit_select_all(edit *e)
{
    e->anchor = 0;
    e->cursor = e->text.len;
}

void edit_select_word(edit *e, size_t offset)
{
    edit_move_to(e, offset, false);
    if (e->text.len == 0) return;
    const size_t end = text_word_end(e->text.bytes, e->text.len, e->cursor);
    e->anchor = text_word_begin(e->text.bytes, e->text.len, end);
    e->cursor = end;
}

char *edit_copy(const edit *e)
{
    size_t from = 0, to = 0;
    edit_selection(e, &from, &to);
    if (from == to) return NULL;
    char *copy = must_realloc(NULL, to - from + 1);
    memcpy(copy, e->text.bytes + from, to - from);
    copy[to - from] = '\0';
    return copy;
}

void edit_compose(edit *e, const char *text)
{
    const size_t len = text ? strlen(text) : 0;
    size_t fits = 0;
    for (size_t at = 0; at < len && at < sizeof e->composed;) {
        (void)text_next(text, len, &at);
        if (at < sizeof e->composed) fits = at;
    }
    if (fits > 0) memcpy(e->composed, text, fits);
    e->composed[fits] = '\0';
}
