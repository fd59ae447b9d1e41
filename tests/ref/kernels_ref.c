#include "kernels_ref.h"

#include <math.h>
#include <stdlib.h>

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

void ref_embed(const float *weights, size_t n_vocab, size_t width, const uint32_t *tokens,
               size_t rows, float scale, double *x)
{
    for (size_t row = 0; row < rows; row++) {
        const size_t token = tokens[row] < n_vocab ? tokens[row] : n_vocab - 1;
        for (size_t i = 0; i < width; i++)
            x[row * width + i] = (double)scale * weights[token * width + i];
    }
}

static double activate(ref_gate activation, double z)
{
    if (activation == REF_SILU) return z / (1 + exp(-z));
    return 0.5 * z * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z)));
}

void ref_matmul(const ref_product *p, double *y)
{
    for (size_t c = 0; c < p->n; c++) {
        for (size_t r = 0; r < p->rows; r++) {
            const size_t at = c * p->y_stride + r;
            double value = dot(p->w + r * p->cols, p->x + c * p->x_stride, p->cols);
            if (p->bias) value += p->bias[r];
            if (p->gate) value *= activate(p->activation, p->gate[at]);
            if (p->residual) value += p->residual[at];
            y[c * p->rows + r] = value;
        }
    }
}

static double inverse_rms(const float *x, size_t n, float epsilon)
{
    return 1 / sqrt(dot(x, x, n) / (double)n + epsilon);
}

void ref_quantize(const float *x, int8_t *bytes, double *d, int *sum)
{
    double largest = 0;
    for (int i = 0; i < 32; i++) largest = fmax(largest, fabs((double)x[i]));
    *d = largest / 127;
    *sum = 0;
    for (int i = 0; i < 32; i++) {
        bytes[i] = (int8_t)(largest > 0 ? nearbyint(x[i] / *d) : 0);
        *sum += bytes[i];
    }
}

void ref_norm(const float *x, size_t rows, size_t stride, size_t width, float epsilon,
              const float *weight, const float *residual, size_t residual_stride, double *y)
{
    for (size_t row = 0; row < rows; row++) {
        const double inverse = inverse_rms(x + row * stride, width, epsilon);
        for (size_t i = 0; i < width; i++) {
            double value = x[row * stride + i] * inverse * weight[i];
            if (residual) value += residual[row * residual_stride + i];
            y[row * width + i] = value;
        }
    }
}

static void turn_head(const ref_rope_params *p, const float *head, const float *weight,
                      uint32_t position, double scale, double *out)
{
    const double inverse = weight ? inverse_rms(head, p->d_head, p->epsilon) : 1;
    for (size_t i = 0; i < p->d_head; i++)
        out[i] = head[i] * inverse * (weight ? weight[i] : 1) * scale;
    for (size_t i = 0; i < p->n_rot; i += 2) {
        const double angle = position * pow(p->base, -(double)i / (double)p->n_rot);
        const double c = cos(angle) * p->factor, s = sin(angle) * p->factor, x = out[i],
                     y = out[i + 1];
        out[i] = x * c - y * s;
        out[i + 1] = x * s + y * c;
    }
}

void ref_rope(const ref_rope_params *p, const float *qkv, uint32_t position, double *q, double *k,
              double *v)
{
    for (size_t h = 0; h < p->n_head; h++, qkv += p->d_head)
        turn_head(p, qkv, p->q_norm, position, p->q_scale, q + h * p->d_head);
    for (size_t h = 0; h < p->n_head_kv; h++, qkv += p->d_head)
        turn_head(p, qkv, p->k_norm, position, 1, k + h * p->d_head);
    for (size_t i = 0; i < p->n_head_kv * p->d_head; i++) v[i] = qkv[i];
}

void ref_attention(const ref_heads *h, const float *q, const float *k, const float *v,
                   uint32_t position, uint32_t window, double *out)
{
    const size_t first = window && position >= window ? position + 1 - window : 0,
                 end = position + 1ul;
    const size_t row = h->n_head_kv * h->d_head, group = h->n_head / h->n_head_kv;
    double *weights = malloc(end * sizeof *weights);
    if (!weights) abort();
    for (size_t head = 0; head < h->n_head; head++, out += h->d_head) {
        const size_t at = head / group * h->d_head;
        double highest = -INFINITY, total = 0;
        for (size_t key = first; key < end; key++) {
            weights[key] = dot(q + head * h->q_pad, k + key * row + at, h->d_head);
            highest = fmax(highest, weights[key]);
        }
        for (size_t i = 0; i < h->d_head; i++) out[i] = 0;
        for (size_t key = first; key < end; key++) {
            const double weight = exp(weights[key] - highest);
            total += weight;
            for (size_t i = 0; i < h->d_head; i++) out[i] += weight * v[key * row + at + i];
        }
        for (size_t i = 0; i < h->d_head; i++) out[i] /= total;
    }
    free(weights);
}

uint32_t ref_argmax(const float *logits, size_t n_vocab)
{
    uint32_t id = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        if (!isfinite(logits[i])) return UINT32_MAX;
        if (logits[i] > logits[id]) id = (uint32_t)i;
    }
    return id;
}
