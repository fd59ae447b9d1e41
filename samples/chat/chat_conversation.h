/* chat_conversation.h - the messages exchanged so far, and how the next reply comes about.
 *
 * The messages are the truth; before each reply the session is told all of them and finds out for
 * itself how much it has digested already. Behind an optional system message, user and assistant
 * alternate. In raw mode there is one text at a time, which the model goes on writing.
 */
#ifndef CHAT_CONVERSATION_H
#define CHAT_CONVERSATION_H

#include "sample_setup.h"

typedef struct conversation {
    const sample_setup *setup; /* borrowed, as is the session */
    vklm_session *session;
    bool raw, replied;
    vklm_generate_params generate;
    vklm_message *messages; /* owned, with their contents; roles are literals */
    size_t n, capacity;
    size_t n_forgotten; /* tokens, in the last reply, for want of room */
} conversation;

typedef enum reply_result {
    REPLY_DONE,
    REPLY_STOPPED, /* by Ctrl-C; what was written so far counts as the reply */
    REPLY_REFUSED, /* no reply, for a reason that was printed; the last message is dropped */
    REPLY_FATAL,   /* printed too; the session is of no more use */
} reply_result;

void conversation_free(conversation *c);

/* NULL or "": no system message. */
void conversation_set_system(conversation *c, const char *text);
const char *conversation_system(const conversation *c); /* NULL where there is none */

/* Adds what the user says. In raw mode it replaces what was there. */
void conversation_add_user(conversation *c, const char *text);

/* Streams the reply to the last user message to stdout and adds it to the messages. */
reply_result conversation_reply(conversation *c);

/* Forgets the last reply, or the last exchange; false where there is none. */
bool conversation_drop_reply(conversation *c);
bool conversation_drop_exchange(conversation *c);

/* Forgets all but the system message. */
void conversation_clear(conversation *c);

/* The session with all it has read, to a file and from one; false, and said why, where that is not possible. What
 * was left out of a full context is not in it. */
bool conversation_save(const conversation *c, const char *path);
bool conversation_load(conversation *c, const char *path);

/* Tokens that the session has room for. */
uint32_t conversation_context(const conversation *c);

/* Says on stderr how long the last reply took and what the context holds. */
void conversation_say_stats(const conversation *c);

#endif
