/* tune.h - which variant of each kernel a device runs: data only. */
#ifndef VKI_TUNE_H
#define VKI_TUNE_H

#include "gpu/device.h"

/* Of a matrix product: one workgroup of `local` invocations makes local / lanes * rows rows of `cols`
 * columns; see shaders/lib/matmul.glsl. cols: a power of two, the most of one workgroup. */
typedef struct vki_tile {
    uint32_t local, rows, lanes, cols;
} vki_tile;

typedef struct vki_tuning {
    const char *device_class;   /* "software", "gpu" */
    uint32_t subgroup;          /* required size of every pipeline; 0: unknown, assume nothing */
    vki_tile matvec, matvec8;   /* one column, f32 and int8 activations */
    vki_tile matmul, matmul8;   /* many */
    uint32_t matvec_subgroups;  /* fill the device: a block of rows is shared by several up to here */
    uint32_t matvec_most;       /* invocations of such a workgroup */
    uint32_t unit_local;        /* embedding, quantisation: a unit of 32 an invocation */
    uint32_t row_local;         /* norms, heads: a row or head a workgroup */
    uint32_t attention_local, attention_queries;       /* keys a block, queries a workgroup */
    uint32_t attention_values;  /* sums an invocation may hold: queries * head values of a lane */
    uint32_t split_keys;        /* keys of one split of decode attention */
    uint32_t argmax_local;
} vki_tuning;

vki_tuning vki_tuning_for(const vki_limits *limits);

#endif
