/* plan.h - work for the GPU as data: a list of dispatches with what they read, write and cost.
 *
 * kernel/ appends, record.c turns a plan into command buffers and computes the barriers; a plan can
 * be printed, counted and checked without recording it. Ranges are device addresses; things without
 * a fixed address (the KV cache of layer l) take a range above VKI_VIRTUAL_RANGE.
 */
#ifndef VKI_PLAN_H
#define VKI_PLAN_H

#include "gpu/pipeline.h"

#define VKI_VIRTUAL_RANGE ((uint64_t)1 << 63)

typedef struct vki_range {
    uint64_t begin, end; /* end is exclusive */
} vki_range;

enum { VKI_MAX_READS = 8, VKI_MAX_WRITES = 4 };

typedef struct vki_dispatch {
    const vki_pipeline *pipeline; /* borrowed; NULL in tests of hazards */
    const char *name;             /* "ffn_up": static string */
    uint32_t layer;               /* for printing; UINT32_MAX: none */
    uint32_t grid[3];
    uint32_t push_bytes;
    uint32_t push[VKI_PUSH_BYTES / 4];
    uint32_t n_reads, n_writes;
    vki_range reads[VKI_MAX_READS], writes[VKI_MAX_WRITES];
    uint64_t cost_bytes, cost_flops; /* memory traffic and arithmetic, for slicing and profiles */
} vki_dispatch;

typedef struct vki_plan {
    const vki_host *host;         /* borrowed */
    vki_dispatch *items;          /* owned */
    size_t n, capacity;
} vki_plan;

void vki_plan_init(vki_plan *plan, const vki_host *host);
void vki_plan_free(vki_plan *plan);
void vki_plan_clear(vki_plan *plan);

/* Copies *dispatch. An empty grid is dropped. */
vklm_status vki_plan_add(vki_plan *plan, const vki_dispatch *dispatch, vklm_error *error);

static inline vki_range vki_range_of(uint64_t address, uint64_t size_bytes)
{
    return (vki_range){address, address + size_bytes};
}

/* For each dispatch whether a barrier must stand before it: barrier_before[i], i < plan->n. A
 * barrier orders all before it with all after it. As few as the order of the list allows. */
void vki_plan_barriers(const vki_plan *plan, bool *barrier_before);

#endif
