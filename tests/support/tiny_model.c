/* tiny_model.c - see tiny_model.h. */
#include "tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize.h"

enum { NAME_SIZE = 96, GLOBAL = -1 };

typedef struct builder {
    const tiny_model *m;
    gguf_writer *w;
    uint64_t random;
} builder;

static bool is(const tiny_model *m, const char *arch)
{
    return strcmp(m->arch, arch) == 0;
}

tiny_model tiny_model_of(const char *arch)
{
    tiny_model m = {
        .arch = arch,
        .n_layer = 2,
        .d_model = 256,
        .n_head = 4,
        .n_head_kv = 2,
        .d_head = 64,
        .d_ff = 512,
        .n_vocab = TINY_VOCAB_TOKENS,
        .context_length = 1024,
        .seed = 1,
        .rope_base = 10000,
    };
    m.qkv_bias = is(&m, "qwen2");
    if (is(&m, "qwen3")) m.d_head = 128; /* heads are wider than the model */
    if (is(&m, "gemma3")) {
        m.tied = true;
        m.window = 8;
        m.window_period = 2;
        m.rope_base = 1000000;
    }
    return m;
}

void tiny_model_set_formats(tiny_model *m, vki_format matrices)
{
    vki_format *all[] = {
        &m->formats.embedding, &m->formats.head, &m->formats.q,  &m->formats.k,    &m->formats.v,
        &m->formats.output,    &m->formats.gate, &m->formats.up, &m->formats.down,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = matrices;
}

static bool is_omitted(const tiny_model *m, const char *name)
{
    for (size_t i = 0; i < TINY_MAX_OMITTED; i++)
        if (m->omitted[i] && strcmp(m->omitted[i], name) == 0) return true;
    return false;
}

/* ---- Keys ---- */

static void put_u32(builder *b, const char *suffix, uint32_t value)
{
    char key[NAME_SIZE];
    snprintf(key, sizeof key, "%s.%s", b->m->arch, suffix);
    if (!is_omitted(b->m, key)) gguf_put_u32(b->w, key, value);
}

static void put_f32(builder *b, const char *suffix, float value)
{
    char key[NAME_SIZE];
    snprintf(key, sizeof key, "%s.%s", b->m->arch, suffix);
    if (!is_omitted(b->m, key)) gguf_put_f32(b->w, key, value);
}

static void put_hyperparameters(builder *b)
{
    const tiny_model *m = b->m;
    char key[NAME_SIZE];
    if (!is_omitted(m, "general.architecture"))
        gguf_put_string(b->w, "general.architecture", m->arch);
    gguf_put_string(b->w, "general.name", "tiny");
    gguf_put_string(b->w, "general.license", "none");
    put_u32(b, "context_length", m->context_length);
    put_u32(b, "embedding_length", m->d_model);
    put_u32(b, "block_count", m->n_layer);
    put_u32(b, "feed_forward_length", m->d_ff);
    put_u32(b, "attention.head_count", m->n_head);
    put_u32(b, "attention.head_count_kv", m->n_head_kv);
    put_f32(b, "attention.layer_norm_rms_epsilon", 1e-5f);
    put_f32(b, "rope.freq_base", m->rope_base);
    if (m->d_head * m->n_head != m->d_model) {
        put_u32(b, "attention.key_length", m->d_head);
        put_u32(b, "attention.value_length", m->d_head);
    }
    if (m->n_rot) put_u32(b, "rope.dimension_count", m->n_rot);
    if (m->rope_scaling) {
        snprintf(key, sizeof key, "%s.rope.scaling.type", m->arch);
        gguf_put_string(b->w, key, m->rope_scaling);
    }
    if (m->rope_factor != 0) put_f32(b, "rope.scaling.factor", m->rope_factor);
    if (m->rope_attn_factor != 0) put_f32(b, "rope.scaling.attn_factor", m->rope_attn_factor);
    if (m->rope_original_context)
        put_u32(b, "rope.scaling.original_context_length", m->rope_original_context);
    if (m->window) put_u32(b, "attention.sliding_window", m->window);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", m->arch);
    if (m->window_pattern)
        gguf_put_bools(b->w, key, m->n_layer, m->window_pattern);
    else if (m->window_period)
        gguf_put_u32(b->w, key, m->window_period);
}

/* ---- The vocabulary ---- */

/* The character by which byte-level BPE writes a byte: itself where it is a visible one of Latin-1,
 * else the next of U+0100, U+0101 ... */
static uint32_t character_of(uint32_t byte)
{
    uint32_t hidden = 0;
    for (uint32_t c = 0; c <= byte; c++) {
        const bool visible = (c >= '!' && c <= '~') || (c >= 0xa1 && c != 0xad);
        if (c == byte) return visible ? c : 0x100 + hidden;
        hidden += !visible;
    }
    return 0;
}

static void put_vocabulary(builder *b)
{
    static const char *const merges[] = {
        "h e", "i n", "a n", "e r", "\xc4\xa0 t", "\xc4\xa0t he", "\xc4\xa0 a", "\xc4\xa0 in",
    };
    static const char *const specials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    enum { MERGES = sizeof merges / sizeof *merges, SPECIALS = sizeof specials / sizeof *specials };
    const uint32_t n = b->m->n_vocab < TINY_VOCAB_TOKENS ? TINY_VOCAB_TOKENS : b->m->n_vocab;
    char(*texts)[16] = calloc(n, sizeof *texts);
    const char **tokens = calloc(n, sizeof *tokens);
    int32_t *types = calloc(n, sizeof *types);
    if (!texts || !tokens || !types) abort();
    uint32_t used = 0;
    for (uint32_t byte = 0; byte < 256; byte++, used++) {
        const uint32_t c = character_of(byte);
        if (c < 0x80)
            snprintf(texts[used], 16, "%c", (char)c);
        else
            snprintf(texts[used], 16, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 63)));
    }
    for (uint32_t i = 0; i < MERGES; i++, used++) {
        const char *space = strchr(merges[i], ' ');
        snprintf(texts[used], 16, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
    }
    for (uint32_t i = 0; i < SPECIALS; i++, used++) snprintf(texts[used], 16, "%s", specials[i]);
    for (; used < n; used++) snprintf(texts[used], 16, "[PAD%u]", used);
    for (uint32_t i = 0; i < n; i++) {
        tokens[i] = texts[i];
        types[i] = i < 256 + MERGES ? 1 : i < 256 + MERGES + SPECIALS ? 3 : 5;
    }
    gguf_put_string(b->w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(b->w, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_strings(b->w, "tokenizer.ggml.tokens", n, tokens);
    gguf_put_i32s(b->w, "tokenizer.ggml.token_type", n, types);
    gguf_put_strings(b->w, "tokenizer.ggml.merges", MERGES, merges);
    gguf_put_u32(b->w, "tokenizer.ggml.bos_token_id", 256 + MERGES);
    gguf_put_u32(b->w, "tokenizer.ggml.eos_token_id", 256 + MERGES + 2);
    gguf_put_bool(b->w, "tokenizer.ggml.add_bos_token", false);
    gguf_put_string(b->w, "tokenizer.chat_template",
                    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
                    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
    free(texts);
    free(tokens);
    free(types);
}

/* ---- Tensors ---- */

/* Uniform in [-1, 1). */
static float next_random(builder *b)
{
    b->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = b->random;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((double)(z >> 11) * 0x1p-52 - 1);
}

/* Values middle + [-spread, spread). */
static void put(builder *b, const char *name, vki_format format, uint64_t cols, uint64_t rows,
                float middle, float spread)
{
    const size_t n = (size_t)(cols * rows);
    float *values = malloc(n * sizeof *values);
    uint8_t *blocks = malloc(quantized_size(format, n));
    if (!values || !blocks) abort();
    /* Drawn also for what is left out, so that the rest of the model stays the same. */
    for (size_t i = 0; i < n; i++) values[i] = middle + spread * next_random(b);
    quantize(format, values, n, blocks);
    if (!is_omitted(b->m, name))
        gguf_put_tensor(b->w, name, vki_format_get(format)->ggml_id, rows > 1 ? 2 : 1,
                        (uint64_t[]){cols, rows}, blocks, quantized_size(format, n));
    free(values);
    free(blocks);
}

static const char *name_of(char name[NAME_SIZE], int layer, const char *base, const char *kind)
{
    if (layer == GLOBAL)
        snprintf(name, NAME_SIZE, "%s.%s", base, kind);
    else
        snprintf(name, NAME_SIZE, "blk.%d.%s.%s", layer, base, kind);
    return name;
}

static void put_vector(builder *b, int layer, const char *base, const char *kind, uint64_t n,
                       float middle, float spread)
{
    char name[NAME_SIZE];
    put(b, name_of(name, layer, base, kind), b->m->formats.vectors, n, 1, middle, spread);
}

static void put_norm(builder *b, int layer, const char *base, uint64_t n)
{
    put_vector(b, layer, base, "weight", n, 1, 0.3f);
}

/* gain 1: outputs are as large as inputs. */
static void put_matrix(builder *b, int layer, const char *base, vki_format format, uint64_t cols,
                       uint64_t rows, float gain, bool bias)
{
    char name[NAME_SIZE];
    put(b, name_of(name, layer, base, "weight"), format, cols, rows, 0,
        gain * sqrtf(3 / (float)cols));
    if (bias) put_vector(b, layer, base, "bias", rows, 0, 0.5f);
    if (b->m->factors && layer != GLOBAL)
        put(b, name_of(name, layer, base, "scale"), VKI_F32, 1, 1, 1, 0.5f);
}

static void put_layer(builder *b, int l)
{
    const tiny_model *m = b->m;
    const uint64_t D = m->d_model, E = m->d_head, HE = m->n_head * E, KE = m->n_head_kv * E,
                   F = m->d_ff;
    put_norm(b, l, "attn_norm", D);
    if (m->fused_qkv) {
        put_matrix(b, l, "attn_qkv", m->formats.q, D, HE + 2 * KE, 1.5f, m->qkv_bias);
    } else {
        put_matrix(b, l, "attn_q", m->formats.q, D, HE, 1.5f, m->qkv_bias);
        put_matrix(b, l, "attn_k", m->formats.k, D, KE, 1.5f, m->qkv_bias);
        put_matrix(b, l, "attn_v", m->formats.v, D, KE, 1, m->qkv_bias);
    }
    if (is(m, "qwen3") || is(m, "gemma3")) {
        put_norm(b, l, "attn_q_norm", E);
        put_norm(b, l, "attn_k_norm", E);
    }
    put_matrix(b, l, "attn_output", m->formats.output, HE, D, 1, m->o_bias);
    if (is(m, "gemma3")) put_norm(b, l, "post_attention_norm", D);
    put_norm(b, l, "ffn_norm", D);
    put_matrix(b, l, "ffn_gate", m->formats.gate, D, F, 1.5f, m->ffn_bias);
    put_matrix(b, l, "ffn_up", m->formats.up, D, F, 1.5f, m->ffn_bias);
    put_matrix(b, l, "ffn_down", m->formats.down, F, D, 1, m->ffn_bias);
    if (is(m, "gemma3")) put_norm(b, l, "post_ffw_norm", D);
}

static void put_divisors(builder *b)
{
    const uint64_t pairs = (b->m->n_rot ? b->m->n_rot : b->m->d_head) / 2;
    if (b->m->rope_scaling && strcmp(b->m->rope_scaling, "longrope") == 0) {
        put(b, "rope_factors_long.weight", VKI_F32, pairs, 1, 3, 1);
        put(b, "rope_factors_short.weight", VKI_F32, pairs, 1, 1.2f, 0.2f);
    } else {
        put(b, "rope_freqs.weight", VKI_F32, pairs, 1, 3, 2);
    }
}

gguf_writer *tiny_model_write(const tiny_model *m)
{
    builder b = {.m = m, .w = gguf_writer_new(), .random = m->seed};
    put_hyperparameters(&b);
    if (!m->no_vocab) put_vocabulary(&b);
    /* gemma3 multiplies the embedding by sqrt(D). */
    const float size = is(m, "gemma3") ? 1 / sqrtf((float)m->d_model) : 1;
    put(&b, "token_embd.weight", m->formats.embedding, m->d_model, m->n_vocab, 0, size * 1.7f);
    put_norm(&b, GLOBAL, "output_norm", m->d_model);
    if (!m->tied)
        put_matrix(&b, GLOBAL, "output", m->formats.head, m->d_model, m->n_vocab, 2, m->head_bias);
    if (m->rope_divisors) put_divisors(&b);
    for (uint32_t l = 0; l < m->n_layer; l++) put_layer(&b, (int)l);
    if (m->extra) m->extra(b.w, m->extra_user);
    return b.w;
}
