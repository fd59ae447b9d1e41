/* chat_conversation.c - see chat_conversation.h.
 *
 * A conversation that outgrows the context goes on: the session leaves out the oldest exchanges, never the system
 * message. Here all messages are kept, for /export and /undo.
 */
#include "chat_conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chat_interrupt.h"
#include "sample_files.h"

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

uint32_t conversation_context(const conversation *c)
{
    vklm_session_stats stats;
    vklm_session_get_stats(c->session, &stats);
    return stats.context_size;
}

static bool say_if_too_long(const conversation *c, size_t n_tokens)
{
    const uint32_t size = conversation_context(c);
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

static vklm_status set_chat(conversation *c)
{
    vklm_error error;
    const vklm_status status = vklm_session_set_chat(c->session, c->messages, c->n, &error, NULL);
    if (status != VKLM_OK) setup_say(c->setup, "%s", error.text);
    return status;
}

/* ---- The reply ------------------------------------------------------------------------------ */

/* Takes one event; false where the reply cannot be written. */
static bool take_event(conversation *c, const vklm_event *event, sample_text *reply)
{
    if (event->kind == VKLM_EVENT_PROGRESS && event->n_done < event->n_total)
        progress_show("reading", (double)event->n_done / event->n_total);
    if (event->kind == VKLM_EVENT_DROPPED) c->n_forgotten += event->n_total; /* said behind the reply */
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
static reply_result stream(conversation *c, sample_text *reply, vklm_event *last)
{
    vklm_error error;
    vklm_status status = VKLM_OK;
    bool written = true;
    while (written && status == VKLM_OK && last->kind != VKLM_EVENT_DONE) {
        status = session_next_event(c->session, &error, last);
        if (status == VKLM_OK) written = take_event(c, last, reply);
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
    if (c->n_forgotten > 0)
        setup_say(c->setup,
                  "the context of %u tokens was full: the oldest %zu are forgotten (/new starts afresh, -c makes the "
                  "context larger)",
                  conversation_context(c), c->n_forgotten);
    if (last->reason == VKLM_DONE_CONTEXT_FULL)
        setup_say(c->setup,
                  "the context of %u tokens is full: the reply is cut here (-c makes it larger)",
                  conversation_context(c));
    const bool asked = c->generate.max_tokens != conversation_context(c);
    if (last->reason == VKLM_DONE_LENGTH && (c->setup->verbose || !asked))
        setup_say(c->setup, "the reply is cut after %u tokens, %s", c->generate.max_tokens,
                  asked ? "as -n asks" : "the size of the context");
}

/* Generates with Ctrl-C at watch. */
static reply_result generate(conversation *c, sample_text *reply)
{
    vklm_error error;
    vklm_event last = {.kind = VKLM_EVENT_NONE};
    c->n_forgotten = 0;
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

/* ---- To a file and back --------------------------------------------------------------------- */

bool conversation_save(const conversation *c, const char *path)
{
    vklm_error error = {.text = "it holds plain text"};
    size_t size = 0;
    vklm_status status = c->raw ? VKLM_UNSUPPORTED
                                : vklm_session_save(c->session, VKLM_SAVE_CACHE, &error, NULL, 0, &size);
    char *bytes = NULL;
    if (status == VKLM_BUFFER_TOO_SMALL) {
        bytes = must_realloc(NULL, size);
        status = vklm_session_save(c->session, VKLM_SAVE_CACHE, &error, bytes, size, &size);
    }
    const bool good = status == VKLM_OK && file_replace(path, bytes, size);
    free(bytes);
    if (good) fprintf(stderr, "The conversation is saved in %s, %s.\n", path, format_size(size).text);
    else setup_say(c->setup, "%s cannot be written: %s", path, status == VKLM_OK ? strerror(errno) : error.text);
    return good;
}

/* The session's messages, and what it has generated behind them. */
static void take_over(conversation *c)
{
    size_t n, n_ids, n_all, len = 0;
    vklm_error error;
    const vklm_message *messages = vklm_session_chat(c->session, &n, &n_ids);
    const vklm_token *ids = vklm_session_ids(c->session, &n_all);
    const vklm_vocab *vocab = vklm_model_vocab(c->setup->model);
    drop(c, 0, c->n);
    for (size_t i = 0; i < n; i++) {
        const char *const role = messages[i].role[0] == 's' ? "system" : messages[i].role[0] == 'u' ? "user" : "assistant";
        insert(c, c->n, role, messages[i].content);
    }
    if (n == 0 || n_all == n_ids) return;
    (void)vklm_detokenize(vocab, ids + n_ids, n_all - n_ids, false, &error, NULL, 0, &len);
    char *reply = must_realloc(NULL, len + 1);
    (void)vklm_detokenize(vocab, ids + n_ids, n_all - n_ids, false, &error, reply, len, &len);
    reply[len] = '\0';
    insert(c, c->n, "assistant", reply);
    free(reply);
}

bool conversation_load(conversation *c, const char *path)
{
    vklm_error error = {.text = "plain text has no conversation"};
    sample_text bytes = {0};
    size_t reused = 0;
    FILE *file = file_open(path, "rb");
    const bool read = file && text_append_file(&bytes, file);
    if (!read) snprintf(error.text, sizeof error.text, "%s", strerror(errno));
    if (file) fclose(file);
    const bool good = read && !c->raw &&
                      vklm_session_load(c->session, bytes.bytes ? bytes.bytes : "", bytes.len, &error, &reused) == VKLM_OK;
    free(bytes.bytes);
    if (good) take_over(c);
    if (good) fprintf(stderr, "%zu messages are there again; %zu of their tokens need not be read.\n", c->n, reused);
    else setup_say(c->setup, "%s cannot be loaded: %s", path, error.text);
    return good;
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
