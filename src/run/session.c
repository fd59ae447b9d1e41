/* session.c - vklm_session: the history, which is the truth, and the beginning and the ends of a generation.
 *
 * ids[0 .. n_cached) are in the KV cache, the rest is pending. Changing the history only moves these two
 * numbers; the cache is digested again by the next generation.
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"
#include "base/os.h"

/* ---- Creation --------------------------------------------------------------------------------- */

vklm_status vki_session_read_params(vklm_session *session, const vklm_session_params *given, vklm_error *error,
                                    vklm_session_params *params)
{
    const vklm_model *model = session->model;
    TRY(vki_params(params, sizeof *params, given, "vklm_session_params", error));
    static const uint32_t default_context = 4096;
    const uint32_t trained = model->weights.hparams.context_length;
    session->context = params->context ? params->context : (uint32_t)vki_min(trained, default_context);
    session->chunk = params->chunk ? (uint32_t)vki_min(params->chunk, VKI_MAX_CHUNK) : VKI_MAX_CHUNK;
    session->kv_type = params->kv;
    session->ids_only = params->ids_only || !model->vocab;
    if (session->context > trained)
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "a context of %u is more than the model's %u tokens: ask for %u or fewer",
                        session->context, trained, trained);
    if (params->kv != VKLM_KV_F16 && params->kv != VKLM_KV_F32)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "kv is %d: neither VKLM_KV_F16 nor VKLM_KV_F32",
                        (int)params->kv);
    if ((unsigned)params->on_overflow > VKLM_OVERFLOW_CALLBACK ||
        (params->on_overflow == VKLM_OVERFLOW_CALLBACK && !params->overflow))
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "on_overflow is %d: no policy, or one without its callback",
                        (int)params->on_overflow);
    session->made_with = *params;
    session->made_with.struct_size = sizeof session->made_with;
    if (params->reserve == 0) session->made_with.reserve = session->context / 8;
    if (session->made_with.reserve >= session->context)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "a reserve of %u leaves nothing of a context of %u for a prompt",
                        params->reserve, session->context);
    return VKLM_OK;
}

vklm_status vki_session_take_memory(vklm_session *session, vklm_error *error)
{
    return vki_kv_init(&session->kv, &session->model->kv_pools[session->kv_type], session->context,
                       vki_sampling_bytes(session), error);
}

vklm_status vki_session_create(vklm_model *model, const vklm_session_params *params, bool batches, vklm_error *error,
                               vklm_session **session_out)
{
    TRY(vki_device_usable(model->device, error));
    vklm_session *session;
    TRY(vki_alloc(&model->device->host, 1, sizeof *session, error, &session));
    session->model = model;
    vklm_session_params own;
    vklm_status status = vki_session_read_params(session, params, error, &own);
    if (status == VKLM_OK)
        status = vki_model_prepare(model, own.kv == VKLM_KV_F32, batches, error);
    if (status == VKLM_OK) status = vki_session_take_memory(session, error);
    session->next = model->sessions;
    model->sessions = session;
    if (status != VKLM_OK) {
        vklm_session_destroy(&session);
        return status;
    }
    *session_out = session;
    return VKLM_OK;
}

vklm_status vklm_session_create(vklm_model *model, const vklm_session_params *params, vklm_error *error,
                                vklm_session **session_out)
{
    vki_error_clear(error);
    if (session_out) *session_out = NULL;
    if (!model || !session_out)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "a session needs a model and a place to go");
    vki_mutex_lock(&model->lock);
    return vki_unlock(model, vki_session_create(model, params, model->sessions != NULL, error, session_out));
}

/* Nothing more is done for it; see vki_job and vki_batch. */
void vki_session_leave(vklm_session *session)
{
    vklm_model *model = session->model;
    if (model->job.session == session) model->job.session = NULL;
    for (uint32_t r = 0; r < model->batch.n_rows; r++)
        if (model->batch.rows[r] == session) {
            model->batch.rows[r] = NULL;
            model->batch.broken = true;
        }
}

vklm_status vki_session_settle(vklm_session *session, vklm_error *error)
{
    vklm_model *model = session->model;
    return model->device->lost ? VKLM_OK : vki_model_sleep(model, session->busy_until, UINT64_MAX, error);
}

void vklm_session_destroy(vklm_session **handle)
{
    vklm_session *session = handle ? *handle : NULL;
    if (!session) return;
    vklm_model *model = session->model;
    const vki_host *host = &model->device->host;
    vki_mutex_lock(&model->lock);
    vklm_session_destroy(&session->spare);
    vki_session_leave(session); /* what drains no longer says whose it was; its kernels may still read our page table */
    session->phase = VKI_IDLE;
    (void)vki_session_settle(session, NULL);
    for (vklm_session **s = &model->sessions; *s; s = &(*s)->next)
        if (*s == session) {
            *s = session->next;
            break;
        }
    vki_kv_free(&session->kv);
    vki_buffer_destroy(model->device, &session->bias);
    vki_buffer_destroy(model->device, &session->token_counts);
    vki_chat_free(&session->chat, host);
    vki_sampler_free(&session->sampler);
    vki_stops_free(&session->stops);
    vki_release(host, &session->ids);
    vki_release(host, &session->events);
    vki_release(host, &session->text);
    vki_release(host, &session->taken_text);
    vki_release(host, &session->taken_logits);
    vki_release(host, handle);
    vki_cache_return(model);
    vki_mutex_unlock(&model->lock);
}

/* ---- History ---------------------------------------------------------------------------------- */

vklm_status vki_history_check(const vklm_session *session, size_t n_kept, const vklm_token *ids, size_t n,
                              vklm_error *error)
{
    if (session->phase != VKI_IDLE)
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "the session is generating: cancel and take its events until DONE first");
    if (n && !ids) return vki_fail(error, VKLM_INVALID_ARGUMENT, "%zu ids, but no pointer to them", n);
    if (n > session->context - n_kept)
        return vki_fail(error, VKLM_CONTEXT_FULL,
                        "%zu tokens do not fit the session's context of %u: shorten the history, or make a "
                        "session with a larger context (the model takes %u)",
                        n_kept + n, session->context, session->model->weights.hparams.context_length);
    for (size_t i = 0; i < n && !session->ids_only; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= session->model->weights.hparams.n_vocab)
            return vki_fail(error, VKLM_INVALID_ARGUMENT, "id %d at %zu is outside the vocabulary of %u", ids[i],
                            i, session->model->weights.hparams.n_vocab);
    return VKLM_OK;
}

vklm_status vki_history_grow(vklm_session *session, size_t n, vklm_error *error)
{
    return vki_grow(&session->model->device->host, n, sizeof *session->ids, error, &session->ids,
                    &session->ids_capacity);
}

size_t vki_cached_prefix(const vklm_session *session, const vklm_token *ids, size_t n)
{
    size_t common = 0;
    while (common < n && common < session->n_cached && session->ids[common] == ids[common]) common++;
    return common;
}

size_t vki_history_put(vklm_session *session, const vklm_token *ids, size_t n)
{
    const size_t common = vki_cached_prefix(session, ids, n);
    if (n) memmove(session->ids, ids, n * sizeof *ids);
    session->n_ids = n;
    session->n_cached = common;
    vki_kv_trim(&session->kv, (uint32_t)common);
    return common;
}

void vki_history_leave_last(vklm_session *session)
{
    if (session->n_cached == session->n_ids) vki_kv_trim(&session->kv, (uint32_t)--session->n_cached);
}

static vklm_status set_ids(vklm_session *session, const vklm_token *ids, size_t n, vklm_error *error,
                           size_t *n_reused_out)
{
    TRY(vki_session_settle(session, error)); /* a step that was ahead of the last token may still run */
    TRY(vki_history_check(session, 0, ids, n, error));
    TRY(vki_history_grow(session, n, error));
    vki_cache_borrow(session, ids, n);
    const size_t common = vki_history_put(session, ids, n);
    vki_chat_free(&session->chat, &session->model->device->host);
    session->n_untold_messages = session->n_untold_tokens = 0;
    if (n_reused_out) *n_reused_out = common;
    return VKLM_OK;
}

vklm_status vklm_session_set_ids(vklm_session *session, const vklm_token *ids, size_t n, vklm_error *error,
                                 size_t *n_reused_out)
{
    vki_error_clear(error);
    if (n_reused_out) *n_reused_out = 0;
    if (!session) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session");
    vki_mutex_lock(&session->model->lock);
    return vki_unlock(session->model, set_ids(session, ids, n, error, n_reused_out));
}

static vklm_status append_ids(vklm_session *session, const vklm_token *ids, size_t n, vklm_error *error)
{
    const uintptr_t at = (uintptr_t)ids - (uintptr_t)session->ids; /* ids may be some of the history, which moves */
    TRY(vki_history_check(session, session->n_ids, ids, n, error));
    TRY(vki_history_grow(session, session->n_ids + n, error));
    if (at < session->n_ids * sizeof *ids) ids = session->ids + at / sizeof *ids;
    if (n) memcpy(session->ids + session->n_ids, ids, n * sizeof *ids);
    session->n_ids += n;
    return VKLM_OK;
}

vklm_status vklm_session_append_ids(vklm_session *session, const vklm_token *ids, size_t n, vklm_error *error)
{
    vki_error_clear(error);
    if (!session) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session");
    vki_mutex_lock(&session->model->lock);
    return vki_unlock(session->model, append_ids(session, ids, n, error));
}

const vklm_token *vklm_session_ids(const vklm_session *session, size_t *n_out)
{
    *n_out = 0;
    if (!session) return NULL;
    vki_mutex_lock(&session->model->lock);
    const vklm_token *ids = session->ids;
    *n_out = session->n_ids;
    vki_mutex_unlock(&session->model->lock);
    return ids;
}

/* ---- Generation ------------------------------------------------------------------------------- */

/* Room for all that the generation may bring, so that nothing that a caller holds moves while it runs. */
static vklm_status reserve(vklm_session *session, const vklm_generate_params *params, vklm_error *error)
{
    const vki_host *host = &session->model->device->host;
    const size_t most = params->max_tokens ? session->n_ids + params->max_tokens : session->context;
    TRY(vki_grow(host, vki_min(most, session->context), sizeof *session->ids, error, &session->ids,
                 &session->ids_capacity));
    TRY(vki_grow(host, VKI_TEXT_ROOM(session->model->longest_text) + VKI_STOP_BYTES, 1, error, &session->taken_text,
                 &session->taken_capacity));
    if (!params->want_logits || session->taken_logits) return VKLM_OK;
    return vki_alloc(host, session->model->weights.hparams.n_vocab, sizeof *session->taken_logits, error,
                     &session->taken_logits);
}

/* Takes over what the parameters point to. */
static vklm_status take_params(vklm_session *session, vklm_generate_params *params, vklm_error *error)
{
    const vki_host *host = &session->model->device->host;
    const uint32_t n_vocab = session->model->weights.hparams.n_vocab;
    vklm_sampling sampling;
    TRY(vki_sampling_resolve(&params->sampling, &session->model->recommended, error, &sampling));
    if (params->n_stop && session->ids_only)
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "%zu stop strings, but the session has no text: stop at ids, or make it with text",
                        params->n_stop);
    TRY(vki_stops_start(&session->stops, host, params->stop, params->n_stop, params->stop_ids, params->n_stop_ids,
                        error));
    for (size_t i = 0; i < params->n_stop_ids && !session->ids_only; i++)
        if (params->stop_ids[i] < 0 || (uint32_t)params->stop_ids[i] >= n_vocab)
            return vki_fail(error, VKLM_INVALID_ARGUMENT, "stop id %zu is %d, outside the vocabulary of %u", i,
                            params->stop_ids[i], n_vocab);
    vki_sampler_start(&session->sampler, host, &sampling);
    TRY(vki_sampler_set_bias(&session->sampler, params->bias, params->n_bias, n_vocab, error));
    params->bias = NULL;
    params->stop = NULL;
    params->stop_ids = NULL;
    return VKLM_OK;
}

static vklm_status generate(vklm_session *session, const vklm_generate_params *params, vklm_error *error)
{
    vklm_generate_params own = *params;
    if (session->phase != VKI_IDLE)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "the session is generating already");
    if (session->n_ids == 0)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "the history is empty: set or append ids first");
    TRY(take_params(session, &own, error));
    TRY(reserve(session, &own, error));
    vki_history_leave_last(session);
    session->first_event = session->n_events = session->text_len = 0;
    if (session->n_untold_tokens)
        TRY(vki_session_event(session, &(vklm_event){.kind = VKLM_EVENT_DROPPED, .n_done = session->n_untold_messages,
                                                     .n_total = session->n_untold_tokens},
                              error));
    session->n_untold_messages = session->n_untold_tokens = 0;
    session->params = own;
    session->n_drawn = 0;
    session->drawn_from = session->n_ids;
    session->done = (vklm_event){.kind = VKLM_EVENT_NONE};
    session->pending_at_start = session->n_ids - session->n_cached;
    session->phase = VKI_PREFILL;
    session->phase_began_ns = 0;
    session->utf8 = (vki_utf8_stream){0};
    session->stats.n_prompt = (uint32_t)session->pending_at_start;
    session->stats.n_reused = (uint32_t)session->n_cached;
    session->stats.n_generated = 0;
    session->stats.prompt_ns = session->stats.generate_ns = 0;
    atomic_store_explicit(&session->cancelled, false, memory_order_relaxed);
    session->used_ns = vki_now_ns();
    vklm_status status = VKLM_OK;
    if (!own.prompt_only && session->n_ids >= session->context) status = vki_session_overflow(session, error);
    if (status != VKLM_OK) session->phase = VKI_IDLE;
    else if (session->phase != VKI_IDLE) session->phase_began_ns = session->used_ns;
    return status;
}

vklm_status vklm_session_generate(vklm_session *session, const vklm_generate_params *params, vklm_error *error)
{
    vki_error_clear(error);
    if (!session) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session");
    vklm_generate_params own;
    TRY(vki_params(&own, sizeof own, params, "vklm_generate_params", error));
    vki_mutex_lock(&session->model->lock);
    const vklm_status status = generate(session, &own, error);
    if (status == VKLM_OK) vki_signal_raise(&session->model->changed);
    vki_mutex_unlock(&session->model->lock);
    return status;
}

void vklm_session_cancel(vklm_session *session)
{
    if (session) atomic_store_explicit(&session->cancelled, true, memory_order_relaxed);
}

static void end(vklm_session *session, vklm_event done)
{
    vki_session_leave(session);
    session->phase = VKI_IDLE;
    session->used_ns = vki_now_ns();
    if (session->n_drawn == 0 && session->phase_began_ns)
        session->stats.prompt_ns = vki_now_ns() - session->phase_began_ns;
    session->done = done;
    session->done.kind = VKLM_EVENT_DONE;
    session->model->n_news++;
    session->done.text = session->done_text;
}

void vki_session_finish(vklm_session *session, vklm_done_reason reason)
{
    vki_stops *stops = &session->stops;
    memcpy(session->done_text, stops->held, stops->n_held);
    const size_t len = stops->n_held + vki_utf8_flush(&session->utf8, session->done_text + stops->n_held);
    stops->n_held = 0;
    end(session, (vklm_event){.reason = reason, .text_len = len});
}

/* At a stop string, behind which nothing counts, or at a stop id. */
static void stop_at(vklm_session *session, int32_t stop, vklm_token id)
{
    if (stop >= 0) session->utf8 = (vki_utf8_stream){0};
    vki_session_finish(session, VKLM_DONE_STOP);
    session->done.stop = stop;
    session->done.id = id;
}

void vki_session_fail(vklm_session *session, const vklm_error *failure)
{
    memcpy(session->done_text, failure->text, sizeof failure->text);
    end(session, (vklm_event){.reason = VKLM_DONE_ERROR, .status = failure->status,
                              .text_len = strlen(failure->text)});
}

/* Ends the prompt's time at the first token; the generation's runs from there to the last. */
static void note_time(vklm_session *session)
{
    const uint64_t now = vki_now_ns();
    if (session->n_drawn == 1) {
        session->stats.prompt_ns = now - session->phase_began_ns;
        session->phase_began_ns = now;
    } else {
        session->stats.generate_ns = now - session->phase_began_ns;
    }
    session->stats.n_generated = session->n_drawn;
}

vklm_status vki_session_accept(vklm_session *session, vklm_token id, vklm_error *error)
{
    const vklm_model *model = session->model;
    const bool known = id >= 0 && (uint32_t)id < model->weights.hparams.n_vocab;
    if (!known && !session->ids_only)
        return vki_fail(error, VKLM_DRIVER_ERROR,
                        "the device gave token %d, outside the vocabulary of %u: the driver computes wrongly, or "
                        "the model file holds weights that are not numbers",
                        id, model->weights.hparams.n_vocab);
    const bool in_vocab = known && model->vocab && (uint32_t)id < vklm_vocab_size(model->vocab);
    const bool stops = vki_stops_at(&session->stops, id);
    const bool ends = in_vocab && !session->params.ignore_end && vklm_token_is_end(model->vocab, id);
    vki_string text = {0};
    if (in_vocab && !session->ids_only && !ends && !stops) text = vki_vocab_token_text(model->vocab, id);
    TRY(vki_grow(&model->device->host, session->n_ids + 1, sizeof id, error, &session->ids, &session->ids_capacity));
    int32_t stop;
    TRY(vki_session_token_event(session, id, &text, error, &stop));
    session->ids[session->n_ids++] = id;
    session->n_drawn++;
    note_time(session);
    if (stop >= 0 || stops) stop_at(session, stop, id);
    else if (ends) vki_session_finish(session, VKLM_DONE_END);
    else if (session->params.max_tokens && session->n_drawn >= session->params.max_tokens)
        vki_session_finish(session, VKLM_DONE_LENGTH);
    else if (session->n_ids >= session->context)
        return vki_session_overflow(session, error);
    return VKLM_OK;
}

/* ---- Statistics ------------------------------------------------------------------------------- */

void vklm_session_get_stats(const vklm_session *session, vklm_session_stats *stats_out)
{
    *stats_out = (vklm_session_stats){0};
    if (!session) return;
    vki_mutex_lock(&session->model->lock);
    *stats_out = session->stats;
    stats_out->context_used = (uint32_t)session->n_ids;
    stats_out->context_size = session->context;
    const uint64_t page_bytes = session->kv.pool->page_bytes;
    stats_out->kv_bytes = session->kv.n_pages * page_bytes;
    stats_out->kv_shared_bytes = stats_out->kv_bytes - vki_kv_own_pages(&session->kv) * page_bytes;
    if (session->spare) stats_out->kv_bytes += vki_kv_own_pages(&session->spare->kv) * page_bytes;
    vki_mutex_unlock(&session->model->lock);
}
