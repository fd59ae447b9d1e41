#include "support/test_memory.h"

#include <stdalign.h>
#include <stdlib.h>

/* In front of each block. */
typedef struct head {
    alignas(max_align_t) size_t size;
} head;

static void count(test_memory *memory, size_t was, size_t size)
{
    const size_t bytes = atomic_fetch_add(&memory->bytes, size - was) + size - was;
    size_t most = memory->most_bytes;
    while (bytes > most && !atomic_compare_exchange_weak(&memory->most_bytes, &most, bytes)) continue;
}

static void *test_realloc(void *user, void *pointer, size_t size)
{
    test_memory *memory = user;
    head *block = pointer ? (head *)pointer - 1 : NULL;
    const size_t was = block ? block->size : 0;
    if (size == 0) {
        memory->n_live -= block != NULL;
        count(memory, was, 0);
        free(block);
        return NULL;
    }
    const size_t call = ++memory->n_calls;
    if (call == memory->fail_at || (memory->fail_from && call >= memory->fail_from)) return NULL;
    memory->n_live += block == NULL;
    count(memory, was, size);
    block = realloc(block, sizeof *block + size);
    if (!block) abort();
    block->size = size;
    return block + 1;
}

vklm_allocator test_allocator(test_memory *memory)
{
    return (vklm_allocator){.realloc = test_realloc, .user = memory};
}
