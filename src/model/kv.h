/* kv.h - the KV cache of one sequence: pages of VKI_KV_PAGE_KEYS positions, each holding k and v of all
 * layers, found through a table of page addresses that both sides see. It grows page by page: nothing is
 * copied and nothing recorded again. Knows nothing of tokens.
 */
#ifndef VKI_KV_H
#define VKI_KV_H

#include "gpu/memory.h"
#include "kernel/kernels.h"

typedef struct vki_kv {
    vki_pool *pool;        /* borrowed: pages of one size */
    vki_buffer table;      /* owned: u64 [max_pages] */
    vki_slice *pages;      /* owned array; the pages go back to the pool */
    uint32_t n_pages, max_pages;
    uint64_t page_bytes;
} vki_kv;

static inline uint64_t vki_kv_page_bytes(const vki_heads *heads, uint32_t n_layer)
{
    return (uint64_t)heads->layer_bytes * n_layer;
}

/* An empty cache for up to `context` positions. Allocates the table only. */
vklm_status vki_kv_init(vki_kv *kv, vki_pool *pool, uint64_t page_bytes, uint32_t context, vklm_error *error);

/* Nothing in flight may use it. Safe on a zeroed kv. */
void vki_kv_free(vki_kv *kv);

/* Makes room for positions 0 .. n_positions - 1. On failure what was there is as before. */
vklm_status vki_kv_reserve(vki_kv *kv, uint32_t n_positions, vklm_error *error);

/* Gives back the pages that hold only positions from n_positions on. Nothing in flight may use them. */
void vki_kv_trim(vki_kv *kv, uint32_t n_positions);

#endif
