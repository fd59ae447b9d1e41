/* kernels.h - one typed function per operation: checks shapes, picks the variant for the device,
 * appends dispatches to a plan. Knows nothing of files or tokens.
 *
 * Activations are f32 matrices [rows][stride] at device addresses. All functions may be called on any
 * plan; nothing is recorded here. A variant's pipeline is made on first use: the model layer builds
 * every shape once at load, so that later plans only find them.
 */
#ifndef VKI_KERNELS_H
#define VKI_KERNELS_H

#include "gpu/plan.h"
#include "kernel/matrix.h"
#include "kernel/tune.h"

enum { VKI_KV_PAGE_KEYS = 256, VKI_ROW_STATE_BYTES = 32 };

typedef struct vki_kernels {
    vki_pipelines *pipelines; /* borrowed */
    vki_tuning tuning;
    vki_plan *plan;           /* borrowed: where dispatches go */
    uint32_t layer;           /* stamped on them; UINT32_MAX outside layers */
    bool int8;                /* quantised weights meet int8 activations */
    bool high_precision;      /* f32 activations everywhere, no f16 in products */
} vki_kernels;

/* high_precision: f32 activations everywhere. */
void vki_kernels_init(vki_kernels *kernels, vki_pipelines *pipelines, const vki_limits *limits,
                      bool high_precision);

/* f32 [rows][stride]; stride in elements. Rows are padded to a multiple of 32 elements. */
typedef struct vki_span {
    uint64_t address;
    uint32_t rows, stride;
} vki_span;

/* Rows first .. first + rows - 1. */
static inline vki_span vki_span_rows(vki_span span, uint32_t first, uint32_t rows)
{
    return (vki_span){span.address + (uint64_t)first * span.stride * 4, rows, span.stride};
}

/* The same as int8 in blocks of 32: bytes [rows][stride], scales [rows][stride / 32] of (d, d * sum). */
typedef struct vki_span8 {
    uint64_t bytes, scales; /* bytes 0: there is none */
    uint32_t rows, stride;
} vki_span8;

static inline vki_span8 vki_span8_rows(vki_span8 span, uint32_t first, uint32_t rows)
{
    return (vki_span8){span.bytes + (uint64_t)first * span.stride,
                       span.scales + (uint64_t)first * span.stride / 4, rows, span.stride};
}

/* Whether vki_matvec reads int8 or f32 activations with this matrix; both where it mixes formats. */
bool vki_matrix_reads_int8(const vki_kernels *kernels, const vki_matrix *w);
bool vki_matrix_reads_f32(const vki_kernels *kernels, const vki_matrix *w);
/* Whether vki_matmul reads int8 activations with any of it. */
bool vki_matmul_reads_int8(const vki_kernels *kernels, const vki_matrix *w);

/* y = int8 of the first `width` columns of x, rounded up to whole blocks. */
vklm_status vki_quantize(vki_kernels *kernels, vki_span x, uint32_t width, vki_span8 y, vklm_error *error);

/* How heads lie in a KV page: for each layer k [K][VKI_KV_PAGE_KEYS][pad], then v alike. */
typedef struct vki_heads {
    uint32_t n_head, n_head_kv, d_head, pad; /* pad: d_head rounded up to 8 */
    bool kv_f32;
    uint32_t layer_bytes;                    /* of one layer in a page */
} vki_heads;

vki_heads vki_heads_of(uint32_t n_head, uint32_t n_head_kv, uint32_t d_head, bool kv_f32);

/* Rows as vki_matvec reads and leaves them (shaders/lib/quantize.glsl): f32 [width], at distances of 4 * width bytes;
 * `width` bytes with the blocks' (d, d * sum) behind them, alike; or SPREAD, at distances of 5 * width bytes: each byte
 * as an f32, which software Vulkan multiplies faster, with the same results to the bit. */
typedef enum vki_form { VKI_FORM_F32, VKI_FORM_INT8, VKI_FORM_SPREAD } vki_form;

typedef struct vki_operand {
    uint64_t address; /* 0: there is none */
    uint32_t rows, width;
    vki_form form;
} vki_operand;

/* What as many rows take as a batch has at most, in units of rows of f32. */
enum { VKI_MAX_BATCH = 8, VKI_BATCH_ROWS = VKI_MAX_BATCH * 5 / 4 };
uint64_t vki_operand_row_bytes(vki_form form, uint32_t width);
/* How a vki_matvec of so many columns reads w's x. */
vki_form vki_matvec_form(const vki_kernels *kernels, const vki_matrix *w, uint32_t columns);

/* x[row] = scale * embedding[token of row]; state: address of row_state [x.rows]. With `next`, of as many rows:
 * gain * x is left there, and the sums of squares of x by block. */
typedef struct vki_embed_args {
    const vki_matrix *embedding;
    uint64_t state;
    vki_span x;
    float scale;
    vki_operand next;
    uint64_t gain, squares;
} vki_embed_args;
vklm_status vki_embed(vki_kernels *kernels, const vki_embed_args *args, vklm_error *error);

/* y[col][i] = epilogue(row first_row + i of w times x[col]), i < n_rows, col < x.rows: bias[i] added,
 * then multiplied with act(gate[col][i]), then residual[col][i] added. y, gate and residual have
 * one stride; residual may be y. Addresses of 0 leave a step out. */
typedef struct vki_matmul_args {
    const char *name;
    const vki_matrix *w;
    uint32_t first_row, n_rows; /* n_rows 0: all */
    vki_span x, y;
    vki_span8 x8; /* read instead of x where vki_matmul_reads_int8 */
    uint64_t bias, gate, residual;
    bool gelu;
} vki_matmul_args;
vklm_status vki_matmul(vki_kernels *kernels, const vki_matmul_args *args, vklm_error *error);

/* A product with up to VKI_MAX_BATCH columns and what comes before and after it, in one dispatch a segment:
 * shaders/lib/matvec.glsl. Each column's results are those it has alone, to the bit. */
typedef enum vki_epilogue {
    VKI_EPILOGUE_QKV, VKI_EPILOGUE_ADD, VKI_EPILOGUE_GATE, VKI_EPILOGUE_LOGITS, VKI_EPILOGUE_BRANCH,
} vki_epilogue;

typedef struct vki_matvec_args {
    const char *name;
    vki_epilogue epilogue;
    const vki_matrix *w, *up;   /* up: with GATE, which has w = gate */
    vki_operand x;
    uint64_t squares;           /* [x.rows][w->cols / 32], of x before its gain: x is normed; or 0 */
    float epsilon;
    uint64_t bias, up_bias;     /* up_bias: GATE */
    uint64_t y;                 /* [x.rows] of QKV: q [H pad]; ADD: the residual stream [w->rows], in and out;
                                   BRANCH: [w->rows]; LOGITS: logits [w->rows rounded up to 32] */
    vki_operand next;           /* ADD and GATE; LOGITS: its address takes the parts of the argmax, or 0 */
    uint64_t next_squares;      /* ADD, BRANCH */
    uint64_t gain;              /* ADD */
    vki_heads heads;            /* QKV and what follows */
    uint64_t state, table, q_norm, k_norm; /* norms: both or none */
    uint32_t n_rot;
    float q_scale;
    bool gelu;                  /* GATE */
} vki_matvec_args;
vklm_status vki_matvec(vki_kernels *kernels, const vki_matvec_args *args, vklm_error *error);

/* Whether vki_matvec can run this matrix: the subgroup's size is known, all rows read one kind of activations, and
 * segments end at blocks of 32 rows (`whole`: the last one too). */
bool vki_matvec_fits(const vki_kernels *kernels, const vki_matrix *w, bool whole);
/* Whether it can norm heads: a segment is of whole heads, and a head's blocks fit into a workgroup. */
bool vki_matvec_norms_heads(const vki_kernels *kernels, const vki_matrix *w, uint32_t d_head);

/* x += branch / sqrt(mean(branch^2) + epsilon) * weight, and what the next product reads of it. branch and its
 * squares as VKI_EPILOGUE_BRANCH leaves them. */
typedef struct vki_join_args {
    const char *name;
    uint64_t branch, branch_squares, weight; /* [next.rows][next.width], [next.rows][next.width / 32], [next.width] */
    float epsilon;
    uint64_t x;                              /* as branch */
    vki_operand next;
    uint64_t next_squares, gain;
} vki_join_args;
vklm_status vki_join(vki_kernels *kernels, const vki_join_args *args, vklm_error *error);

/* y = (residual +) x / sqrt(mean(x^2) + epsilon) * weight over the first `width` values. */
typedef struct vki_norm_args {
    const char *name;
    vki_span x, y;
    uint32_t width;
    uint64_t weight, residual; /* residual: rows of y's stride, or 0; may be y */
    float epsilon;
} vki_norm_args;
vklm_status vki_norm(vki_kernels *kernels, const vki_norm_args *args, vklm_error *error);

/* qkv [T][(H+2K)E] to q [T - first_q_row][H * pad] and the cache. */
typedef struct vki_rope_args {
    vki_heads heads;
    vki_span qkv, q;
    uint32_t first_q_row;
    uint64_t state, table, q_norm, k_norm;
    uint32_t n_rot;
    float epsilon, q_scale;
} vki_rope_args;
vklm_status vki_rope(vki_kernels *kernels, const vki_rope_args *args, vklm_error *error);

/* out [rows][H * E] = attention of q [rows][H * pad] over the cache of each row's sequence. Rows of one
 * call are either of one sequence at rising positions, or one row each (one_sequence false). */
typedef struct vki_attention_args {
    vki_heads heads;
    vki_span q, out;
    uint64_t state;    /* of the first of these rows */
    uint64_t partial;  /* scratch of vki_attention_scratch bytes */
    uint32_t window;
    uint32_t splits;   /* of a row at most, 1 to VKI_MAX_SPLITS */
    uint32_t split_keys; /* a row has as many as its own keys take, see vki_attention_splits; 0: every row has `splits` */
    uint32_t keys;     /* about how many keys a row sees, for the cost */
    bool one_sequence;
    vki_operand next;  /* of as many rows: the result goes there instead of out */
} vki_attention_args;
enum { VKI_MAX_SPLITS = 16 };
vklm_status vki_attention(vki_kernels *kernels, const vki_attention_args *args, vklm_error *error);
uint64_t vki_attention_scratch(const vki_heads *heads, uint32_t rows, uint32_t splits);
/* The split for a decode step over `keys` keys: grows with powers of two, so that a recorded step serves
 * for long. */
uint32_t vki_attention_splits(const vki_kernels *kernels, uint32_t keys);

/* The end of a step: a token for each row of logits [rows][stride], by the struct sampling (shaders/lib/push.h) that
 * its state names, into state, ring and history; then every row moves on by one position. Bias and penalties change
 * logits and parts in place. A row with a logit that is no finite number gets the token UINT32_MAX.
 * partial: rows * vki_sample_parts * 8 bytes: of each 32 logits the largest and its id, made by the head already
 * (has_parts) or here. ring: u32 [VKI_RING_STEPS][VKI_MAX_BATCH]. */
typedef struct vki_sample_args {
    vki_span logits;
    uint32_t n_vocab;
    uint64_t state, partial, ring;
    bool has_parts;
} vki_sample_args;
enum { VKI_RING_STEPS = 16 };
vklm_status vki_sample(vki_kernels *kernels, const vki_sample_args *args, vklm_error *error);
static inline uint32_t vki_sample_parts(uint32_t n_vocab)
{
    return (n_vocab + 31) / 32;
}

#endif
