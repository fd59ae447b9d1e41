/* arena.h - many small allocations with one life: strings and tables of a vocabulary, of a model.
 * Chunks never move, so pointers into an arena stay good until vki_arena_free. */
#ifndef VKI_ARENA_H
#define VKI_ARENA_H

#include "base/host.h"

typedef struct vki_arena {
    const vki_host *host;      /* borrowed */
    struct arena_chunk *chunk; /* owned: the newest, linked to older ones */
} vki_arena;

void vki_arena_init(vki_arena *arena, const vki_host *host);

/* Safe on a zeroed arena. */
void vki_arena_free(vki_arena *arena);

/* count * size zeroed bytes, aligned to 16, into *out. Count 0 gives a pointer that must not be read. */
vklm_status vki_arena_alloc(vki_arena *arena, size_t count, size_t size, vklm_error *error, void *out);

/* A terminated copy of len bytes. */
vklm_status vki_arena_string(vki_arena *arena, const char *text, size_t len, vklm_error *error,
                             const char **out);

#endif
