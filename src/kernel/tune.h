/* tune.h - which variant of each kernel a device runs: data only. */
#ifndef VKI_TUNE_H
#define VKI_TUNE_H

#include "gpu/device.h"

/* Of a matrix product: one workgroup of `local` invocations makes local / lanes * rows rows of `cols`
 * columns; see shaders/lib/matmul.glsl. cols: a power of two, the most of one workgroup. */
typedef struct vki_tile {
    uint32_t local, rows, lanes, cols;
} vki_tile;

/* Of a product with many columns. DIRECT: a vki_tile. The others share tiles of rows x cols a workgroup in shared
 * memory: TILE (int8 only, shaders/matmul_tile8.comp) in parts that an invocation makes, COOP (cooperative matrices of
 * `size`, shaders/lib/matmul_coop.glsl) in parts that a subgroup makes. */
typedef enum vki_structure { VKI_DIRECT, VKI_TILE, VKI_COOP } vki_structure;

typedef struct vki_block {
    vki_structure structure;
    uint32_t rows, cols, part_rows, part_cols;
    vki_matrix_size size;
} vki_block;

typedef struct vki_tuning {
    const char *device_class;   /* "software", "gpu", ...: tune.c */
    bool software;              /* what a compiler for CPUs makes of a kernel counts */
    uint32_t subgroup;          /* required size of every pipeline; 0: unknown, assume nothing */
    vki_tile matvec, matvec8;   /* one column, f32 and int8 activations */
    vki_tile matmul, matmul8;   /* many, where DIRECT */
    bool prompt_floats;         /* many: f32 activations always */
    vki_block block, block8;    /* of at least block_columns */
    uint32_t block_columns;
    uint32_t matvec_subgroups;  /* fill the device: a block of rows is shared by several up to here */
    uint32_t matvec_most;       /* invocations of such a workgroup */
    uint32_t row_cols, row_cols8; /* most columns of a product of few rows, f32 and int8: powers of two; of two
                                     matrices half as many */
    uint32_t few_cols;          /* least columns of one that has several */
    uint32_t spread_rows;       /* from so many columns on they are VKI_FORM_SPREAD; 0: never */
    uint32_t join_lanes;        /* that share a unit of 32 values, at most 8 */
    uint32_t prompt_rows;       /* up to so many rows of a prompt go through such products: more would be made anew
                                   at every load, for prompts that are rare */
    uint32_t workgroup_most;    /* invocations of any workgroup, where the subgroup is known */
    uint32_t unit_local;        /* embedding, quantisation: a unit of 32 an invocation */
    uint32_t row_local;         /* norms, heads: a row or head a workgroup */
    uint32_t attention_local, attention_queries;       /* keys a block, queries a workgroup */
    uint32_t attention_values;  /* sums an invocation may hold: queries * head values of a lane */
    uint32_t attention_step;    /* keys of an unrolled step */
    uint32_t attention_rows;    /* from so many rows of one sequence on, a row an invocation; 0: never */
    uint32_t attention_row_values; /* then: query values times keys of an unrolled step, at most */
    uint32_t attention_coop;    /* from so many rows of one sequence on, cooperative matrices where `block` has them;
                                   0: never */
    uint32_t attention_subgroups; /* then: of a workgroup, a power of two */
    uint32_t attention_sums;    /* and sums and scores that a subgroup holds, at most */
    uint32_t split_keys;        /* keys of one split of decode attention */
    uint32_t argmax_local;
} vki_tuning;

vki_tuning vki_tuning_for(const vki_limits *limits);

/* Whether device and build can run the block with pipelines of that subgroup size; sets the size of its matrices. */
bool vki_block_fits(vki_block *block, bool int8, uint32_t subgroup, const vki_limits *limits);

#endif
