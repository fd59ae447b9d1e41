/* kernel_row.h - what the kernels of decode read and leave, for their tests: one row as f32 or as
 * int8, the rotary table, and one position of the cache. */
#ifndef KERNEL_ROW_H
#define KERNEL_ROW_H

#include "support/kernel_fixture.h"

typedef struct test_row {
    vki_row row;
    uint8_t *at;
    const vki_buffer *buffer;
} test_row;

/* NaN in all of it, and before and behind it. */
test_row empty_row(kernel_fixture *f, uint32_t width, bool int8);
/* Random numbers up to `size`; what the row then says. */
float *fill_row(kernel_fixture *f, const test_row *r, float size);
/* Compares f32 by normalised error, int8 value by value. What surrounds it must be untouched. */
void check_row(const kernel_fixture *f, const test_row *r, const double *expected, double bound);
vki_range range_of_row(const test_row *r);

/* The sums of squares of x's blocks of 32. */
double *squares_of(kernel_fixture *f, const double *x, uint32_t width);

/* For positions up to 767 at base 10000, as src/model/model.h describes it; its address. */
uint64_t rope_table(kernel_fixture *f, uint32_t n_rot);
/* Takes k or v of one position, without padding, out of the cache and compares. */
void check_stored(kernel_fixture *f, const test_cache *cache, bool is_value, uint32_t position,
                  const double *expected, double bound);

#endif
