#include "support/kernel_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/kernels_ref.h"

enum { GUARD_BYTES = 256, BLOCK = 32, TABLE_LOW = 256, TABLE_ROWS = 256 + 3 };

/* Of the values of a row; of one row; and from one to the next. */
static size_t value_bytes(const test_rows *r)
{
    return r->operand.width * (r->operand.form == VKI_FORM_INT8 ? 1 : 4);
}

static size_t row_bytes(const test_rows *r)
{
    return value_bytes(r) + (r->operand.form == VKI_FORM_F32 ? 0 : r->operand.width / 4);
}

static size_t pitch(const test_rows *r)
{
    return r->operand.width * (r->operand.form == VKI_FORM_SPREAD ? 5 : 4);
}

static void put_quant(const test_rows *r, uint8_t *row, uint32_t at, int8_t quant)
{
    const float spread = quant;
    if (r->operand.form == VKI_FORM_INT8) row[at] = (uint8_t)quant;
    else memcpy(row + at * sizeof spread, &spread, sizeof spread);
}

static double take_quant(const test_rows *r, const uint8_t *row, uint32_t at)
{
    float spread;
    if (r->operand.form == VKI_FORM_INT8) return (int8_t)row[at];
    memcpy(&spread, row + at * sizeof spread, sizeof spread);
    return (double)spread;
}

test_rows empty_rows(kernel_fixture *f, uint32_t rows, uint32_t width, vki_form form)
{
    test_rows r = {.operand = {0, rows, width, form}};
    r.buffer = fixture_buffer(f, (rows - 1) * pitch(&r) + row_bytes(&r) + 2 * GUARD_BYTES);
    r.operand.address = r.buffer->address + GUARD_BYTES;
    r.at = r.buffer->mapped + GUARD_BYTES;
    return r;
}

static void fill_row(kernel_fixture *f, const test_rows *r, uint8_t *row, float size, float *x)
{
    for (uint32_t i = 0; i < r->operand.width; i++) x[i] = size * fixture_random(f);
    if (r->operand.form == VKI_FORM_F32) memcpy(row, x, row_bytes(r));
    for (uint32_t at = 0; at < r->operand.width && r->operand.form != VKI_FORM_F32; at += BLOCK) {
        int8_t bytes[BLOCK];
        double d;
        int sum;
        ref_quantize(x + at, bytes, &d, &sum);
        const float scale[2] = {(float)d, (float)(d * sum)};
        memcpy(row + value_bytes(r) + at / 4, scale, sizeof scale);
        for (uint32_t i = 0; i < BLOCK; i++) {
            put_quant(r, row, at + i, bytes[i]);
            x[at + i] = scale[0] * (float)bytes[i];
        }
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
    float scale[2];
    double d = 0, sum = 0;
    memcpy(scale, row + value_bytes(r) + at / 4, sizeof scale);
    for (uint32_t i = 0; i < BLOCK; i++) d = fmax(d, fabs(expected[at + i]) / 127);
    for (uint32_t i = 0; i < BLOCK; i++) {
        /* off by up to 1e-5 of the block's largest, so the byte by 127 times that beyond 0.5 */
        const double wanted = d > 0 ? expected[at + i] / d : 0;
        const double quant = take_quant(r, row, at + i);
        ck_assert_msg(fabs(quant - wanted) <= 0.502 && quant == rint(quant), "%s: value %u is %g, not %g", f->name,
                      at + i, quant, wanted);
        sum += quant;
    }
    ck_assert_msg(fabs(scale[0] - d) <= 1e-5 * d, "%s: the scale at %u is %g, not %g", f->name, at,
                  (double)scale[0], d);
    ck_assert_msg(fabs(scale[1] - d * sum) <= 2e-5 * d * fabs(sum),
                  "%s: the scaled sum at %u is %g, not %g", f->name, at, (double)scale[1], d * sum);
}

void check_rows(const kernel_fixture *f, const test_rows *r, const double *expected, double bound)
{
    const uint32_t width = r->operand.width;
    if (!test_results_count()) return;
    bool kept = fixture_untouched(r->buffer->mapped, GUARD_BYTES);
    for (uint32_t i = 0; i < r->operand.rows; i++) {
        const uint8_t *row = r->at + i * pitch(r);
        if (r->operand.form == VKI_FORM_F32)
            fixture_compare(f, (const float *)(const void *)row, expected + i * width, width, bound);
        for (uint32_t at = 0; at < width && r->operand.form != VKI_FORM_F32; at += BLOCK)
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
