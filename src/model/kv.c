/* kv.c - counted pages from a pool, their addresses in a small shared table. */
#include "model/kv.h"

#include <string.h>

#include "base/checked.h"

void vki_kv_pool_init(vki_kv_pool *pool, vklm_device *device, vki_queue *queue, uint64_t page_bytes)
{
    *pool = (vki_kv_pool){.page_bytes = page_bytes};
    vki_pool_init(&pool->slices, device, "the KV cache", page_bytes);
    vki_copier_init(&pool->copier, device, queue);
}

void vki_kv_pool_free(vki_kv_pool *pool)
{
    vki_copier_free(&pool->copier);
    vki_pool_free(&pool->slices);
}

vklm_status vki_kv_init(vki_kv *kv, vki_kv_pool *pool, uint32_t context, uint64_t more_bytes, vklm_error *error)
{
    *kv = (vki_kv){.pool = pool, .max_pages = vki_kv_pages_of(context)};
    vklm_device *device = pool->slices.device;
    vklm_status status;
    TRY_OR_FAIL(vki_alloc(&device->host, kv->max_pages, sizeof *kv->pages, error, &kv->pages));
    TRY_OR_FAIL(vki_buffer_create(device, VKI_MEMORY_SHARED, (uint64_t)kv->max_pages * 8 + more_bytes,
                                  "the KV page table", error, &kv->table));
    return VKLM_OK;
fail:
    vki_kv_free(kv);
    return status;
}

void vki_kv_free(vki_kv *kv)
{
    if (!kv->pool) return;
    vklm_device *device = kv->pool->slices.device;
    vki_kv_trim(kv, 0);
    vki_buffer_destroy(device, &kv->table);
    vki_release(&device->host, &kv->pages);
    *kv = (vki_kv){0};
}

static vklm_status take_page(vki_kv_pool *pool, vklm_error *error, vki_kv_page **page)
{
    const vki_host *host = &pool->slices.device->host;
    TRY(vki_alloc(host, 1, sizeof **page, error, page));
    const vklm_status status = vki_pool_take(&pool->slices, pool->page_bytes, error, &(*page)->slice);
    if (status != VKLM_OK) vki_release(host, page);
    else (*page)->users = 1;
    return status;
}

static void leave_page(vki_kv_pool *pool, vki_kv_page *page)
{
    if (--page->users > 0) return;
    pool->given_at = pool->copier.queue->submitted;
    /* Should the pool have no memory to remember the page, the page is lost until the pool goes. */
    (void)vki_pool_give(&pool->slices, &page->slice, NULL);
    vki_release(&pool->slices.device->host, &page);
}

static void set_page(vki_kv *kv, uint32_t index, vki_kv_page *page)
{
    kv->pages[index] = page;
    memcpy(kv->table.mapped + (size_t)index * 8, &page->slice.address, 8);
}

/* A page of one's own with the contents of another. */
static vklm_status copy_page(vki_kv_pool *pool, const vki_kv_page *from, vklm_error *error, vki_kv_page **page)
{
    TRY(take_page(pool, error, page));
    const vklm_status status = vki_copy_slice(&pool->copier, &pool->slices, &from->slice, &(*page)->slice, error);
    if (status != VKLM_OK) leave_page(pool, *page);
    return status;
}

vklm_status vki_kv_reserve(vki_kv *kv, uint32_t n_positions, vklm_error *error)
{
    vki_kv_page *page;
    for (uint32_t i = kv->n_kept / VKI_KV_PAGE_KEYS; i < kv->n_pages; i++) {
        if (kv->pages[i]->users == 1) continue;
        TRY(copy_page(kv->pool, kv->pages[i], error, &page));
        leave_page(kv->pool, kv->pages[i]);
        set_page(kv, i, page);
    }
    while (kv->n_pages < vki_kv_pages_of(n_positions)) {
        TRY(take_page(kv->pool, error, &page));
        set_page(kv, kv->n_pages++, page);
    }
    return VKLM_OK;
}

void vki_kv_trim(vki_kv *kv, uint32_t n_positions)
{
    const uint32_t wanted = vki_kv_pages_of(n_positions);
    while (kv->n_pages > wanted) leave_page(kv->pool, kv->pages[--kv->n_pages]);
    kv->n_kept = (uint32_t)vki_min(kv->n_kept, n_positions);
}

vklm_status vki_kv_share(vki_kv *kv, vki_kv *from, uint32_t n_positions, vklm_error *error, uint32_t *n_shared_out)
{
    const uint32_t n_whole = n_positions / VKI_KV_PAGE_KEYS, shared = n_whole * VKI_KV_PAGE_KEYS;
    vki_kv_trim(kv, 0);
    for (; kv->n_pages < n_whole; kv->n_pages++) {
        set_page(kv, kv->n_pages, from->pages[kv->n_pages]);
        from->pages[kv->n_pages]->users++;
    }
    kv->n_kept = *n_shared_out = shared;
    from->n_kept = (uint32_t)vki_max(from->n_kept, shared);
    if (n_positions == shared) return VKLM_OK;
    vki_kv_page *page;
    const vklm_status status = copy_page(kv->pool, from->pages[n_whole], error, &page);
    if (status == VKLM_OUT_OF_DEVICE_MEMORY) vki_error_clear(error);
    if (status != VKLM_OK) return status == VKLM_OUT_OF_DEVICE_MEMORY ? VKLM_OK : status;
    set_page(kv, kv->n_pages++, page);
    *n_shared_out = n_positions;
    return VKLM_OK;
}

uint32_t vki_kv_own_pages(const vki_kv *kv)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < kv->n_pages; i++) n += kv->pages[i]->users == 1;
    return n;
}
