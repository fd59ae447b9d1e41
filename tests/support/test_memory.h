/* test_memory.h - an allocator for the library that counts, and fails where it is told to; on any thread. */
#ifndef TEST_MEMORY_H
#define TEST_MEMORY_H

#include <stdatomic.h>

#include "vklm/vklm.h"

/* Zeroed: counts. May be changed at any time. */
typedef struct test_memory {
    size_t fail_at, fail_from; /* of calls, counted from 1: the one that fails; the first of those that all do; 0: none */
    atomic_size_t n_calls;     /* that allocate or grow */
    atomic_size_t n_live, bytes, most_bytes; /* blocks not freed, their bytes, and the most of these so far */
} test_memory;

/* The memory outlives whatever is made with it. */
vklm_allocator test_allocator(test_memory *memory);

#endif
