/* model_ref.c - see model_ref.h. One position after the other through one layer after the other, as
 * the formulas stand in the papers; nothing here is fast. */
#include "model_ref.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/format.h"
#include "ref/formats_ref.h"

/* y = scale W x + bias, or scale (W x + bias): the reference differs between attention and FFN. */
typedef struct matrix {
    size_t rows, cols;
    const float *weights; /* NULL: there is none */
    float *owned;         /* what to free; NULL where the weights are part of another matrix */
    double scale;
    bool scales_bias;
    float *bias; /* NULL: none */
} matrix;

typedef struct layer {
    matrix qkv, q, k, v, o, gate, up, down;
    float *attn_norm, *q_norm, *k_norm, *post_attn_norm, *ffn_norm, *post_ffn_norm;
    bool windowed;
} layer;

struct model_ref {
    char arch[32];
    size_t n_layer, d_model, n_head, n_head_kv, d_head, d_ff, n_vocab, n_rot, window;
    bool neox, gemma, f16_gelu;
    double epsilon, attention_scale;
    double *frequencies[2], rope_factor[2]; /* angle per position of each pair: full, windowed */
    matrix embedding, head;
    float *output_norm;
    layer *layers;
};

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "model_ref: %s: %s\n", name, what);
    abort();
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n ? n : 1, size);
    if (!memory) fail("no memory", "allocate");
    return memory;
}

/* ---- Metadata ---- */

static const vki_gguf_value *find(const vki_gguf *gguf, const model_ref *m, const char *suffix)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->arch, suffix);
    return vki_gguf_find(gguf, key);
}

static double number(const vki_gguf *gguf, const model_ref *m, const char *suffix, double fallback)
{
    const vki_gguf_value *value = find(gguf, m, suffix);
    if (!value) return fallback;
    const bool is_float = value->type == VKI_GGUF_F32 || value->type == VKI_GGUF_F64;
    return is_float ? vki_gguf_float_at(value, 0) : (double)vki_gguf_int_at(value, 0);
}

static size_t count(const vki_gguf *gguf, const model_ref *m, const char *suffix, size_t fallback)
{
    return (size_t)number(gguf, m, suffix, (double)fallback);
}

static bool has_string(const vki_gguf *gguf, const model_ref *m, const char *suffix,
                       const char *text)
{
    vki_string string = {0};
    const vki_gguf_value *value = find(gguf, m, suffix);
    if (value) vki_gguf_string(gguf, value->key, NULL, &string, NULL);
    return string.len == strlen(text) && memcmp(string.text, text, string.len) == 0;
}

/* ---- Tensors ---- */

static float *decode(const vki_gguf *gguf, const char *name, size_t *cols, size_t *rows)
{
    const vki_gguf_tensor *tensor = vki_gguf_find_tensor(gguf, name);
    if (!tensor) return NULL;
    vki_format format;
    if (!vki_format_from_ggml(tensor->ggml_id, &format)) fail("has no decoder", name);
    *cols = (size_t)tensor->ne[0];
    *rows = (size_t)tensor->ne[1];
    float *weights = allocate(*cols * *rows, sizeof *weights);
    ref_decode(format, tensor->data, *cols * *rows, weights);
    return weights;
}

static const char *name_of(char name[64], int layer, const char *base, const char *kind)
{
    if (layer < 0)
        snprintf(name, 64, "%s.%s", base, kind);
    else
        snprintf(name, 64, "blk.%d.%s.%s", layer, base, kind);
    return name;
}

static float *load_vector(const vki_gguf *gguf, int layer, const char *base, const char *kind,
                          size_t n)
{
    char name[64];
    size_t cols, rows;
    float *values = decode(gguf, name_of(name, layer, base, kind), &cols, &rows);
    if (values && cols * rows != n) fail("has another size", name);
    return values;
}

static matrix load_matrix(const vki_gguf *gguf, int layer, const char *base, size_t rows,
                          size_t cols)
{
    char name[64];
    matrix w = {.rows = rows, .cols = cols, .scale = 1};
    size_t file_cols = cols, file_rows = rows;
    w.owned = decode(gguf, name_of(name, layer, base, "weight"), &file_cols, &file_rows);
    if (file_rows != rows || file_cols != cols) fail("has another shape", name);
    w.weights = w.owned;
    w.bias = load_vector(gguf, layer, base, "bias", rows);
    return w;
}

/* The factor beside a matrix, where the file has one. */
static void load_scale(const vki_gguf *gguf, int layer, const char *base, matrix *w)
{
    float *scale = load_vector(gguf, layer, base, "scale", 1);
    if (scale) w->scale = *scale;
    free(scale);
}

/* Rows from first on of a fused matrix; its bias is copied. */
static matrix part_of(const matrix *whole, size_t first, size_t rows)
{
    matrix w = {.rows = rows, .cols = whole->cols, .scale = whole->scale};
    w.weights = whole->weights + first * whole->cols;
    if (whole->bias) {
        w.bias = allocate(rows, sizeof *w.bias);
        memcpy(w.bias, whole->bias + first, rows * sizeof *w.bias);
    }
    return w;
}

/* In qwen2 and gemma3 the reference leaves out the factors of the FFN. */
static void load_scales(const model_ref *m, const vki_gguf *gguf, int l)
{
    layer *y = &m->layers[l];
    if (!y->qkv.weights) {
        load_scale(gguf, l, "attn_q", &y->q);
        load_scale(gguf, l, "attn_k", &y->k);
        load_scale(gguf, l, "attn_v", &y->v);
    }
    load_scale(gguf, l, "attn_output", &y->o);
    if (m->gemma || strcmp(m->arch, "qwen2") == 0) return;
    load_scale(gguf, l, "ffn_gate", &y->gate);
    load_scale(gguf, l, "ffn_up", &y->up);
    load_scale(gguf, l, "ffn_down", &y->down);
    y->gate.scales_bias = y->up.scales_bias = y->down.scales_bias = true;
}

static void load_layer(model_ref *m, const vki_gguf *gguf, int l)
{
    layer *y = &m->layers[l];
    const size_t D = m->d_model, E = m->d_head, HE = m->n_head * E, KE = m->n_head_kv * E;
    y->attn_norm = load_vector(gguf, l, "attn_norm", "weight", D);
    y->ffn_norm = load_vector(gguf, l, "ffn_norm", "weight", D);
    y->q_norm = load_vector(gguf, l, "attn_q_norm", "weight", E);
    y->k_norm = load_vector(gguf, l, "attn_k_norm", "weight", E);
    y->post_attn_norm = load_vector(gguf, l, "post_attention_norm", "weight", D);
    y->post_ffn_norm = load_vector(gguf, l, "post_ffw_norm", "weight", D);
    y->qkv = load_matrix(gguf, l, "attn_qkv", HE + 2 * KE, D);
    if (y->qkv.weights) {
        load_scale(gguf, l, "attn_qkv", &y->qkv);
        y->q = part_of(&y->qkv, 0, HE);
        y->k = part_of(&y->qkv, HE, KE);
        y->v = part_of(&y->qkv, HE + KE, KE);
    } else {
        y->q = load_matrix(gguf, l, "attn_q", HE, D);
        y->k = load_matrix(gguf, l, "attn_k", KE, D);
        y->v = load_matrix(gguf, l, "attn_v", KE, D);
    }
    y->o = load_matrix(gguf, l, "attn_output", D, HE);
    y->gate = load_matrix(gguf, l, "ffn_gate", m->d_ff, D);
    y->up = load_matrix(gguf, l, "ffn_up", m->d_ff, D);
    y->down = load_matrix(gguf, l, "ffn_down", D, m->d_ff);
    const matrix *needed[] = {&y->q, &y->k, &y->v, &y->o, &y->gate, &y->up, &y->down};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i]->weights) fail("a matrix is missing", m->arch);
    if (!y->attn_norm || !y->ffn_norm) fail("a norm is missing", m->arch);
    load_scales(m, gguf, l);
}

/* ---- Windows and rotary tables ---- */

static void read_windows(model_ref *m, const vki_gguf *gguf)
{
    if (!m->gemma) return;
    m->window = count(gguf, m, "attention.sliding_window", 0);
    const vki_gguf_value *pattern = find(gguf, m, "attention.sliding_window_pattern");
    const size_t period = count(gguf, m, "attention.sliding_window_pattern", 6);
    for (size_t l = 0; m->window && l < m->n_layer; l++)
        m->layers[l].windowed = pattern && pattern->is_array ? vki_gguf_int_at(pattern, l) != 0
                                                             : l % period < period - 1;
}

/* YaRN's blend of interpolation (1) and extrapolation (0) for pair i. */
static double yarn_ramp(const model_ref *m, double base, double original, double i)
{
    const double pi = acos(-1), n = (double)m->n_rot;
    double low = floor(n * log(original / (32 * 2 * pi)) / (2 * log(base)));
    double high = ceil(n * log(original / (1 * 2 * pi)) / (2 * log(base)));
    low = fmax(0, low);
    high = fmin(n - 1, high);
    return fmin(1, fmax(0, (i - low) / fmax(0.001, high - low)));
}

static void make_frequencies(model_ref *m, const vki_gguf *gguf)
{
    const size_t pairs = m->n_rot / 2;
    const double base = number(gguf, m, "rope.freq_base", 10000);
    const double windowed_base = number(gguf, m, "rope.freq_base_swa", 10000);
    const double context = number(gguf, m, "context_length", 0);
    const double original = number(gguf, m, "rope.scaling.original_context_length", context);
    double factor = number(gguf, m, "rope.scaling.factor", 0);
    if (factor == 0 || has_string(gguf, m, "rope.scaling.type", "none")) factor = 1;
    const bool yarn = has_string(gguf, m, "rope.scaling.type", "yarn");
    const bool longrope = has_string(gguf, m, "rope.scaling.type", "longrope");
    float *divisors = load_vector(gguf, -1, "rope_freqs", "weight", pairs);
    if (longrope)
        divisors =
            load_vector(gguf, -1, context > original ? "rope_factors_long" : "rope_factors_short",
                        "weight", pairs);
    for (int t = 0; t < 2; t++) {
        m->frequencies[t] = allocate(pairs, sizeof(double));
        m->rope_factor[t] = number(gguf, m, "rope.scaling.attn_factor", 1);
    }
    if (yarn) m->rope_factor[0] *= 1 + 0.1 * log(factor);
    for (size_t i = 0; i < pairs; i++) {
        const double exponent = -2.0 * (double)i / (double)m->n_rot;
        const double plain = pow(base, exponent) / (divisors ? divisors[i] : 1);
        const double kept = yarn ? 1 - yarn_ramp(m, base, original, (double)i) : 0;
        m->frequencies[0][i] = plain / factor * (1 - kept) + plain * kept;
        m->frequencies[1][i] = pow(windowed_base, exponent);
    }
    free(divisors);
}

/* ---- Opening ---- */

model_ref *model_ref_new(const vki_gguf *gguf)
{
    model_ref *m = allocate(1, sizeof *m);
    vki_string arch = {0};
    vki_gguf_string(gguf, "general.architecture", NULL, &arch, NULL);
    snprintf(m->arch, sizeof m->arch, "%.*s", (int)arch.len, arch.text ? arch.text : "");
    m->gemma = strcmp(m->arch, "gemma3") == 0;
    m->neox = m->gemma || strcmp(m->arch, "qwen2") == 0 || strcmp(m->arch, "qwen3") == 0;
    if (!m->neox && strcmp(m->arch, "llama") != 0) fail("is not one of the four", m->arch);
    m->n_layer = count(gguf, m, "block_count", 0);
    m->d_model = count(gguf, m, "embedding_length", 0);
    m->n_head = count(gguf, m, "attention.head_count", 1);
    m->n_head_kv = count(gguf, m, "attention.head_count_kv", m->n_head);
    m->d_head = count(gguf, m, "attention.key_length", m->d_model / m->n_head);
    m->d_ff = count(gguf, m, "feed_forward_length", 0);
    m->n_rot = count(gguf, m, "rope.dimension_count", m->d_head);
    m->epsilon = number(gguf, m, "attention.layer_norm_rms_epsilon", 0);
    m->attention_scale = 1 / sqrt((double)m->d_head);
    if (m->gemma && m->n_layer == 62)
        m->attention_scale = 1 / sqrt((double)m->d_model / (double)m->n_head);
    const vki_gguf_tensor *embedding = vki_gguf_find_tensor(gguf, "token_embd.weight");
    if (!embedding) fail("is missing", "token_embd.weight");
    m->n_vocab = (size_t)embedding->ne[1];
    m->embedding = load_matrix(gguf, -1, "token_embd", m->n_vocab, m->d_model);
    m->head = load_matrix(gguf, -1, "output", m->n_vocab, m->d_model);
    if (!m->head.weights) m->head.weights = m->embedding.weights;
    m->output_norm = load_vector(gguf, -1, "output_norm", "weight", m->d_model);
    if (!m->output_norm) fail("is missing", "output_norm.weight");
    m->layers = allocate(m->n_layer, sizeof *m->layers);
    for (size_t l = 0; l < m->n_layer; l++) load_layer(m, gguf, (int)l);
    read_windows(m, gguf);
    make_frequencies(m, gguf);
    return m;
}

static void free_matrix(matrix *w)
{
    free(w->owned);
    free(w->bias);
}

void model_ref_free(model_ref *m)
{
    if (!m) return;
    for (size_t l = 0; l < m->n_layer; l++) {
        layer *y = &m->layers[l];
        matrix *matrices[] = {&y->qkv, &y->q, &y->k, &y->v, &y->o, &y->gate, &y->up, &y->down};
        float *norms[] = {y->attn_norm,      y->q_norm,   y->k_norm,
                          y->post_attn_norm, y->ffn_norm, y->post_ffn_norm};
        for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) free_matrix(matrices[i]);
        for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) free(norms[i]);
    }
    free(m->layers);
    free_matrix(&m->embedding);
    free_matrix(&m->head);
    free(m->output_norm);
    free(m->frequencies[0]);
    free(m->frequencies[1]);
    free(m);
}

uint32_t model_ref_n_vocab(const model_ref *m)
{
    return (uint32_t)m->n_vocab;
}

void model_ref_use_f16_gelu(model_ref *m)
{
    m->f16_gelu = true;
}

/* ---- The forward pass ---- */

static void multiply(const matrix *w, const double *x, double *y)
{
    for (size_t r = 0; r < w->rows; r++) {
        const float *row = w->weights + r * w->cols;
        double sum = 0;
        for (size_t c = 0; c < w->cols; c++) sum += (double)row[c] * x[c];
        const double bias = w->bias ? (double)w->bias[r] : 0;
        y[r] = w->scale * sum + (w->scales_bias ? w->scale * bias : bias);
    }
}

/* RMSNorm; y may be x. */
static void norm(const model_ref *m, const float *gain, const double *x, size_t n, double *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    const double factor = 1 / sqrt(sum / (double)n + m->epsilon);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * factor * (double)gain[i];
}

static void rotate(const model_ref *m, const layer *y, size_t position, double *head)
{
    const size_t pairs = m->n_rot / 2;
    for (size_t i = 0; i < pairs; i++) {
        const double angle = (double)position * m->frequencies[y->windowed][i];
        const double c = cos(angle) * m->rope_factor[y->windowed];
        const double s = sin(angle) * m->rope_factor[y->windowed];
        double *a = &head[m->neox ? i : 2 * i], *b = &head[m->neox ? i + pairs : 2 * i + 1];
        const double old_a = *a, old_b = *b;
        *a = old_a * c - old_b * s;
        *b = old_a * s + old_b * c;
    }
}

static void norm_and_rotate(const model_ref *m, const layer *y, const float *gain, size_t position,
                            size_t n_heads, double *heads)
{
    for (size_t h = 0; h < n_heads; h++) {
        if (gain) norm(m, gain, heads + h * m->d_head, m->d_head, heads + h * m->d_head);
        rotate(m, y, position, heads + h * m->d_head);
    }
}

/* One query head at one position over the keys it sees. scores: a scratch of position + 1. */
static void attend(const model_ref *m, const layer *y, size_t position, const double *q,
                   const double *k, const double *v, double *scores, double *out)
{
    const size_t stride = m->n_head_kv * m->d_head;
    const size_t first = y->windowed && position + 1 > m->window ? position + 1 - m->window : 0;
    double most = -INFINITY, sum = 0;
    for (size_t j = first; j <= position; j++) {
        double dot = 0;
        for (size_t e = 0; e < m->d_head; e++) dot += q[e] * k[j * stride + e];
        scores[j] = dot * m->attention_scale;
        most = fmax(most, scores[j]);
    }
    for (size_t j = first; j <= position; j++) sum += scores[j] = exp(scores[j] - most);
    memset(out, 0, m->d_head * sizeof *out);
    for (size_t j = first; j <= position; j++)
        for (size_t e = 0; e < m->d_head; e++) out[e] += scores[j] / sum * v[j * stride + e];
}

static double activate(const model_ref *m, double z)
{
    if (!m->gemma) return z / (1 + exp(-z));
    if (m->f16_gelu) z = vki_f16_to_f32(ref_f32_to_f16((float)z));
    const double y = 0.5 * z * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z)));
    return m->f16_gelu ? vki_f16_to_f32(ref_f32_to_f16((float)y)) : y;
}

static void add_branch(const model_ref *m, const float *post_norm, double *branch, double *x)
{
    if (post_norm) norm(m, post_norm, branch, m->d_model, branch);
    for (size_t i = 0; i < m->d_model; i++) x[i] += branch[i];
}

static void attention_branch(const model_ref *m, const layer *y, size_t n, double *x)
{
    const size_t D = m->d_model, E = m->d_head, HE = m->n_head * E, KE = m->n_head_kv * E;
    double *h = allocate(D, sizeof *h), *q = allocate(n * HE, sizeof *q),
           *k = allocate(n * KE, sizeof *k);
    double *v = allocate(n * KE, sizeof *v), *scores = allocate(n, sizeof *scores);
    double *out = allocate(HE, sizeof *out);
    for (size_t t = 0; t < n; t++) {
        norm(m, y->attn_norm, x + t * D, D, h);
        multiply(&y->q, h, q + t * HE);
        multiply(&y->k, h, k + t * KE);
        multiply(&y->v, h, v + t * KE);
        norm_and_rotate(m, y, y->q_norm, t, m->n_head, q + t * HE);
        norm_and_rotate(m, y, y->k_norm, t, m->n_head_kv, k + t * KE);
    }
    for (size_t t = 0; t < n; t++) {
        for (size_t head = 0; head < m->n_head; head++) {
            const size_t kv = head / (m->n_head / m->n_head_kv) * E;
            attend(m, y, t, q + t * HE + head * E, k + kv, v + kv, scores, out + head * E);
        }
        multiply(&y->o, out, h);
        add_branch(m, y->post_attn_norm, h, x + t * D);
    }
    free(h);
    free(q);
    free(k);
    free(v);
    free(scores);
    free(out);
}

static void ffn_branch(const model_ref *m, const layer *y, size_t n, double *x)
{
    const size_t D = m->d_model, F = m->d_ff;
    double *h = allocate(D, sizeof *h), *gate = allocate(F, sizeof *gate),
           *up = allocate(F, sizeof *up);
    for (size_t t = 0; t < n; t++) {
        norm(m, y->ffn_norm, x + t * D, D, h);
        multiply(&y->gate, h, gate);
        multiply(&y->up, h, up);
        for (size_t i = 0; i < F; i++) up[i] *= activate(m, gate[i]);
        multiply(&y->down, up, h);
        add_branch(m, y->post_ffn_norm, h, x + t * D);
    }
    free(h);
    free(gate);
    free(up);
}

void model_ref_logits(const model_ref *m, const int32_t *ids, size_t n, double *logits)
{
    const size_t D = m->d_model;
    double *x = allocate(n * D, sizeof *x), *h = allocate(D, sizeof *h);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < D; i++)
            x[t * D + i] = (double)m->embedding.weights[(size_t)ids[t] * D + i] *
                           (m->gemma ? sqrt((double)D) : 1);
    for (size_t l = 0; l < m->n_layer; l++) {
        attention_branch(m, &m->layers[l], n, x);
        ffn_branch(m, &m->layers[l], n, x);
    }
    for (size_t t = 0; t < n; t++) {
        norm(m, m->output_norm, x + t * D, D, h);
        multiply(&m->head, h, logits + t * m->n_vocab);
    }
    free(x);
    free(h);
}
