/* kernels_internal.h - what the kernel functions share among themselves. */
#ifndef VKI_KERNELS_INTERNAL_H
#define VKI_KERNELS_INTERNAL_H

#include <stdio.h>

#include "base/checked.h"
#include "kernel/kernels.h"

#define VKI_C
#include "lib/push.h"

vki_range vki_span_range(vki_span span);
vki_range vki_operand_range(vki_operand operand);
/* What orders the writes and reads of a layer's part of the cache, which has no fixed address. */
vki_range vki_cache_range(uint32_t layer);
/* The same for what a product's rows first .. first + rows - 1 write there. */
vki_range vki_cache_rows_range(uint32_t layer, uint32_t first, uint32_t rows);

/* Bytes of so many of the segment's rows. */
uint64_t vki_weight_bytes(const vki_segment *segment, uint32_t rows);
bool vki_segment_reads_int8(const vki_kernels *kernels, const vki_segment *segment);

/* Whether a workgroup of this size is known to be one subgroup. */
bool vki_one_subgroup(const vki_kernels *kernels, uint32_t local);

vklm_status vki_find_pipeline(vki_kernels *kernels, const char *shader, const uint32_t *spec,
                              uint32_t n_spec, vklm_error *error, const vki_pipeline **pipeline);

/* The variant of a shader for a weight format: "matmul" and Q4_0 make "matmul_q4_0". */
vklm_status vki_format_pipeline(vki_kernels *kernels, const char *operation, vki_format format,
                                const uint32_t *spec, uint32_t n_spec, vklm_error *error,
                                const vki_pipeline **pipeline);

/* Copies the push struct into the dispatch, stamps the layer and adds it to the plan. */
vklm_status vki_append(vki_kernels *kernels, vki_dispatch *dispatch, const void *push, size_t push_bytes,
                       vklm_error *error);

#endif
