/* chat_families.h - the table of chat formats, one row each, and how a template is matched to a
 * row. */
#ifndef VKI_CHAT_FAMILIES_H
#define VKI_CHAT_FAMILIES_H

#include "file/gguf.h"

/* What stands for the file's own begin and end token in the strings of a row. */
#define VKI_CHAT_BOS "\1"
#define VKI_CHAT_EOS "\2"

enum {
    VKI_CHAT_TRIM_SYSTEM = 1, /* contents of this role lose white space at both ends */
    VKI_CHAT_TRIM_USER = 2,
    VKI_CHAT_TRIM_ASSISTANT = 4,
    VKI_CHAT_TRIM = VKI_CHAT_TRIM_SYSTEM | VKI_CHAT_TRIM_USER | VKI_CHAT_TRIM_ASSISTANT,
    VKI_CHAT_SYSTEM_FIRST = 8,    /* no system turn: its text opens the next user turn */
    VKI_CHAT_SYSTEM_LAST = 16,    /* no system turn: its text opens the last user turn */
    VKI_CHAT_MERGE_TURNS = 32,    /* neighbours of equal role become one turn */
    VKI_CHAT_DROP_THOUGHTS = 64,  /* assistant turns keep what follows "</think>" */
    VKI_CHAT_DROP_NEWLINES = 128, /* and without the newlines there */
    VKI_CHAT_BOS_IF_NAMED = 256,  /* begins with BOS where the template mentions bos_token */
};

typedef struct vki_chat_turn {
    const char *before, *after; /* of the content */
} vki_chat_turn;

typedef struct vki_chat_family {
    const char *name;
    const char *marks[4];     /* the template holds all of these; a newline also matches "\n" */
    const char *strangers[4]; /* and none of these */
    unsigned flags;
    const char *begin; /* before the first turn; NULL: nothing */
    const char
        *default_system; /* where the conversation begins without a system message; or NULL */
    vki_chat_turn system, user, assistant;
    const char *reply; /* where the assistant's reply begins; NULL: right after the user turn */
} vki_chat_family;

/* NULL where no family fits. */
const vki_chat_family *vki_chat_find(vki_string chat_template);

bool vki_chat_mentions(vki_string chat_template, const char *words);

#endif
