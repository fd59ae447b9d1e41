/* hash.h - XXH64, for checksums and fingerprints: fast, well spread, no protection against forgery. */
#ifndef VKI_HASH_H
#define VKI_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Of len bytes at any address; the same on every machine. The hash of one piece as the seed of the next chains them. */
uint64_t vki_hash(const void *bytes, size_t len, uint64_t seed);

#endif
