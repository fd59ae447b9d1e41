/* step.c - takes what the device has finished, submits what comes next, lets sessions take turns.
 *
 * The job's state machine: CHUNK -> LOGITS (a group at a time) -> NONE, or DECODE -> NONE. A job whose
 * session gave up (cancelled, failed, destroyed) drains: nothing more is submitted for it, and no other
 * starts before it is out of flight, because jobs share the row state and the logits.
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"

static bool cancelled(const vklm_session *session)
{
    return atomic_load_explicit(&session->cancelled, memory_order_relaxed);
}

/* The oldest submit of the job has finished. */
static vklm_status take_oldest(vklm_model *model, vklm_error *error)
{
    vki_job *job = &model->job;
    job->in_flight--;
    memmove(job->values, job->values + 1, job->in_flight * sizeof *job->values);
    if (!job->session) return VKLM_OK;
    switch (job->kind) {
    case VKI_JOB_CHUNK:
        if (job->in_flight > 0 || job->next_unit < model->recording.n_units) return VKLM_OK;
        return vki_chunk_done(model, error);
    case VKI_JOB_LOGITS: return vki_logits_done(model, error);
    case VKI_JOB_DECODE: return vki_decode_take(model, error);
    case VKI_JOB_NONE: break;
    }
    return VKLM_OK;
}

static vklm_status take_finished(vklm_model *model, vklm_error *error)
{
    while (model->job.in_flight > 0) {
        bool done;
        TRY(vki_queue_wait(&model->queue, model->job.values[0], 0, error, &done));
        if (!done) return VKLM_OK;
        TRY(take_oldest(model, error));
    }
    return VKLM_OK;
}

/* The next session after the last one that ran, around the list; NULL where none is generating. */
static vklm_session *next_turn(const vklm_model *model)
{
    vklm_session *after = model->last_turn ? model->last_turn->next : NULL;
    for (vklm_session *s = after; s; s = s->next)
        if (s->phase != VKI_IDLE) return s;
    for (vklm_session *s = model->sessions; s && s != after; s = s->next)
        if (s->phase != VKI_IDLE) return s;
    return NULL;
}

static bool others_wait(const vklm_model *model, const vklm_session *session)
{
    for (const vklm_session *s = model->sessions; s; s = s->next)
        if (s != session && s->phase != VKI_IDLE) return true;
    return false;
}

static vklm_status start_job(vklm_model *model, vklm_error *error)
{
    vklm_session *session = next_turn(model);
    if (!session || vki_logits_wait(model)) return VKLM_OK;
    model->last_turn = session;
    /* The last token alone is a decode step, whether the prompt or the generation brought it. */
    const size_t pending = session->n_ids - session->n_cached;
    if (pending == 1 && !session->params.prompt_only) session->phase = VKI_DECODE;
    model->job.session = session; /* whose failure it is, should the start fail */
    return session->phase == VKI_DECODE ? vki_decode_start(model, session, error)
                                        : vki_chunk_start(model, session, error);
}

/* Ends what was cancelled and has nothing in flight. */
static void end_cancelled(vklm_model *model)
{
    for (vklm_session *s = model->sessions; s; s = s->next) {
        const bool in_flight = s == model->job.session && model->job.in_flight > 0;
        if (s->phase != VKI_IDLE && cancelled(s) && !in_flight) vki_session_finish(s, VKLM_DONE_CANCELLED);
    }
}

/* Submits more of the job under way, and ends it where there is no more. */
static vklm_status submit_more(vklm_model *model, uint64_t limit_ns, uint32_t most_in_flight, vklm_error *error)
{
    vki_job *job = &model->job;
    const vki_job_kind work = job->session && !cancelled(job->session) ? job->kind : VKI_JOB_NONE;
    if (work == VKI_JOB_CHUNK) {
        TRY(vki_chunk_submit(model, limit_ns, most_in_flight, error));
    } else if (work == VKI_JOB_LOGITS) {
        if (job->in_flight == 0 && !vki_logits_wait(model)) TRY(vki_logits_start(model, error));
    } else if (work == VKI_JOB_DECODE) {
        const bool turn_over = job->steps_taken > 0 && others_wait(model, job->session);
        if (!turn_over) TRY(vki_decode_submit(model, most_in_flight, error));
        if (job->in_flight == 0) job->kind = VKI_JOB_NONE;
    }
    if (!job->session && job->in_flight == 0) job->kind = VKI_JOB_NONE;
    return VKLM_OK;
}

static vklm_status advance(vklm_model *model, uint64_t limit_ns, uint32_t most_in_flight, vklm_error *error)
{
    TRY(take_finished(model, error));
    if (model->kv_loose) vki_cache_return(model);
    end_cancelled(model);
    TRY(submit_more(model, limit_ns, most_in_flight, error));
    if (model->job.kind != VKI_JOB_NONE) return VKLM_OK;
    TRY(start_job(model, error));
    return submit_more(model, limit_ns, most_in_flight, error);
}

vklm_status vklm_model_step(vklm_model *model, uint64_t budget_ns, vklm_error *error)
{
    vki_error_clear(error);
    if (!model) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no model to step");
    if (model->job.kind == VKI_JOB_NONE && !next_turn(model))
        return vki_fail(error, VKLM_NOTHING_TO_DO, "no session of the model is generating");
    uint64_t limit_ns = (uint64_t)(model->device->submit_limit_ms * 1e6);
    if (budget_ns) limit_ns = vki_min(limit_ns, budget_ns);
    vklm_error failure;
    vki_error_clear(&failure);
    vklm_status status = vki_device_usable(model->device, &failure);
    if (status == VKLM_OK) status = advance(model, limit_ns, budget_ns ? 1 : VKI_AHEAD, &failure);
    if (status == VKLM_OK) return VKLM_OK;
    vklm_session *session = model->job.session ? model->job.session : next_turn(model);
    if (session && session->phase != VKI_IDLE) vki_session_fail(session, &failure);
    if (model->device->lost) model->job = (vki_job){0}; /* nothing will ever finish */
    return vki_fail(error, status, "%s", failure.text);
}

vklm_status vklm_model_wait(vklm_model *model, uint64_t timeout_ns, vklm_error *error)
{
    vki_error_clear(error);
    if (!model) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no model to wait for");
    if (model->job.in_flight == 0) return VKLM_OK;
    bool done;
    return vki_queue_wait(&model->queue, model->job.values[0], timeout_ns, error, &done);
}
