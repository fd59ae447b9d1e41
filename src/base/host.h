/* host.h - what the embedding program lends the library: its allocator and its log.
 *
 * A vki_host is copied by value into every top-level object. All host memory of the library comes
 * through here, so that a test can fail the n-th allocation and an embedder can count them.
 */
#ifndef VKI_HOST_H
#define VKI_HOST_H

#include "base/status.h"

typedef struct vki_host {
    vklm_allocator allocator; /* realloc is never NULL after vki_host_init */
    vklm_log log;
} vki_host;

/* Fills *host; an allocator or log that is NULL or empty takes the default. */
void vki_host_init(vki_host *host, const vklm_allocator *allocator, const vklm_log *log);

/* count * size bytes, zeroed, into *out; count 0 gives NULL and VKLM_OK. The product is checked. */
vklm_status vki_alloc(const vki_host *host, size_t count, size_t size, vklm_error *error, void *out);

/* Grows *array (elements of `size` bytes) so that it holds at least `needed`; *capacity doubles.
 * What is new is zeroed. On failure the array is as it was. */
vklm_status vki_grow(const vki_host *host, size_t needed, size_t size, vklm_error *error, void *array,
                     size_t *capacity);

/* Frees *pointer and sets it to NULL; NULL is fine. `pointer` is the address of any object pointer. */
void vki_release(const vki_host *host, void *pointer);

void vki_log(const vki_host *host, vklm_log_level level, const char *format, ...) VKI_PRINTF(3, 4);

#endif
