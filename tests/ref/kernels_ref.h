/* kernels_ref.h - plain CPU twins of the kernels: f32 in, double precision inside and out.
 *
 * They say what a kernel computes and nothing of how: no tiles, no splits, no pages, no tables.
 * Inputs are [rows][stride] or dense; results are dense. A NULL vector leaves its step out, as the
 * address 0 does for the kernel. Dimension letters: H query heads, K kv heads, E head size.
 */
#ifndef KERNELS_REF_H
#define KERNELS_REF_H

#include <stddef.h>
#include <stdint.h>

/* x [rows][width]: scale times row tokens[row] of weights [n_vocab][width]; an id past the
 * vocabulary reads the last row. */
void ref_embed(const float *weights, size_t n_vocab, size_t width, const uint32_t *tokens,
               size_t rows, float scale, double *x);

typedef enum ref_gate { REF_NO_GATE, REF_SILU, REF_GELU } ref_gate;

/* y [n][rows]: w [rows][cols] times each of n columns x, + bias[row], times act(gate[column][row]),
 * + residual[column][row]. */
typedef struct ref_product {
    const float *w;
    size_t rows, cols;
    const float *x;
    size_t n, x_stride;
    const float *bias, *gate, *residual;
    size_t y_stride; /* of gate and residual */
    ref_gate activation;
} ref_product;
void ref_matmul(const ref_product *p, double *y);

/* 32 values as bytes: d = max |x| / 127, byte = round(x / d), sum of the bytes. */
void ref_quantize(const float *x, int8_t *bytes, double *d, int *sum);

/* y [rows][width] = (residual +) x / sqrt(mean(x^2) + epsilon) * weight. */
void ref_norm(const float *x, size_t rows, size_t stride, size_t width, float epsilon,
              const float *weight, const float *residual, size_t residual_stride, double *y);

/* One row: q [H][E] is normed by q_norm, turned and scaled, k [K][E] is normed by k_norm and
 * turned, v [K][E] is copied. Pair i (values 2i and 2i + 1, i < n_rot / 2) turns by position *
 * base^(-2i / n_rot), and is stretched by the factor. */
typedef struct ref_rope_params {
    size_t n_head, n_head_kv, d_head, n_rot;
    double base, factor, q_scale;
    float epsilon;
    const float *q_norm, *k_norm;
} ref_rope_params;
void ref_rope(const ref_rope_params *p, const float *qkv, uint32_t position, double *q, double *k,
              double *v);

/* One row: out [H][E] from q [H][q_pad] (scaled) over keys and values [position][K][E] of the
 * positions 0 .. position, or of the last `window` of them where window is not 0. */
typedef struct ref_heads {
    size_t n_head, n_head_kv, d_head, q_pad;
} ref_heads;
void ref_attention(const ref_heads *h, const float *q, const float *k, const float *v,
                   uint32_t position, uint32_t window, double *out);

/* The lowest id of the largest; UINT32_MAX where one is no finite number. */
uint32_t ref_argmax(const float *logits, size_t n_vocab);

#endif
