/* checked.h - unsigned 64-bit arithmetic that says when it overflows, and a few small integer helpers.
 * Sizes that come from a file go through here before anything is compared or allocated. */
#ifndef VKI_CHECKED_H
#define VKI_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool vki_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    *sum = a + b;
    return *sum >= a;
}

static inline bool vki_mul(uint64_t a, uint64_t b, uint64_t *product)
{
    *product = a * b;
    return a == 0 || *product / a == b;
}

/* alignment: a power of two. */
static inline uint64_t vki_round_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static inline uint64_t vki_div_up(uint64_t value, uint64_t divisor)
{
    return value / divisor + (value % divisor != 0);
}

static inline uint64_t vki_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t vki_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
