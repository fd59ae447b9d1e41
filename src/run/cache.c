/* cache.c - the life of sessions' KV caches: pages shared by sessions that begin alike, caches dropped when asked
 * or when the device's memory is needed, and memory given back.
 *
 * The history is the truth: a cache that is gone is digested again. Pages of a session that generates are never
 * taken from it. What a session submitted last may still be running when it is idle (a step beyond the end): it
 * may write to pages that the session has left, because their next owner's work comes later on the same queue, but
 * not to pages that others share, hence vki_session_settle().
 */
#include "run/engine.h"

#include <string.h>

#include "base/checked.h"

enum { LEAST_BORROWED = 16 }; /* tokens: below this, digesting them is as quick as the copy of a page */

/* ---- Giving memory back ------------------------------------------------------------------------- */

void vki_cache_return(vklm_model *model)
{
    model->kv_loose = false;
    for (int i = 0; i < 2; i++) {
        vki_kv_pool *pool = &model->kv_pools[i];
        bool done;
        if (pool->slices.n_free == 0) continue;
        if (vki_queue_wait(&model->queue, pool->given_at, 0, NULL, &done) == VKLM_OK && done)
            vki_pool_shrink(&pool->slices);
        else model->kv_loose = true;
    }
}

static void drop(vklm_session *session)
{
    session->stats.n_cache_lost += session->n_cached > 0;
    session->n_cached = 0;
    vki_kv_trim(&session->kv, 0);
}

static vklm_status drop_cache(vklm_session *session, vklm_error *error)
{
    TRY(vki_history_check(session, 0, NULL, 0, error)); /* it is idle */
    vklm_session_destroy(&session->spare);
    drop(session);
    vklm_model *model = session->model;
    bool done;
    TRY(vki_queue_wait(&model->queue, model->queue.submitted, UINT64_MAX, error, &done));
    vki_cache_return(model);
    return VKLM_OK;
}

vklm_status vklm_session_drop_cache(vklm_session *session, vklm_error *error)
{
    vki_error_clear(error);
    if (!session) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no session");
    vki_mutex_lock(&session->model->lock);
    return vki_unlock(session->model, drop_cache(session, error));
}

/* ---- Under pressure ------------------------------------------------------------------------------ */

/* Whose cache goes next: the idle session's that was used longest ago, of those whose pages nobody else holds
 * if there is one. NULL: none may go. */
static vklm_session *choose_victim(const vklm_session *for_whom)
{
    vklm_session *victim = NULL;
    bool frees = false;
    for (vklm_session *s = for_whom->model->sessions; s; s = s->next) {
        if (s == for_whom || s->phase != VKI_IDLE || s->made_with.keep_cache || s->kv.n_pages == 0) continue;
        const bool s_frees = vki_kv_own_pages(&s->kv) > 0;
        if (victim && (frees > s_frees || (frees == s_frees && victim->used_ns <= s->used_ns))) continue;
        victim = s;
        frees = s_frees;
    }
    return victim;
}

/* Frees what can be freed next; false where nothing can. */
static bool make_room(vklm_session *session)
{
    vklm_model *model = session->model;
    vklm_session *victim = choose_victim(session);
    bool done, other_type = model->kv_pools[!session->kv_type].slices.n_free > 0;
    if (!other_type && !victim) return false;
    if (!other_type) {
        drop(victim);
        other_type = victim->kv_type != session->kv_type;
        vki_log(&model->device->host, VKLM_LOG_WARNING,
                "device memory is short: an idle session's KV cache was dropped, to be digested again when needed");
    }
    /* Pages of the other type are of use as the device's memory only. */
    if (!other_type) return true;
    if (vki_queue_wait(&model->queue, model->queue.submitted, UINT64_MAX, NULL, &done) != VKLM_OK) return false;
    vki_cache_return(model);
    return true;
}

static vklm_status refuse(const vklm_session *session, uint32_t n_positions, vklm_error *error)
{
    uint64_t others = 0;
    vklm_error found = {.text = ""};
    if (error) found = *error;
    const vki_kv *kv = &session->kv;
    for (const vklm_session *s = session->model->sessions; s; s = s->next)
        if (s != session) others += s->kv.n_pages * s->kv.pool->page_bytes;
    const uint64_t missing = (vki_kv_pages_of(n_positions) - vki_min(kv->n_pages, vki_kv_pages_of(n_positions))) *
                             kv->pool->page_bytes;
    return vki_fail(error, VKLM_OUT_OF_DEVICE_MEMORY,
                    "%s. %u tokens need %.4g MiB more: shorten this session's history, or drop the caches of other "
                    "sessions (vklm_session_drop_cache) or destroy some; they hold %.4g MiB",
                    found.text, n_positions, (double)missing / (1 << 20), (double)others / (1 << 20));
}

vklm_status vki_session_reserve(vklm_session *session, uint32_t n_positions, vklm_error *error)
{
    vklm_status status;
    do status = vki_kv_reserve(&session->kv, n_positions, error);
    while (status == VKLM_OUT_OF_DEVICE_MEMORY && make_room(session));
    if (status == VKLM_OUT_OF_DEVICE_MEMORY) return refuse(session, n_positions, error);
    if (status == VKLM_OK) vki_error_clear(error);
    return status;
}

/* ---- Sharing ------------------------------------------------------------------------------------- */

/* Makes the history the first n of another session's, with its pages as far as they go. */
static vklm_status take(vklm_session *session, vklm_session *from, size_t n, vklm_error *error)
{
    uint32_t n_shared = 0;
    TRY(vki_history_grow(session, n, error));
    if (n) memcpy(session->ids, from->ids, n * sizeof *from->ids);
    session->n_ids = n;
    session->n_cached = 0;
    const vklm_status status = vki_kv_share(&session->kv, &from->kv, (uint32_t)vki_min(n, from->n_cached), error,
                                            &n_shared);
    session->n_cached = n_shared;
    return status;
}

/* spare: one that never generates. */
static vklm_status fork_session(vklm_session *session, size_t n_tokens, bool spare, vklm_error *error,
                                vklm_session **session_out)
{
    if (n_tokens > session->n_ids)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "%zu tokens are more than the history's %zu", n_tokens,
                        session->n_ids);
    const size_t n = n_tokens ? n_tokens : session->n_ids;
    const vki_chat *chat = &session->chat;
    vklm_session *fork;
    TRY(vki_session_create(session->model, &session->made_with, !spare, error, &fork));
    vklm_status status = take(fork, session, n, error);
    if (status == VKLM_OK && chat->n && n >= chat->n_ids)
        status = vki_chat_copy(chat->messages, chat->n, &session->model->device->host, error, &fork->chat);
    if (status != VKLM_OK) {
        vklm_session_destroy(&fork);
        return status;
    }
    fork->chat.n_ids = fork->chat.n ? chat->n_ids : 0;
    fork->chat.n_dropped = fork->chat.n ? chat->n_dropped : 0;
    fork->used_ns = session->used_ns;
    *session_out = fork;
    return VKLM_OK;
}

vklm_status vklm_session_fork(vklm_session *session, size_t n_tokens, vklm_error *error, vklm_session **session_out)
{
    vki_error_clear(error);
    if (session_out) *session_out = NULL;
    if (!session || !session_out)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "a fork needs a session and a place to go");
    vki_mutex_lock(&session->model->lock);
    return vki_unlock(session->model, fork_session(session, n_tokens, false, error, session_out));
}

/* Keeps the cache as it is for the case that the history comes back: a reply that is written anew, and then taken
 * after all. Where it would be most of another conversation, or there is no memory, it is not kept. */
static void keep_replaced(vklm_session *session, const vklm_token *ids, size_t n)
{
    const size_t common = vki_cached_prefix(session, ids, n), lost = session->n_cached - common;
    if (!session->made_with.keep_replaced || lost < LEAST_BORROWED || lost > common) return;
    if (!session->spare && fork_session(session, session->n_cached, true, NULL, &session->spare) != VKLM_OK) return;
    session->spare->made_with.keep_cache = session->spare->made_with.keep_replaced = false;
    session->spare->used_ns = 0; /* goes first where memory is short */
    if (take(session->spare, session, session->n_cached, NULL) != VKLM_OK) vklm_session_destroy(&session->spare);
}

/* Gives a session the history of another, and its cache. */
static void move_history(vklm_session *to, const vklm_session *from)
{
    to->kv = from->kv;
    to->ids = from->ids;
    to->n_ids = from->n_ids;
    to->ids_capacity = from->ids_capacity;
    to->n_cached = from->n_cached;
}

/* Two sessions change places, but for what the caller made them with. */
static void swap(vklm_session *a, vklm_session *b)
{
    vklm_session was;
    move_history(&was, a);
    move_history(a, b);
    move_history(b, &was);
}

void vki_cache_borrow(vklm_session *session, const vklm_token *ids, size_t n)
{
    size_t most = vki_cached_prefix(session, ids, n) + LEAST_BORROWED - 1;
    vklm_session *from = NULL;
    for (vklm_session *s = session->model->sessions; s; s = s->next) {
        const bool may = s == session->spare || !(s->made_with.no_sharing || session->made_with.no_sharing);
        const size_t common = may && s != session && s->kv_type == session->kv_type ? vki_cached_prefix(s, ids, n) : 0;
        if (common <= most) continue;
        most = common;
        from = s;
    }
    if (!from) {
        keep_replaced(session, ids, n);
    } else {
        if (from == session->spare && vki_history_grow(from, n, NULL) == VKLM_OK) swap(session, from);
        else (void)take(session, from, most, NULL);
    }
}
