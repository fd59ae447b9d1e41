/* desktop_model.c - see desktop_model.h. */
#include "desktop_model.h"

#include <stdlib.h>
#include <string.h>

/* ---- Loading --------------------------------------------------------------------------------- */

/* On the loader's thread. */
static bool take_progress(void *user, double fraction)
{
    model *m = user;
    SDL_AtomicSet(&m->permille, (int)(fraction * 1000));
    return SDL_AtomicGet(&m->cancelled) == 0;
}

static int run_loader(void *user)
{
    model *m = user;
    m->load_status = setup_open(m->setup);
    SDL_AtomicSet(&m->loaded, 1);
    return 0;
}

static bool can_be_read(const char *path)
{
    FILE *file = file_open(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

static void unload(model *m)
{
    if (m->loader) SDL_WaitThread(m->loader, NULL);
    m->loader = NULL;
    vklm_session_destroy(&m->session);
    setup_close(m->setup);
    m->stats = (vklm_session_stats){0};
    m->state = MODEL_NONE;
}

void model_load(model *m, talk *t)
{
    unload(m);
    m->failed = true;
    const char *path = m->setup->model_path;
    if (!path || !can_be_read(path)) {
        talk_say(t, "There is no model here: %s cannot be read. samples/get-model.sh fetches one (98 MB); any other GGUF "
                    "file is given with -m FILE, or dropped on this window.",
                 path ? path : "no file was named, and the default");
        return;
    }
    SDL_AtomicSet(&m->permille, 0);
    SDL_AtomicSet(&m->cancelled, 0);
    SDL_AtomicSet(&m->loaded, 0);
    m->setup->progress = take_progress;
    m->setup->progress_user = m;
    m->loader = SDL_CreateThread(run_loader, "load", m);
    if (!m->loader) {
        talk_say(t, "The model cannot be loaded: %s.", SDL_GetError());
        return;
    }
    m->failed = false;
    m->state = MODEL_LOADING;
}

static void fail(model *m, talk *t, const char *what, const char *why)
{
    m->failed = true;
    talk_say(t, "%s: %s", what, why);
}

static void say_why_not_loaded(model *m, talk *t)
{
    switch (m->load_status) {
    case VKLM_CANCELLED: talk_say(t, "The model is not loaded: you stopped it."); break;
    case VKLM_NO_VULKAN: fail(m, t, "There is no Vulkan device that a model could run on", m->setup->error.text); break;
    default: fail(m, t, "The model cannot be loaded", m->setup->error.text); break;
    }
}

static vklm_status make_session(model *m, vklm_error *error)
{
    const vklm_session_params params = {.struct_size = sizeof params,
                                        .context = m->context,
                                        .kv = (vklm_kv_type)m->setup->kv,
                                        .on_overflow = VKLM_OVERFLOW_DROP};
    return vklm_session_create(m->setup->model, &params, error, &m->session);
}

static void finish_load(model *m, talk *t)
{
    vklm_error error;
    SDL_WaitThread(m->loader, NULL);
    m->loader = NULL;
    m->state = MODEL_NONE;
    if (m->load_status != VKLM_OK) {
        say_why_not_loaded(m, t);
    } else if (!vklm_model_vocab(m->setup->model)) {
        fail(m, t, "This model cannot read text", m->setup->info.no_vocab);
    } else if (make_session(m, &error) != VKLM_OK) {
        fail(m, t, "There is no room for a conversation", error.text);
    } else {
        m->state = MODEL_READY;
        vklm_session_get_stats(m->session, &m->stats);
        if (!vklm_chat_family(vklm_model_vocab(m->setup->model)))
            talk_say(t, "This model knows no chat format that vklm has: it continues each message as plain text.");
        return;
    }
    setup_close(m->setup);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static vklm_status set_chat(model *m, const talk *t, vklm_error *error)
{
    vklm_message *messages = must_realloc(NULL, (t->n + 1) * sizeof *messages);
    const size_t n = talk_messages(t, messages);
    const vklm_status status = vklm_session_set_chat(m->session, messages, n, error, NULL);
    free(messages);
    return status;
}

static vklm_status set_plain_text(model *m, const char *text, vklm_error *error)
{
    const vklm_vocab *vocab = vklm_model_vocab(m->setup->model);
    const size_t len = strlen(text);
    size_t n = 0;
    vklm_status status = vklm_tokenize(vocab, text, len, VKLM_ADD_SPECIAL, error, NULL, 0, &n);
    vklm_token *ids = must_realloc(NULL, (n + 1) * sizeof *ids);
    if (status == VKLM_BUFFER_TOO_SMALL)
        status = vklm_tokenize(vocab, text, len, VKLM_ADD_SPECIAL, error, ids, n, &n);
    if (status == VKLM_OK) status = vklm_session_set_ids(m->session, ids, n, error, NULL);
    free(ids);
    return status;
}

void model_ask(model *m, talk *t)
{
    vklm_error error;
    const talk_item *asked = talk_last(t, TALK_USER);
    if (m->state != MODEL_READY || !asked) return;
    vklm_status status = vklm_chat_family(vklm_model_vocab(m->setup->model))
                             ? set_chat(m, t, &error)
                             : set_plain_text(m, asked->text.bytes, &error);
    vklm_generate_params generate = m->generate;
    if (generate.max_tokens == 0) generate.max_tokens = m->stats.context_size; /* no reply is endless */
    if (status == VKLM_OK) status = vklm_session_generate(m->session, &generate, &error);
    m->failed = status != VKLM_OK;
    if (m->failed) {
        fail(m, t, "The message cannot be answered", error.text);
        return;
    }
    m->state = MODEL_READING;
    m->n_done = 0;
    m->n_total = 0;
    talk_add(t, TALK_MODEL, "");
    /* A given seed makes a run repeatable, and yet another reply must differ. */
    if (m->generate.sampling.seed) m->generate.sampling.seed++;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Small print below the reply. The first token comes with the prompt, so that the others make the speed. */
static void note_reply(const model *m, talk_item *reply, vklm_done_reason reason)
{
    const vklm_session_stats *s = &m->stats;
    const double seconds = (double)s->generate_ns * 1e-9;
    char speed[48] = "";
    if (s->n_generated > 1 && seconds > 0)
        snprintf(speed, sizeof speed, ", %.1f tokens/s", (s->n_generated - 1) / seconds);
    snprintf(reply->note, sizeof reply->note, "%u tokens%s · prompt: %u read, %u reused%s", s->n_generated, speed,
             s->n_prompt, s->n_reused,
             reason == VKLM_DONE_CANCELLED ? " · stopped"
             : reason == VKLM_DONE_LENGTH  ? " · cut at this length"
                                           : "");
}

/* What is shown of the session is that of one that has said nothing yet. */
static void empty_session(model *m)
{
    (void)vklm_session_set_ids(m->session, NULL, 0, NULL, NULL);
    vklm_session_get_stats(m->session, &m->stats);
    m->stats.n_prompt = m->stats.n_reused = m->stats.n_generated = 0;
}

void model_start_anew(model *m)
{
    if (m->state == MODEL_READY) empty_session(m);
    if (m->state == MODEL_READING || m->state == MODEL_WRITING) model_stop(m);
}

static void finish_reply(model *m, talk *t, talk_item *reply, const vklm_event *done)
{
    if (done->reason != VKLM_DONE_ERROR) talk_append(reply, done->text, done->text_len);
    note_reply(m, reply, done->reason);
    talk_drop_empty(t);
    if (done->reason == VKLM_DONE_CONTEXT_FULL)
        talk_say(t, "The context of %u tokens is full: the reply is cut here. --context makes it larger (the model was "
                    "trained for %u).",
                 m->stats.context_size, m->setup->info.context_length);
}

static void end_reply(model *m, talk *t, const vklm_event *done)
{
    char why[VKLM_ERROR_TEXT_SIZE] = "";
    if (done->reason == VKLM_DONE_ERROR) snprintf(why, sizeof why, "%.*s", (int)done->text_len, done->text);
    const vklm_status status = done->status;
    talk_item *reply = talk_last(t, TALK_MODEL);
    m->state = MODEL_READY;
    if (reply) finish_reply(m, t, reply, done);
    else empty_session(m); /* another conversation has begun meanwhile */
    if (why[0]) fail(m, t, "The reply failed", why);
    if (status == VKLM_DEVICE_LOST) unload(m);
}

/* The context was full, and the session has forgotten messages, or else the begin of a long reply. */
static void forget(const model *m, talk *t, size_t n_messages)
{
    const talk_item *reply = talk_last(t, TALK_MODEL);
    if (!reply) return;
    const bool has_begun = reply->text.len > 0;
    talk_forget(t, n_messages);
    if (!has_begun) talk_drop_empty(t);
    talk_say(t, "The context of %u tokens was full: the model has forgotten %s.", m->stats.context_size,
             n_messages > 0 ? "what is shown pale" : "the begin of this reply");
    if (!has_begun) talk_add(t, TALK_MODEL, "");
}

static void take_event(model *m, talk *t, const vklm_event *event)
{
    switch (event->kind) {
    case VKLM_EVENT_PROGRESS:
        m->n_done = event->n_done;
        m->n_total = event->n_total;
        break;
    case VKLM_EVENT_TOKEN:
        m->state = MODEL_WRITING;
        if (talk_last(t, TALK_MODEL)) talk_append(talk_last(t, TALK_MODEL), event->text, event->text_len);
        break;
    case VKLM_EVENT_DROPPED: forget(m, t, event->n_done); break;
    case VKLM_EVENT_DONE: end_reply(m, t, event); break;
    default: break; /* what was not asked for */
    }
}

static bool turn_generation(model *m, talk *t)
{
    vklm_event event;
    bool changed = false;
    (void)vklm_model_step(m->setup->model, 0, NULL); /* a failure comes as an event */
    while (model_is_busy(m) && vklm_session_next_event(m->session, &event)) {
        vklm_session_get_stats(m->session, &m->stats);
        take_event(m, t, &event);
        changed = true;
    }
    return changed;
}

bool model_turn(model *m, talk *t)
{
    if (m->state == MODEL_LOADING) {
        if (SDL_AtomicGet(&m->loaded)) finish_load(m, t);
        return true;
    }
    return model_is_busy(m) && turn_generation(m, t);
}

void model_stop(model *m)
{
    SDL_AtomicSet(&m->cancelled, 1);
    if (m->session) vklm_session_cancel(m->session);
}

void model_close(model *m)
{
    model_stop(m);
    unload(m);
}

bool model_is_busy(const model *m)
{
    return m->state == MODEL_LOADING || m->state == MODEL_READING || m->state == MODEL_WRITING;
}

double model_progress(const model *m)
{
    if (m->state == MODEL_LOADING) return SDL_AtomicGet((SDL_atomic_t *)&m->permille) / 1000.0;
    return m->n_total > 0 ? (double)m->n_done / m->n_total : 0;
}
