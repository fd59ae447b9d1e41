/* load.c - vklm_model: file to device, pipelines, the buffers that all its sessions share. */
#include "run/engine.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/os.h"

enum { DEFAULT_THREADS = 8 }; /* at most: more are waited for, not needed */

/* Activations of a prefill chunk may take so much device memory: wide models get shorter chunks. */
static const uint64_t activation_budget = 40 << 20;

static uint32_t choose_chunk_rows(const vki_hparams *hparams, uint64_t max_block_bytes)
{
    const uint64_t fit = vki_min(activation_budget, max_block_bytes) / vki_activation_row_bytes(hparams);
    return (uint32_t)vki_max(8, vki_min(VKI_MAX_CHUNK, fit & ~7ull));
}

/* A pass of so many rows, planned and thrown away: each count selects kernels of its own. */
static vklm_status plan_prompt(vklm_model *model, uint32_t rows, bool kv_f32, vklm_error *error)
{
    const vki_chunk chunk = {kv_f32, 0, rows, rows};
    TRY(vki_chunk_plan(model, &chunk, error));
    return vki_logits_plan(model, &chunk, 0, (uint32_t)vki_min(rows, VKI_LOGIT_ROWS), true, error);
}

/* A long prompt, of which one row goes through the end of the last layer; and every group of rows' logits. */
static vklm_status plan_long_prompt(vklm_model *model, bool kv_f32, vklm_error *error)
{
    const vki_chunk chunk = {kv_f32, 0, model->chunk_rows, 1};
    TRY(vki_chunk_plan(model, &chunk, error));
    for (uint32_t rows = 1; rows <= VKI_LOGIT_ROWS; rows++)
        TRY(vki_logits_plan(model, &chunk, 0, rows, true, error));
    return VKLM_OK;
}

/* Every form that chunks, groups of logits and decode steps can have. What kernels choose by the number of rows
 * changes among the few that logits groups have, and at or beside powers of two. Long chunks come first: their
 * kernels take compilers longest, and are better not the last that a thread begins. */
static vklm_status plan_all(vklm_model *model, bool kv_f32, bool batches, vklm_error *error)
{
    TRY(plan_prompt(model, model->chunk_rows, kv_f32, error));
    TRY(plan_long_prompt(model, kv_f32, error));
    for (uint32_t rows = batches && model->rows_fit ? VKI_MAX_BATCH : 1; rows > 0; rows /= 2)
        for (uint32_t form = 0; form < 4; form++) {
            const uint32_t keys = (form & 1 ? VKI_MAX_SPLITS : 1) * model->kernels.tuning.split_keys;
            TRY(vki_step_plan(model, &(vki_step){rows, keys, kv_f32, form / 2}, error));
        }
    for (uint32_t rows = VKI_LOGIT_ROWS; rows < model->chunk_rows; rows *= 2)
        for (uint32_t more = 0; more < 2; more++) TRY(plan_prompt(model, rows + more, kv_f32, error));
    for (uint32_t rows = 1; rows <= VKI_LOGIT_ROWS; rows++) TRY(plan_prompt(model, rows, kv_f32, error));
    return VKLM_OK;
}

/* Has `threads` threads make in the background what is missing. */
static vklm_status start_pipelines(vklm_model *model, bool kv_f32, bool batches, vklm_error *error)
{
    vki_pipelines_note(&model->pipelines);
    const vklm_status status = plan_all(model, kv_f32, batches, error);
    vki_pipelines_start(&model->pipelines, status == VKLM_OK ? model->threads - 1 : 0);
    return status;
}

vklm_status vki_model_prepare(vklm_model *model, bool kv_f32, bool batches, vklm_error *error)
{
    if (model->ready[kv_f32] > batches) return VKLM_OK;
    TRY(start_pipelines(model, kv_f32, batches, error));
    TRY(vki_pipelines_finish(&model->pipelines, error));
    model->ready[kv_f32] = 1 + batches;
    return VKLM_OK;
}

/* A count where files write 0 or less for none or all: *count is then 0 or -1. */
static vklm_status read_count(const vki_gguf *gguf, const char *key, vklm_error *error, int32_t *count, bool *found)
{
    const vki_gguf_value *value = vki_gguf_find(gguf, key);
    *found = value != NULL;
    *count = -1;
    if (value && !value->is_array && vki_gguf_int_at(value, 0) < 0) return VKLM_OK;
    uint64_t wide = 0;
    TRY(vki_gguf_u64(gguf, key, INT32_MAX, error, &wide, NULL));
    *count = (int32_t)wide;
    return VKLM_OK;
}

/* What general.sampling.* recommends. A value of 0 there means off where the library's 0 means default. */
static vklm_status read_recommended(const vki_gguf *gguf, vklm_error *error, vklm_sampling *sampling)
{
    bool found;
    float value = 0;
    int32_t count;
    TRY(vki_gguf_f32(gguf, "general.sampling.temp", error, &value, &found));
    if (found) sampling->temperature = value > 0 ? value : -1;
    TRY(read_count(gguf, "general.sampling.top_k", error, &count, &found));
    if (found) sampling->top_k = count > 0 ? count : -1;
    TRY(vki_gguf_f32(gguf, "general.sampling.top_p", error, &sampling->top_p, NULL));
    TRY(vki_gguf_f32(gguf, "general.sampling.min_p", error, &value, &found));
    if (found) sampling->min_p = value > 0 ? value : -1;
    TRY(vki_gguf_f32(gguf, "general.sampling.penalty_repeat", error, &sampling->repeat_penalty, NULL));
    TRY(read_count(gguf, "general.sampling.penalty_last_n", error, &count, &found));
    if (found) sampling->repeat_last_n = count;
    if (found && count == 0) sampling->repeat_penalty = 1; /* over no tokens */
    return VKLM_OK;
}

/* An unknown tokenizer is no reason to refuse the weights: ids still work. */
static vklm_status read_vocab(vklm_model *model, const vki_gguf *gguf, vklm_error *error)
{
    const vki_host *host = &model->device->host;
    vklm_error why = {0};
    const vklm_status status = vki_vocab_create(gguf, host, &why, &model->vocab);
    if (status != VKLM_OK && status != VKLM_UNSUPPORTED) return vki_fail(error, status, "%s", why.text);
    if (!model->vocab) {
        snprintf(model->no_vocab, sizeof model->no_vocab, "%s",
                 status == VKLM_OK ? "the file has no tokenizer" : why.text);
        vki_log(host, VKLM_LOG_WARNING, "no text, only ids: %s", model->no_vocab);
    }
    for (uint32_t id = 0; model->vocab && id < vklm_vocab_size(model->vocab); id++)
        model->longest_text = vki_max(model->longest_text, vki_vocab_token_text(model->vocab, (vklm_token)id).len);
    return VKLM_OK;
}

void vki_model_make_kv_pools(vklm_model *model)
{
    for (uint32_t kv = 0; kv < 2; kv++) {
        vki_kv_pool_free(&model->kv_pools[kv]);
        vki_kv_pool_init(&model->kv_pools[kv], model->device, &model->queue,
                         vki_kv_page_bytes(&model->weights.hparams, kv == VKLM_KV_F32));
    }
}

vklm_status vki_model_take_memory(vklm_model *model, vklm_error *error)
{
    vklm_device *device = model->device;
    const vki_hparams *h = &model->weights.hparams;
    model->chunk_rows = choose_chunk_rows(h, device->limits.max_block_bytes);
    TRY(vki_activations_init(&model->prefill, device, h, model->chunk_rows, 1, error));
    TRY(vki_activations_init(&model->decode, device, h, VKI_BATCH_ROWS, VKI_MAX_SPLITS, error));
    const uint32_t stride = (uint32_t)vki_round_up(h->n_vocab, 32);
    const uint64_t logits_bytes = (uint64_t)(VKI_MAX_BATCH + 1) * stride * 4;
    vki_slice slice;
    vki_pool_init(&model->logits_pool, device, "the logits", logits_bytes);
    TRY(vki_pool_take(&model->logits_pool, logits_bytes, error, &slice));
    model->logits = (vki_span){slice.address, VKI_MAX_BATCH + 1, stride};
    TRY(vki_buffer_create(device, VKI_MEMORY_READBACK, (uint64_t)(VKI_MAX_BATCH + VKI_LOGIT_ROWS) * stride * 4,
                          "the logits for the host", error, &model->host_logits));
    TRY(vki_buffer_create(device, VKI_MEMORY_READBACK, 2 * VKI_RING_STEPS * VKI_MAX_BATCH * 4,
                          "the token ring", error, &model->ring));
    vki_model_make_kv_pools(model);
    return VKLM_OK;
}

void vki_model_give_memory(vklm_model *model)
{
    vki_activations_free(&model->prefill);
    vki_activations_free(&model->decode);
    vki_buffer_destroy(model->device, &model->host_logits);
    vki_buffer_destroy(model->device, &model->ring);
    vki_pool_free(&model->logits_pool);
    vki_kv_pool_free(&model->kv_pools[0]);
    vki_kv_pool_free(&model->kv_pools[1]);
    vki_weights_free(&model->weights);
}

typedef struct load_state {
    vklm_model *model;
    const vklm_model_params *params;
    vki_input input;
    vki_gguf gguf;
    uint64_t began_ns, placed_ns, uploaded_ns;
} load_state;

/* Weights are the first nine tenths of the progress, pipelines that take longer the last. */
static bool report_weights(void *user, double fraction)
{
    const load_state *l = user;
    return !l->params->progress || l->params->progress(l->params->progress_user, 0.9 * fraction);
}

/* The weights' addresses are known: from here on pipelines are made while vocabulary and weights are read. */
static vklm_status begin_pipelines(void *user, vklm_error *error)
{
    load_state *l = user;
    vklm_model *model = l->model;
    model->rows_fit = vki_forward_rows_fits(&model->weights, &model->kernels);
    TRY(vki_model_take_memory(model, error));
    TRY(vki_recording_init(&model->recording, model->device, error));
    TRY(vki_queue_init(&model->queue, model->device, error));
    TRY(start_pipelines(model, false, l->params->n_expected > 1, error));
    model->ready[false] = 1 + (l->params->n_expected > 1);
    TRY(read_vocab(model, &l->gguf, error));
    TRY(read_recommended(&l->gguf, error, &model->recommended));
    TRY(vki_model_fingerprint(model, &l->gguf, error));
    l->placed_ns = vki_now_ns();
    return VKLM_OK;
}

static vklm_status finish_pipelines(load_state *l, vklm_error *error)
{
    vki_pipelines *pipelines = &l->model->pipelines;
    double fraction = 0.9;
    bool more = true, go_on = true;
    for (; more && go_on; fraction += (1 - fraction) / 8) {
        more = vki_pipelines_work(pipelines);
        if (l->params->progress) go_on = l->params->progress(l->params->progress_user, more ? fraction : 1);
    }
    if (!go_on) return vki_fail(error, VKLM_CANCELLED, "loading was cancelled while pipelines were made");
    return vki_pipelines_finish(pipelines, error);
}

static void log_load(const load_state *l)
{
    const uint64_t now = vki_now_ns();
    vki_log(&l->model->device->host, VKLM_LOG_INFO,
            "loaded in %.3f s by %u threads: file, plans and vocabulary %.3f s, weights %.3f s, then %.3f s more for "
            "%zu pipelines",
            (double)(now - l->began_ns) * 1e-9, l->model->threads, (double)(l->placed_ns - l->began_ns) * 1e-9,
            (double)(l->uploaded_ns - l->placed_ns) * 1e-9, (double)(now - l->uploaded_ns) * 1e-9,
            l->model->pipelines.n_items);
}

static vklm_status load(load_state *l, vklm_error *error)
{
    vklm_model *model = l->model;
    const vki_load_params params = {.report = report_weights, .placed = begin_pipelines, .user = l,
                                    .threads = model->threads};
    TRY(vki_gguf_open(&l->gguf, &model->device->host, &l->input, error));
    vklm_status status = vki_model_check_room(model->device, &l->gguf, l->params, error);
    if (status == VKLM_OK) status = vki_weights_load(&model->weights, model->device, &l->gguf, &params, error);
    vki_gguf_close(&l->gguf);
    if (status != VKLM_OK) return status;
    l->uploaded_ns = vki_now_ns();
    TRY(finish_pipelines(l, error));
    log_load(l);
    return VKLM_OK;
}

vklm_status vki_model_params(const vklm_model_params *params, vklm_error *error, vklm_model_params *own, vki_input *input)
{
    TRY(vki_params(own, sizeof *own, params, "vklm_model_params", error));
    *input = (vki_input){own->path, own->sources, own->n_sources};
    if (own->precision != VKLM_PRECISION_DEFAULT && own->precision != VKLM_PRECISION_HIGH)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "precision is %d: neither DEFAULT nor HIGH", (int)own->precision);
    return vki_input_check(input, "a model", error);
}

vklm_status vklm_model_load(vklm_device *device, const vklm_model_params *params, vklm_error *error,
                            vklm_model **model_out)
{
    vki_error_clear(error);
    if (model_out) *model_out = NULL;
    vklm_model_params own;
    vki_input input;
    if (!device || !model_out)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "a model needs a device and a place to go");
    TRY(vki_model_params(params, error, &own, &input));
    TRY(vki_device_usable(device, error));
    vklm_model *model;
    TRY(vki_alloc(&device->host, 1, sizeof *model, error, &model));
    model->device = device;
    model->threads = own.threads ? own.threads : (uint32_t)vki_min(vki_core_count(), DEFAULT_THREADS);
    if (model->threads > VKI_MAX_THREADS) model->threads = VKI_MAX_THREADS;
    vki_plan_init(&model->plan, &device->host);
    vki_pipelines_init(&model->pipelines, device);
    vki_kernels_init(&model->kernels, &model->pipelines, &device->limits, own.precision == VKLM_PRECISION_HIGH);
    vklm_status status = vki_mutex_init(&model->lock, error);
    if (status == VKLM_OK) status = vki_signal_init(&model->changed, error);
    if (status == VKLM_OK)
        status = load(&(load_state){.model = model, .params = &own, .input = input, .began_ns = vki_now_ns()}, error);
    if (status != VKLM_OK) {
        vklm_model_destroy(&model);
        return status;
    }
    *model_out = model;
    return VKLM_OK;
}

void vklm_model_destroy(vklm_model **handle)
{
    vklm_model *model = handle ? *handle : NULL;
    if (!model) return;
    const vki_host *host = &model->device->host;
    vki_queue_free(&model->queue); /* waits for what is in flight */
    for (size_t f = 0; f < model->n_forms; f++) vki_form_free(&model->forms[f]);
    vki_release(host, &model->forms);
    vki_recording_free(&model->recording);
    vki_plan_free(&model->plan);
    vki_pipelines_free(&model->pipelines);
    vki_model_give_memory(model);
    vklm_vocab_destroy(&model->vocab);
    vki_signal_free(&model->changed);
    vki_mutex_free(&model->lock);
    vki_release(host, handle);
}

void vklm_model_get_info(const vklm_model *model, vklm_model_info *info_out)
{
    *info_out = model->weights.info;
    info_out->no_vocab = model->no_vocab;
}

const vklm_vocab *vklm_model_vocab(const vklm_model *model)
{
    return model->vocab;
}
