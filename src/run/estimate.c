/* estimate.c - how much memory a model and its sessions take, before they do.
 *
 * Nothing is computed twice: the code that takes device memory for a load and for a session runs on a device that
 * only counts (vki_measure_init), up to where weights would be read. A load measures itself in the same way first,
 * so that what does not fit is refused before anything is allocated.
 */
#include "run/engine.h"

#include <stdio.h>

#include "base/checked.h"

enum { MAX_SESSIONS = 4096 }; /* in an estimate */

/* Bytes of device memory; and of them in the heaps that weights come from. */
typedef struct need {
    uint64_t all, local;
} need;

/* A model without weights on a device that counts. */
typedef struct measure {
    vklm_device device;
    vklm_model model;
    vklm_session_params params;  /* of sessions: context and kv are set */
    uint32_t n_sessions;
    need weights, buffers, staging, sessions;
} measure;

static need used(const vklm_device *device)
{
    return (need){device->memory_used, vki_local_used(device)};
}

static need plus(need a, need b)
{
    return (need){a.all + b.all, a.local + b.local};
}

static need minus(need a, need b)
{
    return (need){a.all - b.all, a.local - b.local};
}

static need larger(need a, need b)
{
    return (need){vki_max(a.all, b.all), vki_max(a.local, b.local)};
}

/* What n sessions with full contexts take of a fresh pool. */
static vklm_status measure_sessions(measure *m, uint32_t n, uint32_t context, vklm_error *error, need *out)
{
    const need before = used(&m->device);
    vklm_session *sessions;
    TRY(vki_alloc(&m->device.host, n, sizeof *sessions, error, &sessions));
    vklm_status status = VKLM_OK;
    for (uint32_t i = 0; i < n && status == VKLM_OK; i++) {
        sessions[i] = (vklm_session){.model = &m->model, .context = context, .kv_type = m->params.kv};
        status = vki_session_take_memory(&sessions[i], error);
        if (status == VKLM_OK) status = vki_kv_reserve(&sessions[i].kv, context, error);
    }
    *out = minus(used(&m->device), before);
    for (uint32_t i = 0; i < n; i++) vki_kv_free(&sessions[i].kv);
    vki_release(&m->device.host, &sessions);
    vki_model_make_kv_pools(&m->model); /* with their blocks */
    return status;
}

static vklm_status measure_staging(measure *m, vklm_error *error)
{
    vki_buffer staging;
    if (!vki_uploads_are_staged(&m->device)) return VKLM_OK;
    const need before = used(&m->device);
    TRY(vki_buffer_create(&m->device, VKI_MEMORY_STAGING, VKI_UPLOAD_BYTES, "the staging buffer", error, &staging));
    m->staging = minus(used(&m->device), before);
    vki_buffer_destroy(&m->device, &staging);
    return VKLM_OK;
}

static vklm_status measure_all(measure *m, const vklm_device *device, const vki_gguf *gguf,
                               const vklm_session_params *session, uint32_t n_sessions, vklm_error *error)
{
    vki_measure_init(&m->device, device);
    m->model.device = &m->device;
    m->n_sessions = n_sessions;
    TRY(vki_weights_load(&m->model.weights, &m->device, gguf, NULL, error));
    m->weights = used(&m->device);
    TRY(vki_model_take_memory(&m->model, error));
    m->buffers = minus(used(&m->device), m->weights);
    TRY(measure_staging(m, error));
    vklm_session checked = {.model = &m->model};
    TRY(vki_session_read_params(&checked, session, error, &m->params));
    m->params.context = checked.context;
    return measure_sessions(m, n_sessions, m->params.context, error, &m->sessions);
}

static void measure_free(measure *m)
{
    if (m->model.device) vki_model_give_memory(&m->model);
}

static need fixed_need(const measure *m)
{
    return plus(m->weights, m->buffers);
}

/* At the load's end or with all sessions full, whichever is more. */
static need most_need(const measure *m)
{
    return plus(fixed_need(m), larger(m->staging, m->sessions));
}

/* What may still be taken. */
static need room_of(const vklm_device *device)
{
    vklm_memory memory;
    vklm_device_get_memory(device, &memory);
    const uint64_t budget = memory.budget_bytes, left = vki_max(budget, memory.used_bytes) - memory.used_bytes;
    return (need){budget ? left : UINT64_MAX, memory.free_bytes};
}

static bool fits(need wanted, need room)
{
    return wanted.all <= room.all && wanted.local <= room.local;
}

/* The largest context with which n sessions fit beside the model; 0: none. */
static vklm_status find_context(measure *m, uint32_t n, need room, vklm_error *error, uint32_t *context)
{
    const vki_hparams *h = &m->model.weights.hparams;
    const uint32_t trained = h->context_length;
    uint64_t low = 0, high = vki_div_up(trained, VKI_KV_PAGE_KEYS); /* in pages; low fits */
    /* No more than there would be room for without the model. */
    high = vki_min(high, vki_min(room.all, room.local) / vki_kv_page_bytes(h, m->params.kv == VKLM_KV_F32) / n);
    *context = 0;
    if (!fits(plus(fixed_need(m), m->staging), room)) return VKLM_OK;
    while (low < high) {
        const uint64_t pages = high - (high - low) / 2;
        need sessions;
        TRY(measure_sessions(m, n, (uint32_t)vki_min(pages * VKI_KV_PAGE_KEYS, trained), error, &sessions));
        if (fits(plus(fixed_need(m), sessions), room)) low = pages;
        else high = pages - 1;
    }
    *context = (uint32_t)vki_min(low * VKI_KV_PAGE_KEYS, trained);
    return VKLM_OK;
}

static double mebibytes(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* What is short, and what would help. */
static vklm_status refuse(measure *m, const vklm_device *device, const vki_gguf *gguf, need room, vklm_error *error)
{
    const need wanted = most_need(m);
    char help[160] = "choose a smaller model or quantisation", short_of[200];
    uint32_t context;
    TRY(find_context(m, m->n_sessions, room, error, &context));
    if (context > 0) snprintf(help, sizeof help, "it fits with a context of %u", context);
    if (wanted.all > room.all)
        snprintf(short_of, sizeof short_of,
                 "memory_budget_bytes is %.1f MiB, of which %.1f are used: raise it to %.1f",
                 mebibytes(device->memory_budget), mebibytes(device->memory_used),
                 mebibytes(device->memory_used + wanted.all) + 0.05);
    else
        snprintf(short_of, sizeof short_of, "%.80s has %.1f MiB free: free %.1f more", device->info.name,
                 mebibytes(room.local), mebibytes(wanted.local - room.local) + 0.05);
    return vki_fail(error, VKLM_OUT_OF_DEVICE_MEMORY,
                    "%s needs %.1f MiB of device memory: %.1f for weights, %.1f for buffers, %.1f to load, %.1f for "
                    "%u session%s of %u tokens. %s, or %s",
                    gguf->path, mebibytes(wanted.all), mebibytes(m->weights.all), mebibytes(m->buffers.all),
                    mebibytes(m->staging.all), mebibytes(m->sessions.all), m->n_sessions, m->n_sessions > 1 ? "s" : "",
                    m->params.context, short_of, help);
}

vklm_status vki_model_check_room(const vklm_device *device, const vki_gguf *gguf, const vklm_model_params *params,
                                 vklm_error *error)
{
    measure *m;
    TRY(vki_alloc(&device->host, 1, sizeof *m, error, &m));
    const need room = room_of(device);
    const uint32_t n = (uint32_t)vki_min(vki_max(params->n_expected, 1), MAX_SESSIONS);
    const vklm_session_params page = {.struct_size = sizeof page, .context = 1};
    vklm_status status = measure_all(m, device, gguf, params->expected ? params->expected : &page, n, error);
    if (!params->expected)
        m->params.context = (uint32_t)vki_min(VKI_KV_PAGE_KEYS, m->model.weights.hparams.context_length);
    if (status == VKLM_OK && !fits(most_need(m), room)) status = refuse(m, device, gguf, room, error);
    measure_free(m);
    vki_release(&device->host, &m);
    return status;
}

/* Before the tensors' data lies what tables and vocabulary are made from: three times as much as it in all, at
 * most. Little else grows with the model. */
static uint64_t host_bytes(const measure *m, const vki_gguf *gguf)
{
    enum { PLANS_AND_FORMS = 4 << 20 };
    const uint64_t keys = gguf->n_tensors ? gguf->tensors[0].offset : gguf->file_bytes;
    const bool read = gguf->sources[0].bytes == NULL;
    return 3 * keys + gguf->header_bytes + gguf->n_tensors * 1024 + PLANS_AND_FORMS +
           vki_weights_host_bytes(&m->model.weights.hparams, read);
}

static vklm_status estimate(measure *m, vklm_device *device, const vki_gguf *gguf, vklm_error *error,
                            vklm_estimate *out)
{
    need one = m->sessions;
    if (m->n_sessions != 1) TRY(measure_sessions(m, 1, m->params.context, error, &one));
    const vki_hparams *h = &m->model.weights.hparams;
    const need total = plus(fixed_need(m), m->sessions), room = device ? room_of(device) : (need){0};
    *out = (vklm_estimate){
        .weight_bytes = m->weights.all, .buffer_bytes = m->buffers.all, .kv_bytes = one.all,
        .kv_token_bytes = vki_kv_page_bytes(h, m->params.kv) / VKI_KV_PAGE_KEYS,
        .total_bytes = total.all, .load_bytes = plus(fixed_need(m), m->staging).all,
        .host_bytes = host_bytes(m, gguf), .free_bytes = vki_min(room.all, room.local),
        .fits = !device || fits(most_need(m), room),
        .context = m->params.context, .largest_context = h->context_length,
    };
    return device ? find_context(m, m->n_sessions ? m->n_sessions : 1, room, error, &out->largest_context) : VKLM_OK;
}

vklm_status vklm_model_estimate(vklm_device *device, const vklm_model_params *model,
                                const vklm_session_params *session, uint32_t n_sessions, vklm_error *error,
                                vklm_estimate *estimate_out)
{
    vki_error_clear(error);
    if (!estimate_out) return vki_fail(error, VKLM_INVALID_ARGUMENT, "an estimate needs a place to go");
    *estimate_out = (vklm_estimate){0};
    if (n_sessions > MAX_SESSIONS)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "%u sessions are more than %d", n_sessions, MAX_SESSIONS);
    vklm_model_params own;
    vki_input input;
    TRY(vki_model_params(model, error, &own, &input));
    vki_host host;
    vki_host_init(&host, device ? &device->host.allocator : NULL, NULL);
    vki_gguf gguf;
    TRY(vki_gguf_open(&gguf, &host, &input, error));
    measure *m;
    vklm_status status = vki_alloc(&host, 1, sizeof *m, error, &m);
    if (status == VKLM_OK) {
        status = measure_all(m, device, &gguf, session, n_sessions, error);
        if (status == VKLM_OK) status = estimate(m, device, &gguf, error, estimate_out);
        measure_free(m);
    }
    if (status != VKLM_OK) *estimate_out = (vklm_estimate){0};
    vki_release(&host, &m);
    vki_gguf_close(&gguf);
    return status;
}
