/* step.c - takes what the device has finished, and submits what comes next, of prompts and decode steps by turns.
 *
 * All submits of a model are one sequence, which the device finishes in order. Without a budget two are in flight,
 * so that the device never waits for the host. With one, as many as its time allows, by what the device took for
 * such work so far. What a session that gave up (cancelled, failed, destroyed) has in flight drains: nothing more is
 * submitted for it. Whatever fails ends the session that it was done for, or all of a batch.
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"

/* ---- Turns ----------------------------------------------------------------------------------------- */

bool vki_session_cancelled(const vklm_session *session)
{
    return atomic_load_explicit(&session->cancelled, memory_order_relaxed);
}

vklm_session *vki_next_turn(const vklm_model *model, vki_phase phase)
{
    vklm_session *next = NULL;
    for (vklm_session *s = model->sessions; s; s = s->next)
        if (s->phase == phase && !vki_session_cancelled(s) && (!next || s->turn < next->turn)) next = s;
    return next;
}

bool vki_is_generating(const vklm_model *model)
{
    for (const vklm_session *s = model->sessions; s; s = s->next)
        if (s->phase != VKI_IDLE) return true;
    return false;
}

/* Ends what was cancelled and has nothing in flight. The last token alone is a decode step, whether the prompt or
 * the generation brought it. */
static void sort_sessions(vklm_model *model)
{
    for (vklm_session *s = model->sessions; s; s = s->next) {
        if (s->phase == VKI_IDLE) continue;
        const bool in_job = s == model->job.session && model->job.kind != VKI_JOB_NONE;
        const bool in_flight = (in_job && model->job.in_flight > 0) ||
                               (model->batch.in_flight > 0 && vki_batch_has(model, s));
        if (vki_session_cancelled(s) && !in_flight) vki_session_finish(s, VKLM_DONE_CANCELLED);
        else if (s->phase == VKI_PREFILL && !in_job && s->n_ids - s->n_cached == 1 && !s->params.prompt_only)
            s->phase = VKI_DECODE;
    }
}

/* ---- Taking ---------------------------------------------------------------------------------------- */

static vklm_status take_finished(vklm_model *model, vklm_error *error)
{
    while (model->n_flights > 0) {
        const vki_flight flight = model->flights[0];
        bool done;
        model->blamed = flight.decode ? NULL : model->job.session;
        TRY(vki_queue_wait(&model->queue, flight.value, 0, error, &done));
        if (!done) return VKLM_OK;
        model->n_flights--;
        memmove(model->flights, model->flights + 1, model->n_flights * sizeof flight);
        model->blamed = NULL;
        TRY(flight.decode ? vki_batch_take(model, flight.ends, error) : vki_job_take(model, error));
    }
    return VKLM_OK;
}

/* ---- Submitting ------------------------------------------------------------------------------------ */

/* No submit is to come near the second or two after which systems reset a device that does not answer. */
static const double longest_ns = 1e9;

static vki_room room_of(const vklm_model *model, uint64_t budget_ns)
{
    vki_room room = {.submit_ns = model->device->submit_limit_ms * 1e6, .step_ns = longest_ns, .left_ns = longest_ns,
                     .must = model->n_flights == 0};
    if (room.submit_ns > longest_ns) room.submit_ns = longest_ns;
    if (!budget_ns) return room;
    room.left_ns = (double)budget_ns;
    for (uint32_t i = 0; i < model->n_flights; i++) room.left_ns -= model->flights[i].ns;
    if (room.step_ns > (double)budget_ns) room.step_ns = (double)budget_ns;
    if (room.submit_ns > (double)budget_ns) room.submit_ns = (double)budget_ns;
    return room;
}

size_t vki_room_fit(const vklm_model *model, const vki_room *room, const vki_unit *units, size_t count)
{
    const double limit_ns = room->submit_ns < room->left_ns ? room->submit_ns : room->left_ns;
    if (!room->must && vki_queue_ns(&model->queue, units->work, units->cost) > limit_ns) return 0;
    return vki_queue_fit(&model->queue, units, count, limit_ns > 0 ? (uint64_t)limit_ns : 0);
}

vklm_status vki_model_submit(vklm_model *model, const vki_unit *units, size_t count, bool decode, bool ends,
                             vklm_error *error)
{
    vki_flight flight = {.decode = decode, .ends = ends};
    for (size_t i = 0; i < count; i++) flight.ns += vki_queue_ns(&model->queue, units[i].work, units[i].cost);
    TRY(vki_queue_submit(&model->queue, units, count, error, &flight.value));
    model->flights[model->n_flights++] = flight;
    return VKLM_OK;
}

/* One submit, of the kind that was not the last one's where there are both. */
static vklm_status submit_one(vklm_model *model, const vki_room *room, vklm_error *error, bool *submitted)
{
    const bool step = vki_batch_has_more(model), chunk = vki_job_has_more(model);
    *submitted = false;
    for (uint32_t i = 0; i < 2 && !*submitted; i++) {
        const bool decode = i == 0 ? !model->step_was_last : model->step_was_last;
        if (decode && step) TRY(vki_batch_submit(model, room, error, submitted));
        if (!decode && chunk) TRY(vki_job_submit(model, room, error, submitted));
        if (*submitted) {
            model->step_was_last = decode;
            return VKLM_OK;
        }
    }
    return VKLM_OK;
}

static vklm_status advance(vklm_model *model, uint64_t budget_ns, vklm_error *error)
{
    const uint32_t most = budget_ns ? VKI_MOST_AHEAD : VKI_AHEAD;
    bool submitted = true;
    TRY(take_finished(model, error));
    if (model->kv_loose) vki_cache_return(model);
    sort_sessions(model);
    if (vki_logits_wait(model)) return VKLM_OK;
    vki_room room = room_of(model, budget_ns);
    TRY(vki_job_begin(model, &room, error));
    TRY(vki_batch_begin(model, error));
    while (model->n_flights < most && submitted) {
        room = room_of(model, budget_ns);
        TRY(submit_one(model, &room, error, &submitted));
    }
    return VKLM_OK;
}

/* ---- The step -------------------------------------------------------------------------------------- */

static void fail_all(vklm_model *model, const vklm_error *failure)
{
    for (vklm_session *s = model->sessions; s; s = s->next)
        if (s->phase != VKI_IDLE) vki_session_fail(s, failure);
    model->job = (vki_job){.kind = VKI_JOB_NONE}; /* nothing will ever finish */
    model->batch = (vki_batch){.n_rows = 0};
    model->n_flights = 0;
}

static void fail_batch(vklm_model *model, const vklm_error *failure)
{
    for (uint32_t r = 0; r < model->batch.n_rows; r++)
        if (model->batch.rows[r]) vki_session_fail(model->batch.rows[r], failure);
}

static vklm_status do_step(vklm_model *model, uint64_t budget_ns, vklm_error *error)
{
    if (model->n_flights == 0 && !vki_is_generating(model))
        return vki_fail(error, VKLM_NOTHING_TO_DO, "no session of the model is generating");
    vklm_error failure;
    vki_error_clear(&failure);
    model->blamed = NULL;
    vklm_status status = vki_device_usable(model->device, &failure);
    if (status == VKLM_OK) status = advance(model, budget_ns, &failure);
    if (status == VKLM_OK) return VKLM_OK;
    if (model->device->lost) fail_all(model, &failure);
    else if (!model->blamed) fail_batch(model, &failure);
    else if (model->blamed->phase != VKI_IDLE) vki_session_fail(model->blamed, &failure);
    return vki_fail(error, status, "%s", failure.text);
}

vklm_status vki_model_step(vklm_model *model, uint64_t budget_ns, vklm_error *error)
{
    const uint64_t n_news = model->n_news;
    const vklm_status status = do_step(model, budget_ns, error);
    if (model->worker && model->n_news != n_news) vki_signal_raise(&model->changed);
    return status;
}

vklm_status vklm_model_step(vklm_model *model, uint64_t budget_ns, vklm_error *error)
{
    vki_error_clear(error);
    if (!model) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no model to step");
    vki_mutex_lock(&model->lock);
    return vki_unlock(model, vki_model_step(model, budget_ns, error));
}

vklm_status vki_model_sleep(vklm_model *model, uint64_t value, uint64_t timeout_ns, vklm_error *error)
{
    if (value <= model->queue.finished) return VKLM_OK;
    TRY(vki_device_usable(model->device, error));
    vki_mutex_unlock(&model->lock);
    const VkResult result = vki_queue_sleep(&model->queue, value, timeout_ns);
    vki_mutex_lock(&model->lock);
    TRY(vki_check(model->device, result, "vkWaitSemaphores", error));
    bool done;
    model->queue.awaited = value;
    return result == VK_SUCCESS ? vki_queue_wait(&model->queue, value, 0, error, &done) : VKLM_OK;
}

vklm_status vki_model_wait(vklm_model *model, uint64_t timeout_ns, vklm_error *error)
{
    return model->n_flights ? vki_model_sleep(model, model->flights[0].value, timeout_ns, error) : VKLM_OK;
}

vklm_status vklm_model_wait(vklm_model *model, uint64_t timeout_ns, vklm_error *error)
{
    vki_error_clear(error);
    if (!model) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no model to wait for");
    vki_mutex_lock(&model->lock);
    return vki_unlock(model, vki_model_wait(model, timeout_ns, error));
}
