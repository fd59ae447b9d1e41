/* tiny_model.h - random GGUF models of each architecture, small enough for a CPU reference.
 *
 *     tiny_model m = tiny_model_of("qwen3");
 *     m.n_layer = 3; m.formats.down = VKI_Q6_K;
 *     gguf_writer *w = tiny_model_write(&m);
 *     gguf_writer_finish(w, &bytes, &size);  or  gguf_writer_save(w, path);
 *     gguf_writer_free(w);
 *
 * Weights are uniform, of a size that keeps activations near 1 and gives attention something to
 * choose. The vocabulary is byte-level BPE: the 256 bytes, a few merges, ChatML's special tokens.
 */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "file/format.h"
#include "gguf_writer.h"

enum { TINY_MAX_OMITTED = 4, TINY_VOCAB_TOKENS = 272 };

typedef struct tiny_model {
    const char *arch;
    uint32_t n_layer, d_model, n_head, n_head_kv, d_head, d_ff, n_vocab, context_length;
    uint32_t n_rot;                 /* 0: d_head, no key */
    uint64_t seed;
    struct {
        vki_format embedding, head, q, k, v, output, gate, up, down, vectors;
    } formats;
    bool tied;                      /* no output.weight */
    bool default_precision; /* not of the file: loaded for int8 activations where the device has them */
    bool fused_qkv;                 /* attn_qkv in place of attn_q, attn_k, attn_v */
    bool qkv_bias, ffn_bias, o_bias, head_bias;
    bool factors;                   /* ".scale" beside every matrix of a layer, for F32 */
    bool no_vocab;                  /* no tokenizer keys */
    float rope_base;
    const char *rope_scaling;       /* value of rope.scaling.type, NULL: no key */
    float rope_factor, rope_attn_factor; /* 0: no key */
    uint32_t rope_original_context; /* 0: no key */
    bool rope_divisors;             /* rope_freqs, or with "longrope" the two rope_factors */
    uint32_t window;                /* 0: no key */
    uint32_t window_period;         /* 0: no key */
    const bool *window_pattern;     /* n_layer values in place of the period, or NULL */
    const char *omitted[TINY_MAX_OMITTED]; /* names of keys and tensors to leave out */
    void (*extra)(gguf_writer *w, void *user); /* puts more keys and tensors; may be NULL */
    void *extra_user;
} tiny_model;

/* Two layers, all F32, with what the architecture has and nothing optional. Rows are multiples of
 * 256, so that every format is possible. */
tiny_model tiny_model_of(const char *arch);
void tiny_model_set_formats(tiny_model *m, vki_format matrices);

/* Put what is to be added, then finish or save, and free. */
gguf_writer *tiny_model_write(const tiny_model *m);

#endif
