/* draw.c - tokens: how the device is told to draw a session's, and the draw on the host where somebody wants logits
 * or draws himself.
 *
 * The device reads a session's parameters, bias and last tokens from memory that both see, and adds the tokens it draws:
 * it needs no word from the host between steps. They are written where a batch or a prompt's logits begin, when nothing
 * in flight works for the session. Plain greedy has none of it.
 */
#include "run/engine.h"

#include <string.h>

#define VKI_C
#include "lib/push.h"

bool vki_session_device_draws(const vklm_session *session)
{
    return !session->params.want_logits && !session->params.sample;
}

/* The buffer, with room for so much; what it held is lost. */
static vklm_status make_buffer(vklm_session *session, vki_memory_kind kind, uint64_t size_bytes, const char *what,
                               vklm_error *error, vki_buffer *buffer)
{
    vklm_device *device = session->model->device;
    if (buffer->size_bytes >= size_bytes) return VKLM_OK;
    vki_buffer_destroy(device, buffer);
    return vki_buffer_create(device, kind, size_bytes, what, error, buffer);
}

uint64_t vki_sampling_bytes(const vklm_session *session)
{
    return sizeof(struct sampling) + session->context * sizeof *session->ids;
}

vklm_status vki_session_sampling(vklm_session *session, vklm_error *error, uint64_t *address)
{
    vki_sampler *sampler = &session->sampler;
    const vki_buffer *table = &session->kv.table;
    const uint64_t at = session->kv.max_pages * 8ull, history_at = at + sizeof(struct sampling);
    struct sampling form;
    *address = 0;
    sampler->offset = session->drawn_from + session->n_drawn - session->n_ids;
    vki_sampler_write(sampler, &form);
    if (form.inverse_temperature == 0 && form.n_bias == 0 && form.window == 0) return VKLM_OK;
    if (form.n_bias > 0) {
        const uint64_t bytes = form.n_bias * sizeof *sampler->bias;
        TRY(make_buffer(session, VKI_MEMORY_SHARED, bytes, "the logit bias", error, &session->bias));
        memcpy(session->bias.mapped, sampler->bias, bytes);
    }
    if (form.window > 0) {
        const uint64_t bytes = session->model->weights.hparams.n_vocab * 4ull;
        TRY(make_buffer(session, VKI_MEMORY_DEVICE, bytes, "the counts of tokens", error, &session->token_counts));
        memcpy(table->mapped + history_at, session->ids, session->n_ids * sizeof *session->ids);
    }
    form.bias = session->bias.address;
    form.counts = session->token_counts.address;
    form.history = table->address + history_at;
    form.n_history = session->context;
    memcpy(table->mapped + at, &form, sizeof form);
    *address = table->address + at;
    return VKLM_OK;
}

const float *vki_host_logits(const vklm_model *model, bool prompt, uint32_t row)
{
    const size_t at = (row + (prompt ? VKI_MAX_BATCH : 0)) * (size_t)model->logits.stride;
    return (const float *)(const void *)model->host_logits.mapped + at;
}

static vklm_status ask_caller(vklm_session *session, const float *logits, uint32_t n_vocab, vklm_error *error,
                              vklm_token *id)
{
    TRY(vki_logits_check(logits, n_vocab, error));
    *id = session->params.sample(session->params.sample_user, logits, n_vocab, session->ids, session->n_ids);
    if (*id >= 0 && (uint32_t)*id < n_vocab) return VKLM_OK;
    return vki_fail(error, VKLM_INVALID_ARGUMENT,
                    "the caller's sampler returned token %d; the vocabulary has %u: it must return one of them", *id,
                    n_vocab);
}

vklm_status vki_draw(vklm_session *session, bool prompt, uint32_t row, vklm_error *error)
{
    const vklm_model *model = session->model;
    const float *logits = vki_host_logits(model, prompt, row);
    const uint32_t n_vocab = model->weights.hparams.n_vocab;
    vklm_token id;
    session->sampler.offset = session->drawn_from + session->n_drawn - session->n_ids;
    if (session->params.sample) TRY(ask_caller(session, logits, n_vocab, error, &id));
    else TRY(vki_sampler_draw(&session->sampler, logits, n_vocab, session->ids, session->n_ids, error, &id));
    return vki_session_accept(session, id, error);
}
