/* decode.c - one token at a time: a step is recorded once per form and replayed by one submit.
 *
 * Where the device draws (greedy, nobody wants logits) the step's last kernel writes the token and moves
 * the row's state on, so the host submits the next step before it has seen the token. Otherwise the
 * head writes logits into host memory, the host draws and writes the row's state anew. A form changes
 * only with the cache type and with powers of two of the context (the attention's splits).
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"

vklm_status vki_step_plan(vklm_model *model, bool kv_f32, bool greedy, uint32_t keys, vklm_error *error)
{
    const vki_hparams *h = &model->weights.hparams;
    const vki_pass pass = {
        .weights = &model->weights, .activations = &model->decode, .kernels = &model->kernels,
        .kv_f32 = kv_f32, .rows = 1, .n_out = 1, .keys = keys,
        .splits = vki_attention_splits(&model->kernels, keys),
    };
    const uint64_t parts = model->decode.partial;
    vki_span logits = vki_span_rows(model->logits, 0, 1);
    if (!greedy) logits.address = model->host_logits.address;
    vki_plan_clear(&model->plan);
    model->kernels.plan = &model->plan;
    if (model->rows_fit) {
        TRY(vki_forward_rows(&pass, error));
        TRY(vki_forward_rows_head(&pass, 0, logits, greedy ? parts : 0, error));
    } else {
        TRY(vki_forward_layers(&pass, error));
        TRY(vki_forward_head(&pass, 0, logits, error));
    }
    if (!greedy) return VKLM_OK;
    return vki_advance(&model->kernels,
                       &(vki_advance_args){.logits = logits, .n_vocab = h->n_vocab,
                                           .state = model->decode.state.address, .partial = parts,
                                           .parts = model->rows_fit ? vki_logit_parts(h) : 0,
                                           .ring = model->ring.address, .greedy = true},
                       error);
}

static vklm_status record_form(vklm_model *model, vki_decode_form *form, vklm_error *error)
{
    const uint32_t most_keys = form->splits * model->kernels.tuning.split_keys;
    TRY(vki_step_plan(model, form->kv_f32, form->greedy, most_keys, error));
    for (uint32_t i = 0; i < VKI_AHEAD; i++) {
        TRY(vki_recording_init(&form->copies[i], model->device, error));
        TRY(vki_record(&form->copies[i], &model->plan, 0, error));
    }
    return VKLM_OK;
}

static vklm_status find_form(vklm_model *model, const vklm_session *session, uint32_t keys,
                             vklm_error *error, vki_decode_form **out)
{
    const vki_decode_form wanted = {.greedy = vki_session_device_draws(session),
                                    .kv_f32 = session->kv_type == VKLM_KV_F32,
                                    .splits = vki_attention_splits(&model->kernels, keys)};
    for (size_t i = 0; i < model->n_forms; i++) {
        vki_decode_form *form = &model->forms[i];
        if (form->greedy == wanted.greedy && form->kv_f32 == wanted.kv_f32 && form->splits == wanted.splits) {
            *out = form;
            return VKLM_OK;
        }
    }
    TRY(vki_grow(&model->device->host, model->n_forms + 1, sizeof wanted, error, &model->forms,
                 &model->forms_capacity));
    vki_decode_form *form = &model->forms[model->n_forms];
    *form = wanted;
    const vklm_status status = record_form(model, form, error);
    if (status != VKLM_OK) {
        for (uint32_t i = 0; i < VKI_AHEAD; i++) vki_recording_free(&form->copies[i]);
        return status;
    }
    model->n_forms++;
    *out = form;
    return VKLM_OK;
}

vklm_status vki_decode_start(vklm_model *model, vklm_session *session, vklm_error *error)
{
    const uint32_t position = (uint32_t)session->n_ids - 1;
    TRY(vki_session_reserve(session, position + 1, error));
    vki_state_write(&model->decode, 0, session->kv.table.address, session->ids[position], position, 0);
    model->job = (vki_job){.kind = VKI_JOB_DECODE, .session = session};
    return VKLM_OK;
}

/* Whether another step may be submitted: its token will be wanted and has a place. */
static bool wants_step(const vklm_model *model, const vklm_session *session)
{
    const vki_job *job = &model->job;
    const uint32_t ahead = job->in_flight;
    if (atomic_load_explicit(&session->cancelled, memory_order_relaxed)) return false;
    if (!vki_session_device_draws(session) && (ahead > 0 || job->steps_taken > 0)) return false;
    if (session->params.max_tokens && session->n_drawn + ahead >= session->params.max_tokens) return false;
    return session->n_ids + ahead < session->context;
}

vklm_status vki_decode_submit(vklm_model *model, uint32_t most_in_flight, vklm_error *error)
{
    vki_job *job = &model->job;
    vklm_session *session = job->session;
    while (job->in_flight < most_in_flight && wants_step(model, session)) {
        const uint32_t keys = (uint32_t)session->n_ids + job->in_flight;
        vki_decode_form *form;
        TRY(find_form(model, session, keys, error, &form));
        TRY(vki_session_reserve(session, keys, error));
        const vki_recording *copy = &form->copies[job->steps_submitted % VKI_AHEAD];
        TRY(vki_queue_submit(&model->queue, copy->units, copy->n_units, error, &job->values[job->in_flight]));
        job->in_flight++;
        job->steps_submitted++;
    }
    return VKLM_OK;
}

vklm_status vki_draw(vklm_session *session, uint32_t row, vklm_error *error)
{
    vklm_model *model = session->model;
    const uint32_t n_vocab = model->weights.hparams.n_vocab;
    const float *logits = (const float *)(const void *)model->host_logits.mapped + (size_t)row * model->logits.stride;
    vklm_token id;
    TRY(vki_sampler_draw(&session->sampler, logits, n_vocab, session->ids, session->n_ids, error, &id));
    return vki_session_accept(session, id, error);
}

vklm_status vki_decode_take(vklm_model *model, vklm_error *error)
{
    vki_job *job = &model->job;
    vklm_session *session = job->session;
    const uint32_t slot = job->steps_taken++ % VKI_RING_STEPS;
    session->n_cached = session->n_ids;
    if (vki_session_device_draws(session)) {
        uint32_t id;
        memcpy(&id, model->ring.mapped + (size_t)slot * VKI_MAX_BATCH * 4, sizeof id);
        return vki_session_accept(session, (vklm_token)id, error);
    }
    if (session->params.want_logits)
        TRY(vki_session_event(session,
                              &(vklm_event){.kind = VKLM_EVENT_LOGITS, .position = (uint32_t)session->n_ids - 1,
                                            .logits = (const float *)(const void *)model->host_logits.mapped},
                              error));
    return vki_draw(session, 0, error);
}
