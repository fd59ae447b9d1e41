/* host.c - allocation through the embedder's callbacks, with checked sizes. */
#include "base/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static void *default_realloc(void *user, void *pointer, size_t size_bytes)
{
    (void)user;
    if (size_bytes == 0) {
        free(pointer);
        return NULL;
    }
    return realloc(pointer, size_bytes);
}

void vki_host_init(vki_host *host, const vklm_allocator *allocator, const vklm_log *log)
{
    *host = (vki_host){.allocator = {.realloc = default_realloc}};
    if (allocator && allocator->realloc) host->allocator = *allocator;
    if (log) host->log = *log;
}

/* Object pointers are read and written through memcpy: a void ** would alias a foo **. */
static void *load_pointer(const void *address)
{
    void *pointer;
    memcpy(&pointer, address, sizeof pointer);
    return pointer;
}

static void store_pointer(void *address, void *pointer)
{
    memcpy(address, &pointer, sizeof pointer);
}

vklm_status vki_alloc(const vki_host *host, size_t count, size_t size, vklm_error *error, void *out)
{
    store_pointer(out, NULL);
    if (count == 0 || size == 0) return VKLM_OK;
    uint64_t bytes;
    void *memory = NULL;
    if (vki_mul(count, size, &bytes) && bytes <= SIZE_MAX / 2)
        memory = host->allocator.realloc(host->allocator.user, NULL, (size_t)bytes);
    if (!memory)
        return vki_fail(error, VKLM_OUT_OF_MEMORY, "no memory for %zu elements of %zu bytes", count, size);
    memset(memory, 0, (size_t)bytes);
    store_pointer(out, memory);
    return VKLM_OK;
}

vklm_status vki_grow(const vki_host *host, size_t needed, size_t size, vklm_error *error, void *array,
                     size_t *capacity)
{
    if (needed <= *capacity) return VKLM_OK;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < needed && wanted <= SIZE_MAX / 4) wanted *= 2;
    uint64_t bytes;
    char *memory = NULL;
    if (wanted >= needed && vki_mul(wanted, size, &bytes) && bytes <= SIZE_MAX / 2)
        memory = host->allocator.realloc(host->allocator.user, load_pointer(array), (size_t)bytes);
    if (!memory)
        return vki_fail(error, VKLM_OUT_OF_MEMORY, "no memory for %zu elements of %zu bytes", needed, size);
    memset(memory + *capacity * size, 0, (wanted - *capacity) * size);
    store_pointer(array, memory);
    *capacity = wanted;
    return VKLM_OK;
}

void vki_release(const vki_host *host, void *pointer)
{
    void *memory = load_pointer(pointer);
    if (memory) host->allocator.realloc(host->allocator.user, memory, 0);
    store_pointer(pointer, NULL);
}

void vki_log(const vki_host *host, vklm_log_level level, const char *format, ...)
{
    if (!host->log.write) return;
    char line[VKLM_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    host->log.write(host->log.user, level, line);
}
