/* desktop_talk.h - what was said so far: by the user, by the model, and notices of the program.
 *
 * The window shows all of it; the model is told what stands behind `first`, without notices, and of the user's
 * messages that have no reply only the last.
 */
#ifndef DESKTOP_TALK_H
#define DESKTOP_TALK_H

#include "desktop_text.h"
#include "sample_setup.h"

typedef enum talk_speaker { TALK_USER, TALK_MODEL, TALK_NOTICE } talk_speaker;

typedef struct talk_item {
    talk_speaker who;
    sample_text text; /* owned */
    char note[160];   /* small print below a reply */
    text_lines lines; /* owned: the text wrapped for `wrapped`, the pixels of a line; 0: not wrapped yet */
    int wrapped;
} talk_item;

typedef struct talk {
    const char *system; /* borrowed: the system prompt; NULL: none */
    talk_item *items;   /* owned */
    size_t n, capacity;
    size_t first; /* the first item that the model is told of */
} talk;

void talk_free(talk *t);

/* Forgets everything but the system prompt. */
void talk_clear(talk *t);

void talk_add(talk *t, talk_speaker who, const char *text);

/* Adds a notice, unless the last item is the same. */
void talk_say(talk *t, const char *format, ...) SAMPLE_PRINTF(2, 3);

/* The last item of a speaker; NULL where there is none. Valid until the next is added. */
talk_item *talk_last(const talk *t, talk_speaker who);

/* Adds to an item's text. */
void talk_append(talk_item *item, const char *bytes, size_t len);

/* Drops all behind the user's last message; false where there is none. */
bool talk_drop_reply(talk *t);

/* Drops the last reply where it is empty. */
void talk_drop_empty(talk *t);

/* Writes what the model is told, at most t->n + 1 messages, and returns their number. Borrowed from the talk. */
size_t talk_messages(const talk *t, vklm_message *messages);

/* Moves `first` behind so many of the oldest messages that the model is told, the system prompt not counted. */
void talk_forget(talk *t, size_t n_messages);

#endif
