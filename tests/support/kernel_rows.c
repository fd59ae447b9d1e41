#include "support/kernel_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/kernels_ref.h"

enum { GUARD_BYTES = 256, BLOCK = 32, TABLE_LOW = 256, TABLE_ROWS = 256 + 3 };

/* Of one row; and from one to the next. */
static size_t row_bytes(const test_rows *r)
{
    return r->operand.int8 ? r->operand.width + r->operand.width / 4 : r->operand.width * 4;
}

static size_t pitch(const test_rows *r)
{
    return r->operand.width * 4;
}

test_rows empty_rows(kernel_fixture *f, uint32_t rows, uint32_t width, bool int8)
{
    test_rows r = {.operand = {0, rows, width, int8}};
    r.buffer = fixture_buffer(f, (rows - 1) * pitch(&r) + row_bytes(&r) + 2 * GUARD_BYTES);
    r.operand.address = r.buffer->address + GUARD_BYTES;
    r.at = r.buffer->mapped + GUARD_BYTES;
    return r;
}

static void fill_row(kernel_fixture *f, const test_rows *r, uint8_t *row, float size, float *x)
{
    for (uint32_t i = 0; i < r->operand.width; i++) x[i] = size * fixture_random(f);
    if (!r->operand.int8) memcpy(row, x, row_bytes(r));
    for (uint32_t at = 0; at < r->operand.width && r->operand.int8; at += BLOCK) {
        int8_t bytes[BLOCK];
        double d;
        int sum;
        ref_quantize(x + at, bytes, &d, &sum);
        const float scale[2] = {(float)d, (float)(d * sum)};
        memcpy(row + at, bytes, sizeof bytes);
        memcpy(row + r->operand.width + at / 4, scale, sizeof scale);
        for (uint32_t i = 0; i < BLOCK; i++) x[at + i] = scale[0] * (float)bytes[i];
    }
}

float *fill_rows(kernel_fixture *f, const test_rows *r, float size)
{
    const uint32_t width = r->operand.width;
    float *x = fixture_host(f, r->operand.rows * width, sizeof *x);
    for (uint32_t row = 0; row < r->operand.rows; row++) fill_row(f, r, r->at + row * pitch(r), size, x + row * width);
    return x;
}

static void check_block(const kernel_fixture *f, const test_rows *r, const uint8_t *row, uint32_t at,
                        const double *expected)
{
    int8_t bytes[BLOCK];
    float scale[2];
    double d = 0;
    int sum = 0;
    memcpy(bytes, row + at, sizeof bytes);
    memcpy(scale, row + r->operand.width + at / 4, sizeof scale);
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

void check_rows(const kernel_fixture *f, const test_rows *r, const double *expected, double bound)
{
    const uint32_t width = r->operand.width;
    if (!test_results_count()) return;
    bool kept = fixture_untouched(r->buffer->mapped, GUARD_BYTES);
    for (uint32_t i = 0; i < r->operand.rows; i++) {
        const uint8_t *row = r->at + i * pitch(r);
        if (!r->operand.int8)
            fixture_compare(f, (const float *)(const void *)row, expected + i * width, width, bound);
        for (uint32_t at = 0; at < width && r->operand.int8; at += BLOCK)
            check_block(f, r, row, at, expected + i * width);
        const size_t rest = i + 1 < r->operand.rows ? pitch(r) - row_bytes(r) : GUARD_BYTES;
        kept &= fixture_untouched(row + row_bytes(r), rest);
    }
    ck_assert_msg(kept, "%s: wrote outside of the rows", f->name);
}

vki_range range_of_rows(const test_rows *r)
{
    return vki_range_of(r->operand.address, (r->operand.rows - 1) * pitch(r) + row_bytes(r));
}

double *squares_of(kernel_fixture *f, const double *x, uint32_t n)
{
    double *squares = fixture_host(f, n / BLOCK, sizeof *squares);
    for (uint32_t i = 0; i < n; i++) squares[i / BLOCK] += x[i] * x[i];
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
