/* forward.c - the transformer, operation by operation.
 *
 *     x = embedding[token]
 *     for each layer:  x += attention(norm(x));  x += ffn(norm(x))
 *     logits = head norm(x)
 *
 * Names and order follow the explanations of the architecture (Vaswani 2017; Touvron 2023 for the
 * pre-norm form with rotary positions and a gated FFN). What differs between architectures is data in
 * vki_hparams and vki_layer: a vector that a model has not is the address 0, and its step is left out.
 */
#include "model/forward.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"

#define VKI_C
#include "lib/push.h"

_Static_assert(sizeof(struct row_state) == VKI_ROW_STATE_BYTES, "C and GLSL agree on row_state");

/* Rows are padded so that a kernel can read whole units of 32. */
static uint32_t stride_of(uint32_t width)
{
    return (uint32_t)vki_round_up(width, 32);
}

static vki_heads heads_of(const vki_hparams *h, bool kv_f32)
{
    return vki_heads_of(h->n_head, h->n_head_kv, h->d_head, kv_f32);
}

static uint32_t qkv_width(const vki_hparams *h)
{
    return (h->n_head + 2 * h->n_head_kv) * h->d_head;
}

/* Bytes of a row in each part of the activations; the attention and the FFN part overlay each other. */
typedef struct row_bytes {
    uint64_t stream, qkv, q, attended, ffn, overlay;
    uint64_t int8; /* values of the widest row that a product reads: a byte each, and 8 more for 32 */
} row_bytes;

static row_bytes row_bytes_of(const vki_hparams *h)
{
    row_bytes r = {
        .stream = stride_of(h->d_model) * 4ull,
        .qkv = stride_of(qkv_width(h)) * 4ull,
        .q = stride_of(h->n_head * heads_of(h, false).pad) * 4ull,
        .attended = stride_of(h->n_head * h->d_head) * 4ull,
        .ffn = stride_of(h->d_ff) * 4ull,
    };
    r.overlay = vki_max(r.qkv + r.q + r.attended, 2 * r.ffn);
    r.int8 = vki_max(r.stream, vki_max(r.attended, r.ffn)) / 4;
    return r;
}

uint64_t vki_activation_row_bytes(const vki_hparams *hparams)
{
    const row_bytes r = row_bytes_of(hparams);
    return 3 * r.stream + r.overlay + r.int8 + r.int8 / 4;
}

/* size_bytes of zeroes: padding columns meet zero weights, and must be finite. */
static vklm_status take_zeroed(vki_pool *pool, vki_upload *upload, uint64_t size_bytes, vklm_error *error,
                               uint64_t *address)
{
    vki_slice slice;
    TRY(vki_pool_take(pool, size_bytes, error, &slice));
    *address = slice.address;
    return vki_upload_zeroes(upload, pool, &slice, error);
}

static vklm_status take_parts(vki_activations *activations, vki_upload *upload, const vki_hparams *hparams,
                              uint64_t partial, vklm_error *error)
{
    const row_bytes r = row_bytes_of(hparams);
    const uint64_t rows = activations->rows;
    vki_pool *pool = &activations->pool;
    TRY(take_zeroed(pool, upload, rows * r.stream, error, &activations->x));
    TRY(take_zeroed(pool, upload, rows * r.stream, error, &activations->normed));
    TRY(take_zeroed(pool, upload, rows * r.stream, error, &activations->branch));
    TRY(take_zeroed(pool, upload, rows * r.overlay, error, &activations->qkv));
    TRY(take_zeroed(pool, upload, rows * r.int8, error, &activations->bytes));
    TRY(take_zeroed(pool, upload, rows * r.int8 / 4, error, &activations->scales));
    TRY(take_zeroed(pool, upload, partial, error, &activations->partial));
    activations->q = activations->qkv + rows * r.qkv;
    activations->attended = activations->q + rows * r.q;
    activations->gate = activations->qkv;
    activations->hidden = activations->gate + rows * r.ffn;
    return vki_upload_finish(upload, error);
}

vklm_status vki_activations_init(vki_activations *activations, vklm_device *device,
                                 const vki_hparams *hparams, uint32_t rows, uint32_t splits,
                                 vklm_error *error)
{
    *activations = (vki_activations){.device = device, .rows = rows};
    const vki_heads heads = heads_of(hparams, false);
    const uint64_t partial = vki_max(vki_attention_scratch(&heads, rows, splits),
                                     VKI_MAX_BATCH * 8ull * vki_logit_parts(hparams));
    /* one block; each of the seven parts may be rounded up */
    vki_pool_init(&activations->pool, device, "the activations",
                  rows * vki_activation_row_bytes(hparams) + partial + 7 * VKI_PLANE_ALIGNMENT);
    vki_upload upload = {0};
    vklm_status status = vki_upload_begin(&upload, device, error);
    if (status == VKLM_OK) status = take_parts(activations, &upload, hparams, partial, error);
    vki_upload_free(&upload);
    if (status == VKLM_OK)
        status = vki_buffer_create(device, VKI_MEMORY_SHARED, (uint64_t)rows * VKI_ROW_STATE_BYTES,
                                   "the row state", error, &activations->state);
    if (status != VKLM_OK) {
        vki_activations_free(activations);
        return status;
    }
    memset(activations->state.mapped, 0, (size_t)activations->state.size_bytes);
    return VKLM_OK;
}

void vki_activations_free(vki_activations *activations)
{
    if (!activations->device) return;
    vki_pool_free(&activations->pool);
    vki_buffer_destroy(activations->device, &activations->state);
    *activations = (vki_activations){0};
}

void vki_state_write(vki_activations *activations, uint32_t row, uint64_t pages, vklm_token token,
                     uint32_t position, uint32_t step)
{
    assert(row < activations->rows);
    const struct row_state state = {
        .pages = pages, .token = (uint32_t)token, .position = position, .step = step};
    memcpy(activations->state.mapped + (size_t)row * sizeof state, &state, sizeof state);
}

void vki_state_sampling(vki_activations *activations, uint32_t row, uint64_t sampling)
{
    struct row_state *state = (struct row_state *)(void *)activations->state.mapped + row;
    state->sampling = sampling;
}

/* All rows of one of the activations. */
static vki_span span(const vki_pass *pass, uint64_t address, uint32_t width)
{
    return (vki_span){address, pass->rows, stride_of(width)};
}

/* The int8 form of x, made where a product with `w` reads it. */
static vklm_status quantize_for(const vki_pass *pass, const vki_matrix *w, vki_span x, vki_span8 *x8,
                                vklm_error *error)
{
    *x8 = (vki_span8){pass->activations->bytes, pass->activations->scales, x.rows, x.stride};
    return vki_matmul_reads_int8(pass->kernels, w) ? vki_quantize(pass->kernels, x, w->cols, *x8, error) : VKLM_OK;
}

/* x += (post-norm of) w * input; the branch buffer holds what is still to be normed. */
static vklm_status add_branch(const vki_pass *pass, const char *name, const vki_matrix *w, vki_span input,
                              uint64_t bias, uint64_t post_norm, vki_span x, vklm_error *error)
{
    const vki_hparams *h = &pass->weights->hparams;
    vki_matmul_args product = {.name = name, .w = w, .x = input, .y = x, .bias = bias, .residual = x.address};
    TRY(quantize_for(pass, w, input, &product.x8, error));
    if (!post_norm) return vki_matmul(pass->kernels, &product, error);
    vki_span branch = x;
    branch.address = pass->activations->branch;
    product.y = branch;
    product.residual = 0;
    TRY(vki_matmul(pass->kernels, &product, error));
    return vki_norm(pass->kernels,
                    &(vki_norm_args){.name = "post_norm", .x = branch, .y = x, .width = h->d_model,
                                     .weight = post_norm, .residual = x.address,
                                     .epsilon = h->norm_epsilon},
                    error);
}

/* q, k and v of all rows, k and v into the cache; of q only the last n rows. */
static vklm_status project_qkv(const vki_pass *pass, const vki_layer *layer, uint32_t n, vklm_error *error)
{
    const vki_hparams *h = &pass->weights->hparams;
    const vki_activations *a = pass->activations;
    const vki_span x = span(pass, a->x, h->d_model), normed = span(pass, a->normed, h->d_model);
    const vki_span qkv = span(pass, a->qkv, qkv_width(h));
    TRY(vki_norm(pass->kernels,
                 &(vki_norm_args){.name = "attn_norm", .x = x, .y = normed, .width = h->d_model,
                                  .weight = layer->attn_norm, .epsilon = h->norm_epsilon},
                 error));
    const uint32_t q_rows = h->n_head * h->d_head, first = pass->rows - n;
    vki_matmul_args product = {.name = "qkv", .w = &layer->qkv, .x = normed, .y = qkv, .bias = layer->qkv_bias};
    TRY(quantize_for(pass, &layer->qkv, normed, &product.x8, error));
    if (n < pass->rows) {
        vki_matmul_args kv = product;
        kv.name = "kv";
        kv.first_row = q_rows;
        kv.n_rows = layer->qkv.rows - q_rows;
        kv.y.address += q_rows * 4ull;
        if (kv.bias) kv.bias += q_rows * 4ull;
        TRY(vki_matmul(pass->kernels, &kv, error));
        product.name = "q";
        product.n_rows = q_rows;
        product.x = vki_span_rows(normed, first, n);
        product.x8 = vki_span8_rows(product.x8, first, n);
        product.y = vki_span_rows(qkv, first, n);
    }
    if (n > 0) TRY(vki_matmul(pass->kernels, &product, error));
    const vki_heads heads = heads_of(h, pass->kv_f32);
    vki_span q = span(pass, a->q, h->n_head * heads.pad);
    q.rows = n;
    return vki_rope(pass->kernels,
                    &(vki_rope_args){.heads = heads, .qkv = qkv, .q = q, .first_q_row = first,
                                     .state = a->state.address,
                                     .table = pass->weights->rope_table[layer->rope],
                                     .q_norm = layer->q_norm, .k_norm = layer->k_norm, .n_rot = h->n_rot,
                                     .epsilon = h->norm_epsilon, .q_scale = h->attention_scale},
                    error);
}

/* The rest of the layer, for the last n rows. */
static vklm_status attend_and_feed(const vki_pass *pass, const vki_layer *layer, uint32_t n,
                                   vklm_error *error)
{
    const vki_hparams *h = &pass->weights->hparams;
    const vki_activations *a = pass->activations;
    const uint32_t first = pass->rows - n;
    const vki_heads heads = heads_of(h, pass->kv_f32);
    vki_span q = span(pass, a->q, h->n_head * heads.pad);
    q.rows = n;
    const vki_span x = vki_span_rows(span(pass, a->x, h->d_model), first, n);
    const vki_span normed = vki_span_rows(span(pass, a->normed, h->d_model), first, n);
    const vki_span attended = vki_span_rows(span(pass, a->attended, h->n_head * h->d_head), first, n);
    const vki_span gate = vki_span_rows(span(pass, a->gate, h->d_ff), first, n);
    const vki_span hidden = vki_span_rows(span(pass, a->hidden, h->d_ff), first, n);

    TRY(vki_attention(pass->kernels,
                      &(vki_attention_args){.heads = heads, .q = q, .out = attended,
                                            .state = a->state.address + (uint64_t)first * VKI_ROW_STATE_BYTES,
                                            .partial = a->partial, .window = layer->window,
                                            .splits = pass->splits,
                                            .split_keys = vki_pass_split_keys(pass), .keys = pass->keys,
                                            .one_sequence = pass->one_sequence},
                      error));
    TRY(add_branch(pass, "attn_out", &layer->o, attended, layer->o_bias, layer->post_attn_norm, x, error));
    TRY(vki_norm(pass->kernels,
                 &(vki_norm_args){.name = "ffn_norm", .x = x, .y = normed, .width = h->d_model,
                                  .weight = layer->ffn_norm, .epsilon = h->norm_epsilon},
                 error));
    const bool up_alone = !vki_matmul_reads_int8(pass->kernels, &layer->gate);
    vki_span8 normed8;
    TRY(quantize_for(pass, up_alone ? &layer->up : &layer->gate, normed, &normed8, error));
    TRY(vki_matmul(pass->kernels,
                   &(vki_matmul_args){.name = "ffn_gate", .w = &layer->gate, .x = normed, .x8 = normed8,
                                      .y = gate, .bias = layer->gate_bias},
                   error));
    TRY(vki_matmul(pass->kernels,
                   &(vki_matmul_args){.name = "ffn_up", .w = &layer->up, .x = normed, .x8 = normed8,
                                      .y = hidden, .bias = layer->up_bias, .gate = gate.address,
                                      .gelu = h->activation == VKI_GELU},
                   error));
    return add_branch(pass, "ffn_down", &layer->down, hidden, layer->down_bias, layer->post_ffn_norm, x, error);
}

vklm_status vki_forward_layers(const vki_pass *pass, vklm_error *error)
{
    const vki_weights *weights = pass->weights;
    const vki_hparams *h = &weights->hparams;
    assert(pass->rows <= pass->activations->rows && pass->n_out <= pass->rows);
    pass->kernels->layer = UINT32_MAX;
    TRY(vki_embed(pass->kernels,
                  &(vki_embed_args){.embedding = &weights->embedding,
                                    .state = pass->activations->state.address,
                                    .x = span(pass, pass->activations->x, h->d_model),
                                    .scale = h->embedding_scale},
                  error));
    for (uint32_t l = 0; l < h->n_layer; l++) {
        pass->kernels->layer = l;
        const uint32_t n = l + 1 < h->n_layer ? pass->rows : pass->n_out;
        TRY(project_qkv(pass, &weights->layers[l], n, error));
        if (n > 0) TRY(attend_and_feed(pass, &weights->layers[l], n, error));
    }
    pass->kernels->layer = UINT32_MAX;
    return VKLM_OK;
}

vklm_status vki_forward_head(const vki_pass *pass, uint32_t first, vki_span logits, vklm_error *error)
{
    const vki_hparams *h = &pass->weights->hparams;
    const vki_span x = vki_span_rows(span(pass, pass->activations->x, h->d_model), first, logits.rows);
    const vki_span normed = vki_span_rows(span(pass, pass->activations->normed, h->d_model), first, logits.rows);
    pass->kernels->layer = UINT32_MAX;
    TRY(vki_norm(pass->kernels,
                 &(vki_norm_args){.name = "output_norm", .x = x, .y = normed, .width = h->d_model,
                                  .weight = pass->weights->output_norm, .epsilon = h->norm_epsilon},
                 error));
    vki_matmul_args product = {.name = "head", .w = &pass->weights->head, .x = normed, .y = logits,
                               .bias = pass->weights->head_bias};
    TRY(quantize_for(pass, &pass->weights->head, normed, &product.x8, error));
    return vki_matmul(pass->kernels, &product, error);
}
