/* desktop_talk.c - see desktop_talk.h. */
#include "desktop_talk.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void drop_from(talk *t, size_t at)
{
    while (t->n > at) {
        talk_item *item = &t->items[--t->n];
        free(item->text.bytes);
        text_lines_free(&item->lines);
    }
    if (t->first > t->n) t->first = t->n;
}

void talk_clear(talk *t)
{
    drop_from(t, 0);
}

void talk_free(talk *t)
{
    drop_from(t, 0);
    free(t->items);
    *t = (talk){0};
}

void talk_append(talk_item *item, const char *bytes, size_t len)
{
    text_append(&item->text, bytes, len);
    item->wrapped = 0;
}

void talk_add(talk *t, talk_speaker who, const char *text)
{
    if (t->n == t->capacity) {
        t->capacity = 2 * t->capacity + 16;
        t->items = must_realloc(t->items, t->capacity * sizeof *t->items);
    }
    talk_item *item = &t->items[t->n++];
    *item = (talk_item){.who = who};
    talk_append(item, text, strlen(text));
}

void talk_say(talk *t, const char *format, ...)
{
    char text[VKLM_ERROR_TEXT_SIZE + 512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    const talk_item *last = t->n > 0 ? &t->items[t->n - 1] : NULL;
    if (last && last->who == TALK_NOTICE && strcmp(last->text.bytes, text) == 0) return;
    talk_add(t, TALK_NOTICE, text);
}

/* The index of a speaker's next item from `at` on; t->n: none. */
static size_t find(const talk *t, size_t at, talk_speaker who)
{
    while (at < t->n && t->items[at].who != who) at++;
    return at;
}

talk_item *talk_last(const talk *t, talk_speaker who)
{
    for (size_t i = t->n; i-- > 0;)
        if (t->items[i].who == who) return &t->items[i];
    return NULL;
}

bool talk_drop_reply(talk *t)
{
    const talk_item *asked = talk_last(t, TALK_USER);
    if (!asked) return false;
    drop_from(t, (size_t)(asked - t->items) + 1);
    return true;
}

void talk_drop_empty(talk *t)
{
    if (t->n > 0 && t->items[t->n - 1].who == TALK_MODEL && t->items[t->n - 1].text.len == 0)
        drop_from(t, t->n - 1);
}

static bool is_told(const talk *t, size_t at)
{
    if (t->items[at].who != TALK_USER) return t->items[at].who == TALK_MODEL;
    const size_t next = find(t, at + 1, TALK_USER);
    return next == t->n || next > find(t, at + 1, TALK_MODEL); /* it is the last, or was answered */
}

size_t talk_messages(const talk *t, vklm_message *messages)
{
    size_t n = 0;
    if (t->system && t->system[0]) messages[n++] = (vklm_message){"system", t->system};
    for (size_t i = t->first; i < t->n; i++) {
        const char *role = t->items[i].who == TALK_MODEL ? "assistant" : "user";
        if (is_told(t, i)) messages[n++] = (vklm_message){role, t->items[i].text.bytes};
    }
    return n;
}

void talk_forget(talk *t, size_t n_messages)
{
    for (; n_messages > 0 && t->first < t->n; t->first++)
        if (is_told(t, t->first)) n_messages--;
}
