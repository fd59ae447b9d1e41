/* test_kernel_matmul.c - matrix products and the embedding, in every format, against their CPU
 * twins. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ref/kernels_ref.h"
#include "support/kernel_fixture.h"
#include "support/suite.h"

/* Sums of up to 768 products in f32 are off by some 1e-7 of their size; a single wrong weight or a
 * lost row by at least 1e-3. exp of a large argument may be off by 1e-5. Bounds are squares. */
static const double sum_bound = 1e-10, activation_bound = 1e-8;
/* f16 rounds both factors by up to 2^-12 of their size, and a sum may be small among its summands. */
static const double f16_bound = 1e-5;
/* Decoding rounds once more than the scalar decoder, and the scale once. */
static const double embedding_bound = 1e-12;

static vklm_error error;

typedef enum residual { NO_RESIDUAL, APART, IN_PLACE, RESIDUALS } residual;

typedef struct epilogue {
    bool bias;
    ref_gate gate;
    residual residual;
    float x_size; /* of the activations; 0: 1 */
} epilogue;

enum { EPILOGUES = 18 };

static epilogue epilogue_of(uint32_t i)
{
    return (epilogue){i % 2, (ref_gate)(i / 2 % 3), (residual)(i / 6 % RESIDUALS), 0};
}

static uint32_t rounded(uint32_t width)
{
    return (uint32_t)vki_round_up(width, 32);
}

/* Checks a block of 32 against its twin; x is then what the bytes say, so that a product with them
 * can be compared as closely as any. */
static void check_block(const kernel_fixture *f, float *x, const int8_t *bytes, const float *scale)
{
    int8_t wanted[32];
    double d;
    int wanted_sum, sum = 0;
    ref_quantize(x, wanted, &d, &wanted_sum);
    for (uint32_t i = 0; i < 32; i++) {
        /* a quotient near one half may be rounded either way */
        const double part = d > 0 ? fabs(x[i] / d - nearbyint(x[i] / d)) : 0;
        ck_assert_msg(abs(bytes[i] - wanted[i]) <= (part > 0.499), "%s: %g of %g is %d, not %d",
                      f->name, (double)x[i], d, bytes[i], wanted[i]);
        sum += bytes[i];
        x[i] = scale[0] * bytes[i];
    }
    ck_assert_double_le(fabs(scale[0] - d), 1e-6 * d);
    ck_assert_double_le(fabs(scale[1] - d * sum), 1e-5 * d * 127);
}

/* The int8 form of x's first `width` columns, made on the device and checked. */
static vki_span8 quantized(kernel_fixture *f, const operand *x, uint32_t width)
{
    const uint32_t rows = x->span.rows, stride = x->span.stride;
    const vki_buffer *bytes = fixture_buffer(f, (uint64_t)rows * stride);
    const vki_buffer *scales = fixture_buffer(f, (uint64_t)rows * stride / 4);
    const vki_span8 x8 = {bytes->address, scales->address, rows, stride};
    if (rows > 1) memset(x->at + stride, 0, 32 * sizeof *x->at); /* a block of zeros */
    fixture_case(f, "%u rows of %u as int8", rows, width);
    CHECK_OK(vki_quantize(&f->kernels, x->span, width, x8, &error));
    fixture_check_reads(f, operand_range(x, 0, width));
    fixture_check_writes(f, vki_range_of(bytes->address, bytes->size_bytes));
    fixture_check_writes(f, vki_range_of(scales->address, scales->size_bytes));
    fixture_run(f);
    for (uint32_t at = 0; at < rows * stride && test_results_count(); at += 32) {
        const int8_t *block = (const int8_t *)bytes->mapped + at;
        const float *scale = (const float *)(const void *)scales->mapped + at / 16;
        if (at % stride < width)
            check_block(f, x->at + at, block, scale);
        else
            ck_assert_msg(fixture_untouched(block, 32) && fixture_untouched(scale, 8),
                          "%s: wrote behind the row at %u", f->name, at);
    }
    return x8;
}

/* Whether products with rows first .. first + n - 1 read int8 activations, or f32. */
static bool reads(const kernel_fixture *f, const test_matrix *m, uint32_t first, uint32_t n,
                  bool int8)
{
    for (uint32_t i = 0; i < m->matrix.n_segments; i++) {
        const vki_segment *s = &m->segments[i];
        if (s->first_row >= first + n || s->first_row + s->planes.rows <= first) continue;
        if ((f->kernels.int8 && s->planes.format > VKI_BF16) == int8) return true;
    }
    return false;
}

/* Rows first .. first + count - 1 of m times n columns, into those columns of a y as wide as m. As
 * where k and v are computed without q, all that is indexed by row points at row `first`. */
static void check_product(kernel_fixture *f, const test_matrix *m, uint32_t first, uint32_t count,
                          uint32_t n, epilogue e)
{
    const uint32_t cols = m->matrix.cols, rows = m->matrix.rows;
    const uint32_t width = count ? count : rows, y_stride = rounded(rows) + 32 * (n % 2);
    const operand x = fixture_input(f, n, cols, rounded(cols), rounded(cols) + 32 * (n % 3));
    for (uint32_t i = 0; e.x_size > 0 && i < n * cols; i++)
        x.at[i / cols * x.span.stride + i % cols] *= e.x_size;
    const operand y = fixture_output(f, n, y_stride);
    const operand none = {0};
    const operand gate = e.gate ? fixture_output(f, n, y_stride) : none;
    const operand apart = e.residual == APART ? fixture_output(f, n, y_stride) : none;
    const vki_span8 x8 =
        vki_matmul_reads_int8(&f->kernels, &m->matrix) ? quantized(f, &x, cols) : (vki_span8){0};
    fixture_fill(f, &gate, first, width);
    for (uint32_t i = 0; i < width && e.gate; i++)
        gate.at[first + i] *= i % 2 ? 100 : 10; /* saturates */
    fixture_fill(f, &apart, first, width);
    if (e.residual == IN_PLACE) fixture_fill(f, &y, first, width);
    float *bias = NULL;
    const uint64_t bias_address = e.bias ? fixture_vector(f, width, &bias) : 0;
    const operand *const added = e.residual == IN_PLACE ? &y : &apart;

    const ref_product product = {
        .w = m->weights + (size_t)first * cols,
        .rows = width,
        .cols = cols,
        .x = x.at,
        .n = n,
        .x_stride = x.span.stride,
        .bias = bias,
        .gate = e.gate ? gate.at + first : NULL,
        .residual = e.residual ? added->at + first : NULL,
        .y_stride = y_stride,
        .activation = e.gate,
    };
    double *expected = fixture_host(f, (size_t)width * n, sizeof *expected);
    ref_matmul(&product, expected);
    const uint64_t shift = first * 4ull;
    const vki_matmul_args args = {
        .name = "product",
        .w = &m->matrix,
        .first_row = first,
        .n_rows = count,
        .x = x.span,
        .x8 = x8,
        .y = {y.span.address + shift, n, y_stride},
        .bias = bias_address,
        .gate = e.gate ? gate.span.address + shift : 0,
        .residual = e.residual ? added->span.address + shift : 0,
        .gelu = e.gate == REF_GELU,
    };
    fixture_case(f, "%s: rows %u to %u of %u x %u, %u columns, bias %d, gate %d, residual %d",
                 vki_format_get(m->segments[0].planes.format)->name, first, first + width, rows,
                 cols, n, e.bias, e.gate, e.residual);
    CHECK_OK(vki_matmul(&f->kernels, &args, &error));
    if (reads(f, m, first, width, true)) {
        fixture_check_reads(f, vki_range_of(x8.bytes, (uint64_t)n * x8.stride));
        fixture_check_reads(f, vki_range_of(x8.scales, (uint64_t)n * x8.stride / 4));
    }
    if (reads(f, m, first, width, false)) fixture_check_reads(f, operand_range(&x, 0, cols));
    fixture_check_reads(f, operand_range(&gate, first, width));
    if (e.residual) fixture_check_reads(f, operand_range(added, first, width));
    fixture_check_writes(f, operand_range(&y, first, width));
    fixture_run(f);
    const bool f16 = f->kernels.tuning.block.structure == VKI_COOP && reads(f, m, first, width, false);
    fixture_compare_columns(f, &y, first, width, expected, f16 ? f16_bound : e.gate ? activation_bound : sum_bound);
}

/* Each loop runs a format as one tuning has it. */
static vki_format loop_format(int loop)
{
    return (vki_format)(loop % VKI_FORMAT_COUNT);
}
static kernel_tuning loop_tuning(int loop)
{
    return (kernel_tuning)(loop / VKI_FORMAT_COUNT);
}

/* Opens the fixture for f32 or int8 activations; false where the device has no packed dot. */
static bool open_for(kernel_fixture *f, kernel_tuning tuning, bool int8)
{
    fixture_open(f, tuning);
    f->kernels.int8 = int8;
    f->kernels.tuning.prompt_floats = false;
    if (!int8 || f->device->limits.fast_packed_dot) return true;
    fixture_close(f);
    return false;
}

static void check_every_shape(vki_format format, kernel_tuning tuning, bool int8)
{
    static const uint32_t heights[] = {1, 2, 3, 7, 33, 65, 130},
                          counts[] = {1, 2, 3, 5, 8, 9, 17, 70};
    static const uint32_t plain_widths[] = {1, 31, 32, 33, 100, 576},
                          blocks[] = {1, 2, 3, 5, 8, 18};
    const uint32_t block = vki_format_get(format)->block_weights;
    kernel_fixture f;
    if (!open_for(&f, tuning, int8)) return;
    for (size_t w = 0; w < 6; w++) {
        const uint32_t cols = block == 1 ? plain_widths[w] : block * blocks[w];
        if (cols > 768) continue;
        for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
            test_matrix m;
            fixture_matrix(&f, &m, cols, &(test_segment){format, heights[h]}, 1);
            const fixture_mark mark = fixture_set_mark(&f);
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                check_product(&f, &m, 0, 0, counts[c], epilogue_of(fixture_below(&f, EPILOGUES)));
                fixture_drop_since(&f, mark);
            }
            fixture_drop(&f);
        }
    }
    fixture_close(&f);
}

START_TEST(products_are_right_in_every_shape)
{
    check_every_shape(loop_format(_i), loop_tuning(_i), false);
}
END_TEST

START_TEST(products_with_int8_are_right_in_every_shape)
{
    if (loop_format(_i) > VKI_BF16) check_every_shape(loop_format(_i), loop_tuning(_i), true);
}
END_TEST

START_TEST(every_epilogue_is_applied_in_order)
{
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (uint32_t i = 0; i < EPILOGUES; i++) {
        for (uint32_t n = 1; n <= 5; n += 4) {
            test_matrix m;
            fixture_matrix(&f, &m, 96, &(test_segment){VKI_F16, 45}, 1);
            check_product(&f, &m, 0, 0, n, epilogue_of(i));
            fixture_drop(&f);
        }
    }
    fixture_close(&f);
}
END_TEST

/* x of whole pages, behind which often nothing is mapped: a loop's last turn must not read on there. */
START_TEST(nothing_behind_x_is_read)
{
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (uint32_t n = 64; n <= 128; n += 64) {
        test_matrix m;
        fixture_matrix(&f, &m, 4096, &(test_segment){VKI_Q4_1, 33}, 1);
        check_product(&f, &m, 0, 0, n, epilogue_of(0));
        fixture_drop(&f);
    }
    fixture_close(&f);
}
END_TEST

START_TEST(any_range_of_rows_may_cross_segments)
{
    static const test_segment segments[] = {
        {VKI_Q8_0, 5}, {VKI_Q4_K, 1}, {VKI_F32, 9}, {VKI_Q6_K, 2}};
    kernel_fixture f;
    if (!open_for(&f, (kernel_tuning)(_i / 2), _i % 2)) return;
    for (uint32_t first = 0; first < 17; first++) {
        for (uint32_t count = first == 0 ? 0 : 1; count <= 17 - first; count += 1 + count / 6) {
            test_matrix m;
            fixture_matrix(&f, &m, 256, segments, 4);
            check_product(&f, &m, first, count, 1 + count % 3,
                          epilogue_of(fixture_below(&f, EPILOGUES)));
            fixture_drop(&f);
        }
    }
    fixture_close(&f);
}
END_TEST

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* TILE is for int8 alone. */
static const vki_block blocks[] = {{VKI_TILE, 128, 64, 8, 4, {0}},
                                   {VKI_TILE, 32, 32, 4, 8, {0}},
                                   {VKI_COOP, 32, 32, 16, 16, {0}},
                                   {VKI_COOP, 64, 32, 32, 16, {0}}};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* Makes every product by blocks[i]; false where device or build cannot. */
static bool open_for_block(kernel_fixture *f, int i, bool int8)
{
    vki_block block = blocks[i];
    if ((block.structure == VKI_TILE && !int8) || !open_for(f, TUNED_NATIVE, int8)) return false;
    vki_tuning *t = &f->kernels.tuning;
    block.size = int8 ? f->device->limits.coop_s8 : f->device->limits.coop_f16;
    *(int8 ? &t->block8 : &t->block) = block;
    t->block_columns = 1;
    const bool fits = block.size.m && 16 % block.size.m == 0 && 16 % block.size.n == 0;
    if (block.structure == VKI_TILE || (fits && t->subgroup && vki_shader_find("matmul_coop_f16"))) return true;
    fixture_close(f);
    return false;
}

static void check_block_shapes(kernel_fixture *f, vki_format format)
{
    static const uint32_t plain_widths[] = {1, 33, 100, 576}, blocks_wide[] = {1, 2, 3, 5};
    static const struct { uint32_t rows, n; } shapes[] = {{1, 130}, {31, 17}, {64, 64}, {150, 1}, {130, 70}};
    const uint32_t block = vki_format_get(format)->block_weights;
    for (uint32_t w = 0; w < 4; w++) {
        for (uint32_t i = 0; i < 5; i++) {
            test_matrix m;
            const uint32_t cols = block == 1 ? plain_widths[w] : block * blocks_wide[w];
            fixture_matrix(f, &m, cols, &(test_segment){format, shapes[i].rows}, 1);
            check_product(f, &m, 0, 0, shapes[i].n, epilogue_of(fixture_below(f, EPILOGUES)));
            fixture_drop(f);
        }
    }
}

/* The second tile of a structure with one format of each kind only: drivers take long to compile them. */
START_TEST(tiles_are_right_in_every_shape)
{
    const vki_format format = loop_format(_i);
    kernel_fixture f;
    if (_i / VKI_FORMAT_COUNT % 2 && format != VKI_BF16 && format != VKI_Q4_1 && format != VKI_Q6_K) return;
    for (int int8 = 0; int8 <= (format > VKI_BF16); int8++) {
        if (!open_for_block(&f, _i / VKI_FORMAT_COUNT, int8)) continue;
        check_block_shapes(&f, format);
        fixture_close(&f);
    }
}
END_TEST

START_TEST(tiles_take_any_range_of_rows)
{
    static const test_segment segments[] = {{VKI_Q8_0, 70}, {VKI_Q4_K, 1}, {VKI_F32, 9}, {VKI_Q6_K, 40}};
    static const uint32_t firsts[] = {0, 3, 69, 71, 75};
    kernel_fixture f;
    for (uint32_t i = 0; i < 10; i++) {
        if (!open_for_block(&f, _i, i % 2)) continue;
        test_matrix m;
        fixture_matrix(&f, &m, 256, segments, 4);
        check_product(&f, &m, firsts[i / 2], 3 + i * 4, 20 + i, epilogue_of(fixture_below(&f, EPILOGUES)));
        fixture_close(&f);
    }
}
END_TEST

/* Activations far outside of what f16 can hold are no worse than others. */
START_TEST(tiles_take_any_size_of_activations)
{
    static const vki_format formats[] = {VKI_F32, VKI_F16, VKI_BF16, VKI_Q4_1, VKI_Q6_K};
    static const float sizes[] = {1e-20f, 1e-7f, 1e7f, 1e20f};
    kernel_fixture f;
    for (int i = 0; i < 20; i++) {
        if (!open_for_block(&f, _i, false)) continue;
        test_matrix m;
        fixture_matrix(&f, &m, 256, &(test_segment){formats[i / 4], 40}, 1);
        check_product(&f, &m, 0, 0, 33, (epilogue){.x_size = sizes[i % 4]});
        fixture_close(&f);
    }
}
END_TEST

/* ---- Embedding ------------------------------------------------------------------------------- */

static void check_embedding(kernel_fixture *f, const test_matrix *m, uint32_t rows, float scale)
{
    const uint32_t width = m->matrix.cols, n_vocab = m->matrix.rows;
    const operand x = fixture_output(f, rows, rounded(width) + 32 * (rows % 2));
    struct row_state *state;
    const uint64_t state_address = fixture_state(f, rows, &state);
    uint32_t *tokens = fixture_host(f, rows, sizeof *tokens);
    for (uint32_t row = 0; row < rows; row++)
        tokens[row] = state[row].token = fixture_below(f, n_vocab + 1);
    if (rows > 1) tokens[1] = state[1].token = UINT32_MAX;
    /* Whole units are written; behind the width they hold zeros. */
    const uint32_t written = rounded(width);
    double *expected = fixture_host(f, (size_t)rows * written, sizeof *expected);
    double *row_expected = fixture_host(f, width, sizeof *row_expected);
    for (uint32_t row = 0; row < rows; row++) {
        ref_embed(m->weights, n_vocab, width, tokens + row, 1, scale, row_expected);
        memcpy(expected + (size_t)row * written, row_expected, width * sizeof *expected);
    }
    const vki_embed_args args = {
        .embedding = &m->matrix, .state = state_address, .x = x.span, .scale = scale};
    fixture_case(f, "%s: %u rows of %u x %u", vki_format_get(m->segments[0].planes.format)->name,
                 rows, n_vocab, width);
    CHECK_OK(vki_embed(&f->kernels, &args, &error));
    fixture_check_reads(f, vki_range_of(state_address, rows * sizeof *state));
    fixture_check_writes(f, operand_range(&x, 0, written));
    fixture_run(f);
    fixture_compare_columns(f, &x, 0, written, expected, embedding_bound);
}

START_TEST(embeddings_are_gathered_by_token)
{
    const vki_format format = loop_format(_i);
    const uint32_t block = vki_format_get(format)->block_weights;
    static const uint32_t plain_widths[] = {1, 33, 576}, counts[] = {1, 2, 70};
    kernel_fixture f;
    fixture_open(&f, loop_tuning(_i));
    for (size_t w = 0; w < 3; w++) {
        for (uint32_t c = 0; c < 3; c++) {
            test_matrix m;
            const uint32_t width = block == 1 ? plain_widths[w] : block * (1 + 2 * (uint32_t)w);
            const test_segment segments[] = {{format, 1}, {VKI_F32, 2}, {format, 40}};
            fixture_matrix(&f, &m, width, segments, 1 + 2 * (c % 2));
            check_embedding(&f, &m, counts[c], c == 0 ? 1.0f : 24.0f);
            fixture_drop(&f);
        }
    }
    fixture_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_matmul");
    TCase *c = add_case(suite, "products", NULL, NULL);
    tcase_add_loop_test(c, products_are_right_in_every_shape, 0, VKI_FORMAT_COUNT * TUNED_BLIND);
    tcase_add_loop_test(c, every_epilogue_is_applied_in_order, 0, KERNEL_TUNINGS);
    tcase_add_loop_test(c, nothing_behind_x_is_read, 0, KERNEL_TUNINGS);
    tcase_add_loop_test(c, products_with_int8_are_right_in_every_shape, 0,
                        VKI_FORMAT_COUNT * TUNED_BLIND);
    tcase_add_loop_test(c, any_range_of_rows_may_cross_segments, 0, 2 * KERNEL_TUNINGS);
    c = add_case(suite, "tiles", NULL, NULL);
    tcase_add_loop_test(c, tiles_are_right_in_every_shape, 0, VKI_FORMAT_COUNT * BLOCKS);
    tcase_add_loop_test(c, tiles_take_any_range_of_rows, 0, BLOCKS);
    tcase_add_loop_test(c, tiles_take_any_size_of_activations, 0, BLOCKS);
    c = add_case(suite, "embedding", NULL, NULL);
    tcase_add_loop_test(c, embeddings_are_gathered_by_token, 0, VKI_FORMAT_COUNT * TUNED_BLIND);
    return run_suite(suite);
}
