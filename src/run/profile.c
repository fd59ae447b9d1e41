/* profile.c - plans shown and timed dispatch by dispatch: vklm_profile.h.
 *
 * The plans are those of prefill.c and decode.c, made without a job: the model must be at rest. A timed pass is
 * recorded anew, with a barrier before and a timestamp behind each dispatch, and submitted in slices of bounded
 * GPU time like any prompt.
 */
#include "run/profile.h"

#include "base/checked.h"

/* ---- Passes ------------------------------------------------------------------------------------ */

vklm_status vki_tokens_plan(const vki_tokens *tokens, vklm_error *error, uint32_t *rows_out)
{
    vklm_model *model = tokens->model;
    *rows_out = (uint32_t)vki_min(tokens->n, tokens->chunk);
    if (tokens->n == 1)
        return vki_step_plan(model, &(vki_step){1, tokens->depth + 1, tokens->kv_f32, tokens->on_device}, error);
    const bool last = *rows_out == tokens->n;
    const vki_chunk chunk = {tokens->kv_f32, tokens->depth, *rows_out, last};
    TRY(vki_chunk_plan(model, &chunk, error));
    return last ? vki_logits_plan(model, &chunk, *rows_out - 1, 1, tokens->on_device, error) : VKLM_OK;
}

vklm_status vki_tokens_pending(vklm_session *session, vklm_error *error, vki_tokens *tokens)
{
    vklm_model *model = session->model;
    const size_t pending = session->n_ids - session->n_cached;
    if (pending == 0)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "the session has nothing to digest: append ids first");
    *tokens = (vki_tokens){.model = model, .kv_f32 = session->kv_type == VKLM_KV_F32, .on_device = true,
                           .depth = (uint32_t)session->n_cached, .n = (uint32_t)pending,
                           .chunk = (uint32_t)vki_min(session->chunk, model->chunk_rows)};
    return VKLM_OK;
}

vklm_status vki_tokens_place(const vki_tokens *tokens, vklm_session *session, uint32_t rows, vklm_error *error)
{
    vklm_model *model = tokens->model;
    return vki_rows_place(session, tokens->n == 1 ? &model->decode : &model->prefill, 0, rows, error);
}

/* ---- Timing ------------------------------------------------------------------------------------ */

/* Nothing generates, and what was in flight for a session that gave up has finished. */
static vklm_status come_to_rest(vklm_model *model, vklm_error *error)
{
    bool done;
    for (const vklm_session *s = model->sessions; s; s = s->next)
        if (s->phase != VKI_IDLE)
            return vki_fail(error, VKLM_INVALID_ARGUMENT,
                            "a session of the model is generating: take its events until DONE first");
    if (vki_logits_wait(model))
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "LOGITS events of a session wait to be taken: take them first");
    TRY(vki_device_usable(model->device, error));
    TRY(vki_queue_wait(&model->queue, model->queue.submitted, UINT64_MAX, error, &done));
    model->job = (vki_job){.kind = VKI_JOB_NONE};
    model->batch = (vki_batch){.n_rows = 0};
    model->n_flights = 0;
    return VKLM_OK;
}

vklm_status vki_profiler_init(vki_profiler *profiler, vklm_model *model, vklm_error *error)
{
    *profiler = (vki_profiler){.model = model};
    if (model->device->limits.timestamp_ns <= 0)
        return vki_fail(error, VKLM_DEVICE_UNSUITABLE,
                        "%s has no timestamps that a program can reset: dispatches cannot be timed on it; choose "
                        "another device, or look at the plan alone",
                        model->device->info.name);
    TRY(come_to_rest(model, error));
    TRY(vki_recording_init(&profiler->recording, model->device, error));
    profiler->recording.each = true;
    return VKLM_OK;
}

void vki_profiler_free(vki_profiler *profiler)
{
    if (!profiler->model) return;
    const vki_host *host = &profiler->model->device->host;
    vki_recording_free(&profiler->recording);
    vki_release(host, &profiler->times);
    vki_release(host, &profiler->ticks);
}

/* From one reading of the device's clock to a later one; 0 where the later is not. */
static uint64_t elapsed_ns(const vki_limits *limits, uint64_t from, uint64_t to)
{
    const uint64_t ticks = (to - from) & limits->timestamp_mask;
    return ticks > limits->timestamp_mask / 2 ? 0 : (uint64_t)((double)ticks * limits->timestamp_ns);
}

static vklm_status read_times(vki_profiler *profiler, const vki_unit *unit, vklm_error *error)
{
    vklm_device *device = profiler->model->device;
    const uint64_t *ticks = profiler->ticks;
    TRY(vki_unit_ticks(device, unit, error, profiler->ticks));
    if (!profiler->has_run) profiler->first_tick = ticks[0];
    profiler->has_run = true;
    for (uint32_t i = 0; i < unit->count; i++) {
        vki_time *time = &profiler->times[unit->first + i];
        time->begin_ns = elapsed_ns(&device->limits, profiler->first_tick, ticks[i]);
        time->end_ns = time->begin_ns + elapsed_ns(&device->limits, ticks[i], ticks[i + 1]);
    }
    return VKLM_OK;
}

vklm_status vki_profiler_run(vki_profiler *profiler, uint32_t n_units, vklm_error *error)
{
    vklm_model *model = profiler->model;
    const vki_host *host = &model->device->host;
    vki_recording *recording = &profiler->recording;
    const size_t n = model->plan.n;
    TRY(vki_grow(host, n, sizeof *profiler->times, error, &profiler->times, &profiler->times_capacity));
    TRY(vki_grow(host, n + 1, sizeof *profiler->ticks, error, &profiler->ticks, &profiler->ticks_capacity));
    TRY(vki_record(recording, &model->plan, vki_plan_cost(&model->plan) / n_units + 1, error));
    for (size_t first = 0, count; first < recording->n_units; first += count) {
        const vki_unit *units = &recording->units[first];
        uint64_t value;
        bool done;
        count = vki_queue_fit(&model->queue, units, recording->n_units - first,
                              (uint64_t)(model->device->submit_limit_ms * 1e6));
        TRY(vki_queue_submit(&model->queue, units, count, error, &value));
        TRY(vki_queue_wait(&model->queue, value, UINT64_MAX, error, &done));
        for (size_t i = 0; i < count; i++) TRY(read_times(profiler, &units[i], error));
    }
    return VKLM_OK;
}

/* ---- The public calls ---------------------------------------------------------------------------- */

typedef struct visitor {
    vklm_dispatch_visit visit;
    void *user;
    uint32_t index, pass;
} visitor;

/* Visits one pass. barriers, times: [plan->n]; times may be NULL. */
static void visit_pass(visitor *v, const vki_plan *plan, const bool *barriers, const vki_time *times)
{
    for (size_t i = 0; i < plan->n; i++) {
        const vki_dispatch *d = &plan->items[i];
        const vki_pipeline_key *key = &d->pipeline->key;
        const vklm_dispatch shown = {
            .index = v->index++, .pass = v->pass, .layer = d->layer, .name = d->name, .shader = key->shader,
            .constants = key->spec, .n_constants = key->n_spec, .local_size = key->spec[0],
            .subgroup_size = key->subgroup_size, .grid = {d->grid[0], d->grid[1], d->grid[2]},
            .bytes = d->cost_bytes, .flops = d->cost_flops, .barrier = barriers[i],
            .begin_ns = times ? times[i].begin_ns : 0, .end_ns = times ? times[i].end_ns : 0,
        };
        v->visit(v->user, &shown);
    }
    v->pass++;
}

static vklm_status show_plan(vki_tokens tokens, visitor *v, vklm_error *error)
{
    const vki_host *host = &tokens.model->device->host;
    const vki_plan *plan = &tokens.model->plan;
    vklm_status status = VKLM_OK;
    bool *barriers = NULL;
    size_t capacity = 0;
    while (tokens.n > 0) {
        uint32_t rows;
        TRY_OR_FAIL(vki_tokens_plan(&tokens, error, &rows));
        TRY_OR_FAIL(vki_grow(host, plan->n, sizeof *barriers, error, &barriers, &capacity));
        vki_plan_barriers(plan, barriers);
        visit_pass(v, plan, barriers, NULL);
        tokens.n -= rows;
        tokens.depth += rows;
    }
fail:
    vki_release(host, &barriers);
    return status;
}

vklm_status vklm_model_plan(vklm_model *model, const vklm_plan_params *params, vklm_error *error)
{
    vki_error_clear(error);
    vklm_plan_params own;
    TRY(vki_params(&own, sizeof own, params, "vklm_plan_params", error));
    if (!model || !own.visit)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "a plan needs a model and a function that visits it");
    const uint32_t context = model->weights.hparams.context_length, n = own.n_tokens ? own.n_tokens : 1;
    if (n > context || own.depth > context - n)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "%u tokens behind %u others are more than the model's %u", n,
                        own.depth, context);
    const vki_tokens tokens = {.model = model, .kv_f32 = own.kv == VKLM_KV_F32, .on_device = true,
                               .depth = own.depth, .n = n, .chunk = model->chunk_rows};
    vki_mutex_lock(&model->lock);
    vklm_status status = come_to_rest(model, error);
    if (status == VKLM_OK) status = show_plan(tokens, &(visitor){.visit = own.visit, .user = own.user}, error);
    vki_mutex_unlock(&model->lock);
    return status;
}

static vklm_status profile_pending(vki_profiler *profiler, vklm_session *session, visitor *v, vklm_error *error)
{
    vki_tokens tokens = {0};
    TRY(vki_tokens_pending(session, error, &tokens));
    while (tokens.n > 0) {
        uint32_t rows;
        TRY(vki_tokens_plan(&tokens, error, &rows));
        TRY(vki_tokens_place(&tokens, session, rows, error));
        TRY(vki_profiler_run(profiler, tokens.n == 1 ? 1 : VKI_CHUNK_UNITS, error));
        visit_pass(v, &tokens.model->plan, profiler->recording.barriers, profiler->times);
        session->n_cached += rows;
        tokens.n -= rows;
        tokens.depth += rows;
    }
    return VKLM_OK;
}

vklm_status vklm_session_profile(vklm_session *session, const vklm_profile_params *params, vklm_error *error)
{
    vki_error_clear(error);
    vklm_profile_params own;
    TRY(vki_params(&own, sizeof own, params, "vklm_profile_params", error));
    if (!session || !own.visit)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "a profile needs a session and a function that visits it");
    vki_profiler profiler;
    vki_mutex_lock(&session->model->lock);
    vklm_status status = vki_profiler_init(&profiler, session->model, error);
    if (status == VKLM_OK)
        status = profile_pending(&profiler, session, &(visitor){.visit = own.visit, .user = own.user}, error);
    vki_profiler_free(&profiler);
    vki_mutex_unlock(&session->model->lock);
    return status;
}
