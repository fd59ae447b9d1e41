/* test_kernel_matvec.c - the kernels of a decode step of one row against their CPU twins: products
 * with each epilogue, and what embedding, attention and the end of a step do for them. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ref/kernels_ref.h"
#include "support/kernel_fixture.h"

/* As in the tests of products, attention and rotary positions; squares of the errors. An f16 of the
 * cache is off by at most 2^-10 of itself, where the device rounds toward zero. */
static const double sum_bound = 1e-10, activation_bound = 1e-8, f16_bound = 0x1p-20;
static const float epsilon = 1e-5f;

static vklm_error error;

/* ---- Rows as products read and leave them ---------------------------------------------------- */

enum { GUARD_BYTES = 256, BLOCK = 32 };

typedef struct test_row {
    vki_row row;
    uint8_t *at;
    const vki_buffer *buffer;
} test_row;

static size_t row_bytes(const test_row *r)
{
    return r->row.int8 ? r->row.width + r->row.width / 4 : r->row.width * 4;
}

/* NaN in all of it, and before and behind it. */
static test_row empty_row(kernel_fixture *f, uint32_t width, bool int8)
{
    test_row r = {.row = {0, width, int8}};
    r.buffer = fixture_buffer(f, row_bytes(&r) + 2 * GUARD_BYTES);
    r.row.address = r.buffer->address + GUARD_BYTES;
    r.at = r.buffer->mapped + GUARD_BYTES;
    return r;
}

/* Random numbers up to `size`; what the row then says. */
static float *fill_row(kernel_fixture *f, const test_row *r, float size)
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
        /* The value is off by up to 1e-5 of the block's largest, so its byte by 0.5 and 127 times that. */
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

static void check_row(const kernel_fixture *f, const test_row *r, const double *expected,
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

static vki_range range_of_row(const test_row *r)
{
    return vki_range_of(r->row.address, row_bytes(r));
}

/* The sums of squares of x's blocks. */
static double *squares_of(kernel_fixture *f, const double *x, uint32_t width)
{
    double *squares = fixture_host(f, width / BLOCK, sizeof *squares);
    for (uint32_t i = 0; i < width; i++) squares[i / BLOCK] += x[i] * x[i];
    return squares;
}

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

/* Segments of one format and, behind `first` rows, of another that reads the same activations. */
static void make_matrix(kernel_fixture *f, test_matrix *m, vki_format format, uint32_t rows,
                        uint32_t first, uint32_t cols)
{
    const test_segment segments[] = {{format, first ? first : rows},
                                     {f->kernels.int8 ? VKI_Q8_0 : VKI_F16, rows - first}};
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
enum { QKV_CASES = sizeof qkv_cases / sizeof *qkv_cases, TABLE_LOW = 256, TABLE_ROWS = 256 + 3 };

/* As src/model/model.h describes it. */
static uint64_t make_table(kernel_fixture *f, uint32_t n_rot)
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

/* Takes k or v out of the cache and compares. */
static void check_stored(kernel_fixture *f, const test_cache *cache, bool is_value,
                         uint32_t position, const double *expected)
{
    const vki_heads *h = &cache->heads;
    const uint32_t n = h->n_head_kv * h->d_head;
    float *stored = fixture_host(f, n, sizeof *stored);
    for (uint32_t i = 0; i < n; i++)
        stored[i] = fixture_take_kv(
            cache, (kv_place){is_value, i / h->d_head, position, i % h->d_head});
    fixture_compare(f, stored, expected, n, h->kv_f32 ? sum_bound : f16_bound);
}

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
    p.args.table = make_table(f, c->n_rot);
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
    check_stored(f, &cache, false, c->position, k);
    check_stored(f, &cache, true, c->position, v);
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

/* Each format meets each epilogue once, in another shape. */
START_TEST(each_format_meets_each_epilogue)
{
    const uint32_t i = (uint32_t)_i % VKI_FORMAT_COUNT;
    const vki_format format = (vki_format)i;
    const uint32_t *cols = vki_format_get(format)->block_weights > 32 ? k_widths : widths;
    for (int int8 = 0; int8 <= (format > VKI_BF16); int8++) {
        kernel_fixture f;
        if (!open_for(&f, _i / VKI_FORMAT_COUNT, int8)) continue;
        const uint32_t s = i + (uint32_t)int8;
        f.random += 12345 * s;
        check_add(&f, format, heights[s % 3], cols[s % 3]);
        check_gate(&f, format, heights[(s + 1) % 3], cols[(s + 1) % 3]);
        check_logits(&f, format, heights[s % 5], cols[(s + 2) % 3]);
        check_qkv(&f, format, &qkv_cases[s % QKV_CASES], cols[s % 3]);
        fixture_close(&f);
    }
}
END_TEST

static void check_every_shape(vki_format format, int tuning, bool int8)
{
    kernel_fixture f;
    if (!open_for(&f, tuning, int8)) return;
    for (uint32_t w = 0; w < 3; w++) {
        for (uint32_t h = 0; h < 5; h++) {
            if (h < 3) check_add(&f, format, heights[h], widths[w]);
            if (h < 3) check_gate(&f, format, heights[h], widths[w]);
            for (int again = 0; again < 3; again++)
                check_logits(&f, format, heights[h], widths[w]);
            if (h < QKV_CASES) check_qkv(&f, format, &qkv_cases[h], widths[w]);
        }
    }
    fixture_close(&f);
}

START_TEST(products_of_one_row_are_right_in_every_shape)
{
    check_every_shape(_i % 2 ? VKI_Q4_0 : VKI_F16, _i / 2, _i % 2);
}
END_TEST

/* ---- What comes before, between and after ---------------------------------------------------- */

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
    fixture_case(f, "embedding of %s, int8 %d, token %u", vki_format_get(format)->name, int8, token);
    CHECK_OK(vki_embed(&f->kernels, &args, &error));
    fixture_check_reads(f, vki_range_of(args.state, sizeof *state));
    fixture_check_writes(f, operand_range(&x, 0, width));
    fixture_check_writes(f, operand_range(&squares, 0, width / BLOCK));
    fixture_check_writes(f, range_of_row(&next));
    fixture_run(f);
    fixture_compare_columns(f, &x, 0, width, expected, sum_bound);
    fixture_compare_columns(f, &squares, 0, width / BLOCK, squares_of(f, expected, width), sum_bound);
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
    float *k = fixture_host(f, (size_t)KEYS * n, sizeof *k), *v = fixture_host(f, (size_t)KEYS * n, sizeof *v);
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
        .partial = scratch ? fixture_buffer(f, scratch)->address : 0, .keys = KEYS, .next = next.row};
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
    static const uint32_t cases[][3] = {{4, 2, 64}, {3, 1, 96}, {2, 2, 32}, {8, 1, 128}};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (uint32_t c = 0; c < 4; c++) {
        const vki_heads heads = vki_heads_of(cases[c][0], cases[c][1], cases[c][2], c % 2);
        for (uint32_t splits = 1; splits <= 4; splits += 3) check_attention(&f, &heads, splits, true);
        check_attention(&f, &heads, c % 2 ? 4 : 1, false);
    }
    fixture_close(&f);
}
END_TEST

/* Every part's largest is its id's place in a row of numbers with ties. */
START_TEST(a_step_ends_with_the_largest_part)
{
    enum { PARTS = 1000, ROWS = 3 };
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    const operand parts = fixture_output(&f, 1, ROWS * PARTS * 2);
    const vki_buffer *ring = fixture_buffer(&f, VKI_RING_STEPS * VKI_MAX_BATCH * 4);
    struct row_state *state;
    vki_advance_args args = {.logits = {0, ROWS, PARTS}, .n_vocab = PARTS, .greedy = true,
                             .parts = PARTS, .partial = parts.span.address, .ring = ring->address};
    args.state = fixture_state(&f, ROWS, &state);
    float logits[ROWS * PARTS];
    for (uint32_t i = 0; i < ROWS * PARTS; i++) {
        const uint32_t id = i % PARTS;
        logits[i] = parts.at[2 * i] = (float)fixture_below(&f, 50) - 100;
        memcpy(&parts.at[2 * i + 1], &id, sizeof id);
    }
    CHECK_OK(vki_advance(&f.kernels, &args, &error));
    ck_assert_uint_eq(f.plan.n, 1);
    fixture_run(&f);
    for (uint32_t row = 0; row < ROWS && test_results_count(); row++) {
        const uint32_t token = ref_argmax(logits + row * PARTS, PARTS);
        ck_assert_uint_eq(state[row].token, token);
        ck_assert_uint_eq(state[row].position, 1);
        ck_assert_mem_eq(ring->mapped + row * 4, &token, sizeof token);
    }
    fixture_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_matvec");
    TCase *c = tcase_create("one row");
    tcase_set_timeout(c, 0);
    tcase_add_loop_test(c, each_format_meets_each_epilogue, 0, VKI_FORMAT_COUNT * TUNED_BLIND);
    tcase_add_loop_test(c, products_of_one_row_are_right_in_every_shape, 0, 2 * TUNED_BLIND);
    tcase_add_loop_test(c, embedding_leaves_what_the_first_product_reads, 0, VKI_FORMAT_COUNT);
    tcase_add_loop_test(c, attention_leaves_what_the_next_product_reads, 0, TUNED_BLIND);
    tcase_add_loop_test(c, a_step_ends_with_the_largest_part, 0, KERNEL_TUNINGS);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
