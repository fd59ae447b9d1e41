/* tune.h - which variant of each kernel a device runs: data only. */
#ifndef VKI_TUNE_H
#define VKI_TUNE_H

#include "gpu/device.h"

typedef struct vki_tuning {
    const char *device_class;   /* "software", "gpu" */
    uint32_t subgroup;          /* required size of every pipeline; 0: unknown, assume nothing */
    uint32_t matvec_local, matvec_rows, matvec_lanes;  /* one column */
    uint32_t matmul_local, matmul_rows, matmul_cols;   /* many; cols: a power of two */
    uint32_t row_local;         /* norms, heads: a row or head a workgroup */
    uint32_t attention_local, attention_queries;       /* keys a block, queries a workgroup */
    uint32_t attention_values;  /* sums an invocation may hold: queries * head values of a lane */
    uint32_t split_keys;        /* keys of one split of decode attention */
    uint32_t argmax_local;
} vki_tuning;

vki_tuning vki_tuning_for(const vki_limits *limits);

#endif
