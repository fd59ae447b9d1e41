/* model.h - a model as loaded: hyperparameters, weights on the device, rotary tables.
 *
 * arch.c    the architectures as data: names of tensors, flags, rules
 * hparams.c reads and checks the metadata of any of them
 * weights.c finds, checks, repacks and uploads the tensors
 * forward.c the forward pass as one readable list of operations
 * kv.c      the pages of the KV cache
 *
 * Dimension letters as everywhere: N layers, D width, H query heads, K kv heads, E head size, F
 * feed-forward width, V vocabulary.
 */
#ifndef VKI_MODEL_H
#define VKI_MODEL_H

#include "file/gguf.h"
#include "gpu/memory.h"
#include "kernel/matrix.h"

enum { VKI_MAX_LAYERS = 512 };

typedef enum vki_activation { VKI_SILU, VKI_GELU } vki_activation;

/* One of at most two rotary tables: gemma3 turns windowed layers with another base. */
enum { VKI_ROPE_FULL, VKI_ROPE_WINDOWED, VKI_ROPE_TABLES };

/* How angles are stretched for contexts longer than the model was first trained for; rope_table.c. */
typedef enum vki_rope_scaling {
    VKI_ROPE_PLAIN,
    VKI_ROPE_LINEAR,
    VKI_ROPE_YARN,
    VKI_ROPE_LONG,
} vki_rope_scaling;

typedef struct vki_hparams {
    const struct vki_arch *arch;   /* static data */
    uint32_t n_layer, d_model, n_head, n_head_kv, d_head, d_ff, n_vocab;
    uint32_t context_length;
    uint32_t n_rot;                /* rotated values of a head, even, at most d_head */
    float norm_epsilon;
    float attention_scale;         /* multiplies q */
    float embedding_scale;
    vki_activation activation;
    uint32_t window;               /* keys that a windowed layer sees, itself included; 0: none */
    bool windowed[VKI_MAX_LAYERS]; /* which layers those are */
    float rope_base, rope_base_windowed;
    /* Rotary scaling, of the full layers only. */
    vki_rope_scaling rope_scaling;
    float rope_factor;             /* how many times the trained context the model was stretched */
    float rope_attention_factor;   /* multiplies cos and sin, of both tables */
    uint32_t rope_original_context;
} vki_hparams;

typedef struct vki_layer {
    /* Device addresses of f32 vectors; 0 where the architecture has none. */
    uint64_t attn_norm, ffn_norm, post_attn_norm, post_ffn_norm; /* [D] */
    uint64_t q_norm, k_norm;                                      /* [E], permuted as q and k rows are */
    uint64_t qkv_bias;                                            /* [(H+2K)E], as the rows of qkv */
    uint64_t o_bias, gate_bias, up_bias, down_bias;
    vki_matrix qkv;   /* (H+2K)E x D: all q rows, all k rows, all v rows. Within each q and k head the
                         rows are permuted so that rotary pairs are adjacent: (0,1), (2,3) ... then the
                         rows that are not rotated */
    vki_matrix o;     /* D x HE */
    vki_matrix gate;  /* F x D */
    vki_matrix up;    /* F x D */
    vki_matrix down;  /* D x F */
    uint32_t window;  /* 0: sees all keys */
    uint32_t rope;    /* VKI_ROPE_FULL or VKI_ROPE_WINDOWED */
} vki_layer;

typedef struct vki_weights {
    vklm_device *device;       /* borrowed */
    vki_hparams hparams;
    vki_layer *layers;         /* owned, n_layer */
    vki_matrix embedding;      /* V x D; rows are read by token */
    vki_matrix head;           /* V x D; the same segments as embedding where tied */
    bool tied;
    uint64_t output_norm;      /* [D] */
    uint64_t head_bias;        /* [V], added to the logits; 0: none */
    /* Rotary tables, f32 pairs (cos, sin) times the attention factor, made in double precision. The angle
     * of position p is that of its high part plus that of its low part: table[t] holds
     * VKI_ROPE_LOW rows for the positions 0..VKI_ROPE_LOW-1, then rows for multiples of
     * VKI_ROPE_LOW up to context_length; a row is n_rot / 2 pairs. The attention factor is in the low
     * rows only. */
    uint64_t rope_table[VKI_ROPE_TABLES];
    vki_pool pool;             /* owned: every weight */
    vki_arena arena;           /* owned: segments, strings */
    uint64_t n_params, weight_bytes, decode_bytes;
    vklm_model_info info;      /* strings in the arena */
} vki_weights;

enum { VKI_ROPE_LOW = 256 };

/* How a model is loaded; zeros are fine. */
typedef struct vki_load_params {
    bool (*report)(void *user, double fraction); /* false cancels; may be NULL */
    /* Called once all of vki_weights is there but the bytes on the device: plans can be built. May be NULL. */
    vklm_status (*placed)(void *user, vklm_error *error);
    void *user;
    uint32_t threads;                            /* that repack, the caller's included; 0: it alone */
} vki_load_params;

/* Reads and checks the metadata; UNSUPPORTED names the architecture or the feature, BAD_FILE the key. */
vklm_status vki_hparams_read(const vki_gguf *gguf, vklm_error *error, vki_hparams *hparams);

/* hparams_read, then every tensor: found, its shape and format checked, repacked, uploaded; on a device that only
 * counts, all but the last two. Files with tensors that the
 * architecture does not know are loaded with a warning in the log. params may be NULL. On failure *weights is as
 * after vki_weights_free. */
vklm_status vki_weights_load(vki_weights *weights, vklm_device *device, const vki_gguf *gguf,
                             const vki_load_params *params, vklm_error *error);
/* About how much host memory that takes at most; with `read`, from a source that is read by calls. */
uint64_t vki_weights_host_bytes(const vki_hparams *hparams, bool read);

/* Safe on zeroed weights. */
void vki_weights_free(vki_weights *weights);

#endif
