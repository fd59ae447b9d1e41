/* test_kernel_matvec.c - the kernels of decode steps of one to eight rows against their CPU twins: products
 * with each epilogue, and what embedding, attention, the end of a branch and that of a step do for them. */

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernel/kernels_internal.h"
#include "ref/kernels_ref.h"
#include "support/kernel_rows.h"
#include "support/suite.h"

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
    test_rows x;
    uint32_t n; /* columns */
    float *x_at, *bias;
    double inverse[VKI_MAX_BATCH]; /* 1 / rms of each column */
    vki_form next_form;
    bool variant; /* variant: GELU, f32 cache, rows that make no number */
} product;

/* A second segment begins behind `first` rows; that of Q4_0 is of another format. */
static void make_matrix(kernel_fixture *f, test_matrix *m, vki_format format, uint32_t rows,
                        uint32_t first, uint32_t cols)
{
    const test_segment segments[] = {{format, first ? first : rows},
                                     {format == VKI_Q4_0 ? VKI_Q8_0 : format, rows - first}};
    fixture_matrix(f, m, cols, segments, first ? 2 : 1);
}

/* Of the squares of each column of x. */
static void draw_squares(kernel_fixture *f, product *p, uint32_t units)
{
    float *squares;
    p->args.squares = fixture_vector(f, p->n * units, &squares);
    for (uint32_t c = 0; c < p->n; c++) {
        double sum = 0;
        for (uint32_t i = 0; i < units; i++) sum += squares[c * units + i] = 10 * fabsf(squares[c * units + i]);
        p->inverse[c] = 1 / sqrt(sum / p->args.w->cols + (double)epsilon);
    }
}

static void begin(kernel_fixture *f, product *p, const char *name, vki_epilogue epilogue,
                  float size)
{
    const vki_matrix *w = &p->m.matrix;
    const uint32_t options = fixture_below(f, 16);
    p->n = fixture_below(f, 2) ? 1 : 1 + fixture_below(f, VKI_MAX_BATCH);
    const vki_form quants = fixture_below(f, 2) ? VKI_FORM_INT8 : VKI_FORM_SPREAD;
    p->x = empty_rows(f, p->n, w->cols, vki_matrix_reads_int8(&f->kernels, w) ? quants : VKI_FORM_F32);
    p->x_at = fill_rows(f, &p->x, size);
    p->next_form = options & 1 ? quants : VKI_FORM_F32;
    p->variant = options & 2;
    p->args = (vki_matvec_args){
        .name = name, .epilogue = epilogue, .w = w, .x = p->x.operand, .epsilon = epsilon};
    for (uint32_t c = 0; c < p->n; c++) p->inverse[c] = 1;
    p->bias = NULL;
    if (options & 4) draw_squares(f, p, w->cols / BLOCK);
    if (options & 8) p->args.bias = fixture_vector(f, w->rows, &p->bias);
    fixture_case(f, "%s of %s: %u x %u, %u columns, %u segments, form %d, then %d, squares %d, bias %d, %d",
                 name, vki_format_get(p->m.segments[0].planes.format)->name, w->rows, w->cols, p->n,
                 w->n_segments, (int)p->x.operand.form, (int)p->next_form, p->args.squares != 0, p->bias != NULL,
                 p->variant);
}

/* inverse * (m x) + bias, [n][rows] */
static double *sums_of(kernel_fixture *f, const product *p, const test_matrix *m, const float *bias)
{
    const uint32_t rows = m->matrix.rows, cols = m->matrix.cols;
    double *sums = fixture_host(f, p->n * rows, sizeof *sums);
    ref_matmul(&(ref_product){.w = m->weights, .rows = rows, .cols = cols, .x = p->x_at, .n = p->n,
                              .x_stride = cols}, sums);
    for (uint32_t i = 0; i < p->n * rows; i++)
        sums[i] = sums[i] * p->inverse[i / rows] + (double)(bias ? bias[i % rows] : 0);
    return sums;
}

static void plan(kernel_fixture *f, const product *p)
{
    ck_assert(vki_matvec_fits(&f->kernels, p->args.w, p->args.epilogue != VKI_EPILOGUE_LOGITS));
    CHECK_OK(vki_matvec(&f->kernels, &p->args, &error));
    fixture_check_reads(f, range_of_rows(&p->x));
    if (p->args.squares)
        fixture_check_reads(f, vki_range_of(p->args.squares, p->n * p->args.x.width / BLOCK * 4));
}

/* The residual stream and what the next product reads; or a branch that is still to be normed. */
static void check_add(kernel_fixture *f, vki_format format, uint32_t rows, uint32_t cols, bool branch)
{
    product p;
    make_matrix(f, &p.m, format, rows, rows > 64 ? 64 : 0, cols);
    begin(f, &p, branch ? "branch" : "add", branch ? VKI_EPILOGUE_BRANCH : VKI_EPILOGUE_ADD, 1);
    const operand y = fixture_output(f, p.n, rows), squares = fixture_output(f, p.n, rows / BLOCK);
    const test_rows next = empty_rows(f, p.n, rows, p.next_form);
    float *gain;
    p.args.y = y.span.address;
    p.args.next_squares = squares.span.address;
    double *stream = sums_of(f, &p, &p.m, p.bias), *left = fixture_host(f, p.n * rows, sizeof *left);
    const uint64_t gains = fixture_vector(f, rows, &gain);
    if (!branch) {
        p.args.gain = gains;
        p.args.next = next.operand;
        fixture_fill(f, &y, 0, rows);
        for (uint32_t i = 0; i < p.n * rows; i++) {
            stream[i] += (double)y.at[i];
            left[i] = stream[i] * (double)gain[i % rows];
        }
    }
    plan(f, &p);
    if (!branch) fixture_check_reads(f, operand_range(&y, 0, rows));
    fixture_check_writes(f, operand_range(&y, 0, rows));
    fixture_check_writes(f, operand_range(&squares, 0, rows / BLOCK));
    if (!branch) fixture_check_writes(f, range_of_rows(&next));
    fixture_run(f);
    fixture_compare_columns(f, &y, 0, rows, stream, sum_bound);
    fixture_compare_columns(f, &squares, 0, rows / BLOCK, squares_of(f, stream, p.n * rows), sum_bound);
    if (!branch) check_rows(f, &next, left, sum_bound);
    fixture_drop(f);
}

static void check_gate(kernel_fixture *f, vki_format format, uint32_t rows, uint32_t cols)
{
    product p;
    make_matrix(f, &p.m, format, rows, rows > 64 ? 96 : 0, cols);
    make_matrix(f, &p.up, format, rows, rows > 64 ? 96 : 0, cols);
    begin(f, &p, "gate", VKI_EPILOGUE_GATE, 1);
    const test_rows next = empty_rows(f, p.n, rows, p.next_form);
    float *up_bias = NULL;
    p.args.up = &p.up.matrix;
    p.args.next = next.operand;
    p.args.gelu = p.variant;
    if (p.bias) p.args.up_bias = fixture_vector(f, rows, &up_bias);
    const double *gate = sums_of(f, &p, &p.m, p.bias), *up = sums_of(f, &p, &p.up, up_bias);
    double *left = fixture_host(f, p.n * rows, sizeof *left);
    for (uint32_t i = 0; i < p.n * rows; i++) /* the twin of the activation alone: 1 times up */
        ref_matmul(&(ref_product){.w = (float[]){1}, .rows = 1, .cols = 1, .x = (float[]){(float)up[i]}, .n = 1,
                                  .gate = (float[]){(float)gate[i]},
                                  .activation = p.variant ? REF_GELU : REF_SILU}, &left[i]);
    plan(f, &p);
    fixture_check_writes(f, range_of_rows(&next));
    fixture_run(f);
    check_rows(f, &next, left, activation_bound);
    fixture_drop(f);
}

static void check_parts(const kernel_fixture *f, const float *logits, uint32_t rows, const float *parts)
{
    for (uint32_t first = 0; first < rows; first += BLOCK, parts += 2) {
        const uint32_t n = (uint32_t)vki_min(BLOCK, rows - first), id = ref_argmax(logits + first, n);
        uint32_t found;
        memcpy(&found, &parts[1], sizeof found);
        const bool right = id == UINT32_MAX ? parts[0] == INFINITY : found == first + id && parts[0] == logits[found];
        ck_assert_msg(right, "%s: the largest from %u on is %u, not %u", f->name, first, found, first + id);
    }
}

/* The head, and the end of the step with the parts of the argmax that it left. */
static void check_logits(kernel_fixture *f, vki_format format, uint32_t rows, uint32_t cols)
{
    const uint32_t n_parts = (uint32_t)vki_div_up(rows, BLOCK);
    product p;
    make_matrix(f, &p.m, format, rows, rows > 64 ? 64 : 0, cols);
    begin(f, &p, "logits", VKI_EPILOGUE_LOGITS, fixture_below(f, 3) ? 1 : 0); /* 0: all are alike */
    const operand y = fixture_output(f, p.n, n_parts * BLOCK), parts = fixture_output(f, p.n, n_parts * 2);
    const vki_buffer *ring = fixture_buffer(f, VKI_RING_STEPS * VKI_MAX_BATCH * 4);
    struct row_state *state;
    const uint64_t state_address = fixture_state(f, p.n, &state);
    const bool odd = p.variant && p.bias;
    for (uint32_t i = 0; i < BLOCK && odd; i++) p.bias[i] = i % 2 ? NAN : -INFINITY;
    p.args.y = y.span.address;
    p.args.next.address = parts.span.address;
    plan(f, &p);
    fixture_check_writes(f, operand_range(&y, 0, rows));
    fixture_check_writes(f, operand_range(&parts, 0, n_parts * 2));
    CHECK_OK(vki_sample(&f->kernels,
                        &(vki_sample_args){.logits = y.span, .n_vocab = rows, .state = state_address,
                                           .ring = ring->address, .partial = parts.span.address, .has_parts = true},
                        &error));
    fixture_check_reads(f, operand_range(&parts, 0, n_parts * 2));
    fixture_run(f);
    if (!odd) fixture_compare_columns(f, &y, 0, rows, sums_of(f, &p, &p.m, p.bias), sum_bound);
    for (uint32_t c = 0; c < p.n && test_results_count(); c++) {
        const float *logits = y.at + c * y.span.stride;
        check_parts(f, logits, rows, parts.at + c * parts.span.stride);
        ck_assert_uint_eq(state[c].token, ref_argmax(logits, rows));
    }
    fixture_drop(f);
}

typedef struct qkv_case {
    uint32_t n_head, n_head_kv, d_head, n_rot, position;
} qkv_case;

static const qkv_case qkv_cases[] = {
    {1, 1, 32, 32, 255}, {4, 2, 32, 16, 0}, {3, 3, 64, 64, 600}, {2, 1, 96, 96, 254}, {1, 1, 256, 128, 1}};
enum { QKV_CASES = sizeof qkv_cases / sizeof *qkv_cases };

/* Rows of one sequence at rising positions. normed: q and k by head. */
static void check_qkv(kernel_fixture *f, vki_format format, const qkv_case *c, uint32_t cols, bool normed)
{
    const uint32_t q_rows = c->n_head * c->d_head, k_rows = c->n_head_kv * c->d_head;
    const uint32_t rows = q_rows + 2 * k_rows;
    product p;
    make_matrix(f, &p.m, format, rows, c->n_head > 1 ? c->n_head > 2 ? rows - k_rows : q_rows : 0, cols);
    begin(f, &p, normed ? "normed qkv" : "qkv", VKI_EPILOGUE_QKV, 1);
    if (normed && !vki_matvec_norms_heads(&f->kernels, p.args.w, c->d_head)) {
        fixture_drop(f);
        return;
    }
    const operand q = fixture_output(f, p.n, q_rows);
    test_cache cache;
    struct row_state *state;
    float *q_norm = NULL, *k_norm = NULL;
    p.args.heads = vki_heads_of(c->n_head, c->n_head_kv, c->d_head, p.variant);
    p.args.state = fixture_state(f, p.n, &state);
    p.args.table = rope_table(f, c->n_rot);
    p.args.n_rot = c->n_rot;
    p.args.q_scale = 0.125f;
    p.args.y = q.span.address;
    if (normed) p.args.q_norm = fixture_vector(f, c->d_head, &q_norm);
    if (normed) p.args.k_norm = fixture_vector(f, c->d_head, &k_norm);
    fixture_cache(f, &cache, &p.args.heads);
    const double *sums = sums_of(f, &p, &p.m, p.bias);
    float *qkv = fixture_host(f, p.n * rows, sizeof *qkv);
    double *turned = fixture_host(f, p.n * q_rows, sizeof *turned), *k = fixture_host(f, p.n * 2 * k_rows, sizeof *k);
    for (uint32_t i = 0; i < p.n * rows; i++) qkv[i] = (float)sums[i];
    const ref_rope_params params = {.n_head = c->n_head, .n_head_kv = c->n_head_kv,
                                    .d_head = c->d_head, .n_rot = c->n_rot, .base = 10000,
                                    .factor = 1, .q_scale = 0.125, .epsilon = epsilon,
                                    .q_norm = q_norm, .k_norm = k_norm};
    for (uint32_t i = 0; i < p.n; i++) {
        state[i] = (struct row_state){.pages = cache.table->address, .position = c->position + i};
        fixture_page(f, &cache, state[i].position);
        ref_rope(&params, qkv + i * rows, state[i].position, turned + i * q_rows, k + 2 * i * k_rows,
                 k + (2 * i + 1) * k_rows);
    }
    plan(f, &p);
    fixture_check_reads(f, vki_range_of(p.args.state, p.n * sizeof *state));
    fixture_check_writes(f, operand_range(&q, 0, q_rows));
    fixture_check_writes(f, vki_cache_rows_range(FIXTURE_LAYER, 0, rows));
    fixture_run(f);
    fixture_compare_columns(f, &q, 0, q_rows, turned, sum_bound);
    for (uint32_t i = 0; i < 2 * p.n; i++)
        check_stored(f, &cache, i % 2, state[i / 2].position, k + i * k_rows, p.variant ? sum_bound : f16_bound);
    for (uint32_t i = 0; i < p.n && test_results_count(); i++) {
        const vki_buffer *page = cache.pages[state[i].position / VKI_KV_PAGE_KEYS];
        ck_assert_msg(fixture_untouched(page->mapped, page->size_bytes), "%s: wrote elsewhere in the page", f->name);
    }
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
        check_add(&f, format, heights[s % 3], cols[s % 3], false);
        check_add(&f, format, heights[(s + 2) % 3], cols[s % 3], true);
        check_gate(&f, format, heights[(s + 1) % 3], cols[(s + 1) % 3]);
        check_logits(&f, format, heights[s % 5], cols[(s + 2) % 3]);
        check_qkv(&f, format, &qkv_cases[s % QKV_CASES], cols[s % 3], s % 2);
        fixture_close(&f);
    }
}
END_TEST

START_TEST(products_of_few_rows_are_right_in_every_shape)
{
    const vki_format format = _i % 2 ? VKI_Q4_0 : VKI_F16;
    kernel_fixture f;
    if (!open_for(&f, _i / 2, _i % 2)) return;
    for (uint32_t w = 0; w < 3; w++) {
        for (uint32_t h = 0; h < 5; h++) {
            if (h < 3) check_add(&f, format, heights[h], widths[w], h == w);
            check_qkv(&f, format, &qkv_cases[h], widths[w], true);
            for (int again = 0; again < 2; again++)
                check_logits(&f, format, heights[h], widths[w]);
            if (h == w) check_gate(&f, format, heights[h], widths[w]);
            if (h == w) check_qkv(&f, format, &qkv_cases[h], widths[w], false);
        }
    }
    fixture_close(&f);
}
END_TEST

/* ---- What comes before and between ---------------------------------------------------- */

static void check_embedding(kernel_fixture *f, vki_format format, vki_form form, uint32_t token, uint32_t n)
{
    const uint32_t width = 3 * (uint32_t)vki_max(BLOCK, vki_format_get(format)->block_weights);
    const test_segment segments[] = {{format, 3}, {VKI_F32, 2}, {format, 4}};
    test_matrix m;
    fixture_matrix(f, &m, width, segments, 3);
    const operand x = fixture_output(f, n, width), squares = fixture_output(f, n, width / BLOCK);
    const test_rows next = empty_rows(f, n, width, form);
    struct row_state *state;
    float *gain;
    uint32_t tokens[VKI_MAX_BATCH];
    vki_embed_args args = {.embedding = &m.matrix, .x = x.span, .scale = 24, .next = next.operand,
                           .squares = squares.span.address};
    args.state = fixture_state(f, n, &state);
    args.gain = fixture_vector(f, width, &gain);
    for (uint32_t i = 0; i < n; i++) state[i].token = tokens[i] = token + i;
    double *expected = fixture_host(f, n * width, sizeof *expected),
           *left = fixture_host(f, n * width, sizeof *left);
    ref_embed(m.weights, m.matrix.rows, width, tokens, n, args.scale, expected);
    for (uint32_t i = 0; i < n * width; i++) left[i] = expected[i] * (double)gain[i % width];
    fixture_case(f, "%s: form %d, %u from token %u on", vki_format_get(format)->name, (int)form, n, token);
    CHECK_OK(vki_embed(&f->kernels, &args, &error));
    fixture_check_reads(f, vki_range_of(args.state, n * sizeof *state));
    fixture_check_writes(f, operand_range(&x, 0, width));
    fixture_check_writes(f, operand_range(&squares, 0, width / BLOCK));
    fixture_check_writes(f, range_of_rows(&next));
    fixture_run(f);
    fixture_compare_columns(f, &x, 0, width, expected, sum_bound);
    fixture_compare_columns(f, &squares, 0, width / BLOCK, squares_of(f, expected, n * width),
                            sum_bound);
    check_rows(f, &next, left, sum_bound);
    fixture_drop(f);
}

START_TEST(embedding_leaves_what_the_first_product_reads)
{
    static const uint32_t tokens[] = {0, 4, 8, UINT32_MAX - 2};
    kernel_fixture f;
    fixture_open(&f, TUNED_NATIVE);
    for (uint32_t i = 0; i < 4; i++)
        check_embedding(&f, (vki_format)_i, (vki_form)((i + (uint32_t)_i) % 3), tokens[i], 1 + i % 3);
    fixture_close(&f);
}
END_TEST

static void check_attention(kernel_fixture *f, const vki_heads *h, uint32_t splits, vki_form form, uint32_t rows)
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
    const operand q = fixture_input(f, rows, width, width, width);
    const test_rows next = empty_rows(f, rows, width, form);
    const uint64_t scratch = vki_attention_scratch(h, rows, splits);
    struct row_state *state;
    const vki_attention_args args = {
        .heads = *h, .q = q.span, .state = fixture_state(f, rows, &state), .splits = splits,
        .partial = scratch ? fixture_buffer(f, scratch)->address : 0, .keys = 1,
        .one_sequence = splits == 1, .next = next.operand};
    double *expected = fixture_host(f, rows * width, sizeof *expected);
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t position = KEYS - rows + i;
        state[i] = (struct row_state){.pages = cache.table->address, .position = position};
        ref_attention(&(ref_heads){h->n_head, h->n_head_kv, h->d_head, h->pad}, q.at + i * width, k, v,
                      position, 0, expected + i * width);
    }
    fixture_case(f, "%u and %u heads of %u, f32 %d: %u rows, %u splits, form %d", h->n_head, h->n_head_kv,
                 h->d_head, h->kv_f32, rows, splits, (int)form);
    CHECK_OK(vki_attention(&f->kernels, &args, &error));
    fixture_check_writes(f, range_of_rows(&next));
    fixture_run(f);
    check_rows(f, &next, expected, sum_bound);
    fixture_drop(f);
}

START_TEST(attention_leaves_what_the_next_product_reads)
{
    static const uint32_t cases[][3] = {{4, 2, 64}, {3, 1, 96}, {2, 2, 32}};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (uint32_t c = 0; c < 3; c++) {
        const vki_heads heads = vki_heads_of(cases[c][0], cases[c][1], cases[c][2], c % 2);
        check_attention(&f, &heads, 1, VKI_FORM_INT8, 1);
        check_attention(&f, &heads, 4, VKI_FORM_INT8, 1);
        check_attention(&f, &heads, 1, VKI_FORM_SPREAD, 5);
        check_attention(&f, &heads, 4, VKI_FORM_SPREAD, 3);
        check_attention(&f, &heads, c % 2 ? 4 : 1, VKI_FORM_F32, 1 + c);
    }
    fixture_close(&f);
}
END_TEST

/* ---- The end of a branch --------------------------------------------------------------------- */

static void check_join(kernel_fixture *f, uint32_t rows, uint32_t width, vki_form form)
{
    const uint32_t n = rows * width;
    const operand branch = fixture_input(f, rows, width, width, width), x = fixture_output(f, rows, width),
                  squares = fixture_output(f, rows, width / BLOCK);
    const test_rows next = empty_rows(f, rows, width, form);
    float *weight, *gain, *branch_squares;
    vki_join_args args = {.name = "join", .branch = branch.span.address, .epsilon = epsilon,
                          .x = x.span.address, .next = next.operand, .next_squares = squares.span.address};
    args.branch_squares = fixture_vector(f, n / BLOCK, &branch_squares);
    args.weight = fixture_vector(f, width, &weight);
    args.gain = fixture_vector(f, width, &gain);
    fixture_fill(f, &x, 0, width);
    double *values = fixture_host(f, n, sizeof *values), *left = fixture_host(f, n, sizeof *left);
    for (uint32_t i = 0; i < n; i++) values[i] = (double)branch.at[i];
    const double *sums = squares_of(f, values, n);
    for (uint32_t i = 0; i < n / BLOCK; i++) branch_squares[i] = (float)sums[i];
    ref_norm(branch.at, rows, width, width, epsilon, weight, x.at, width, values);
    for (uint32_t i = 0; i < n; i++) left[i] = values[i] * (double)gain[i % width];
    fixture_case(f, "%u rows of %u, form %d", rows, width, (int)form);
    CHECK_OK(vki_join(&f->kernels, &args, &error));
    fixture_check_reads(f, operand_range(&branch, 0, width));
    fixture_check_reads(f, vki_range_of(args.branch_squares, n / BLOCK * 4));
    fixture_check_reads(f, operand_range(&x, 0, width));
    fixture_check_writes(f, operand_range(&x, 0, width));
    fixture_check_writes(f, operand_range(&squares, 0, width / BLOCK));
    fixture_check_writes(f, range_of_rows(&next));
    fixture_run(f);
    fixture_compare_columns(f, &x, 0, width, values, sum_bound);
    fixture_compare_columns(f, &squares, 0, width / BLOCK, squares_of(f, values, n), sum_bound);
    check_rows(f, &next, left, sum_bound);
    fixture_drop(f);
}

START_TEST(a_normed_branch_joins_the_residual_stream)
{
    static const uint32_t join_widths[] = {32, 96, 640, 2080};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (uint32_t i = 0; i < 4 && f.kernels.tuning.subgroup; i++) {
        check_join(&f, 1, join_widths[i], (vki_form)(i % 3));
        check_join(&f, 1 + i, join_widths[i], (vki_form)((i + 1) % 3));
    }
    fixture_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_matvec");
    TCase *c = add_case(suite, "few rows", NULL, NULL);
    tcase_add_loop_test(c, each_format_meets_each_epilogue, 0, VKI_FORMAT_COUNT);
    tcase_add_loop_test(c, products_of_few_rows_are_right_in_every_shape, 0, 2 * TUNED_BLIND);
    tcase_add_loop_test(c, embedding_leaves_what_the_first_product_reads, 0, VKI_FORMAT_COUNT);
    tcase_add_loop_test(c, attention_leaves_what_the_next_product_reads, 0, TUNED_BLIND);
    tcase_add_loop_test(c, a_normed_branch_joins_the_residual_stream, 0, TUNED_BLIND);
    return run_suite(suite);
}
