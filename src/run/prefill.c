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

vklm_status vki_logits_plan(vklm_model *model, const vki_chunk *chunk, uint32_t row, uint32_t group, bool on_device,
                            vklm_error *error)
{
    const uint64_t base = on_device ? model->logits.address : model->host_logits.address; /* behind those of a step */
    const vki_span logits = {base + VKI_MAX_BATCH * (uint64_t)model->logits.stride * 4, group, model->logits.stride};
    const vki_pass pass = chunk_pass(model, chunk);
    const uint64_t parts = model->prefill.partial;
    const bool rows = is_short(model, chunk);
    model->kernels.plan = &model->plan;
    if (rows) TRY(vki_forward_rows_head(&pass, row, logits, on_device ? parts : 0, error));
    else TRY(vki_forward_head(&pass, row, logits, error));
    if (!on_device) return VKLM_OK;
    return vki_sample(&model->kernels,
                      &(vki_sample_args){.logits = logits, .n_vocab = model->weights.hparams.n_vocab,
                                         .state = model->prefill.state.address + (uint64_t)row * VKI_ROW_STATE_BYTES,
                                         .partial = parts, .has_parts = rows,
                                         .ring = model->ring.address + VKI_RING_STEPS * VKI_MAX_BATCH * 4},
                      error);
}

vklm_status vki_rows_place(vklm_session *session, vki_activations *activations, uint32_t first, uint32_t rows,
                           vklm_error *error)
{
    TRY(vki_session_reserve(session, (uint32_t)session->n_cached + rows, error));
    for (uint32_t i = 0; i < rows; i++) {
        const size_t position = session->n_cached + i;
        vki_state_write(activations, first + i, session->kv.table.address, session->ids[position],
                        (uint32_t)position, 0);
    }
    return VKLM_OK;
}

/* ---- The job --------------------------------------------------------------------------------------- */

/* The chunk of the job under way. */
static vki_chunk job_chunk(const vklm_model *model, const vklm_session *session)
{
    const vki_job *job = &model->job;
    return (vki_chunk){session->kv_type == VKLM_KV_F32, (uint32_t)session->n_cached, job->rows, job->n_out};
}

/* Records model->plan in units that are small enough for the room, as far as dispatches allow. */
static vklm_status record_job(vklm_model *model, const vki_room *room, vklm_error *error)
{
    static const double longest_ns = 1e9; /* of a unit whose time is a guess */
    vki_job *job = &model->job;
    const bool known = model->queue.ns_per_cost[VKI_WORK_PROMPT] > 0;
    const double unit_ns = vki_queue_ns(&model->queue, VKI_WORK_PROMPT, 1);
    const double most = (known ? room->submit_ns : longest_ns) / unit_ns;
    uint64_t unit_cost = vki_plan_cost(&model->plan) / VKI_CHUNK_UNITS + 1;
    if ((double)unit_cost > most) unit_cost = (uint64_t)most + 1;
    model->recording.work = VKI_WORK_PROMPT;
    TRY(vki_record(&model->recording, &model->plan, unit_cost, error));
    job->next_unit = 0;
    job->recorded = true;
    return VKLM_OK;
}

/* Whether one of the plan's dispatches alone exceeds the room. */
static bool is_too_wide(const vklm_model *model, const vki_room *room)
{
    for (size_t i = 0; i < model->plan.n; i++)
        if (vki_queue_ns(&model->queue, VKI_WORK_PROMPT, vki_dispatch_cost(&model->plan.items[i])) > room->submit_ns)
            return true;
    return false;
}

/* The next rows of the session: as many as it asked for, fewer where one dispatch of them would exceed a budget. */
static vklm_status begin_chunk(vklm_model *model, vklm_session *session, const vki_room *room, vklm_error *error)
{
    static const uint32_t fewest = 64; /* below, reading the weights is what takes the time */
    vki_job *job = &model->job;
    const size_t pending = session->n_ids - session->n_cached;
    uint32_t rows = (uint32_t)vki_min(vki_min(session->chunk, model->chunk_rows), pending);
    session->turn = ++model->turn;
    for (;; rows = (uint32_t)vki_max(rows / 2, fewest)) {
        const bool last = rows == pending;
        const uint32_t n_out = session->params.want_logits ? rows : last && !session->params.prompt_only ? 1 : 0;
        *job = (vki_job){.kind = VKI_JOB_CHUNK, .session = session, .rows = rows, .n_out = n_out};
        const vki_chunk chunk = job_chunk(model, session);
        TRY(vki_chunk_plan(model, &chunk, error));
        if (rows <= fewest || model->queue.ns_per_cost[VKI_WORK_PROMPT] <= 0 || !is_too_wide(model, room)) break;
    }
    TRY(vki_rows_place(session, &model->prefill, 0, rows, error));
    return record_job(model, room, error);
}

/* The next group of logit rows of a chunk that has finished. */
static vklm_status begin_logits(vklm_model *model, const vki_room *room, vklm_error *error)
{
    vki_job *job = &model->job;
    const vki_chunk chunk = job_chunk(model, job->session);
    job->group = (uint32_t)vki_min(VKI_LOGIT_ROWS, job->rows - job->next_row);
    vki_plan_clear(&model->plan);
    const bool on_device = vki_session_device_draws(job->session);
    uint64_t sampling;
    if (on_device) {
        TRY(vki_session_sampling(job->session, error, &sampling));
        vki_state_sampling(&model->prefill, job->next_row, sampling);
    }
    TRY(vki_logits_plan(model, &chunk, job->next_row, job->group, on_device, error));
    return record_job(model, room, error);
}

vklm_status vki_job_begin(vklm_model *model, const vki_room *room, vklm_error *error)
{
    vki_job *job = &model->job;
    if (job->in_flight > 0) return VKLM_OK;
    if (!job->session) job->kind = VKI_JOB_NONE; /* it gave up, and all has drained */
    vklm_session *next = job->kind == VKI_JOB_NONE ? vki_next_turn(model, VKI_PREFILL) : NULL;
    model->blamed = next ? next : job->session;
    if (next) TRY(begin_chunk(model, next, room, error));
    else if (job->kind == VKI_JOB_LOGITS && !job->recorded && !vki_session_cancelled(job->session))
        TRY(begin_logits(model, room, error));
    model->blamed = NULL;
    return VKLM_OK;
}

bool vki_job_has_more(const vklm_model *model)
{
    const vki_job *job = &model->job;
    return job->recorded && job->session && !vki_session_cancelled(job->session) &&
           job->next_unit < model->recording.n_units;
}

vklm_status vki_job_submit(vklm_model *model, const vki_room *room, vklm_error *error, bool *submitted)
{
    vki_job *job = &model->job;
    const vki_unit *units = &model->recording.units[job->next_unit];
    const size_t count = vki_room_fit(model, room, units, model->recording.n_units - job->next_unit);
    if (count == 0) return VKLM_OK;
    model->blamed = job->session;
    TRY(vki_model_submit(model, units, count, false, false, error));
    model->blamed = NULL;
    job->in_flight++;
    job->next_unit += count;
    job->session->busy_until = model->queue.submitted;
    *submitted = true;
    return VKLM_OK;
}

static vklm_status chunk_done(vklm_model *model, vklm_error *error)
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
    job->kind = job->n_out > 0 ? VKI_JOB_LOGITS : VKI_JOB_NONE;
    if (job->n_out == 0 && pending == 0) vki_session_finish(session, VKLM_DONE_PROMPT);
    return VKLM_OK;
}

static vklm_status logits_done(vklm_model *model, vklm_error *error)
{
    vki_job *job = &model->job;
    vklm_session *session = job->session;
    const uint32_t first = (uint32_t)session->n_cached - job->rows; /* position of the chunk's first row */
    const uint32_t group = job->group, n_left = job->rows - job->next_row - group;
    for (uint32_t i = 0; i < group && session->params.want_logits; i++)
        TRY(vki_session_event(session,
                              &(vklm_event){.kind = VKLM_EVENT_LOGITS, .position = first + job->next_row + i,
                                            .logits = vki_host_logits(model, true, i)},
                              error));
    job->next_row += group;
    if (n_left > 0) return VKLM_OK; /* the next group begins once the events are taken */
    job->kind = VKI_JOB_NONE;
    if (session->n_cached < session->n_ids) return VKLM_OK; /* the next chunk */
    if (session->params.prompt_only) {
        vki_session_finish(session, VKLM_DONE_PROMPT);
        return VKLM_OK;
    }
    session->phase = VKI_DECODE;
    if (!vki_session_device_draws(session)) return vki_draw(session, true, group - 1, error);
    const uint32_t *ring = (const uint32_t *)(const void *)model->ring.mapped;
    return vki_session_accept(session, (vklm_token)ring[VKI_RING_STEPS * VKI_MAX_BATCH], error);
}

vklm_status vki_job_take(vklm_model *model, vklm_error *error)
{
    vki_job *job = &model->job;
    job->in_flight--;
    if (!job->session || job->in_flight > 0 || job->next_unit < model->recording.n_units) return VKLM_OK;
    job->recorded = false;
    model->blamed = job->session;
    TRY(job->kind == VKI_JOB_CHUNK ? chunk_done(model, error) : logits_done(model, error));
    model->blamed = NULL;
    return VKLM_OK;
}
