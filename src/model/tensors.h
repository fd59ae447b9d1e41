/* tensors.h - what a model's matrices and vectors are made of: found in the file and checked. */
#ifndef VKI_TENSORS_H
#define VKI_TENSORS_H

#include "model/arch.h"

/* The rows of one tensor within a stack. */
typedef struct vki_part {
    const vki_gguf_tensor *tensor; /* NULL: zeros, a bias that only its neighbours have */
    vki_format format;
    uint32_t rows;
    uint32_t n_halved;             /* the first so many rows have rotary pairs in halves */
    float scale;                   /* multiplies the weights; 1 unless they are F32 */
} vki_part;

/* What becomes one matrix or, with one column, one vector. */
typedef struct vki_stack {
    const vki_rule *rule;
    void *member;                  /* a vki_matrix or an address in vki_weights or vki_layer */
    vki_part parts[VKI_MAX_PARTS];
    uint32_t n_parts, rows, cols;
} vki_stack;

typedef struct vki_stacks {
    const vki_host *host;          /* borrowed */
    vki_stack *items;              /* owned */
    size_t n, capacity;
    bool *used;                    /* owned: for each tensor of the file */
} vki_stacks;

/* Everything that weights->hparams.arch needs, and what it takes. weights->layers exists already.
 * BAD_FILE: a missing tensor, another shape. UNSUPPORTED: a format, a tensor of another
 * architecture. Warns in the log about tensors that nothing uses. */
vklm_status vki_stacks_find(vki_stacks *stacks, vki_weights *weights, const vki_gguf *gguf, vklm_error *error);
void vki_stacks_free(vki_stacks *stacks);

/* The row of the part's tensor that becomes row `row` of the part. */
uint32_t vki_part_file_row(const vki_part *part, const vki_hparams *hparams, uint32_t row);

#endif
