/* attention.c - rotary positions with the KV store, and attention over the cache.
 *
 * The cache of a layer has no fixed address (pages come and go, sequences differ), so its writes and
 * reads are ordered through one virtual range per layer.
 */
#include "kernel/kernels_internal.h"

#include <assert.h>

enum { CACHE_ROWS = 1 << 24 }; /* more than any product has */

vki_heads vki_heads_of(uint32_t n_head, uint32_t n_head_kv, uint32_t d_head, bool kv_f32)
{
    vki_heads heads = {.n_head = n_head, .n_head_kv = n_head_kv, .d_head = d_head,
                       .pad = (uint32_t)vki_round_up(d_head, 8), .kv_f32 = kv_f32};
    heads.layer_bytes = 2 * n_head_kv * VKI_KV_PAGE_KEYS * heads.pad * (kv_f32 ? 4 : 2);
    return heads;
}

vki_range vki_cache_range(uint32_t layer)
{
    return vki_cache_rows_range(layer, 0, CACHE_ROWS);
}

vki_range vki_cache_rows_range(uint32_t layer, uint32_t first, uint32_t rows)
{
    return vki_range_of(VKI_VIRTUAL_RANGE + (uint64_t)layer * CACHE_ROWS + first, rows);
}

vklm_status vki_rope(vki_kernels *kernels, const vki_rope_args *args, vklm_error *error)
{
    const vki_heads *h = &args->heads;
    const uint32_t local = kernels->tuning.subgroup ? kernels->tuning.subgroup : kernels->tuning.row_local;
    const uint32_t spec[] = {local, vki_one_subgroup(kernels, local), h->d_head, h->pad, h->kv_f32};
    const uint32_t rows = args->qkv.rows;
    vki_dispatch dispatch = {
        .name = "rope",
        .grid = {h->n_head + 2 * h->n_head_kv, rows, 1},
        .n_reads = 2,
        .reads = {vki_span_range(args->qkv), vki_range_of(args->state, (uint64_t)rows * VKI_ROW_STATE_BYTES)},
        .n_writes = 2,
        .writes = {vki_cache_range(kernels->layer), vki_span_range(args->q)},
        .cost_bytes = (uint64_t)rows * (h->n_head + 2 * h->n_head_kv) * h->d_head * 8,
    };
    const struct rope_push push = {
        .qkv = args->qkv.address, .q = args->q.address, .state = args->state, .table = args->table,
        .q_norm = args->q_norm, .k_norm = args->k_norm,
        .n_head = h->n_head, .n_head_kv = h->n_head_kv, .first_q_row = args->first_q_row,
        .qkv_stride = args->qkv.stride, .q_stride = args->q.stride, .n_rot = args->n_rot,
        .page_layer = kernels->layer * h->layer_bytes, .epsilon = args->epsilon, .q_scale = args->q_scale,
    };
    TRY(vki_find_pipeline(kernels, "rope", spec, 5, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}

uint64_t vki_attention_scratch(const vki_heads *heads, uint32_t rows, uint32_t splits)
{
    return splits == 1 ? 0 : (uint64_t)rows * heads->n_head * splits * (heads->d_head + 2) * 4;
}

uint32_t vki_attention_splits(const vki_kernels *kernels, uint32_t keys)
{
    uint32_t splits = 1;
    while (splits < VKI_MAX_SPLITS && splits * kernels->tuning.split_keys < keys) splits *= 2;
    return splits;
}

static vki_range out_range(const vki_attention_args *args)
{
    return args->next.address ? vki_operand_range(args->next) : vki_span_range(args->out);
}

static uint32_t out_stride(const vki_attention_args *args)
{
    return args->next.address ? args->next.width : args->out.stride;
}

static vklm_status merge_splits(vki_kernels *kernels, const vki_attention_args *args, vki_range partial,
                                vklm_error *error)
{
    const vki_heads *h = &args->heads;
    const uint32_t spec[] = {kernels->tuning.row_local, h->d_head, args->next.form};
    vki_dispatch dispatch = {
        .name = "attention_merge",
        .grid = {h->n_head, args->q.rows, 1},
        .n_reads = 2,
        .reads = {partial, vki_range_of(args->state, (uint64_t)args->q.rows * VKI_ROW_STATE_BYTES)},
        .n_writes = 1, .writes = {out_range(args)},
        .cost_bytes = partial.end - partial.begin,
    };
    const struct attention_merge_push push = {
        .partial = args->partial, .out_ = args->next.address ? args->next.address : args->out.address,
        .state = args->state, .rows = args->q.rows, .n_head = h->n_head,
        .out_stride = out_stride(args), .splits = args->splits, .split_keys = args->split_keys,
    };
    TRY(vki_find_pipeline(kernels, "attention_merge", spec, 3, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}

/* How many query heads of one kv head and how many rows a workgroup takes. */
typedef struct attention_tile {
    uint32_t heads, rows, dims;
} attention_tile;

static attention_tile choose_tile(const vki_tuning *tuning, const vki_attention_args *args)
{
    const vki_heads *h = &args->heads;
    const uint32_t group = h->n_head / h->n_head_kv;
    attention_tile tile = {.rows = 1};
    tile.dims = (uint32_t)vki_round_up(vki_div_up(h->d_head, tuning->attention_local), 2);
    const uint32_t queries =
        (uint32_t)vki_max(1, vki_min(tuning->attention_queries, tuning->attention_values / tile.dims));
    for (uint32_t heads = 1; heads <= queries; heads++)
        if (group % heads == 0) tile.heads = heads;
    if (args->one_sequence && args->q.rows > 1) tile.rows = queries / tile.heads;
    return tile;
}

/* A shader with its constants, and what one workgroup takes. */
typedef struct attention_variant {
    const char *shader;
    uint32_t spec[10], n_spec;
    uint32_t heads, rows;
} attention_variant;

/* An invocation is a row: shaders/attention_rows.comp. Of the heads of a kv head so many that an unrolled step keeps
 * within attention_row_values. */
static attention_variant rows_variant(const vki_tuning *tuning, const vki_heads *h)
{
    const uint32_t group = h->n_head / h->n_head_kv, local = tuning->attention_local;
    uint32_t heads = 1, keys = 1;
    for (uint32_t i = 2; i * h->pad * 2 <= tuning->attention_row_values; i++)
        if (group % i == 0) heads = i;
    while (keys * 2 * heads * h->pad <= tuning->attention_row_values && keys < 4) keys *= 2;
    return (attention_variant){"attention_rows", {local, h->d_head, h->pad, h->kv_f32, heads, keys}, 6, heads, local};
}

/* Cooperative matrices: shaders/attention_coop.comp, with as many rows as fit; false where device or heads cannot. */
static bool coop_variant(const vki_kernels *kernels, const vki_heads *h, attention_variant *variant)
{
    enum { MOST_ROWS = 64, KEYS = 32, MOST_LANES = 8 }; /* of a workgroup, a block, a row */
    const vki_tuning *tuning = &kernels->tuning;
    const vki_limits *limits = &kernels->pipelines->device->limits;
    const vki_matrix_size size = tuning->block.size;
    const uint32_t subgroups = tuning->attention_subgroups, local = subgroups * tuning->subgroup;
    if (tuning->block.structure != VKI_COOP || local > tuning->workgroup_most || h->kv_f32 || h->pad % size.n ||
        h->pad % size.k || !vki_shader_find("attention_coop"))
        return false;
    const uint32_t dims = (uint32_t)vki_div_up(h->pad / size.n, subgroups) * size.n; /* of a subgroup */
    for (uint32_t rows = MOST_ROWS; rows >= size.m && rows >= size.k; rows /= 2) {
        const uint32_t tiles = rows / size.m * (KEYS / size.n), lanes = local / rows;
        const uint32_t score_bytes = rows * (KEYS + 4) * 4, results_bytes = subgroups * size.m * size.n * 4;
        const uint32_t bytes = rows * (h->pad + 8) * 2 + score_bytes + rows * 4 + 4;
        if (rows * (dims + KEYS / subgroups) > tuning->attention_sums || bytes > limits->shared_bytes || !lanes)
            continue;
        if (lanes > MOST_LANES || lanes > tuning->subgroup || tiles < subgroups || results_bytes > score_bytes)
            return false;
        *variant = (attention_variant){
            "attention_coop", {local, h->d_head, h->pad, rows, subgroups, size.m, size.n, size.k}, 8, 1, rows};
        return true;
    }
    return false;
}

static attention_variant choose_variant(const vki_kernels *kernels, const vki_attention_args *args)
{
    const vki_heads *h = &args->heads;
    const vki_tuning *tuning = &kernels->tuning;
    assert(VKI_KV_PAGE_KEYS % tuning->attention_local == 0);
    const bool prompt = args->one_sequence && args->splits == 1 && !args->next.address;
    attention_variant variant;
    const uint32_t rows = prompt ? args->q.rows : 0, coop = tuning->attention_coop, by_row = tuning->attention_rows;
    if (coop && rows >= coop && coop_variant(kernels, h, &variant)) return variant;
    if (by_row && rows >= by_row) return rows_variant(tuning, h);
    const attention_tile tile = choose_tile(tuning, args);
    return (attention_variant){
        "attention",
        {tuning->attention_local, vki_one_subgroup(kernels, tuning->attention_local), h->d_head, h->pad, h->kv_f32,
         tile.heads, tile.rows, tile.dims, args->next.form, tuning->attention_step},
        10, tile.heads, tile.rows};
}

vklm_status vki_attention(vki_kernels *kernels, const vki_attention_args *args, vklm_error *error)
{
    const vki_heads *h = &args->heads;
    const attention_variant v = choose_variant(kernels, args);
    const uint32_t rows = args->q.rows;
    assert(!args->next.address || (args->next.rows == rows && args->next.width == h->n_head * h->d_head));
    const vki_range partial =
        vki_range_of(args->partial, vki_attention_scratch(h, rows, args->splits));
    const uint64_t seen = args->window ? vki_min(args->window, args->keys) : args->keys;
    vki_dispatch dispatch = {
        .name = "attention",
        .grid = {h->n_head / v.heads, (uint32_t)vki_div_up(rows, v.rows), args->splits},
        .n_reads = 3,
        .reads = {vki_span_range(args->q), vki_cache_range(kernels->layer),
                  vki_range_of(args->state, (uint64_t)rows * VKI_ROW_STATE_BYTES)},
        .n_writes = args->splits == 1 ? 1 : 2, .writes = {out_range(args), partial},
        .cost_bytes = vki_div_up(rows, v.rows) * seen * h->n_head_kv * h->pad * (h->kv_f32 ? 8 : 4),
        .cost_flops = 4ull * rows * seen * h->n_head * h->d_head,
    };
    const struct attention_push push = {
        .q = args->q.address, .state = args->state, .partial = args->partial,
        .out_ = args->next.address ? args->next.address : args->out.address,
        .rows = rows, .n_head = h->n_head, .n_head_kv = h->n_head_kv, .q_stride = args->q.stride,
        .out_stride = out_stride(args), .page_layer = kernels->layer * h->layer_bytes,
        .window = args->window, .splits = args->splits, .split_keys = args->split_keys,
    };
    TRY(vki_find_pipeline(kernels, v.shader, v.spec, v.n_spec, error, &dispatch.pipeline));
    TRY(vki_append(kernels, &dispatch, &push, sizeof push, error));
    return args->splits == 1 ? VKLM_OK : merge_splits(kernels, args, partial, error);
}
