/* test_kernels.c - norms, rotary positions with the KV store, the end of a step and the tuning
 * table, against their CPU twins. Products and attention have files of their own. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernel/kernels_internal.h"
#include "ref/kernels_ref.h"
#include "support/kernel_fixture.h"
#include "support/suite.h"
#include "support/test_memory.h"

static vklm_error error;

/* ---- Norms ----------------------------------------------------------------------------------- */

/* Sums of up to 4096 squares in f32, a root and a division: 1e-6 of the result at most, squared. */
static const double norm_bound = 1e-12;

typedef enum residual { NO_RESIDUAL, APART, IN_PLACE, RESIDUALS } residual;

static void check_norm(kernel_fixture *f, uint32_t rows, uint32_t width, residual kind, float size)
{
    const float epsilon = 1e-5f;
    const uint32_t stride = (uint32_t)vki_round_up(width, 32);
    const operand x = fixture_input(f, rows, width, width, stride + 32);
    for (uint32_t i = 0; i < rows * x.span.stride - (x.span.stride - width); i++) x.at[i] *= size;
    const operand y = fixture_output(f, rows, stride), apart = fixture_output(f, rows, stride);
    const operand *const residual = kind == IN_PLACE ? &y : &apart;
    if (kind) fixture_fill(f, residual, 0, width);
    float *weight;
    const uint64_t weight_address = fixture_vector(f, width, &weight);
    double *expected = fixture_host(f, (size_t)rows * width, sizeof *expected);
    ref_norm(x.at, rows, x.span.stride, width, epsilon, weight, kind ? residual->at : NULL, stride,
             expected);
    const vki_norm_args args = {.name = "norm",
                                .x = x.span,
                                .y = y.span,
                                .width = width,
                                .weight = weight_address,
                                .residual = kind ? residual->span.address : 0,
                                .epsilon = epsilon};
    fixture_case(f, "norm of %u rows of %u, size %g, residual %d", rows, width, (double)size, kind);
    CHECK_OK(vki_norm(&f->kernels, &args, &error));
    fixture_check_reads(f, operand_range(&x, 0, width));
    if (kind) fixture_check_reads(f, operand_range(residual, 0, width));
    fixture_check_writes(f, operand_range(&y, 0, width));
    fixture_run(f);
    fixture_compare_columns(f, &y, 0, width, expected, norm_bound);
    fixture_drop(f);
}

START_TEST(norms_are_right_for_any_width)
{
    static const uint32_t widths[] = {1, 4, 33, 576, 4096}, counts[] = {1, 2, 7, 70};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (residual kind = NO_RESIDUAL; kind < RESIDUALS; kind++)
                check_norm(&f, counts[c], widths[w], kind,
                           c == 1 ? 1e-3f : 1); /* where epsilon counts */
    fixture_close(&f);
}
END_TEST

/* ---- Rotary positions and the KV store ------------------------------------------------------- */

/* The table's cosines are rounded, then multiplied: 2e-7. An f16 of the cache is off by at most
 * 2^-10 of itself, where the device rounds toward zero. */
static const double rope_bound = 1e-11, f16_bound = 0x1p-20;

enum { TABLE_LOW = 256 };

typedef struct rope_case {
    uint32_t n_head, n_head_kv, d_head, n_rot;
    bool norms;
} rope_case;

static const rope_case rope_cases[] = {
    {1, 1, 2, 2, false},    {2, 1, 6, 4, true},      {4, 2, 16, 16, true},  {9, 3, 64, 64, false},
    {4, 4, 64, 32, true},   {2, 1, 80, 80, false},   {2, 1, 80, 20, true},  {8, 1, 96, 96, false},
    {3, 1, 128, 128, true}, {4, 1, 256, 256, false}, {2, 2, 256, 64, true},
};

/* Of the rows: the ends of pages and of the table's low part. */
static const uint32_t positions[] = {0, 1, 254, 255, 256, 257, 511, 512, 70000};
enum { POSITIONS = sizeof positions / sizeof *positions, LAST_POSITION = 70000 };

static const double rope_base = 10000, rope_factor = 1.25;

/* As src/model/model.h describes it. */
static uint64_t make_table(kernel_fixture *f, uint32_t n_rot)
{
    const uint32_t rows = TABLE_LOW + LAST_POSITION / TABLE_LOW + 1;
    float *table;
    const uint64_t address = fixture_vector(f, rows * n_rot, &table);
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t position = r < TABLE_LOW ? r : (r - TABLE_LOW) * TABLE_LOW;
        const double factor = r < TABLE_LOW ? rope_factor : 1;
        for (uint32_t i = 0; i < n_rot; i += 2, table += 2) {
            const double angle = position * pow(rope_base, -(double)i / n_rot);
            table[0] = (float)(factor * cos(angle));
            table[1] = (float)(factor * sin(angle));
        }
    }
    return address;
}

/* Takes k or v of one row out of the cache and compares; what pads a head must be 0. */
static void check_stored(kernel_fixture *f, const test_cache *cache, bool is_value,
                         uint32_t position, const double *expected)
{
    const vki_heads *h = &cache->heads;
    float *stored = fixture_host(f, (size_t)h->n_head_kv * h->d_head, sizeof *stored), *at = stored;
    for (uint32_t head = 0; head < h->n_head_kv; head++) {
        for (uint32_t i = 0; i < h->pad; i++) {
            const float value = fixture_take_kv(cache, (kv_place){is_value, head, position, i});
            if (i < h->d_head)
                *at++ = value;
            else if (test_results_count())
                ck_assert_msg(value == 0, "%s: padding %g", f->name, (double)value);
        }
    }
    fixture_compare(f, stored, expected, (size_t)h->n_head_kv * h->d_head,
                    h->kv_f32 ? rope_bound : f16_bound);
}

static void check_untouched(kernel_fixture *f, const test_cache *cache)
{
    for (uint32_t i = 0; i < FIXTURE_PAGES && test_results_count(); i++)
        if (cache->pages[i])
            ck_assert_msg(fixture_untouched(cache->pages[i]->mapped, cache->pages[i]->size_bytes),
                          "%s: wrote elsewhere in page %u", f->name, i);
}

/* All positions as rows of two sequences in turn; rows before first_q_row make only k and v. */
static void check_rope(kernel_fixture *f, const rope_case *c, bool kv_f32, uint32_t first_q_row)
{
    const vki_heads heads = vki_heads_of(c->n_head, c->n_head_kv, c->d_head, kv_f32);
    const uint32_t width = (c->n_head + 2 * c->n_head_kv) * c->d_head,
                   q_width = c->n_head * heads.pad;
    const uint32_t stride = (uint32_t)vki_round_up(width, 32),
                   q_stride = (uint32_t)vki_round_up(q_width, 32);
    const operand qkv = fixture_input(f, POSITIONS, width, width, stride + 32);
    const operand q = fixture_output(f, POSITIONS - first_q_row, q_stride + 32);
    test_cache caches[2];
    for (int i = 0; i < 2; i++) fixture_cache(f, &caches[i], &heads);
    struct row_state *state;
    const uint64_t state_address = fixture_state(f, POSITIONS, &state);
    for (uint32_t row = 0; row < POSITIONS; row++) {
        fixture_page(f, &caches[row % 2], positions[row]);
        state[row] =
            (struct row_state){.pages = caches[row % 2].table->address, .position = positions[row]};
    }
    float *q_norm, *k_norm;
    const uint64_t q_norm_address = fixture_vector(f, c->d_head, &q_norm);
    const uint64_t k_norm_address = fixture_vector(f, c->d_head, &k_norm);
    const vki_rope_args args = {
        .heads = heads,
        .qkv = qkv.span,
        .q = q.span,
        .first_q_row = first_q_row,
        .state = state_address,
        .table = make_table(f, c->n_rot),
        .q_norm = c->norms ? q_norm_address : 0,
        .k_norm = c->norms ? k_norm_address : 0,
        .n_rot = c->n_rot,
        .epsilon = 1e-6f,
        .q_scale = 0.125f,
    };
    fixture_case(f, "rope of %u heads of %u, q from row %u", c->n_head, c->d_head, first_q_row);
    CHECK_OK(vki_rope(&f->kernels, &args, &error));
    fixture_check_reads(f, operand_range(&qkv, 0, width));
    fixture_check_reads(f, vki_range_of(state_address, sizeof *state * POSITIONS));
    fixture_check_writes(f, operand_range(&q, 0, q_width));
    fixture_check_writes(f, vki_cache_range(FIXTURE_LAYER));
    fixture_run(f);

    const ref_rope_params params = {
        .n_head = c->n_head,
        .n_head_kv = c->n_head_kv,
        .d_head = c->d_head,
        .n_rot = c->n_rot,
        .base = rope_base,
        .factor = rope_factor,
        .q_scale = 0.125,
        .epsilon = 1e-6f,
        .q_norm = c->norms ? q_norm : NULL,
        .k_norm = c->norms ? k_norm : NULL,
    };
    double *expected =
        fixture_host(f, (size_t)POSITIONS * q_width, sizeof *expected); /* q, heads padded */
    double *dense = fixture_host(f, width, sizeof *dense), *k = dense + c->n_head * c->d_head;
    double *v = k + c->n_head_kv * c->d_head;
    for (uint32_t row = 0; row < POSITIONS; row++) {
        fixture_case(
            f, "rope of %u and %u heads of %u, %u turned, norms %d, f32 %d, q from row %u: row %u",
            c->n_head, c->n_head_kv, c->d_head, c->n_rot, c->norms, kv_f32, first_q_row, row);
        ref_rope(&params, qkv.at + row * qkv.span.stride, positions[row], dense, k, v);
        check_stored(f, &caches[row % 2], false, positions[row], k);
        check_stored(f, &caches[row % 2], true, positions[row], v);
        for (uint32_t i = 0; i < c->n_head * c->d_head && row >= first_q_row; i++)
            expected[(row - first_q_row) * q_width + i / c->d_head * heads.pad + i % c->d_head] =
                dense[i];
    }
    fixture_compare_columns(f, &q, 0, q_width, expected, rope_bound);
    for (int i = 0; i < 2; i++) check_untouched(f, &caches[i]);
    fixture_drop(f);
}

START_TEST(rope_turns_q_and_k_and_fills_the_cache)
{
    static const uint32_t first_q_rows[] = {0, 1, POSITIONS - 1, POSITIONS};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (size_t c = 0; c < sizeof rope_cases / sizeof *rope_cases; c++)
        for (int kv_f32 = 0; kv_f32 < 2; kv_f32++)
            for (size_t i = 0; i < 4; i++) check_rope(&f, &rope_cases[c], kv_f32, first_q_rows[i]);
    fixture_close(&f);
}
END_TEST

/* ---- Tuning ---------------------------------------------------------------------------------- */

static bool is_power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static void check_tuning(const vki_limits *limits)
{
    const vki_tuning t = vki_tuning_for(limits);
    const vki_tile tiles[] = {t.matvec, t.matvec8, t.matmul, t.matmul8};
    const uint32_t locals[] = {t.matvec.local, t.matvec8.local, t.matmul.local,    t.matmul8.local,
                               t.unit_local,   t.row_local,     t.attention_local, t.argmax_local};
    const uint32_t widest = t.subgroup ? t.subgroup : limits->subgroup_size;
    const uint32_t narrowest = t.subgroup ? t.subgroup : limits->subgroup_min;
    for (size_t i = 0; i < sizeof locals / sizeof *locals; i++) {
        ck_assert_uint_gt(locals[i], 0);
        ck_assert_uint_le(locals[i], 256);
        ck_assert_uint_eq(locals[i] % widest, 0);
        ck_assert_uint_le(locals[i] / narrowest, 64); /* MAX_SUBGROUPS of the shaders */
    }
    ck_assert_uint_le(t.attention_local / narrowest, 16);
    ck_assert_uint_eq(VKI_KV_PAGE_KEYS % t.attention_local, 0);
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        ck_assert_uint_le(tiles[i].lanes, narrowest);
        ck_assert_uint_eq(tiles[i].local % tiles[i].lanes, 0);
        ck_assert(is_power_of_two(tiles[i].lanes));
        ck_assert(is_power_of_two(tiles[i].cols));
    }
    if (limits->subgroup_control)
        ck_assert(t.subgroup >= limits->subgroup_min && t.subgroup <= limits->subgroup_max);
    else
        ck_assert_uint_eq(t.subgroup, 0);
}

START_TEST(tuning_is_sound_for_every_subgroup_size)
{
    for (uint32_t min = 4; min <= 128; min *= 2)
        for (uint32_t size = min; size <= 128; size *= 2)
            for (uint32_t max = size; max <= 128; max *= 2)
                for (int i = 0; i < 4; i++) { /* without control the sizes are one */
                    if (!(i & 1) && min != max) continue;
                    check_tuning(&(vki_limits){.subgroup_min = min,
                                               .subgroup_size = size,
                                               .subgroup_max = max,
                                               .subgroup_control = i & 1,
                                               .is_cpu = i & 2});
                }
}
END_TEST

/* Of every vendor, with what this build has shaders for. */
START_TEST(tiles_are_made_of_whole_parts)
{
    static const uint32_t vendors[] = {0, 0x1002, 0x10de, 0x8086};
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t lanes = 8u << i / 4, n = lanes < 16 ? 8 : 16;
        const vki_limits limits = {
            .vendor = vendors[i % 4], .subgroup_min = lanes, .subgroup_size = lanes, .subgroup_max = lanes,
            .subgroup_control = true, .max_workgroup_subgroups = 64, .max_workgroup_invocations = 1024,
            .is_discrete = true, .fast_packed_dot = true, .shared_bytes = 32768,
            .coop_f16 = {8, n, 16}, .coop_s8 = {8, n, 32}};
        const vki_tuning t = vki_tuning_for(&limits);
        ck_assert_int_ne(t.block8.structure, VKI_DIRECT);
        for (const vki_block *b = &t.block; b; b = b == &t.block ? &t.block8 : NULL) {
            if (b->structure == VKI_DIRECT) continue;
            const bool coop = b->structure == VKI_COOP;
            ck_assert_uint_eq(b->rows % b->part_rows + b->cols % b->part_cols, 0);
            ck_assert_uint_eq(b->part_rows % (coop ? b->size.m : 4) + b->part_cols % (coop ? b->size.n : 4), 0);
        }
    }
}
END_TEST

START_TEST(splits_grow_with_the_keys)
{
    kernel_fixture f;
    fixture_open(&f, TUNED_NATIVE);
    uint32_t last = 1;
    for (uint32_t keys = 0; keys < 100000; keys++) {
        const uint32_t splits = vki_attention_splits(&f.kernels, keys);
        ck_assert(splits == last || splits == 2 * last);
        last = splits;
    }
    ck_assert_uint_eq(last, VKI_MAX_SPLITS);
    fixture_close(&f);
}
END_TEST

/* ---- Planning without memory ----------------------------------------------------------------- */

/* Every operation once; the addresses are never used. */
static vklm_status plan_everything(vki_kernels *kernels)
{
    const vki_heads heads = vki_heads_of(2, 1, 8, false);
    const vki_span x = {4096, 2, 32};
    vki_segment segment = {.address = 4096};
    ck_assert(vki_planes_init(&segment.planes, VKI_Q8_0, 32, 32));
    const vki_matrix w = {.rows = 32, .cols = 32, .n_segments = 1, .segments = &segment};
    TRY(vki_embed(kernels, &(vki_embed_args){.embedding = &w, .x = x}, &error));
    TRY(vki_norm(kernels, &(vki_norm_args){.name = "norm", .x = x, .y = x, .width = 32}, &error));
    TRY(vki_matmul(kernels, &(vki_matmul_args){.name = "product", .w = &w, .x = x, .y = x},
                   &error));
    TRY(vki_rope(kernels, &(vki_rope_args){.heads = heads, .qkv = x, .q = x}, &error));
    TRY(vki_attention(kernels, &(vki_attention_args){.heads = heads, .q = x, .out = x, .splits = 2},
                      &error));
    return vki_sample(kernels, &(vki_sample_args){.logits = x, .n_vocab = 32}, &error);
}

START_TEST(every_failed_allocation_is_reported)
{
    test_memory heap = {0};
    const vklm_device_params params = {.struct_size = sizeof params,
                                       .allocator = test_allocator(&heap)};
    vklm_device *device = test_device(&params);
    vklm_status status = VKLM_OUT_OF_MEMORY;
    size_t n_allocations = 0;
    for (; status != VKLM_OK; n_allocations++) {
        vki_pipelines pipelines;
        vki_plan plan;
        vki_kernels kernels;
        vki_pipelines_init(&pipelines, device);
        vki_plan_init(&plan, &device->host);
        vki_kernels_init(&kernels, &pipelines, &device->limits, true);
        kernels.plan = &plan;
        heap.fail_from = heap.n_calls + n_allocations + 1;
        status = plan_everything(&kernels);
        ck_assert_msg(status == VKLM_OK || status == VKLM_OUT_OF_MEMORY, "%s", error.text);
        if (status == VKLM_OK)
            ck_assert_uint_eq(plan.n, 8); /* attention and sampling are two each */
        heap.fail_from = 0;
        vki_plan_free(&plan);
        vki_pipelines_free(&pipelines);
    }
    ck_assert_uint_gt(n_allocations, 8);
    vklm_device_destroy(&device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *c = add_case(suite, "kernels", NULL, NULL);
    tcase_add_loop_test(c, norms_are_right_for_any_width, 0, KERNEL_TUNINGS);
    tcase_add_loop_test(c, rope_turns_q_and_k_and_fills_the_cache, 0, KERNEL_TUNINGS);
    c = add_case(suite, "tuning", NULL, NULL);
    tcase_add_test(c, tuning_is_sound_for_every_subgroup_size);
    tcase_add_test(c, tiles_are_made_of_whole_parts);
    tcase_add_test(c, splits_grow_with_the_keys);
    c = add_case(suite, "planning", NULL, NULL);
    tcase_add_test(c, every_failed_allocation_is_reported);
    return run_suite(suite);
}
