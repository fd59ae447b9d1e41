/* prefill.c - the prompt: chunks of many rows, each one dispatch graph recorded as a whole and submitted
 * in slices of bounded GPU time; then the logits of the rows that are wanted, a group at a time.
 */
#include "run/engine.h"

#include "base/checked.h"

static vki_pass chunk_pass(vklm_model *model, const vki_chunk *chunk)
{
    return (vki_pass){
        .weights = &model->weights, .activations = &model->prefill, .kernels = &model->kernels,
        .kv_f32 = chunk->kv_f32, .one_sequence = true, .rows = chunk->rows, .n_out = chunk->n_out,
        .keys = chunk->depth + chunk->rows / 2 + 1, .splits = 1,
    };
}

/* Whether the chunk goes through products with prologues and epilogues. */
static bool is_short(const vklm_model *model, const vki_chunk *chunk)
{
    return model->rows_fit && chunk->rows <= model->kernels.tuning.prompt_rows;
}

vklm_status vki_chunk_plan(vklm_model *model, const vki_chunk *chunk, vklm_error *error)
{
    const vki_pass pass = chunk_pass(model, chunk);
    vki_plan_clear(&model->plan);
    model->kernels.plan = &model->plan;
    return is_short(model, chunk) ? vki_forward_rows(&pass, error) : vki_forward_layers(&pass, error);
}

vklm_status vki_logits_plan(vklm_model *model, const vki_chunk *chunk, uint32_t row, uint32_t group, bool greedy,
                            vklm_error *error)
{
    vki_span logits = {model->host_logits.address, group, model->logits.stride};
    if (greedy) logits.address = model->logits.address;
    const vki_pass pass = chunk_pass(model, chunk);
    const uint64_t parts = model->prefill.partial;
    const bool rows = is_short(model, chunk);
    model->kernels.plan = &model->plan;
    if (rows) TRY(vki_forward_rows_head(&pass, row, logits, greedy ? parts : 0, error));
    else TRY(vki_forward_head(&pass, row, logits, error));
    if (!greedy) return VKLM_OK;
    return vki_advance(&model->kernels,
                       &(vki_advance_args){.logits = logits, .n_vocab = model->weights.hparams.n_vocab,
                                           .state = model->prefill.state.address +
                                                    (uint64_t)row * VKI_ROW_STATE_BYTES,
                                           .partial = parts,
                                           .parts = rows ? vki_logit_parts(&model->weights.hparams) : 0,
                                           .ring = model->ring.address, .greedy = true},
                       error);
}

vklm_status vki_rows_place(vklm_session *session, vki_activations *activations, uint32_t rows, vklm_error *error)
{
    TRY(vki_session_reserve(session, (uint32_t)session->n_cached + rows, error));
    for (uint32_t i = 0; i < rows; i++) {
        const size_t position = session->n_cached + i;
        vki_state_write(activations, i, session->kv.table.address, session->ids[position],
                        (uint32_t)position, 0);
    }
    return VKLM_OK;
}

/* The chunk of the job under way. */
static vki_chunk job_chunk(const vklm_model *model, const vklm_session *session)
{
    const vki_job *job = &model->job;
    return (vki_chunk){session->kv_type == VKLM_KV_F32, (uint32_t)session->n_cached, job->rows, job->n_out};
}

vklm_status vki_chunk_start(vklm_model *model, vklm_session *session, vklm_error *error)
{
    const size_t pending = session->n_ids - session->n_cached;
    const uint32_t rows = (uint32_t)vki_min(vki_min(session->chunk, model->chunk_rows), pending);
    const bool last = rows == pending;
    const uint32_t n_out = session->params.want_logits ? rows : last && !session->params.prompt_only ? 1 : 0;
    TRY(vki_rows_place(session, &model->prefill, rows, error));
    model->job = (vki_job){.kind = VKI_JOB_CHUNK, .session = session, .rows = rows, .n_out = n_out};
    const vki_chunk chunk = job_chunk(model, session);
    TRY(vki_chunk_plan(model, &chunk, error));
    return vki_record(&model->recording, &model->plan, vki_plan_cost(&model->plan) / VKI_CHUNK_UNITS + 1, error);
}

vklm_status vki_chunk_submit(vklm_model *model, uint64_t limit_ns, uint32_t most_in_flight, vklm_error *error)
{
    vki_job *job = &model->job;
    const vki_recording *recording = &model->recording;
    while (job->in_flight < most_in_flight && job->next_unit < recording->n_units) {
        const vki_unit *units = &recording->units[job->next_unit];
        const size_t count = vki_queue_fit(&model->queue, units, recording->n_units - job->next_unit, limit_ns);
        TRY(vki_queue_submit(&model->queue, units, count, error, &job->values[job->in_flight]));
        job->in_flight++;
        job->next_unit += count;
    }
    return VKLM_OK;
}

vklm_status vki_chunk_done(vklm_model *model, vklm_error *error)
{
    vki_job *job = &model->job;
    vklm_session *session = job->session;
    session->n_cached += job->rows;
    const size_t pending = session->n_ids - session->n_cached;
    TRY(vki_session_event(session,
                          &(vklm_event){.kind = VKLM_EVENT_PROGRESS,
                                        .n_done = (uint32_t)(session->pending_at_start - pending),
                                        .n_total = (uint32_t)session->pending_at_start},
                          error));
    job->next_row = job->rows - job->n_out;
    if (job->n_out > 0) return vki_logits_start(model, error);
    model->job.kind = VKI_JOB_NONE;
    if (pending == 0) vki_session_finish(session, VKLM_DONE_PROMPT);
    return VKLM_OK;
}

vklm_status vki_logits_start(vklm_model *model, vklm_error *error)
{
    vki_job *job = &model->job;
    vklm_session *session = job->session;
    job->kind = VKI_JOB_LOGITS;
    job->group = (uint32_t)vki_min(VKI_LOGIT_ROWS, job->rows - job->next_row);
    const vki_chunk chunk = job_chunk(model, session);
    vki_plan_clear(&model->plan);
    TRY(vki_logits_plan(model, &chunk, job->next_row, job->group, vki_session_device_draws(session), error));
    TRY(vki_record(&model->recording, &model->plan, 0, error));
    TRY(vki_queue_submit(&model->queue, model->recording.units, model->recording.n_units, error, &job->values[0]));
    job->in_flight = 1;
    return VKLM_OK;
}

vklm_status vki_logits_done(vklm_model *model, vklm_error *error)
{
    vki_job *job = &model->job;
    vklm_session *session = job->session;
    const uint32_t first = (uint32_t)session->n_cached - job->rows; /* position of the chunk's first row */
    const uint32_t group = job->group, n_left = job->rows - job->next_row - group;
    for (uint32_t i = 0; i < group && session->params.want_logits; i++) {
        const float *logits = (const float *)(const void *)model->host_logits.mapped + (size_t)i * model->logits.stride;
        TRY(vki_session_event(session,
                              &(vklm_event){.kind = VKLM_EVENT_LOGITS, .position = first + job->next_row + i,
                                            .logits = logits},
                              error));
    }
    job->next_row += group;
    if (n_left > 0) return VKLM_OK; /* the next group starts once the events are taken */
    job->kind = VKI_JOB_NONE;
    if (session->n_cached < session->n_ids) return VKLM_OK; /* the next chunk */
    if (session->params.prompt_only) {
        vki_session_finish(session, VKLM_DONE_PROMPT);
        return VKLM_OK;
    }
    session->phase = VKI_DECODE;
    if (!vki_session_device_draws(session)) return vki_draw(session, group - 1, error);
    const uint32_t id = *(const uint32_t *)(const void *)model->ring.mapped;
    return vki_session_accept(session, (vklm_token)id, error);
}
