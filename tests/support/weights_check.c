/* weights_check.c - see weights_check.h. */
#include "support/weights_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formats_ref.h"
#include "support/gpu.h"

/* What check_weights was called with. */
static const vki_weights *weights;
static const vki_gguf *gguf;

/* ---- Reading the device back ---- */

const uint8_t *weights_at(const vki_weights *of, uint64_t address, uint64_t size_bytes)
{
    for (size_t i = 0; i < of->pool.n_blocks; i++) {
        const vki_buffer *block = &of->pool.blocks[i];
        if (address < block->address || address + size_bytes > block->address + block->size_bytes)
            continue;
        ck_assert_uint_eq(address % 256, block->address % 256);
        return block->mapped + (address - block->address);
    }
    ck_abort_msg("an address outside the pool");
    return NULL;
}

/* Row `row` of the matrix, cols floats. */
static void read_row(const vki_matrix *matrix, uint32_t row, float *out)
{
    const vki_segment *s = matrix->segments;
    while (row >= s->first_row + s->planes.rows) s++;
    ck_assert(s < matrix->segments + matrix->n_segments && row >= s->first_row);
    float *padded = calloc((size_t)s->planes.units * 32, sizeof *padded);
    ref_decode_planes(&s->planes, weights_at(weights, s->address, s->planes.size_bytes),
                          row - s->first_row, padded);
    for (uint32_t i = matrix->cols; i < s->planes.units * 32; i++) ck_assert(padded[i] == 0);
    memcpy(out, padded, matrix->cols * sizeof *out);
    free(padded);
}

/* ---- What the file says ---- */

static const vki_gguf_tensor *tensor_of(int layer, const char *base, const char *kind)
{
    char name[64];
    if (layer < 0)
        snprintf(name, sizeof name, "%s.%s", base, kind);
    else
        snprintf(name, sizeof name, "blk.%d.%s.%s", layer, base, kind);
    return vki_gguf_find_tensor(gguf, name);
}

static void decode_row(const vki_gguf_tensor *tensor, uint64_t row, float *out)
{
    vki_format format;
    ck_assert(vki_format_from_ggml(tensor->ggml_id, &format));
    const vki_format_info *info = vki_format_get(format);
    const uint64_t row_bytes = tensor->ne[0] / info->block_weights * info->block_bytes;
    ref_decode(format, tensor->data + row * row_bytes, tensor->ne[0], out);
}

/* Where value `i` of a head of the device comes from in a head of the file. */
static uint32_t file_value(uint32_t i)
{
    const uint32_t n_rot = weights->hparams.n_rot;
    if (strcmp(weights->info.architecture, "llama") == 0 || i >= n_rot) return i;
    return i % 2 ? n_rot / 2 + i / 2 : i / 2;
}

/* `rows` rows of the matrix from `first` on are the tensor's rows from `file_first` on. */
static void check_rows(const vki_matrix *matrix, uint32_t first, uint32_t rows,
                       const vki_gguf_tensor *tensor, uint32_t file_first, bool by_heads,
                       float factor)
{
    ck_assert_ptr_nonnull(tensor);
    const uint32_t E = weights->hparams.d_head;
    float *wanted = calloc(matrix->cols, sizeof *wanted), *got = calloc(matrix->cols, sizeof *got);
    ck_assert_uint_eq(tensor->ne[0], matrix->cols);
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t file_row = by_heads ? r / E * E + file_value(r % E) : r;
        decode_row(tensor, file_first + file_row, wanted);
        for (uint32_t i = 0; i < matrix->cols; i++) wanted[i] *= factor;
        read_row(matrix, first + r, got);
        ck_assert_msg(memcmp(wanted, got, matrix->cols * sizeof *got) == 0, "%s, row %u",
                      tensor->name, r);
    }
    free(wanted);
    free(got);
}

/* The reference gives the FFN's factors no effect in two architectures. */
static float factor_of(int layer, const char *base)
{
    float factor = 1;
    const char *arch = weights->info.architecture;
    if (strncmp(base, "ffn", 3) == 0 && (strcmp(arch, "qwen2") == 0 || strcmp(arch, "gemma3") == 0))
        return factor;
    const vki_gguf_tensor *tensor = tensor_of(layer, base, "scale");
    if (tensor) decode_row(tensor, 0, &factor);
    return factor;
}

static void check_matrix(const vki_matrix *matrix, int layer, const char *base)
{
    const vki_gguf_tensor *tensor = tensor_of(layer, base, "weight");
    ck_assert_ptr_nonnull(tensor);
    ck_assert_uint_eq(matrix->rows, tensor->ne[1]);
    uint32_t next = 0;
    for (uint32_t i = 0; i < matrix->n_segments; i++) {
        ck_assert_uint_eq(matrix->segments[i].first_row, next);
        next += matrix->segments[i].planes.rows;
    }
    ck_assert_uint_eq(next, matrix->rows);
    check_rows(matrix, 0, matrix->rows, tensor, 0, false, factor_of(layer, base));
}

static void check_vector(uint64_t address, int layer, const char *base, const char *kind,
                         bool by_heads)
{
    const vki_gguf_tensor *tensor = tensor_of(layer, base, kind);
    if (!tensor) {
        ck_assert_uint_eq(address, 0);
        return;
    }
    const uint32_t n = (uint32_t)tensor->ne[0];
    float *wanted = calloc(n, sizeof *wanted);
    decode_row(tensor, 0, wanted);
    const float *got = (const float *)(const void *)weights_at(weights, address, n * sizeof *got);
    for (uint32_t i = 0; i < n; i++) ck_assert(got[i] == wanted[by_heads ? file_value(i) : i]);
    free(wanted);
}

static void check_qkv(const vki_layer *y, int l)
{
    const vki_hparams *h = &weights->hparams;
    const uint32_t E = h->d_head, HE = h->n_head * E, KE = h->n_head_kv * E;
    ck_assert_uint_eq(y->qkv.rows, HE + 2 * KE);
    const vki_gguf_tensor *fused = tensor_of(l, "attn_qkv", "weight");
    const vki_gguf_tensor *q = fused ? fused : tensor_of(l, "attn_q", "weight");
    const vki_gguf_tensor *k = fused ? fused : tensor_of(l, "attn_k", "weight");
    const vki_gguf_tensor *v = fused ? fused : tensor_of(l, "attn_v", "weight");
    check_rows(&y->qkv, 0, HE, q, 0, true, factor_of(l, fused ? "attn_qkv" : "attn_q"));
    check_rows(&y->qkv, HE, KE, k, fused ? HE : 0, true,
               factor_of(l, fused ? "attn_qkv" : "attn_k"));
    check_rows(&y->qkv, HE + KE, KE, v, fused ? HE + KE : 0, false,
               factor_of(l, fused ? "attn_qkv" : "attn_v"));
}

static void check_qkv_bias(const vki_layer *y, int l)
{
    const vki_hparams *h = &weights->hparams;
    const uint32_t E = h->d_head, HE = h->n_head * E, KE = h->n_head_kv * E;
    static const char *const bases[] = {"attn_q", "attn_k", "attn_v"};
    if (!y->qkv_bias) {
        for (int i = 0; i < 3; i++) ck_assert_ptr_null(tensor_of(l, bases[i], "bias"));
        ck_assert_ptr_null(tensor_of(l, "attn_qkv", "bias"));
        return;
    }
    const float *got =
        (const float *)(const void *)weights_at(weights, y->qkv_bias, (HE + 2 * KE) * sizeof *got);
    float *wanted = calloc(HE + 2 * KE, sizeof *wanted);
    const uint32_t first[] = {0, HE, HE + KE};
    const vki_gguf_tensor *fused = tensor_of(l, "attn_qkv", "bias");
    if (fused) decode_row(fused, 0, wanted);
    for (int i = 0; i < 3 && !fused; i++) {
        const vki_gguf_tensor *tensor = tensor_of(l, bases[i], "bias");
        if (tensor) decode_row(tensor, 0, wanted + first[i]);
    }
    for (uint32_t i = 0; i < HE + 2 * KE; i++) {
        const uint32_t from = i < HE + KE ? i / E * E + file_value(i % E) : i;
        ck_assert(got[i] == wanted[from]);
    }
    free(wanted);
}

void check_weights(const vki_weights *loaded, const vki_gguf *file)
{
    weights = loaded;
    gguf = file;
    if (!weights->pool.blocks[0].mapped) return;
    check_matrix(&weights->embedding, -1, "token_embd");
    check_matrix(&weights->head, -1, weights->tied ? "token_embd" : "output");
    check_vector(weights->output_norm, -1, "output_norm", "weight", false);
    check_vector(weights->head_bias, -1, "output", "bias", false);
    for (uint32_t i = 0; i < weights->hparams.n_layer; i++) {
        const vki_layer *y = &weights->layers[i];
        const int l = (int)i;
        check_qkv(y, l);
        check_qkv_bias(y, l);
        check_matrix(&y->o, l, "attn_output");
        check_matrix(&y->gate, l, "ffn_gate");
        check_matrix(&y->up, l, "ffn_up");
        check_matrix(&y->down, l, "ffn_down");
        check_vector(y->attn_norm, l, "attn_norm", "weight", false);
        check_vector(y->ffn_norm, l, "ffn_norm", "weight", false);
        check_vector(y->post_attn_norm, l, "post_attention_norm", "weight", false);
        check_vector(y->post_ffn_norm, l, "post_ffw_norm", "weight", false);
        check_vector(y->q_norm, l, "attn_q_norm", "weight", true);
        check_vector(y->k_norm, l, "attn_k_norm", "weight", true);
        check_vector(y->o_bias, l, "attn_output", "bias", false);
        check_vector(y->up_bias, l, "ffn_up", "bias", false);
        check_vector(y->down_bias, l, "ffn_down", "bias", false);
    }
}
