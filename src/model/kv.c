/* kv.c - pages from a pool, their addresses in a small shared table. */
#include "model/kv.h"

#include <string.h>

#include "base/checked.h"

vklm_status vki_kv_init(vki_kv *kv, vki_pool *pool, uint64_t page_bytes, uint32_t context, vklm_error *error)
{
    *kv = (vki_kv){.pool = pool, .page_bytes = page_bytes,
                   .max_pages = (uint32_t)vki_div_up(context, VKI_KV_PAGE_KEYS)};
    vklm_status status;
    TRY_OR_FAIL(vki_alloc(&pool->device->host, kv->max_pages, sizeof *kv->pages, error, &kv->pages));
    TRY_OR_FAIL(vki_buffer_create(pool->device, VKI_MEMORY_SHARED, (uint64_t)kv->max_pages * 8,
                                  "the KV page table", error, &kv->table));
    return VKLM_OK;
fail:
    vki_kv_free(kv);
    return status;
}

void vki_kv_free(vki_kv *kv)
{
    if (!kv->pool) return;
    vki_kv_trim(kv, 0);
    vki_buffer_destroy(kv->pool->device, &kv->table);
    vki_release(&kv->pool->device->host, &kv->pages);
    *kv = (vki_kv){0};
}

vklm_status vki_kv_reserve(vki_kv *kv, uint32_t n_positions, vklm_error *error)
{
    const uint32_t wanted = (uint32_t)vki_div_up(n_positions, VKI_KV_PAGE_KEYS);
    while (kv->n_pages < wanted) {
        vki_slice *page = &kv->pages[kv->n_pages];
        TRY(vki_pool_take(kv->pool, kv->page_bytes, error, page));
        memcpy(kv->table.mapped + (size_t)kv->n_pages * 8, &page->address, 8);
        kv->n_pages++;
    }
    return VKLM_OK;
}

void vki_kv_trim(vki_kv *kv, uint32_t n_positions)
{
    const uint32_t wanted = (uint32_t)vki_div_up(n_positions, VKI_KV_PAGE_KEYS);
    /* Should the pool have no memory to remember the page, the page is lost until the pool goes. */
    while (kv->n_pages > wanted) (void)vki_pool_give(kv->pool, &kv->pages[--kv->n_pages], NULL);
}
