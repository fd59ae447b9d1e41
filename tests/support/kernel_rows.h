/* kernel_rows.h - what the kernels of decode read and leave, for their tests: rows in each form,
 * the rotary table, and one position of the cache. */
#ifndef KERNEL_ROWS_H
#define KERNEL_ROWS_H

#include "support/kernel_fixture.h"

typedef struct test_rows {
    vki_operand operand;
    uint8_t *at;
    const vki_buffer *buffer;
} test_rows;

/* NaN in all of it, between the rows, before and behind them. */
test_rows empty_rows(kernel_fixture *f, uint32_t rows, uint32_t width, vki_form form);
/* Random numbers up to `size`; what the rows then say, [rows][width]. */
float *fill_rows(kernel_fixture *f, const test_rows *r, float size);
/* Compares f32 by normalised error, int8 and SPREAD value by value; expected [rows][width]. What surrounds the rows
 * must be untouched. */
void check_rows(const kernel_fixture *f, const test_rows *r, const double *expected, double bound);
vki_range range_of_rows(const test_rows *r);

/* The sums of squares of x's blocks of 32; x of n values. */
double *squares_of(kernel_fixture *f, const double *x, uint32_t n);

/* For positions up to 767 at base 10000, as src/model/model.h describes it; its address. */
uint64_t rope_table(kernel_fixture *f, uint32_t n_rot);
/* Takes k or v of one position, without padding, out of the cache and compares. */
void check_stored(kernel_fixture *f, const test_cache *cache, bool is_value, uint32_t position,
                  const double *expected, double bound);

#endif
