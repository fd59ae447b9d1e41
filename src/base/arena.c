/* arena.c - a chain of chunks; a request larger than a chunk gets one of its own. */
#include "base/arena.h"

#include <stdalign.h>
#include <string.h>

#include "base/checked.h"

enum { CHUNK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct arena_chunk {
    struct arena_chunk *older;
    size_t used, size;
    alignas(ALIGNMENT) unsigned char bytes[];
};

void vki_arena_init(vki_arena *arena, const vki_host *host)
{
    *arena = (vki_arena){.host = host};
}

void vki_arena_free(vki_arena *arena)
{
    while (arena->chunk) {
        struct arena_chunk *older = arena->chunk->older;
        vki_release(arena->host, &arena->chunk);
        arena->chunk = older;
    }
}

vklm_status vki_arena_alloc(vki_arena *arena, size_t count, size_t size, vklm_error *error, void *out)
{
    uint64_t bytes;
    if (!vki_mul(count, size, &bytes) || bytes > SIZE_MAX / 4)
        return vki_fail(error, VKLM_OUT_OF_MEMORY, "no memory for %zu elements of %zu bytes", count, size);
    bytes = vki_round_up(bytes, ALIGNMENT);
    struct arena_chunk *chunk = arena->chunk;
    if (!chunk || chunk->size - chunk->used < bytes) {
        const size_t payload = (size_t)vki_max(bytes, CHUNK_BYTES);
        TRY(vki_alloc(arena->host, 1, sizeof *chunk + payload, error, &chunk));
        chunk->older = arena->chunk;
        chunk->size = payload;
        arena->chunk = chunk;
    }
    void *memory = chunk->bytes + chunk->used;
    chunk->used += (size_t)bytes;
    memcpy(out, &memory, sizeof memory);
    return VKLM_OK;
}

vklm_status vki_arena_string(vki_arena *arena, const char *text, size_t len, vklm_error *error,
                             const char **out)
{
    char *copy = NULL;
    TRY(vki_arena_alloc(arena, len + 1, 1, error, &copy));
    if (len) memcpy(copy, text, len);
    copy[len] = '\0';
    *out = copy;
    return VKLM_OK;
}
