/* conversation.c - chats: the messages that a history begins with, and what happens where they, or a reply, do not
 * fit the context.
 *
 * A session keeps its chat's messages as text, because formats that put the system prompt into a user's turn leave
 * no place in the ids where a turn could be cut out. What is dropped is therefore dropped as messages; the rest is
 * written anew, with what was generated behind it, and the cache keeps the common prefix. All that follows a
 * lost message must be digested again, so that not as much goes as must, but half of the context is freed: that
 * makes it a rare event.
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"

/* ---- Messages -------------------------------------------------------------------------------------- */

void vki_chat_free(vki_chat *chat, const vki_host *host)
{
    for (size_t i = 0; i < chat->n; i++) vki_release(host, &chat->messages[i].content);
    vki_release(host, &chat->messages);
    *chat = (vki_chat){0};
}

static const char *role_literal(const char *role)
{
    return role[0] == 's' ? "system" : role[0] == 'u' ? "user" : "assistant";
}

vklm_status vki_chat_copy(const vklm_message *messages, size_t n, const vki_host *host, vklm_error *error,
                          vki_chat *chat)
{
    *chat = (vki_chat){0};
    vklm_status status;
    TRY(vki_alloc(host, n, sizeof *messages, error, &chat->messages));
    for (; chat->n < n; chat->n++) {
        const size_t size = strlen(messages[chat->n].content) + 1;
        char *content;
        TRY_OR_FAIL(vki_alloc(host, size, 1, error, &content));
        memcpy(content, messages[chat->n].content, size);
        chat->messages[chat->n] = (vklm_message){role_literal(messages[chat->n].role), content};
    }
    return VKLM_OK;
fail:
    vki_chat_free(chat, host);
    return status;
}

static bool is_role(const vklm_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

/* ---- Fitting ------------------------------------------------------------------------------------------ */

/* A history being made to fit: messages, or the first ids where there are none, and the ids behind them. */
typedef struct fitting {
    vklm_session *session;     /* borrowed, like the messages' contents and the tail */
    vklm_error *error;
    vklm_message *messages;    /* owned array of those that stay */
    bool *drop;                /* owned scratch, as many */
    size_t n_messages, n_dropped;
    vklm_token *ids;           /* owned: of the messages, or the first that are kept */
    size_t n_ids;
    const vklm_token *tail;    /* what follows: a reply, or the rest of the ids */
    size_t n_tail;
} fitting;

static void free_fitting(fitting *f)
{
    const vki_host *host = &f->session->model->device->host;
    vki_release(host, &f->messages);
    vki_release(host, &f->drop);
    vki_release(host, &f->ids);
}

static size_t total(const fitting *f)
{
    return f->n_ids + f->n_tail;
}

/* The ids of the messages. */
static vklm_status write_ids(fitting *f)
{
    const vklm_vocab *vocab = f->session->model->vocab;
    const vki_host *host = &f->session->model->device->host;
    vki_release(host, &f->ids);
    const vklm_status status = vklm_chat_tokenize(vocab, f->messages, f->n_messages, f->error, NULL, 0, &f->n_ids);
    if (status != VKLM_BUFFER_TOO_SMALL) return status;
    vki_error_clear(f->error);
    TRY(vki_alloc(host, f->n_ids, sizeof *f->ids, f->error, &f->ids));
    return vklm_chat_tokenize(vocab, f->messages, f->n_messages, f->error, f->ids, f->n_ids, &f->n_ids);
}

static vklm_status begin(fitting *f, const vklm_message *messages, size_t n)
{
    const vki_host *host = &f->session->model->device->host;
    TRY(vki_alloc(host, n, sizeof *messages, f->error, &f->messages));
    TRY(vki_alloc(host, n, sizeof *f->drop, f->error, &f->drop));
    if (n) memcpy(f->messages, messages, n * sizeof *messages);
    f->n_messages = n;
    return write_ids(f);
}

static void take_out(fitting *f, size_t at, size_t count)
{
    f->n_messages -= count;
    f->n_dropped += count;
    memmove(f->messages + at, f->messages + at + count, (f->n_messages - at) * sizeof *f->messages);
}

/* The first message behind the system prompt. */
static size_t first_turn(const fitting *f)
{
    size_t first = 0;
    while (first < f->n_messages && is_role(&f->messages[first], "system")) first++;
    return first;
}

/* Drops the oldest exchange: what lies before the second user message. False where there is none to drop. */
static bool drop_exchange(fitting *f)
{
    const size_t first = first_turn(f);
    size_t next = first + 1;
    while (next < f->n_messages && !is_role(&f->messages[next], "user")) next++;
    if (next >= f->n_messages) return false;
    take_out(f, first, next - first);
    return true;
}

/* Drops what an earlier fit of this chat dropped, so that the cache's prefix stays what it was. */
static void drop_again(fitting *f)
{
    const size_t first = first_turn(f), n = f->session->chat.n_dropped;
    if (n > 0 && n < f->n_messages - first && is_role(&f->messages[first + n], "user")) take_out(f, first, n);
}

/* What follows the first ids: a reply or, of plain ids, the history. */
static void drop_tail(fitting *f, size_t n)
{
    f->tail += n;
    f->n_tail -= n;
}

/* The callback decides; false where it refuses or drops nothing. */
static bool ask(fitting *f, size_t limit)
{
    const vklm_session_params *params = &f->session->made_with;
    for (size_t i = 0; i < f->n_messages; i++) f->drop[i] = false;
    vklm_overflow what = {.messages = f->messages, .n_messages = f->n_messages, .drop = f->drop,
                          .n_kept = f->n_ids, .n_behind = f->n_tail, .limit = limit};
    if (!params->overflow(params->overflow_user, &what)) return false;
    const size_t before = total(f), n_before = f->n_messages;
    if (f->n_tail) drop_tail(f, (size_t)vki_min(what.drop_behind, f->n_tail - 1));
    size_t n = 0;
    for (size_t i = 0; i < f->n_messages; i++)
        if (!f->drop[i] || i + 1 == f->n_messages) f->messages[n++] = f->messages[i];
    f->n_messages = n;
    f->n_dropped += n_before - n;
    return n < n_before || total(f) < before;
}

/* Drops until no more than `limit` tokens are left, where the policy can; `target`: what DROP goes down to then. */
static vklm_status fit(fitting *f, size_t limit, size_t target)
{
    const vklm_overflow_policy policy = f->session->made_with.on_overflow;
    if (policy == VKLM_OVERFLOW_REFUSE || total(f) <= limit) return VKLM_OK;
    if (policy == VKLM_OVERFLOW_CALLBACK) {
        while (total(f) > limit && ask(f, limit))
            if (f->n_messages) TRY(write_ids(f));
        return VKLM_OK;
    }
    for (size_t goal = limit; total(f) > goal && drop_exchange(f); goal = target) TRY(write_ids(f));
    const size_t half = f->n_tail / 2;
    if (total(f) > limit && half > 0) drop_tail(f, half);
    return VKLM_OK;
}

/* Makes the result the history; *reused: what of it is cached. Nothing fails once the history has changed. */
static vklm_status put(fitting *f, vki_chat *chat, size_t *reused)
{
    vklm_session *session = f->session;
    const vki_host *host = &session->model->device->host;
    vklm_token *ids; /* the tail lies in the history */
    TRY(vki_alloc(host, total(f), sizeof *ids, f->error, &ids));
    if (f->n_ids) memcpy(ids, f->ids, f->n_ids * sizeof *ids);
    if (f->n_tail) memcpy(ids + f->n_ids, f->tail, f->n_tail * sizeof *ids);
    const vklm_status status = vki_history_grow(session, total(f), f->error);
    if (status == VKLM_OK) {
        if (session->phase == VKI_IDLE) vki_cache_borrow(session, ids, total(f));
        *reused = vki_history_put(session, ids, total(f));
        vki_chat_free(&session->chat, host);
        session->chat = *chat;
        session->chat.n_ids = chat->n ? f->n_ids : 0;
        *chat = (vki_chat){0};
    }
    vki_release(host, &ids);
    return status;
}

/* ---- set_chat, append_chat -------------------------------------------------------------------------------- */

static vklm_status check(const vklm_session *session, const vklm_message *messages, size_t n, vklm_error *error)
{
    if (!session) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session");
    if (!session->model->vocab)
        return vki_fail(error, VKLM_UNSUPPORTED, "no chat without text: %s", session->model->no_vocab);
    if (n && !messages) return vki_fail(error, VKLM_INVALID_ARGUMENT, "%zu messages, but no pointer to them", n);
    return vki_history_check(session, 0, NULL, 0, error);
}

/* Fits and sets. extends: the messages begin with those that the session has, and not with what it has dropped. */
static vklm_status set_messages(fitting *f, const vklm_message *messages, size_t n, bool extends, size_t *reused)
{
    vklm_session *session = f->session;
    const size_t context = session->context, limit = context - session->made_with.reserve;
    const bool refuses = session->made_with.on_overflow == VKLM_OVERFLOW_REFUSE;
    TRY(begin(f, messages, n));
    const size_t n_before = total(f);
    if (!refuses && !extends && n_before > limit) {
        drop_again(f);
        if (f->n_dropped) TRY(write_ids(f));
    }
    const size_t n_again = f->n_dropped, n_fitted = total(f);
    TRY(fit(f, limit, context / 2));
    if (total(f) > context - !refuses)
        return vki_fail(f->error, VKLM_CONTEXT_FULL,
                        "%zu tokens do not fit the session's context of %zu: shorten the messages, or make a session "
                        "with a larger context (the model takes %u)",
                        total(f), context, session->model->weights.hparams.context_length);
    vki_chat chat;
    const vki_host *host = &session->model->device->host;
    TRY(vki_chat_copy(f->messages, f->n_messages, host, f->error, &chat));
    const size_t dropped_before = extends ? session->chat.n_dropped : 0;
    const vklm_status status = put(f, &chat, reused);
    vki_chat_free(&chat, host);
    TRY(status);
    session->chat.n_dropped = dropped_before + f->n_dropped;
    session->n_untold_messages += (uint32_t)(f->n_dropped - n_again);
    session->n_untold_tokens += (uint32_t)(n_fitted - total(f));
    return VKLM_OK;
}

static vklm_status set_chat(vklm_session *session, const vklm_message *messages, size_t n_messages,
                            vklm_error *error, size_t *n_reused_out)
{
    size_t reused = 0;
    TRY(check(session, messages, n_messages, error));
    fitting f = {.session = session, .error = error};
    const vklm_status status = set_messages(&f, messages, n_messages, false, &reused);
    free_fitting(&f);
    if (n_reused_out) *n_reused_out = reused;
    return status;
}

/* The text behind the messages; NULL where there is none. */
static vklm_status reply_text(const vklm_session *session, vklm_error *error, char **text)
{
    const vklm_token *ids = session->ids + session->chat.n_ids;
    const size_t n = session->n_ids - session->chat.n_ids;
    size_t len = 0;
    *text = NULL;
    if (n == 0) return VKLM_OK;
    const vklm_status status = vklm_detokenize(session->model->vocab, ids, n, false, error, NULL, 0, &len);
    if (status != VKLM_OK && status != VKLM_BUFFER_TOO_SMALL) return status;
    vki_error_clear(error);
    TRY(vki_alloc(&session->model->device->host, len + 1, 1, error, text));
    return vklm_detokenize(session->model->vocab, ids, n, false, error, *text, len, &len);
}

static vklm_status append_chat(vklm_session *session, const vklm_message *messages, size_t n_messages,
                               vklm_error *error, size_t *n_reused_out)
{
    size_t reused = 0;
    TRY(check(session, messages, n_messages, error));
    const vki_chat *chat = &session->chat;
    if (session->n_ids > 0 && chat->n == 0)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "the history is no chat but ids: begin with vklm_session_set_chat");
    const vki_host *host = &session->model->device->host;
    fitting f = {.session = session, .error = error};
    vklm_message *all = NULL;
    char *reply = NULL;
    vklm_status status;
    TRY_OR_FAIL(reply_text(session, error, &reply));
    TRY_OR_FAIL(vki_alloc(host, chat->n + 1 + n_messages, sizeof *all, error, &all));
    size_t n = chat->n;
    if (n) memcpy(all, chat->messages, n * sizeof *all);
    if (reply) all[n++] = (vklm_message){"assistant", reply};
    if (n_messages) memcpy(all + n, messages, n_messages * sizeof *all);
    TRY_OR_FAIL(set_messages(&f, all, n + n_messages, true, &reused));
fail:
    free_fitting(&f);
    vki_release(host, &all);
    vki_release(host, &reply);
    if (n_reused_out) *n_reused_out = reused;
    return status;
}

/* set_chat or append_chat, with the lock. */
static vklm_status change_chat(vklm_session *session, const vklm_message *messages, size_t n_messages, bool append,
                               vklm_error *error, size_t *n_reused_out)
{
    vki_error_clear(error);
    if (n_reused_out) *n_reused_out = 0;
    if (!session) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session");
    vki_mutex_lock(&session->model->lock);
    vklm_status status = vki_session_settle(session, error);
    if (status == VKLM_OK)
        status = append ? append_chat(session, messages, n_messages, error, n_reused_out)
                        : set_chat(session, messages, n_messages, error, n_reused_out);
    vki_mutex_unlock(&session->model->lock);
    return status;
}

vklm_status vklm_session_set_chat(vklm_session *session, const vklm_message *messages, size_t n_messages,
                                  vklm_error *error, size_t *n_reused_out)
{
    return change_chat(session, messages, n_messages, false, error, n_reused_out);
}

vklm_status vklm_session_append_chat(vklm_session *session, const vklm_message *messages, size_t n_messages,
                                     vklm_error *error, size_t *n_reused_out)
{
    return change_chat(session, messages, n_messages, true, error, n_reused_out);
}

const vklm_message *vklm_session_chat(const vklm_session *session, size_t *n_out, size_t *n_ids_out)
{
    vki_chat chat = {0};
    if (session) {
        vki_mutex_lock(&session->model->lock);
        chat = session->chat;
        vki_mutex_unlock(&session->model->lock);
    }
    *n_out = chat.n;
    if (n_ids_out) *n_ids_out = chat.n_ids;
    return chat.messages;
}

/* ---- The context's end in a generation ---------------------------------------------------------------------- */

/* The messages go on without those that the fit has dropped; the contents stay where they are. */
static void keep_messages(const fitting *f, vki_chat *chat, const vki_host *host)
{
    size_t kept = 0;
    for (size_t i = 0; i < chat->n; i++) {
        if (kept < f->n_messages && f->messages[kept].content == chat->messages[i].content)
            chat->messages[kept++] = chat->messages[i];
        else vki_release(host, &chat->messages[i].content);
    }
    chat->n = kept;
}

static vklm_status make_room(fitting *f)
{
    vklm_session *session = f->session;
    const size_t context = session->context;
    vki_chat *chat = &session->chat;
    size_t first = chat->n_ids, reused;
    if (chat->n == 0) {
        first = (size_t)vki_min(session->made_with.n_keep, session->n_ids);
        TRY(vki_alloc(&session->model->device->host, first, sizeof *f->ids, f->error, &f->ids));
        if (first) memcpy(f->ids, session->ids, first * sizeof *f->ids);
        f->n_ids = first;
    } else {
        TRY(begin(f, chat->messages, chat->n));
    }
    f->tail = session->ids + first;
    f->n_tail = session->n_ids - first;
    const size_t n_before = total(f), limit = context - session->made_with.reserve;
    TRY(fit(f, limit, context / 2));
    if (total(f) >= context || total(f) == 0) {
        vki_session_finish(session, VKLM_DONE_CONTEXT_FULL);
        return VKLM_OK;
    }
    const size_t n_now = total(f); /* more than before, where a format puts a system message in place of one dropped */
    TRY(vki_session_event(session, &(vklm_event){.kind = VKLM_EVENT_DROPPED, .n_done = (uint32_t)f->n_dropped,
                                                 .n_total = n_now < n_before ? (uint32_t)(n_before - n_now) : 0},
                          f->error));
    vki_chat own = *chat;
    *chat = (vki_chat){0};
    const vklm_status status = put(f, &(vki_chat){0}, &reused);
    if (status == VKLM_OK) {
        keep_messages(f, &own, &session->model->device->host);
        own.n_ids = own.n ? f->n_ids : 0;
        own.n_dropped += f->n_dropped;
    }
    *chat = own;
    return status;
}

vklm_status vki_session_overflow(vklm_session *session, vklm_error *error)
{
    if (session->made_with.on_overflow == VKLM_OVERFLOW_REFUSE) {
        vki_session_finish(session, VKLM_DONE_CONTEXT_FULL);
        return VKLM_OK;
    }
    fitting f = {.session = session, .error = error};
    const vklm_status status = make_room(&f);
    free_fitting(&f);
    if (status != VKLM_OK || session->phase == VKI_IDLE) return status;
    vki_session_leave(session); /* another chunk or batch begins with it */
    vki_history_leave_last(session); /* of a reply that repeats itself what is left may be what was there */
    session->phase = VKI_PREFILL;
    session->pending_at_start = session->n_ids - session->n_cached;
    session->stats.n_prompt = (session->n_drawn ? session->stats.n_prompt : 0) + (uint32_t)session->pending_at_start;
    if (session->n_drawn == 0) session->stats.n_reused = (uint32_t)session->n_cached;
    return VKLM_OK;
}
