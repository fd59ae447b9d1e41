/* os.h - every call to the operating system. The only place with platform #ifdefs. */
#ifndef VKI_OS_H
#define VKI_OS_H

#include "base/host.h"

/* A file mapped read-only, as a whole. */
typedef struct vki_map {
    const uint8_t *bytes; /* NULL for an empty file */
    uint64_t size_bytes;
} vki_map;

/* path: UTF-8, on Windows too. IO_ERROR names the path and the system's reason. */
vklm_status vki_map_open(vki_map *map, const char *path, vklm_error *error);

/* Safe on a zeroed map. */
void vki_map_close(vki_map *map);

/* Monotonic. */
uint64_t vki_now_ns(void);

/* A seed from the operating system; falls back on the clock where it has none to give. */
uint64_t vki_random_seed(void);

#endif
