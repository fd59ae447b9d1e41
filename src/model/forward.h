/* forward.h - the forward pass: the operations of a model, appended to a plan.
 *
 * One pass serves prefill (T rows of one sequence) and decode (a row each of up to VKI_MAX_BATCH
 * sequences); they differ in which kernels the row count selects. A pass leaves K and V of all rows in
 * the cache; only the last n_out rows go past K and V in the last layer.
 */
#ifndef VKI_FORWARD_H
#define VKI_FORWARD_H

#include "kernel/kernels.h"
#include "model/model.h"

/* The activations of up to `rows` rows, and the device's side of their state. */
typedef struct vki_activations {
    vklm_device *device;      /* borrowed */
    uint32_t rows;
    vki_pool pool;            /* owned, device-local: everything below but state */
    vki_buffer state;         /* owned, shared: row_state [rows] */
    uint64_t x, normed, branch;      /* [rows][D]: residual stream, norm, a branch before its post-norm */
    uint64_t qkv, q, attended;       /* [rows][(H+2K)E], [rows][H pad], [rows][HE] */
    uint64_t gate, hidden;           /* [rows][F]; share memory with qkv, q and attended */
    uint64_t bytes, scales;          /* int8 of what the next product reads, [rows][widest] */
    uint64_t partial;                /* attention splits, argmax parts */
} vki_activations;

/* Zeroed memory: padding columns must hold finite numbers. splits: most attention splits to come. */
vklm_status vki_activations_init(vki_activations *activations, vklm_device *device,
                                 const vki_hparams *hparams, uint32_t rows, uint32_t splits,
                                 vklm_error *error);
void vki_activations_free(vki_activations *activations);

/* Bytes that one more row costs. */
uint64_t vki_activation_row_bytes(const vki_hparams *hparams);

/* The host's side of a row of the state, as shaders/lib/push.h declares it. */
void vki_state_write(vki_activations *activations, uint32_t row, uint64_t pages, vklm_token token,
                     uint32_t position, uint32_t step);

/* The address of the struct sampling by which the device draws the row's tokens; 0, as after vki_state_write: greedy. */
void vki_state_sampling(vki_activations *activations, uint32_t row, uint64_t sampling);

typedef struct vki_pass {
    const vki_weights *weights;
    const vki_activations *activations;
    vki_kernels *kernels;
    bool kv_f32;
    bool one_sequence;      /* rows of one sequence at rising positions; else a sequence each */
    uint32_t rows;          /* T */
    uint32_t n_out;         /* how many of the last rows go on to the head; decode: all */
    uint32_t keys;          /* about how many keys a row sees */
    uint32_t splits;        /* of the attention: of the row with most keys; others of several sequences have fewer */
} vki_pass;

static inline uint32_t vki_pass_split_keys(const vki_pass *pass)
{
    return pass->one_sequence ? 0 : pass->kernels->tuning.split_keys;
}

/* Embedding and all layers; the residual stream of the n_out rows is left in the last rows of x. */
vklm_status vki_forward_layers(const vki_pass *pass, vklm_error *error);

/* Final norm and head of rows first .. first + logits.rows - 1 of x (at most VKI_MAX_BATCH). */
vklm_status vki_forward_head(const vki_pass *pass, uint32_t first, vki_span logits, vklm_error *error);

/* The same for up to VKI_MAX_BATCH rows by fewer dispatches, where the model and the device allow it: all rows go
 * on to the head's door, which is vki_forward_rows_head. A row's results are the same to the bit in every batch
 * (with as many attention splits). parts: of each row the largest logit and its id of each 32, or 0. */
bool vki_forward_rows_fits(const vki_weights *weights, const vki_kernels *kernels);
vklm_status vki_forward_rows(const vki_pass *pass, vklm_error *error);
vklm_status vki_forward_rows_head(const vki_pass *pass, uint32_t first, vki_span logits, uint64_t parts,
                                  vklm_error *error);

/* How many parts vki_forward_rows_head makes of a row. */
static inline uint32_t vki_logit_parts(const vki_hparams *hparams)
{
    return vki_sample_parts(hparams->n_vocab);
}

#endif
