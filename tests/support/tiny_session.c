/* tiny_session.c - see tiny_session.h. */
#include "tiny_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/temp.h"

static vklm_error error;

/* ---- Models ----------------------------------------------------------------------------------------- */

tiny_model tiny_small(const char *arch)
{
    tiny_model m = tiny_model_of(arch);
    m.d_model = 64;
    m.d_head = 16;
    if (strcmp(arch, "qwen3") == 0) { /* heads wider than the model */
        m.n_head = 6;
        m.n_head_kv = 3;
    }
    m.d_ff = 96;
    m.n_layer = 3;
    return m;
}

vklm_status tiny_try_load(vklm_device *device, const tiny_model *m, vklm_error *failure, vklm_model **model)
{
    char folder[TEMP_FOLDER_SIZE], path[TEMP_FOLDER_SIZE + 16];
    temp_folder(folder);
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    gguf_writer *w = tiny_model_write(m);
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
    const vklm_model_params params = {
        .struct_size = sizeof params, .path = path,
        .precision = m->default_precision ? VKLM_PRECISION_DEFAULT : VKLM_PRECISION_HIGH};
    const vklm_status status = vklm_model_load(device, &params, failure, model);
    remove(path);
    temp_folder_remove(folder);
    ck_assert((status == VKLM_OK) == (*model != NULL));
    return status;
}

vklm_model *tiny_load(vklm_device *device, const tiny_model *m)
{
    vklm_model *model;
    CHECK_OK(tiny_try_load(device, m, &error, &model));
    return model;
}

model_ref *tiny_ref(const tiny_model *m)
{
    gguf_writer *w = tiny_model_write(m);
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    vki_gguf gguf;
    CHECK_OK(gguf_writer_open(w, &host, &error, &gguf));
    model_ref *ref = model_ref_new(&gguf);
    vki_gguf_close(&gguf);
    gguf_writer_free(w);
    return ref;
}

vklm_session *tiny_session(vklm_model *model, const vklm_session_params *params)
{
    vklm_session_params own = params ? *params : (vklm_session_params){0};
    own.struct_size = sizeof own;
    vklm_session *session;
    CHECK_OK(vklm_session_create(model, &own, &error, &session));
    return session;
}

vklm_session_stats stats_of(const vklm_session *session)
{
    vklm_session_stats stats;
    vklm_session_get_stats(session, &stats);
    return stats;
}

/* ---- Generations -------------------------------------------------------------------------------------- */

static void take_logits(run_result *r, const vklm_session *session, const vklm_event *event)
{
    const size_t n_vocab = session->model->weights.hparams.n_vocab;
    if (r->n_logits == 0) r->first_logits = event->position;
    ck_assert_uint_eq(event->position, r->first_logits + r->n_logits);
    r->logits = realloc(r->logits, (r->n_logits + 1) * n_vocab * sizeof *r->logits);
    memcpy(r->logits + r->n_logits++ * n_vocab, event->logits, n_vocab * sizeof *r->logits);
}

static void take_text(run_result *r, const vklm_event *event)
{
    ck_assert_uint_le(r->text_len + event->text_len, RUN_TEXT_SIZE);
    for (size_t i = 0; i < event->text_len;) {
        const int len = vki_utf8_char(event->text + i, event->text_len - i);
        ck_assert_msg(len > 0, "an event's text holds what is no character");
        i += (size_t)len;
    }
    if (event->text_len) memcpy(r->text + r->text_len, event->text, event->text_len);
    r->text_len += event->text_len;
}

void run_take(run_result *r, const vklm_session *session, const vklm_event *event)
{
    ck_assert_int_eq(r->done.kind, VKLM_EVENT_NONE);
    size_t n;
    switch (event->kind) {
    case VKLM_EVENT_PROGRESS:
        ck_assert_uint_le(event->n_done, event->n_total);
        r->n_progress++;
        break;
    case VKLM_EVENT_LOGITS: take_logits(r, session, event); break;
    case VKLM_EVENT_TOKEN:
        ck_assert_uint_lt(r->n_drawn, RUN_MAX_IDS);
        if (r->n_drops == 0 && session->made_with.on_overflow == VKLM_OVERFLOW_REFUSE)
            ck_assert_int_eq(vklm_session_ids(session, &n)[event->position], event->id);
        r->drawn[r->n_drawn++] = event->id;
        take_text(r, event);
        break;
    case VKLM_EVENT_DONE:
        r->done = *event;
        if (event->reason == VKLM_DONE_ERROR)
            snprintf(r->failure, sizeof r->failure, "%.*s", (int)event->text_len, event->text);
        else take_text(r, event);
        r->done.text = NULL;
        break;
    case VKLM_EVENT_DROPPED:
        ck_assert_uint_gt(event->n_total, 0);
        r->n_drops++;
        r->n_messages_dropped += event->n_done;
        r->drawn_before_drop = r->n_drawn;
        break;
    case VKLM_EVENT_NONE: ck_abort_msg("an event that is none");
    }
}

void run_free(run_result *r)
{
    free(r->logits);
    *r = (run_result){0};
}

void run_generate(vklm_session *session, vklm_generate_params params, run_result *r)
{
    *r = (run_result){0};
    params.struct_size = sizeof params;
    CHECK_OK(vklm_session_generate(session, &params, &error));
    while (r->done.kind == VKLM_EVENT_NONE) {
        vklm_event event;
        CHECK_OK(vklm_session_wait_event(session, &error, &event));
        run_take(r, session, &event);
    }
}

void run_greedy(vklm_session *session, uint32_t n, run_result *r)
{
    run_generate(session, (vklm_generate_params){.max_tokens = n, .ignore_end = true,
                                                 .sampling = {.temperature = -1}}, r);
    if (!test_results_count()) return; /* ids may be anything, and end it */
    ck_assert_int_eq(r->done.reason, VKLM_DONE_LENGTH);
    ck_assert_uint_eq(r->n_drawn, n);
}

void some_ids(uint32_t seed, uint32_t n_vocab, vklm_token *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u; /* the generator of Numerical Recipes */
        ids[i] = (vklm_token)((seed >> 8) % n_vocab);
    }
}

double nmse(const float *got, const double *reference, size_t n)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)got[i] - reference[i]) * ((double)got[i] - reference[i]);
        size += reference[i] * reference[i];
    }
    return difference / size;
}
