#include "support/kernel_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/kernels_ref.h"

enum { GUARD_BYTES = 256, BLOCK = 32, TABLE_LOW = 256, TABLE_ROWS = 256 + 3 };

static size_t row_bytes(const test_row *r)
{
    return r->row.int8 ? r->row.width + r->row.width / 4 : r->row.width * 4;
}

test_row empty_row(kernel_fixture *f, uint32_t width, bool int8)
{
    test_row r = {.row = {0, width, int8}};
    r.buffer = fixture_buffer(f, row_bytes(&r) + 2 * GUARD_BYTES);
    r.row.address = r.buffer->address + GUARD_BYTES;
    r.at = r.buffer->mapped + GUARD_BYTES;
    return r;
}

float *fill_row(kernel_fixture *f, const test_row *r, float size)
{
    float *x = fixture_host(f, r->row.width, sizeof *x);
    for (uint32_t i = 0; i < r->row.width; i++) x[i] = size * fixture_random(f);
    if (!r->row.int8) memcpy(r->at, x, row_bytes(r));
    for (uint32_t at = 0; at < r->row.width && r->row.int8; at += BLOCK) {
        int8_t bytes[BLOCK];
        double d;
        int sum;
        ref_quantize(x + at, bytes, &d, &sum);
        const float scale[2] = {(float)d, (float)(d * sum)};
        memcpy(r->at + at, bytes, sizeof bytes);
        memcpy(r->at + r->row.width + at / 4, scale, sizeof scale);
        for (uint32_t i = 0; i < BLOCK; i++) x[at + i] = scale[0] * (float)bytes[i];
    }
    return x;
}

static void check_block(const kernel_fixture *f, const test_row *r, uint32_t at,
                        const double *expected)
{
    int8_t bytes[BLOCK];
    float scale[2];
    double d = 0;
    int sum = 0;
    memcpy(bytes, r->at + at, sizeof bytes);
    memcpy(scale, r->at + r->row.width + at / 4, sizeof scale);
    for (uint32_t i = 0; i < BLOCK; i++) d = fmax(d, fabs(expected[at + i]) / 127);
    for (uint32_t i = 0; i < BLOCK; i++) {
        /* off by up to 1e-5 of the block's largest, so the byte by 127 times that beyond 0.5 */
        const double wanted = d > 0 ? expected[at + i] / d : 0;
        ck_assert_msg(fabs(bytes[i] - wanted) <= 0.502, "%s: value %u is %d, not %g", f->name,
                      at + i, bytes[i], wanted);
        sum += bytes[i];
    }
    ck_assert_msg(fabs(scale[0] - d) <= 1e-5 * d, "%s: the scale at %u is %g, not %g", f->name, at,
                  (double)scale[0], d);
    ck_assert_msg(fabs(scale[1] - d * sum) <= 2e-5 * d * abs(sum),
                  "%s: the scaled sum at %u is %g, not %g", f->name, at, (double)scale[1], d * sum);
}

void check_row(const kernel_fixture *f, const test_row *r, const double *expected,
                      double bound)
{
    if (!test_results_count()) return;
    if (!r->row.int8)
        fixture_compare(f, (const float *)(const void *)r->at, expected, r->row.width, bound);
    for (uint32_t at = 0; at < r->row.width && r->row.int8; at += BLOCK)
        check_block(f, r, at, expected);
    ck_assert_msg(fixture_untouched(r->buffer->mapped, GUARD_BYTES) &&
                      fixture_untouched(r->at + row_bytes(r), GUARD_BYTES),
                  "%s: wrote outside of the row", f->name);
}

vki_range range_of_row(const test_row *r)
{
    return vki_range_of(r->row.address, row_bytes(r));
}

double *squares_of(kernel_fixture *f, const double *x, uint32_t width)
{
    double *squares = fixture_host(f, width / BLOCK, sizeof *squares);
    for (uint32_t i = 0; i < width; i++) squares[i / BLOCK] += x[i] * x[i];
    return squares;
}

uint64_t rope_table(kernel_fixture *f, uint32_t n_rot)
{
    float *table;
    const uint64_t address = fixture_vector(f, TABLE_ROWS * n_rot, &table);
    for (uint32_t r = 0; r < TABLE_ROWS; r++) {
        const uint32_t position = r < TABLE_LOW ? r : (r - TABLE_LOW) * TABLE_LOW;
        for (uint32_t i = 0; i < n_rot; i += 2, table += 2) {
            const double angle = position * pow(10000, -(double)i / n_rot);
            table[0] = (float)cos(angle);
            table[1] = (float)sin(angle);
        }
    }
    return address;
}

void check_stored(kernel_fixture *f, const test_cache *cache, bool is_value,
                         uint32_t position, const double *expected, double bound)
{
    const vki_heads *h = &cache->heads;
    const uint32_t n = h->n_head_kv * h->d_head;
    float *stored = fixture_host(f, n, sizeof *stored);
    for (uint32_t i = 0; i < n; i++)
        stored[i] = fixture_take_kv(
            cache, (kv_place){is_value, i / h->d_head, position, i % h->d_head});
    fixture_compare(f, stored, expected, n, bound);
}
