/* chat_conversation.c - see chat_conversation.h.
 *
 * A conversation that outgrows the context loses its oldest exchanges, never the system message.
 * All that follows a lost exchange must be digested anew, so that not just as much goes as must,
 * but half of the context is freed: that makes it a rare event instead of one at each turn.
 */
#include "chat_conversation.h"

#include <stdlib.h>
#include <string.h>

#include "chat_interrupt.h"

/* ---- Messages ------------------------------------------------------------------------------- */

static void insert(conversation *c, size_t at, const char *role, const char *content)
{
    if (c->n == c->capacity) {
        c->capacity = 2 * c->capacity + 8;
        c->messages = must_realloc(c->messages, c->capacity * sizeof *c->messages);
    }
    const size_t size = strlen(content) + 1;
    char *copy = must_realloc(NULL, size);
    memcpy(copy, content, size);
    memmove(c->messages + at + 1, c->messages + at, (c->n - at) * sizeof *c->messages);
    c->messages[at] = (vklm_message){role, copy};
    c->n++;
}

static void drop(conversation *c, size_t at, size_t count)
{
    if (count == 0) return;
    for (size_t i = at; i < at + count; i++) free((char *)c->messages[i].content);
    c->n -= count;
    memmove(c->messages + at, c->messages + at + count, (c->n - at) * sizeof *c->messages);
}

static bool has_role(const conversation *c, size_t at, const char *role)
{
    return at < c->n && strcmp(c->messages[at].role, role) == 0;
}

/* Index of the first message behind the system message. */
static size_t first_exchange(const conversation *c)
{
    return has_role(c, 0, "system");
}

void conversation_clear(conversation *c)
{
    const size_t first = first_exchange(c);
    drop(c, first, c->n - first);
}

void conversation_free(conversation *c)
{
    drop(c, 0, c->n);
    free(c->messages);
}

void conversation_set_system(conversation *c, const char *text)
{
    drop(c, 0, first_exchange(c));
    if (text && text[0]) insert(c, 0, "system", text);
}

const char *conversation_system(const conversation *c)
{
    return first_exchange(c) ? c->messages[0].content : NULL;
}

void conversation_add_user(conversation *c, const char *text)
{
    if (c->raw) conversation_clear(c);
    insert(c, c->n, "user", text);
}

bool conversation_drop_reply(conversation *c)
{
    if (c->n == 0 || !has_role(c, c->n - 1, "assistant")) return false;
    drop(c, c->n - 1, 1);
    return true;
}

bool conversation_drop_exchange(conversation *c)
{
    const bool had_reply = conversation_drop_reply(c);
    if (c->n == first_exchange(c)) return had_reply;
    drop(c, c->n - 1, 1);
    return true;
}

/* ---- From messages to the session ----------------------------------------------------------- */

static uint32_t context_size(const conversation *c)
{
    vklm_session_stats stats;
    vklm_session_get_stats(c->session, &stats);
    return stats.context_size;
}

static bool say_if_too_long(const conversation *c, size_t n_tokens)
{
    const uint32_t size = context_size(c);
    if (n_tokens < size) return false;
    setup_say(
        c->setup,
        "this takes %zu tokens and leaves no room for a reply in the context of %u: shorten it, "
        "or start with a larger -c (the model was trained for %u)",
        n_tokens, size, c->setup->info.context_length);
    return true;
}

static vklm_status set_plain_text(conversation *c)
{
    const char *content = c->messages[c->n - 1].content;
    const sample_text text = {.bytes = (char *)content, .len = strlen(content)};
    vklm_token *ids = NULL;
    size_t n_ids = 0;
    vklm_status status = setup_tokenize(c->setup, &text, VKLM_ADD_SPECIAL, &ids, &n_ids);
    if (status == VKLM_OK && say_if_too_long(c, n_ids)) status = VKLM_CONTEXT_FULL;
    if (status == VKLM_OK) {
        vklm_error error;
        status = vklm_session_set_ids(c->session, ids, n_ids, &error, NULL);
        if (status != VKLM_OK) setup_say(c->setup, "%s", error.text);
    }
    free(ids);
    return status;
}

static vklm_status count_chat(const conversation *c, size_t *n_tokens)
{
    vklm_error error;
    const vklm_status status = vklm_chat_tokenize(vklm_model_vocab(c->setup->model), c->messages,
                                                  c->n, &error, NULL, 0, n_tokens);
    if (status == VKLM_OK || status == VKLM_BUFFER_TOO_SMALL) return VKLM_OK;
    setup_say(c->setup, "%s", error.text);
    return status;
}

/* Drops exchanges until the conversation fits with room for a reply. */
static vklm_status fit_chat(conversation *c)
{
    const uint32_t size = context_size(c);
    const size_t n_before = c->n, first = first_exchange(c);
    size_t limit = size - size / 8; /* an eighth is room for a short reply at least */
    for (;;) {
        size_t n_tokens = 0;
        const vklm_status status = count_chat(c, &n_tokens);
        if (status != VKLM_OK) return status;
        if (n_tokens <= limit) break;
        if (c->n == first + 1) { /* the new message alone */
            if (say_if_too_long(c, n_tokens)) return VKLM_CONTEXT_FULL;
            break;
        }
        limit = size / 2;
        drop(c, first, 2);
    }
    if (c->n < n_before)
        setup_say(c->setup,
                  "the context of %u tokens is full: the oldest %zu messages are forgotten (/new "
                  "starts afresh, -c makes the context larger)",
                  size, n_before - c->n);
    return VKLM_OK;
}

static vklm_status set_chat(conversation *c)
{
    const vklm_status fits = fit_chat(c);
    if (fits != VKLM_OK) return fits;
    vklm_error error;
    const vklm_status status = vklm_session_set_chat(c->session, c->messages, c->n, &error, NULL);
    if (status != VKLM_OK) setup_say(c->setup, "%s", error.text);
    return status;
}

/* ---- The reply ------------------------------------------------------------------------------ */

/* Takes one event; false where the reply cannot be written. */
static bool take_event(const vklm_event *event, sample_text *reply)
{
    if (event->kind == VKLM_EVENT_PROGRESS && event->n_done < event->n_total)
        progress_show("reading", (double)event->n_done / event->n_total);
    if (event->text_len == 0) return true; /* tokens have some, and DONE may have a rest */
    progress_clear();
    text_append(reply, event->text, event->text_len);
    return fwrite(event->text, 1, event->text_len, stdout) == event->text_len &&
           fflush(stdout) == 0;
}

/* Whether the session can go on after a failure. */
static reply_result weigh(vklm_status status)
{
    return status == VKLM_DEVICE_LOST || status == VKLM_DRIVER_ERROR ? REPLY_FATAL : REPLY_REFUSED;
}

/* Streams until the generation ends; *last is the DONE event then. */
static reply_result stream(const conversation *c, sample_text *reply, vklm_event *last)
{
    vklm_error error;
    vklm_status status = VKLM_OK;
    bool written = true;
    while (written && status == VKLM_OK && last->kind != VKLM_EVENT_DONE) {
        status = session_next_event(c->session, &error, last);
        if (status == VKLM_OK) written = take_event(last, reply);
    }
    progress_clear();
    if (reply->len > 0 && reply->bytes[reply->len - 1] != '\n') {
        putchar('\n');
        fflush(stdout);
    }
    if (!written) {
        setup_say(c->setup, "the reply cannot be written to standard output");
        return REPLY_FATAL;
    }
    if (status != VKLM_OK) {
        setup_say(c->setup, "%s", error.text);
        return weigh(status);
    }
    return last->reason == VKLM_DONE_CANCELLED ? REPLY_STOPPED : REPLY_DONE;
}

static void say_how_it_ended(const conversation *c, const vklm_event *last)
{
    if (last->reason == VKLM_DONE_CONTEXT_FULL)
        setup_say(c->setup,
                  "the context of %u tokens is full: the reply is cut here (-c makes it larger)",
                  context_size(c));
    if (last->reason == VKLM_DONE_LENGTH && c->setup->verbose)
        setup_say(c->setup, "the reply is cut after %u tokens, as -n asks", c->generate.max_tokens);
}

/* Generates with Ctrl-C at watch. */
static reply_result generate(conversation *c, sample_text *reply)
{
    vklm_error error;
    vklm_event last = {.kind = VKLM_EVENT_NONE};
    interrupt_begin(c->session);
    vklm_status status = c->raw ? set_plain_text(c) : set_chat(c);
    reply_result result = weigh(status);
    if (status == VKLM_OK) {
        status = vklm_session_generate(c->session, &c->generate, &error);
        if (status != VKLM_OK) setup_say(c->setup, "%s", error.text);
        if (*interrupt_flag()) vklm_session_cancel(c->session); /* came before generate */
        result = status == VKLM_OK ? stream(c, reply, &last) : weigh(status);
    }
    interrupt_end();
    if (last.kind == VKLM_EVENT_DONE) say_how_it_ended(c, &last);
    return result;
}

/* What the time to the first token went into. */
static void say_start(const conversation *c)
{
    vklm_session_stats s;
    vklm_session_get_stats(c->session, &s);
    const double device = (double)c->setup->device_ns * 1e-9, load = (double)c->setup->load_ns * 1e-9;
    const double prompt = (double)s.prompt_ns * 1e-9;
    setup_say(c->setup,
              "first token after %.2f s: device %.2f s, model %.2f s, prompt %.2f s; peak memory of the process: %s",
              device + load + prompt, device, load, prompt, format_size(peak_memory()).text);
}

reply_result conversation_reply(conversation *c)
{
    sample_text reply = {0};
    reply_result result = generate(c, &reply);
    if (result == REPLY_DONE || (result == REPLY_STOPPED && reply.len > 0))
        insert(c, c->n, "assistant", reply.len > 0 ? reply.bytes : "");
    else
        drop(c, c->n - 1, 1);
    free(reply.bytes);
    /* A given seed makes a run repeatable, and yet /regen must write something else. */
    if (c->generate.sampling.seed) c->generate.sampling.seed++;
    if (c->setup->verbose && result != REPLY_REFUSED) {
        if (!c->replied) say_start(c);
        conversation_say_stats(c);
    }
    c->replied = true;
    return result;
}

void conversation_say_stats(const conversation *c)
{
    vklm_session_stats s;
    vklm_session_get_stats(c->session, &s);
    const double prompt_s = (double)s.prompt_ns * 1e-9, reply_s = (double)s.generate_ns * 1e-9;
    /* The first token comes with the prompt, so the reply's time is that of the others. */
    const uint32_t n_timed = s.n_generated > 0 ? s.n_generated - 1 : 0;
    setup_say(c->setup, "prompt: %u tokens and %u reused, %.2f s, %.1f tokens/s", s.n_prompt,
              s.n_reused, prompt_s, prompt_s > 0 ? s.n_prompt / prompt_s : 0);
    setup_say(c->setup, "reply: %u tokens, %.2f s, %.1f tokens/s", s.n_generated, reply_s,
              reply_s > 0 ? n_timed / reply_s : 0);
    setup_say(c->setup, "context: %u of %u tokens; %s of keys and values, %s on the device in all",
              s.context_used, s.context_size, format_size(s.kv_bytes).text,
              format_size(vklm_device_memory_used(c->setup->device)).text);
}
