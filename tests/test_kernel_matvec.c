/* test_kernel_matvec.c - the kernels of a decode step of one row against their CPU twins: products
 * with each epilogue, and what embedding, attention and the end of a step do for them. */

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ref/kernels_ref.h"
#include "support/kernel_row.h"

/* As in the tests of products, attention and rotary positions; squares of the errors. An f16 of the
 * cache is off by at most 2^-10 of itself, where the device rounds toward zero. */
static const double sum_bound = 1e-10, activation_bound = 1e-8, f16_bound = 0x1p-20;
static const float epsilon = 1e-5f;
enum { BLOCK = 32 };

static vklm_error error;

/* ---- Products -------------------------------------------------------------------------------- */

/* A product, and what a case draws for it. */
typedef struct product {
    test_matrix m, up;
    vki_matvec_args args;
    test_row x;
    float *x_at, *bias;
    double inverse; /* 1 / rms */
    bool next_int8, variant; /* variant: GELU, f32 cache, rows that make no number */
} product;

/* A second segment begins behind `first` rows; that of Q4_0 is of another format. */
static void make_matrix(kernel_fixture *f, test_matrix *m, vki_format format, uint32_t rows,
                        uint32_t first, uint32_t cols)
{
    const test_segment segments[] = {{format, first ? first : rows},
                                     {format == VKI_Q4_0 ? VKI_Q8_0 : format, rows - first}};
    fixture_matrix(f, m, cols, segments, first ? 2 : 1);
}

static void begin(kernel_fixture *f, product *p, const char *name, vki_epilogue epilogue,
                  float size)
{
    const vki_matrix *w = &p->m.matrix;
    const uint32_t options = fixture_below(f, 16), units = w->cols / BLOCK;
    p->x = empty_row(f, w->cols, vki_matrix_reads_int8(&f->kernels, w));
    p->x_at = fill_row(f, &p->x, size);
    p->next_int8 = options & 1;
    p->variant = options & 2;
    p->args = (vki_matvec_args){
        .name = name, .epilogue = epilogue, .w = w, .x = p->x.row, .epsilon = epsilon};
    p->inverse = 1;
    p->bias = NULL;
    if (options & 4) {
        float *squares;
        double sum = 0;
        p->args.squares = fixture_vector(f, units, &squares);
        for (uint32_t i = 0; i < units; i++) sum += squares[i] = 10 * fabsf(squares[i]);
        p->inverse = 1 / sqrt(sum / w->cols + (double)epsilon);
    }
    if ((options & 8) && epilogue != VKI_EPILOGUE_GATE)
        p->args.bias = fixture_vector(f, w->rows, &p->bias);
    fixture_case(f, "%s of %s: %u x %u, %u segments, int8 %d, then %d, squares %d, bias %d, %d",
                 name, vki_format_get(p->m.segments[0].planes.format)->name, w->rows, w->cols,
                 w->n_segments, p->x.row.int8, p->next_int8, p->args.squares != 0, p->bias != NULL,
                 p->variant);
}

/* inverse * (m x) + bias */
static double *sums_of(kernel_fixture *f, const product *p, const test_matrix *m)
{
    const uint32_t rows = m->matrix.rows;
    double *sums = fixture_host(f, rows, sizeof *sums);
    ref_matmul(&(ref_product){.w = m->weights, .rows = rows, .cols = m->matrix.cols, .x = p->x_at,
                              .n = 1}, sums);
    for (uint32_t i = 0; i < rows; i++)
        sums[i] = sums[i] * p->inverse + (double)(p->bias ? p->bias[i] : 0);
    return sums;
}

static void plan(kernel_fixture *f, const product *p)
{
    ck_assert(vki_matvec_fits(&f->kernels, p->args.w, p->args.epilogue != VKI_EPILOGUE_LOGITS));
    CHECK_OK(vki_matvec(&f->kernels, &p->args, &error));
    fixture_check_reads(f, range_of_row(&p->x));
    if (p->args.squares)
        fixture_check_reads(f, vki_range_of(p->args.squares, p->args.x.width / BLOCK * 4));
}

static void check_add(kernel_fixture *f, vki_format format, uint32_t rows, uint32_t cols)
{
    product p;
    make_matrix(f, &p.m, format, rows, rows > 64 ? 64 : 0, cols);
    begin(f, &p, "add", VKI_EPILOGUE_ADD, 1);
    const operand y = fixture_output(f, 1, rows), squares = fixture_output(f, 1, rows / BLOCK);
    const test_row next = empty_row(f, rows, p.next_int8);
    float *gain;
    p.args.gain = fixture_vector(f, rows, &gain);
    p.args.y = y.span.address;
    p.args.next = next.row;
    p.args.next_squares = squares.span.address;
    fixture_fill(f, &y, 0, rows);
    double *stream = sums_of(f, &p, &p.m), *left = fixture_host(f, rows, sizeof *left);
    for (uint32_t i = 0; i < rows; i++) {
        stream[i] += (double)y.at[i];
        left[i] = stream[i] * (double)gain[i];
    }
    plan(f, &p);
    fixture_check_reads(f, operand_range(&y, 0, rows));
    fixture_check_writes(f, operand_range(&y, 0, rows));
    fixture_check_writes(f, operand_range(&squares, 0, rows / BLOCK));
    fixture_check_writes(f, range_of_row(&next));
    fixture_run(f);
    fixture_compare_columns(f, &y, 0, rows, stream, sum_bound);
    fixture_compare_columns(f, &squares, 0, rows / BLOCK, squares_of(f, stream, rows), sum_bound);
    check_row(f, &next, left, sum_bound);
    fixture_drop(f);
}

static void check_gate(kernel_fixture *f, vki_format format, uint32_t rows, uint32_t cols)
{
    product p;
    make_matrix(f, &p.m, format, rows, rows > 64 ? 96 : 0, cols);
    make_matrix(f, &p.up, format, rows, rows > 64 ? 96 : 0, cols);
    begin(f, &p, "gate", VKI_EPILOGUE_GATE, 1);
    const test_row next = empty_row(f, rows, p.next_int8);
    p.args.up = &p.up.matrix;
    p.args.next = next.row;
    p.args.gelu = p.variant;
    const double *sums = sums_of(f, &p, &p.m);
    float *gate = fixture_host(f, rows, sizeof *gate);
    double *left = fixture_host(f, rows, sizeof *left);
    for (uint32_t i = 0; i < rows; i++) gate[i] = (float)sums[i];
    ref_matmul(&(ref_product){.w = p.up.weights, .rows = rows, .cols = cols, .x = p.x_at, .n = 1,
                              .gate = gate, .activation = p.variant ? REF_GELU : REF_SILU}, left);
    for (uint32_t i = 0; i < rows; i++) left[i] *= p.inverse;
    plan(f, &p);
    fixture_check_writes(f, range_of_row(&next));
    fixture_run(f);
    check_row(f, &next, left, activation_bound);
    fixture_drop(f);
}

/* The head, and the end of the step with the parts of the argmax that it left. */
static void check_logits(kernel_fixture *f, vki_format format, uint32_t rows, uint32_t cols)
{
    const uint32_t n_parts = (uint32_t)vki_div_up(rows, BLOCK);
    product p;
    make_matrix(f, &p.m, format, rows, rows > 64 ? 64 : 0, cols);
    begin(f, &p, "logits", VKI_EPILOGUE_LOGITS, fixture_below(f, 3) ? 1 : 0); /* 0: all are alike */
    const operand y = fixture_output(f, 1, rows), parts = fixture_output(f, 1, n_parts * 2);
    const vki_buffer *ring = fixture_buffer(f, VKI_RING_STEPS * VKI_MAX_BATCH * 4);
    struct row_state *state;
    const uint64_t state_address = fixture_state(f, 1, &state);
    const bool odd = p.variant && p.bias;
    for (uint32_t i = 0; i < BLOCK && odd; i++) p.bias[i] = i % 2 ? NAN : -INFINITY;
    p.args.y = y.span.address;
    p.args.next.address = parts.span.address;
    plan(f, &p);
    fixture_check_writes(f, operand_range(&y, 0, rows));
    fixture_check_writes(f, operand_range(&parts, 0, n_parts * 2));
    CHECK_OK(vki_advance(&f->kernels,
                         &(vki_advance_args){.logits = y.span, .n_vocab = rows, .greedy = true,
                                             .state = state_address, .ring = ring->address,
                                             .partial = parts.span.address, .parts = n_parts},
                         &error));
    fixture_check_reads(f, operand_range(&parts, 0, n_parts * 2));
    fixture_run(f);
    if (!odd) fixture_compare_columns(f, &y, 0, rows, sums_of(f, &p, &p.m), sum_bound);
    for (uint32_t i = 0; i < n_parts && test_results_count(); i++) {
        const uint32_t first = i * BLOCK, n = (uint32_t)vki_min(BLOCK, rows - first);
        uint32_t id = ref_argmax(y.at + first, n), found;
        if (id != UINT32_MAX) id += first;
        memcpy(&found, &parts.at[2 * i + 1], sizeof found);
        const float largest = id == UINT32_MAX ? -INFINITY : y.at[id];
        ck_assert_msg(found == id && (id == UINT32_MAX || parts.at[2 * i] == largest),
                      "%s: the largest of block %u is %u, not %u", f->name, i, found, id);
    }
    if (test_results_count()) ck_assert_uint_eq(state->token, ref_argmax(y.at, rows));
    fixture_drop(f);
}

typedef struct qkv_case {
    uint32_t n_head, n_head_kv, d_head, n_rot, position;
} qkv_case;

static const qkv_case qkv_cases[] = {
    {1, 1, 32, 32, 255}, {4, 2, 32, 16, 0}, {3, 3, 64, 64, 600}, {2, 1, 96, 96, 256}};
enum { QKV_CASES = sizeof qkv_cases / sizeof *qkv_cases };

static void check_qkv(kernel_fixture *f, vki_format format, const qkv_case *c, uint32_t cols)
{
    const uint32_t q_rows = c->n_head * c->d_head, k_rows = c->n_head_kv * c->d_head;
    const uint32_t rows = q_rows + 2 * k_rows;
    product p;
    make_matrix(f, &p.m, format, rows, c->n_head > 1 ? q_rows : 0, cols);
    begin(f, &p, "qkv", VKI_EPILOGUE_QKV, 1);
    const operand q = fixture_output(f, 1, q_rows);
    test_cache cache;
    struct row_state *state;
    p.args.heads = vki_heads_of(c->n_head, c->n_head_kv, c->d_head, p.variant);
    p.args.state = fixture_state(f, 1, &state);
    p.args.table = rope_table(f, c->n_rot);
    p.args.n_rot = c->n_rot;
    p.args.q_scale = 0.125f;
    p.args.y = q.span.address;
    fixture_cache(f, &cache, &p.args.heads);
    fixture_page(f, &cache, c->position);
    *state = (struct row_state){.pages = cache.table->address, .position = c->position};
    const double *sums = sums_of(f, &p, &p.m);
    float *qkv = fixture_host(f, rows, sizeof *qkv);
    double *turned = fixture_host(f, rows, sizeof *turned), *k = turned + q_rows, *v = k + k_rows;
    for (uint32_t i = 0; i < rows; i++) qkv[i] = (float)sums[i];
    const ref_rope_params params = {.n_head = c->n_head, .n_head_kv = c->n_head_kv,
                                    .d_head = c->d_head, .n_rot = c->n_rot, .base = 10000,
                                    .factor = 1, .q_scale = 0.125};
    ref_rope(&params, qkv, c->position, turned, k, v);
    plan(f, &p);
    fixture_check_reads(f, vki_range_of(p.args.state, sizeof *state));
    fixture_check_writes(f, operand_range(&q, 0, q_rows));
    fixture_check_writes(f, vki_range_of(VKI_VIRTUAL_RANGE + FIXTURE_LAYER, 1));
    fixture_run(f);
    fixture_compare_columns(f, &q, 0, q_rows, turned, sum_bound);
    const double kv_bound = p.variant ? sum_bound : f16_bound;
    check_stored(f, &cache, false, c->position, k, kv_bound);
    check_stored(f, &cache, true, c->position, v, kv_bound);
    const vki_buffer *page = cache.pages[c->position / VKI_KV_PAGE_KEYS];
    ck_assert_msg(!test_results_count() || fixture_untouched(page->mapped, page->size_bytes),
                  "%s: wrote elsewhere in the page", f->name);
    fixture_drop(f);
}

/* Opens the fixture for f32 or int8 activations; false where the device has no packed dot, or no
 * subgroups of a known size. */
static bool open_for(kernel_fixture *f, int tuning, bool int8)
{
    fixture_open(f, (kernel_tuning)tuning);
    f->kernels.int8 = int8;
    if (f->kernels.tuning.subgroup && (!int8 || f->device->limits.fast_packed_dot)) return true;
    fixture_close(f);
    return false;
}

static const uint32_t heights[] = {32, 64, 576, 33, 100}, /* the last two: of logits */
    widths[] = {32, 96, 576}, k_widths[] = {256, 768, 256};

/* In one tuning as f32 and in the other as int8, each time in another shape. */
START_TEST(each_format_meets_each_epilogue)
{
    const vki_format format = (vki_format)_i;
    const uint32_t *cols = vki_format_get(format)->block_weights > 32 ? k_widths : widths;
    for (int int8 = 0; int8 <= (format > VKI_BF16); int8++) {
        kernel_fixture f;
        if (!open_for(&f, (_i + int8) % TUNED_BLIND, int8)) continue;
        const uint32_t s = (uint32_t)(_i + int8);
        f.random += 12345 * s;
        check_add(&f, format, heights[s % 3], cols[s % 3]);
        check_gate(&f, format, heights[(s + 1) % 3], cols[(s + 1) % 3]);
        check_logits(&f, format, heights[s % 5], cols[(s + 2) % 3]);
        check_qkv(&f, format, &qkv_cases[s % QKV_CASES], cols[s % 3]);
        fixture_close(&f);
    }
}
END_TEST

START_TEST(products_of_one_row_are_right_in_every_shape)
{
    const vki_format format = _i % 2 ? VKI_Q4_0 : VKI_F16;
    kernel_fixture f;
    if (!open_for(&f, _i / 2, _i % 2)) return;
    for (uint32_t w = 0; w < 3; w++) {
        for (uint32_t h = 0; h < 5; h++) {
            if (h < 3) check_add(&f, format, heights[h], widths[w]);
            for (int again = 0; again < 2; again++)
                check_logits(&f, format, heights[h], widths[w]);
            if (h == w) check_gate(&f, format, heights[h], widths[w]);
            if (h == w) check_qkv(&f, format, &qkv_cases[h], widths[w]);
        }
    }
    fixture_close(&f);
}
END_TEST

/* ---- What comes before and between ---------------------------------------------------- */

static void check_embedding(kernel_fixture *f, vki_format format, bool int8, uint32_t token)
{
    const uint32_t width = 3 * (uint32_t)vki_max(BLOCK, vki_format_get(format)->block_weights);
    const test_segment segments[] = {{format, 3}, {VKI_F32, 2}, {format, 4}};
    test_matrix m;
    fixture_matrix(f, &m, width, segments, 3);
    const operand x = fixture_output(f, 1, width), squares = fixture_output(f, 1, width / BLOCK);
    const test_row next = empty_row(f, width, int8);
    struct row_state *state;
    float *gain;
    vki_embed_args args = {.embedding = &m.matrix, .x = x.span, .scale = 24, .next = next.row,
                           .squares = squares.span.address};
    args.state = fixture_state(f, 1, &state);
    args.gain = fixture_vector(f, width, &gain);
    state->token = token;
    double *expected = fixture_host(f, width, sizeof *expected),
           *left = fixture_host(f, width, sizeof *left);
    ref_embed(m.weights, m.matrix.rows, width, &token, 1, args.scale, expected);
    for (uint32_t i = 0; i < width; i++) left[i] = expected[i] * (double)gain[i];
    fixture_case(f, "%s: int8 %d, token %u", vki_format_get(format)->name, int8, token);
    CHECK_OK(vki_embed(&f->kernels, &args, &error));
    fixture_check_reads(f, vki_range_of(args.state, sizeof *state));
    fixture_check_writes(f, operand_range(&x, 0, width));
    fixture_check_writes(f, operand_range(&squares, 0, width / BLOCK));
    fixture_check_writes(f, range_of_row(&next));
    fixture_run(f);
    fixture_compare_columns(f, &x, 0, width, expected, sum_bound);
    fixture_compare_columns(f, &squares, 0, width / BLOCK, squares_of(f, expected, width),
                            sum_bound);
    check_row(f, &next, left, sum_bound);
    fixture_drop(f);
}

START_TEST(embedding_leaves_what_the_first_product_reads)
{
    static const uint32_t tokens[] = {0, 4, 8, UINT32_MAX};
    kernel_fixture f;
    fixture_open(&f, TUNED_NATIVE);
    for (uint32_t i = 0; i < 4; i++)
        check_embedding(&f, (vki_format)_i, (i + (uint32_t)_i) % 2, tokens[i]);
    fixture_close(&f);
}
END_TEST

static void check_attention(kernel_fixture *f, const vki_heads *h, uint32_t splits, bool int8)
{
    enum { KEYS = 299 };
    const uint32_t n = h->n_head_kv * h->d_head, width = h->n_head * h->d_head;
    test_cache cache;
    fixture_cache(f, &cache, h);
    for (uint32_t at = 0; at < KEYS; at += VKI_KV_PAGE_KEYS) fixture_page(f, &cache, at);
    float *k = fixture_host(f, KEYS * n, sizeof *k), *v = fixture_host(f, KEYS * n, sizeof *v);
    for (uint32_t i = 0; i < KEYS * n; i++) {
        kv_place place = {false, i % n / h->d_head, i / n, i % h->d_head};
        k[i] = fixture_put_kv(&cache, place, fixture_random(f));
        place.is_value = true;
        v[i] = fixture_put_kv(&cache, place, fixture_random(f));
    }
    const operand q = fixture_input(f, 1, width, width, width);
    const test_row next = empty_row(f, width, int8);
    const uint64_t scratch = vki_attention_scratch(h, 1, splits);
    struct row_state *state;
    const vki_attention_args args = {
        .heads = *h, .q = q.span, .state = fixture_state(f, 1, &state), .splits = splits,
        .partial = scratch ? fixture_buffer(f, scratch)->address : 0, .keys = 1, .next = next.row};
    *state = (struct row_state){.pages = cache.table->address, .position = KEYS - 1};
    double *expected = fixture_host(f, width, sizeof *expected);
    ref_attention(&(ref_heads){h->n_head, h->n_head_kv, h->d_head, h->pad}, q.at, k, v, KEYS - 1, 0,
                  expected);
    fixture_case(f, "%u and %u heads of %u, f32 %d: %u splits, int8 %d", h->n_head, h->n_head_kv,
                 h->d_head, h->kv_f32, splits, int8);
    CHECK_OK(vki_attention(&f->kernels, &args, &error));
    fixture_check_writes(f, range_of_row(&next));
    fixture_run(f);
    check_row(f, &next, expected, sum_bound);
    fixture_drop(f);
}

START_TEST(attention_leaves_what_the_next_product_reads)
{
    static const uint32_t cases[][3] = {{4, 2, 64}, {3, 1, 96}, {2, 2, 32}};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (uint32_t c = 0; c < 3; c++) {
        const vki_heads heads = vki_heads_of(cases[c][0], cases[c][1], cases[c][2], c % 2);
        check_attention(&f, &heads, 1, true);
        check_attention(&f, &heads, 4, true);
        check_attention(&f, &heads, c % 2 ? 4 : 1, false);
    }
    fixture_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_matvec");
    TCase *c = tcase_create("one row");
    tcase_set_timeout(c, 0);
    tcase_add_loop_test(c, each_format_meets_each_epilogue, 0, VKI_FORMAT_COUNT);
    tcase_add_loop_test(c, products_of_one_row_are_right_in_every_shape, 0, 2 * TUNED_BLIND);
    tcase_add_loop_test(c, embedding_leaves_what_the_first_product_reads, 0, VKI_FORMAT_COUNT);
    tcase_add_loop_test(c, attention_leaves_what_the_next_product_reads, 0, TUNED_BLIND);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
