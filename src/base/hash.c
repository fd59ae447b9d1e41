/* hash.c - XXH64 as Yann Collet's specification describes it (xxHash fast digest algorithm, version 0.1.1,
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md): four lanes of 8 bytes, then the rest.
 */
#include "base/hash.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotl(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* Compilers make one load of it. */
static uint64_t load(const uint8_t *bytes, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++) value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
    return rotl(lane + input * P2, 31) * P1;
}

static uint64_t merge(uint64_t hash, uint64_t lane)
{
    return (hash ^ mix(0, lane)) * P1 + P4;
}

uint64_t vki_hash(const void *bytes, size_t len, uint64_t seed)
{
    const uint8_t *at = bytes;
    size_t left = len;
    uint64_t hash = seed + P5;
    if (len >= 32) {
        uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
        for (; left >= 32; left -= 32, at += 32) {
            a = mix(a, load(at, 8));
            b = mix(b, load(at + 8, 8));
            c = mix(c, load(at + 16, 8));
            d = mix(d, load(at + 24, 8));
        }
        hash = rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18);
        hash = merge(merge(merge(merge(hash, a), b), c), d);
    }
    hash += len;
    for (; left >= 8; left -= 8, at += 8) hash = rotl(hash ^ mix(0, load(at, 8)), 27) * P1 + P4;
    if (left >= 4) {
        hash = rotl(hash ^ load(at, 4) * P1, 23) * P2 + P3;
        at += 4;
        left -= 4;
    }
    for (; left > 0; left--, at++) hash = rotl(hash ^ *at * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}
