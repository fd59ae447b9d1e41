/* kv.h - the KV cache of one sequence: pages of VKI_KV_PAGE_KEYS positions, each holding k and v of all
 * layers, found through a table of page addresses that both sides see. It grows page by page: nothing is
 * copied and nothing recorded again. Knows nothing of tokens.
 *
 * Caches that begin alike share pages, and each page counts who holds it. Nobody writes a page that others hold:
 * positions below n_kept are never written again, and what lies behind in a shared page is copied, on the device,
 * before vki_kv_reserve makes it writable.
 */
#ifndef VKI_KV_H
#define VKI_KV_H

#include "gpu/copy.h"
#include "kernel/kernels.h"
#include "model/model.h"

typedef struct vki_kv_page {
    vki_slice slice;
    uint32_t users;        /* caches that hold it */
} vki_kv_page;

/* What the caches of one geometry have in common. */
typedef struct vki_kv_pool {
    vki_pool slices;       /* owned: pages of one size */
    vki_copier copier;     /* owned */
    uint64_t page_bytes;
    uint64_t given_at;     /* the queue's last submit when a page came back last: what may still use one */
} vki_kv_pool;

typedef struct vki_kv {
    vki_kv_pool *pool;     /* borrowed */
    vki_buffer table;      /* owned, shared: u64 [max_pages], and more_bytes */
    vki_kv_page **pages;   /* owned array of counted pages */
    uint32_t n_pages, max_pages;
    uint32_t n_kept;       /* positions from here on are yet to be written, or may be written again */
} vki_kv;

static inline uint32_t vki_kv_pages_of(uint32_t n_positions)
{
    return n_positions / VKI_KV_PAGE_KEYS + (n_positions % VKI_KV_PAGE_KEYS != 0);
}

/* The queue is the one that all work on the pages goes through. */
void vki_kv_pool_init(vki_kv_pool *pool, vklm_device *device, vki_queue *queue, uint64_t page_bytes);
/* Behind all caches of it, before the queue. */
void vki_kv_pool_free(vki_kv_pool *pool);

static inline uint64_t vki_kv_page_bytes(const vki_hparams *h, bool f32)
{
    const vki_heads heads = vki_heads_of(h->n_head, h->n_head_kv, h->d_head, f32);
    return (uint64_t)heads.layer_bytes * h->n_layer;
}

/* An empty cache for up to `context` positions. Allocates the table only, with so many bytes behind it for the owner. */
vklm_status vki_kv_init(vki_kv *kv, vki_kv_pool *pool, uint32_t context, uint64_t more_bytes, vklm_error *error);

/* Nothing in flight may use it. Safe on a zeroed kv. */
void vki_kv_free(vki_kv *kv);

/* Makes room for positions 0 .. n_positions - 1, those from n_kept on writable. On failure what was there is as
 * before. */
vklm_status vki_kv_reserve(vki_kv *kv, uint32_t n_positions, vklm_error *error);

/* Gives back the pages that hold only positions from n_positions on, all of which may be written again. What is in
 * flight may still write to them: whoever has them next comes later on the same queue. */
void vki_kv_trim(vki_kv *kv, uint32_t n_positions);

/* Makes the cache hold what `from` holds of positions 0 .. n_positions - 1, instead of what it held: whole pages
 * together with it, of the last part page a copy. Nothing in flight may use `kv`; what uses `from` may go on.
 * *n_shared_out: how many positions it is, whole pages alone where there is no memory for the copy. */
vklm_status vki_kv_share(vki_kv *kv, vki_kv *from, uint32_t n_positions, vklm_error *error, uint32_t *n_shared_out);

/* Pages that nobody else holds: what the device gets back if the cache goes. */
uint32_t vki_kv_own_pages(const vki_kv *kv);

#endif
