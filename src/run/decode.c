/* decode.c - one token at a time for up to VKI_MAX_BATCH sessions: a step is recorded once per form and replayed by
 * one submit.
 *
 * Where the device draws (which it does unless somebody wants logits) the step's last kernel writes the tokens and moves the
 * rows' states on, so the host submits the next step before it has seen them. Otherwise the head writes logits into
 * host memory, the host draws and writes the states anew. A row's token is the same in every batch: the kernels
 * give it the bits it has alone, the number of its attention's splits included, which is by its own keys. A form
 * changes with the number of rows, the cache type and powers of two of the longest context (the splits).
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"

/* ---- Forms --------------------------------------------------------------------------------------- */

vklm_status vki_step_plan(vklm_model *model, const vki_step *step, vklm_error *error)
{
    const vki_hparams *h = &model->weights.hparams;
    const vki_pass pass = {
        .weights = &model->weights, .activations = &model->decode, .kernels = &model->kernels,
        .kv_f32 = step->kv_f32, .rows = step->rows, .n_out = step->rows, .keys = step->keys,
        .splits = vki_attention_splits(&model->kernels, step->keys),
    };
    const uint64_t parts = model->decode.partial;
    vki_span logits = vki_span_rows(model->logits, 0, step->rows);
    if (!step->on_device) logits.address = model->host_logits.address;
    vki_plan_clear(&model->plan);
    model->kernels.plan = &model->plan;
    if (model->rows_fit) {
        TRY(vki_forward_rows(&pass, error));
        TRY(vki_forward_rows_head(&pass, 0, logits, step->on_device ? parts : 0, error));
    } else {
        TRY(vki_forward_layers(&pass, error));
        TRY(vki_forward_head(&pass, 0, logits, error));
    }
    if (!step->on_device) return VKLM_OK;
    return vki_sample(&model->kernels,
                      &(vki_sample_args){.logits = logits, .n_vocab = h->n_vocab, .state = model->decode.state.address,
                                         .partial = parts, .has_parts = model->rows_fit, .ring = model->ring.address},
                      error);
}

/* The form's step into a recording that is not in flight, in units of about unit_cost; 0: in one. */
static vklm_status record_step(vklm_model *model, vki_decode_form *form, vki_recording *recording, uint64_t unit_cost,
                               vklm_error *error)
{
    const vki_step step = {form->rows, form->splits * model->kernels.tuning.split_keys, form->kv_f32, form->on_device};
    TRY(vki_step_plan(model, &step, error));
    form->cost = vki_plan_cost(&model->plan);
    if (!recording->device) {
        const vklm_status status = vki_recording_init(recording, model->device, error);
        if (status != VKLM_OK) {
            vki_recording_free(recording);
            return status;
        }
    }
    recording->work = VKI_WORK_STEP;
    return vki_record(recording, &model->plan, unit_cost, error);
}

/* A copy of the form's step that is not in flight. */
static vklm_status find_copy(vklm_model *model, vki_decode_form *form, vklm_error *error, uint32_t *copy)
{
    for (*copy = 0; *copy + 1 < VKI_MOST_AHEAD && form->values[*copy] > model->queue.finished; ++*copy) continue;
    vki_recording *recording = &form->copies[*copy];
    return recording->n_units > 0 ? VKLM_OK : record_step(model, form, recording, 0, error);
}

void vki_form_free(vki_decode_form *form)
{
    for (uint32_t i = 0; i < VKI_MOST_AHEAD; i++) vki_recording_free(&form->copies[i]);
    vki_recording_free(&form->sliced);
}

/* The form of the batch's next step, where the longest row sees so many keys. */
static vklm_status find_form(vklm_model *model, uint32_t keys, vklm_error *error, size_t *index)
{
    const vki_batch *batch = &model->batch;
    const vki_decode_form wanted = {.rows = batch->n_rows, .on_device = batch->on_device, .kv_f32 = batch->kv_f32,
                                    .splits = vki_attention_splits(&model->kernels, keys)};
    for (*index = 0; *index < model->n_forms; ++*index) {
        const vki_decode_form *form = &model->forms[*index];
        if (form->rows == wanted.rows && form->on_device == wanted.on_device && form->kv_f32 == wanted.kv_f32 &&
            form->splits == wanted.splits)
            return VKLM_OK;
    }
    TRY(vki_grow(&model->device->host, model->n_forms + 1, sizeof wanted, error, &model->forms,
                 &model->forms_capacity));
    vki_decode_form *form = &model->forms[model->n_forms++];
    *form = wanted;
    const vklm_status status = record_step(model, form, &form->copies[0], 0, error);
    if (status != VKLM_OK) vki_form_free(&model->forms[--model->n_forms]);
    return status;
}

/* ---- Who is in the batch --------------------------------------------------------------------------- */

/* A model whose steps take the long way has no kernels that give a row the same bits in every batch. */
static uint32_t most_rows(const vklm_model *model)
{
    return model->rows_fit ? VKI_MAX_BATCH : 1;
}

static bool fits_batch(const vki_batch *batch, const vklm_session *session)
{
    return batch->n_rows == 0 || (batch->on_device == vki_session_device_draws(session) &&
                                  batch->kv_f32 == (session->kv_type == VKLM_KV_F32));
}

bool vki_batch_has(const vklm_model *model, const vklm_session *session)
{
    for (uint32_t r = 0; r < model->batch.n_rows; r++)
        if (model->batch.rows[r] == session) return true;
    return false;
}

/* Whether the batch is to be composed anew: a session left, or another waits that could join, or whose turn it is. */
static bool is_due(const vklm_model *model)
{
    const vki_batch *batch = &model->batch;
    if (batch->n_rows == 0 || batch->broken) return true;
    if (batch->next_unit > 0) return false;
    for (const vklm_session *s = model->sessions; s; s = s->next) {
        if (s->phase != VKI_DECODE || vki_session_cancelled(s) || vki_batch_has(model, s)) continue;
        if (batch->steps_submitted >= VKI_TURN_STEPS) return true;
        if (batch->n_rows < most_rows(model) && fits_batch(batch, s)) return true;
    }
    return false;
}

/* Of those that are not in the batch and may join, the one that has waited longest; or else waited last: so those go
 * on that were left out a short while ago. */
static vklm_session *next_row(const vklm_model *model)
{
    vklm_session *next = NULL;
    for (vklm_session *s = model->sessions; s; s = s->next)
        if (s->phase == VKI_DECODE && !vki_session_cancelled(s) && s->turn < model->turn &&
            fits_batch(&model->batch, s) &&
            (!next || s->turn < next->turn || (s->turn == next->turn && s->missed > next->missed)))
            next = s;
    return next;
}

static vklm_status add_row(vklm_model *model, vklm_session *session, vklm_error *error)
{
    vki_batch *batch = &model->batch;
    session->turn = model->turn;
    uint64_t sampling;
    TRY(vki_rows_place(session, &model->decode, batch->n_rows, 1, error));
    batch->on_device = vki_session_device_draws(session);
    if (batch->on_device) {
        TRY(vki_session_sampling(session, error, &sampling));
        vki_state_sampling(&model->decode, batch->n_rows, sampling);
    }
    batch->kv_f32 = session->kv_type == VKLM_KV_F32;
    batch->rows[batch->n_rows++] = session;
    return VKLM_OK;
}

vklm_status vki_batch_begin(vklm_model *model, vklm_error *error)
{
    vki_batch *batch = &model->batch;
    if (batch->in_flight > 0 || !is_due(model)) return VKLM_OK;
    *batch = (vki_batch){.n_rows = 0};
    model->turn++;
    for (vklm_session *s; batch->n_rows < most_rows(model) && (s = next_row(model));) {
        model->blamed = s;
        TRY(add_row(model, s, error));
    }
    model->blamed = NULL;
    for (vklm_session *s = model->sessions; s; s = s->next)
        if (s->phase == VKI_DECODE && s->turn < model->turn) s->missed = model->turn;
    return VKLM_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------------- */

/* Whether every session will want the token of another step, and has a place for it. */
static bool all_want_step(const vki_batch *batch)
{
    const uint32_t ahead = batch->steps_submitted - batch->steps_taken;
    if (!batch->on_device && ahead > 0) return false;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const vklm_session *s = batch->rows[r];
        if (vki_session_cancelled(s) || s->n_ids + ahead >= s->context) return false;
        if (s->params.max_tokens && s->n_drawn + ahead >= s->params.max_tokens) return false;
    }
    return true;
}

static bool any_cancelled(const vki_batch *batch)
{
    for (uint32_t r = 0; r < batch->n_rows; r++)
        if (vki_session_cancelled(batch->rows[r])) return true;
    return false;
}

bool vki_batch_has_more(const vklm_model *model)
{
    const vki_batch *batch = &model->batch;
    if (batch->n_rows == 0 || batch->broken) return false;
    if (batch->next_unit > 0) return !any_cancelled(batch);
    return !is_due(model) && all_want_step(batch);
}

/* Pages for the tokens of the next step; *keys of the longest row. */
static vklm_status reserve_step(vklm_model *model, vklm_error *error, uint32_t *keys)
{
    vki_batch *batch = &model->batch;
    *keys = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        vklm_session *s = batch->rows[r];
        const uint32_t own = (uint32_t)s->n_ids + batch->steps_submitted - batch->steps_taken;
        model->blamed = s;
        TRY(vki_session_reserve(s, own, error));
        if (!batch->on_device && batch->steps_submitted > 0)
            TRY(vki_rows_place(s, &model->decode, r, 1, error)); /* the token that the host drew */
        *keys = (uint32_t)vki_max(*keys, own);
    }
    model->blamed = NULL;
    return VKLM_OK;
}

static vklm_status submit_units(vklm_model *model, const vki_unit *units, size_t count, bool ends, vklm_error *error)
{
    vki_batch *batch = &model->batch;
    TRY(vki_model_submit(model, units, count, true, ends, error));
    batch->in_flight++;
    if (ends) batch->steps_submitted++;
    for (uint32_t r = 0; r < batch->n_rows; r++) batch->rows[r]->busy_until = model->queue.submitted;
    return VKLM_OK;
}

/* More of the step that is submitted in slices. */
static vklm_status submit_slice(vklm_model *model, const vki_room *room, vklm_error *error, bool *submitted)
{
    vki_batch *batch = &model->batch;
    const vki_recording *sliced = &model->forms[batch->form].sliced;
    const size_t left = sliced->n_units - batch->next_unit;
    const vki_unit *units = &sliced->units[batch->next_unit];
    const size_t count = vki_room_fit(model, room, units, left);
    if (count == 0) return VKLM_OK;
    TRY(submit_units(model, units, count, count == left, error));
    batch->next_unit = count == left ? 0 : batch->next_unit + count;
    *submitted = true;
    return VKLM_OK;
}

vklm_status vki_batch_submit(vklm_model *model, const vki_room *room, vklm_error *error, bool *submitted)
{
    vki_batch *batch = &model->batch;
    uint32_t keys, copy;
    if (batch->next_unit > 0) return submit_slice(model, room, error, submitted);
    TRY(reserve_step(model, error, &keys));
    TRY(find_form(model, keys, error, &batch->form));
    vki_decode_form *form = &model->forms[batch->form];
    const double ns = vki_queue_ns(&model->queue, VKI_WORK_STEP, form->cost);
    if (ns > room->step_ns) {
        if (batch->in_flight > 0) return VKLM_OK; /* the slices of the step before */
        if (form->sliced.n_units == 0)
            TRY(record_step(model, form, &form->sliced, form->cost / VKI_CHUNK_UNITS + 1, error));
        return submit_slice(model, room, error, submitted);
    }
    if (ns > room->left_ns && !room->must) return VKLM_OK;
    TRY(find_copy(model, form, error, &copy));
    TRY(submit_units(model, form->copies[copy].units, form->copies[copy].n_units, true, error));
    form->values[copy] = model->queue.submitted;
    *submitted = true;
    return VKLM_OK;
}

/* ---- Tokens ---------------------------------------------------------------------------------------- */

/* What the step brought a session. */
static vklm_status take_row(vklm_model *model, vklm_session *session, uint32_t row, uint32_t slot, vklm_error *error)
{
    const uint32_t n = (uint32_t)session->pending_at_start;
    session->n_cached = session->n_ids;
    if (session->n_drawn == 0) /* it digested the prompt's last token */
        TRY(vki_session_event(session, &(vklm_event){.kind = VKLM_EVENT_PROGRESS, .n_done = n, .n_total = n}, error));
    if (model->batch.on_device) {
        uint32_t id;
        memcpy(&id, model->ring.mapped + ((size_t)slot * VKI_MAX_BATCH + row) * 4, sizeof id);
        return vki_session_accept(session, (vklm_token)id, error);
    }
    if (session->params.want_logits)
        TRY(vki_session_event(session,
                              &(vklm_event){.kind = VKLM_EVENT_LOGITS, .position = (uint32_t)session->n_ids - 1,
                                            .logits = vki_host_logits(model, false, row)},
                              error));
    return vki_draw(session, false, row, error);
}

/* A session that fails does not keep the others from their tokens. */
vklm_status vki_batch_take(vklm_model *model, bool ends, vklm_error *error)
{
    vki_batch *batch = &model->batch;
    vklm_status status = VKLM_OK;
    batch->in_flight--;
    if (!ends) return VKLM_OK;
    const uint32_t slot = batch->steps_taken++ % VKI_RING_STEPS;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        vklm_error failure;
        vklm_session *session = batch->rows[r];
        vki_error_clear(&failure);
        if (!session || take_row(model, session, r, slot, &failure) == VKLM_OK) continue;
        status = vki_fail(error, failure.status, "%s", failure.text);
        model->blamed = session;
        if (session->phase != VKI_IDLE) vki_session_fail(session, &failure);
    }
    return status;
}
