/* arch.h - the architectures as data: one row each, and a table of tensor rules that all share. */
#ifndef VKI_ARCH_H
#define VKI_ARCH_H

#include "model/model.h"

/* Lengths of tensors, in the letters of model.h. */
typedef enum vki_extent {
    VKI_EXTENT_1,
    VKI_EXTENT_D,
    VKI_EXTENT_E,
    VKI_EXTENT_HE,
    VKI_EXTENT_KE,
    VKI_EXTENT_F,
    VKI_EXTENT_V,
} vki_extent;

/* Groups of tensors that an architecture needs, takes where they are there, or does not have. */
enum {
    VKI_GROUP_CORE = 1 << 0,
    VKI_GROUP_HEAD = 1 << 1,        /* absent: tied to the embedding */
    VKI_GROUP_HEAD_BIAS = 1 << 2,
    VKI_GROUP_QKV_BIAS = 1 << 3,
    VKI_GROUP_OTHER_BIAS = 1 << 4,  /* of o, gate, up, down */
    VKI_GROUP_QK_NORM = 1 << 5,
    VKI_GROUP_POST_NORM = 1 << 6,
};

/* Where a file may bring one factor for each matrix ("blk.0.attn_q.scale"). As in the reference,
 * that of an FFN matrix multiplies its bias too. */
enum { VKI_FACTORS_ATTENTION = 1 << 0, VKI_FACTORS_FFN = 1 << 1 };

enum { VKI_MAX_PARTS = 3, VKI_MAX_REFUSALS = 2 };

/* What becomes one matrix or one vector: up to three tensors, stacked. */
typedef struct vki_rule {
    /* Names without ".weight" or ".bias", in a layer behind "blk.N.". `fused` is one tensor of all
     * parts' rows, NULL: there is no such thing. */
    const char *parts[VKI_MAX_PARTS], *fused;
    vki_extent rows[VKI_MAX_PARTS], cols; /* cols of a vector: 1 */
    uint32_t n_rotary;                    /* so many of the parts are turned by rotary */
    uint32_t group, factors;
    bool is_vector, is_bias;
    size_t member;                        /* offset of a vki_matrix or a uint64_t address */
} vki_rule;

extern const vki_rule vki_layer_rules[];  /* members of vki_layer */
extern const vki_rule vki_model_rules[];  /* members of vki_weights */
extern const size_t vki_layer_rule_count, vki_model_rule_count;

typedef struct vki_arch {
    const char *name;
    uint32_t needs, takes;      /* groups */
    uint32_t factors;           /* others stay without effect */
    bool halves;                /* the file pairs i with i + n_rot / 2, else 2i with 2i + 1 */
    bool rotates_whole_head;    /* n_rot must be d_head */
    bool has_rope_factors;      /* divisors: rope_freqs, rope_factors_long and _short */
    bool scales_embedding;      /* by sqrt(D) */
    vki_activation activation;
    uint32_t window_period;     /* every so many-th layer sees all keys; 0: no windows */
    uint32_t wide_scale_layers; /* a model of so many layers scales q by 1 / sqrt(D / H); 0: none */
    /* Keys that must be absent or zero, and what they would switch on. */
    struct {
        const char *key, *what;
    } refuses[VKI_MAX_REFUSALS];
} vki_arch;

/* NULL where there is no such architecture. */
const vki_arch *vki_arch_find(const char *name, size_t len);

/* The names of all, separated by ", ". */
void vki_arch_names(char *text, size_t size);

#endif
