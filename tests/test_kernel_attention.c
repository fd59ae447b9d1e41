/* test_kernel_attention.c - attention over the paged cache against its CPU twin.
 *
 * Keys that were not written, other layers and unused pages are NaN: none may leak into a result.
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernel/kernels_internal.h"
#include "ref/kernels_ref.h"
#include "support/kernel_fixture.h"
#include "support/suite.h"

/* Soft scores are a few ones: off by 1e-6 in f32, and so are their exponentials. Sharp ones reach
 * some hundred, whose exponentials no float holds: off by 2e-5. The bounds are the squares, and
 * room. */
static const double soft_bound = 1e-10, sharp_bound = 1e-8;
static const float soft = 4, sharp = 200;

/* Cooperative matrices round q and weights to f16's 11 bits. Soft scores are then off by 1e-4 to 1e-3, sharp ones by
 * 1e-2. The bounds are the squares, and room. */
static const double coop_soft_bound = 1e-6, coop_sharp_bound = 2e-3;

static vklm_error error;

/* A sequence in the cache, and what the cache then holds, [position][K][E]. */
typedef struct sequence {
    test_cache cache;
    float *k, *v;
    uint32_t n_keys;
} sequence;

enum { MAX_KEYS = 1000, BATCH = VKI_MAX_BATCH };

static void open_sequence(kernel_fixture *f, sequence *s, const vki_heads *heads, uint32_t max_keys)
{
    const size_t n = (size_t)max_keys * heads->n_head_kv * heads->d_head;
    s->n_keys = 0;
    s->k = fixture_host(f, n, sizeof *s->k);
    s->v = fixture_host(f, n, sizeof *s->v);
    fixture_cache(f, &s->cache, heads);
    for (uint32_t position = 0; position < max_keys; position += VKI_KV_PAGE_KEYS)
        fixture_page(f, &s->cache, position);
}

static void grow_sequence(kernel_fixture *f, sequence *s, uint32_t n_keys)
{
    const vki_heads *h = &s->cache.heads;
    for (; s->n_keys < n_keys; s->n_keys++) {
        for (uint32_t i = 0; i < h->n_head_kv * h->pad; i++) {
            const kv_place k = {false, i / h->pad, s->n_keys, i % h->pad},
                           v = {true, k.head, k.position, k.i};
            const size_t at = ((size_t)s->n_keys * h->n_head_kv + k.head) * h->d_head + k.i;
            const bool pad = k.i >= h->d_head;
            const float key = fixture_put_kv(&s->cache, k, pad ? 0 : fixture_random(f));
            const float value = fixture_put_kv(&s->cache, v, pad ? 0 : fixture_random(f));
            if (pad) continue;
            s->k[at] = key;
            s->v[at] = value;
        }
    }
}

/* Row i asks at position positions[i] of sequence[i], or all of sequence[0]. */
typedef struct question {
    const sequence *sequences;
    uint32_t rows;
    bool one_sequence;
    uint32_t positions[128];
    uint32_t window, splits;
    bool coop; /* by cooperative matrices */
} question;

static operand make_q(kernel_fixture *f, const vki_heads *h, uint32_t rows, float size)
{
    const uint32_t width = h->n_head * h->pad;
    const operand q = fixture_input(f, rows, width, width, (uint32_t)vki_round_up(width, 32) + 32);
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < width; i++) {
            float *at = &q.at[row * q.span.stride + i];
            *at = i % h->pad < h->d_head ? size / sqrtf((float)h->d_head) * *at : 0;
        }
    }
    return q;
}

static double *expected_answer(kernel_fixture *f, const question *question, const operand *q)
{
    const vki_heads *h = &question->sequences[0].cache.heads;
    const ref_heads heads = {h->n_head, h->n_head_kv, h->d_head, h->pad};
    const size_t width = h->n_head * h->d_head;
    double *expected = fixture_host(f, question->rows * width, sizeof *expected);
    for (uint32_t row = 0; row < question->rows; row++) {
        const sequence *s = &question->sequences[question->one_sequence ? 0 : row];
        ref_attention(&heads, q->at + row * q->span.stride, s->k, s->v, question->positions[row],
                      question->window, expected + row * width);
    }
    return expected;
}

static void ask(kernel_fixture *f, const question *question)
{
    const fixture_mark mark = fixture_set_mark(f);
    const vki_heads *h = &question->sequences[0].cache.heads;
    const uint32_t rows = question->rows, width = h->n_head * h->d_head;
    const bool is_sharp = fixture_below(f, 2);
    const operand q = make_q(f, h, rows, is_sharp ? sharp : soft);
    const operand out = fixture_output(f, rows, (uint32_t)vki_round_up(width, 32) + 32);
    const uint64_t scratch = vki_attention_scratch(h, rows, question->splits) / 4;
    const operand partial = fixture_output(f, 1, (uint32_t)scratch);
    struct row_state *state;
    const uint64_t state_address = fixture_state(f, rows, &state);
    for (uint32_t row = 0; row < rows; row++)
        state[row] = (struct row_state){
            .pages = question->sequences[question->one_sequence ? 0 : row].cache.table->address,
            .position = question->positions[row]};
    const vki_attention_args args = {
        .heads = *h,
        .q = q.span,
        .out = out.span,
        .state = state_address,
        .partial = scratch ? partial.span.address : 0,
        .window = question->window,
        .splits = question->splits,
        .keys = 1,
        .one_sequence = question->one_sequence,
    };
    fixture_case(
        f,
        "%u and %u heads of %u, f32 %d: %u rows, last at %u, one sequence %d, window %u, %u splits",
        h->n_head, h->n_head_kv, h->d_head, h->kv_f32, rows, question->positions[rows - 1],
        question->one_sequence, question->window, question->splits);
    CHECK_OK(vki_attention(&f->kernels, &args, &error));
    ck_assert_int_eq(strcmp(f->plan.items[0].pipeline->key.shader, "attention_coop") == 0, question->coop);
    fixture_check_reads(f, operand_range(&q, 0, h->n_head * h->pad));
    fixture_check_reads(f, vki_range_of(state_address, rows * sizeof *state));
    fixture_check_reads(f, vki_cache_range(FIXTURE_LAYER));
    if (scratch) fixture_check_reads(f, operand_range(&partial, 0, (uint32_t)scratch));
    if (scratch) fixture_check_writes(f, operand_range(&partial, 0, (uint32_t)scratch));
    fixture_check_writes(f, operand_range(&out, 0, width));
    fixture_run(f);
    const double bounds[2][2] = {{soft_bound, sharp_bound}, {coop_soft_bound, coop_sharp_bound}};
    fixture_compare_columns(f, &out, 0, width, expected_answer(f, question, &q), bounds[question->coop][is_sharp]);
    const size_t guard = (size_t)((uint8_t *)partial.at - partial.buffer->mapped);
    ck_assert_msg(fixture_untouched(partial.buffer->mapped, guard) &&
                      fixture_untouched(partial.at + scratch, guard),
                  "%s: wrote outside of the scratch", f->name);
    fixture_drop_since(f, mark);
}

/* ---- The table ------------------------------------------------------------------------------- */

typedef struct heads_case {
    uint32_t n_head, n_head_kv, d_head;
    bool kv_f32;
} heads_case;

static const heads_case heads_cases[] = {
    {1, 1, 2, false},    {4, 4, 16, true},   {16, 2, 2, true},   {1, 1, 256, true},
    {4, 4, 80, false},   {9, 3, 64, false},  {9, 3, 64, true},   {8, 1, 96, false},
    {8, 1, 256, false},  {16, 2, 128, true}, {32, 8, 64, false}, {32, 8, 16, false},
    {32, 8, 128, false}, {4, 4, 6, false},
};
enum { HEADS_CASES = sizeof heads_cases / sizeof *heads_cases };

static const uint32_t windows[] = {0, 1, 4, 100}, split_counts[] = {1, 2, 4, 16};

static vki_heads loop_heads(int loop)
{
    const heads_case *c = &heads_cases[loop % HEADS_CASES];
    return vki_heads_of(c->n_head, c->n_head_kv, c->d_head, c->kv_f32);
}

static kernel_tuning loop_tuning(int loop)
{
    return (kernel_tuning)(loop / HEADS_CASES);
}

/* The last `rows` positions of the sequence. */
static question ask_last(const sequence *s, uint32_t rows)
{
    question q = {.sequences = s, .rows = rows, .one_sequence = true};
    for (uint32_t row = 0; row < rows; row++) q.positions[row] = s->n_keys - rows + row;
    return q;
}

/* All windows and splits where heads are small, one of each drawn for the others. */
static void ask_all(kernel_fixture *f, question *q, bool all)
{
    for (uint32_t w = 0; w < 4; w++)
        for (uint32_t s = 0; s < 4; s++) {
            q->window = windows[all ? w : fixture_below(f, 4)];
            q->splits = split_counts[all ? s : fixture_below(f, 4)];
            ask(f, q);
            if (!all) return;
        }
}

START_TEST(rows_of_a_sequence_see_the_keys_before_them)
{
    static const uint32_t key_counts[] = {1, 7, 31, 32, 33, 255, 256, 257, MAX_KEYS};
    static const uint32_t row_counts[] = {1, 2, 7, 64, 70};
    /* of the twin; what is beyond is left to smaller heads */
    const uint64_t most_products = 20000000;
    const vki_heads heads = loop_heads(_i);
    const uint32_t width = heads.n_head * heads.d_head;
    kernel_fixture f;
    fixture_open(&f, loop_tuning(_i));
    sequence s;
    open_sequence(&f, &s, &heads, MAX_KEYS);
    for (size_t k = 0; k < sizeof key_counts / sizeof *key_counts; k++) {
        grow_sequence(&f, &s, key_counts[k]);
        for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++) {
            const uint32_t rows = row_counts[r];
            if (rows > key_counts[k] || (uint64_t)rows * key_counts[k] * width > most_products)
                continue;
            question q = ask_last(&s, rows);
            ask_all(&f, &q, width <= 64);
        }
    }
    fixture_close(&f);
}
END_TEST

START_TEST(rows_of_many_sequences_see_their_own)
{
    static const uint32_t key_counts[BATCH] = {257, 1, 32, 33, 256, 7, 255, 100};
    const vki_heads heads = loop_heads(_i);
    kernel_fixture f;
    fixture_open(&f, loop_tuning(_i));
    sequence sequences[BATCH];
    question q = {.sequences = sequences};
    for (uint32_t i = 0; i < BATCH; i++) {
        open_sequence(&f, &sequences[i], &heads, key_counts[i]);
        grow_sequence(&f, &sequences[i], key_counts[i]);
        q.positions[i] = key_counts[i] - 1;
    }
    for (q.rows = 1; q.rows <= BATCH; q.rows = q.rows * 2 + q.rows % 2)
        ask_all(&f, &q, heads.d_head <= 16);
    fixture_close(&f);
}
END_TEST

/* ---- Cooperative matrices -------------------------------------------------------------------- */

static const heads_case coop_heads[] = {{2, 1, 64, false}, {9, 3, 64, false}, {4, 4, 80, false},
                                        {3, 1, 70, false}, {8, 1, 96, false}, {4, 2, 128, false},
                                        {4, 1, 256, false}};
enum { COOP_HEADS = sizeof coop_heads / sizeof *coop_heads, COOP_TUNINGS = 3 };

/* False where device, build or heads cannot. */
static bool open_for_coop(kernel_fixture *f, int tuning, const vki_heads *heads)
{
    /* subgroups, and sums of heads to 128 */
    static const uint32_t tunings[COOP_TUNINGS][2] = {{4, 2560}, {8, 1280}, {16, 320}};
    fixture_open(f, TUNED_NATIVE);
    vki_tuning *t = &f->kernels.tuning;
    const vki_matrix_size size = f->device->limits.coop_f16;
    t->block = (vki_block){.structure = VKI_COOP, .size = size};
    t->attention_coop = 1;
    t->attention_subgroups = tunings[tuning][0];
    t->attention_sums = tunings[tuning][1] * (uint32_t)vki_div_up(heads->d_head, 128);
    if (size.m && size.k <= 16 && t->subgroup && heads->pad % size.k == 0 && heads->pad % size.n == 0 &&
        vki_shader_find("attention_coop"))
        return true;
    fixture_close(f);
    return false;
}

START_TEST(matrices_see_the_keys_before_a_row)
{
    static const struct { uint32_t rows, keys; } shapes[] = {
        {1, 1}, {2, 9}, {7, 31}, {32, 32}, {33, 33}, {64, 64}, {63, 79}, {65, 255}, {70, 257}, {128, 512}, {17, 600}};
    const heads_case *c = &coop_heads[_i % COOP_HEADS];
    const vki_heads heads = vki_heads_of(c->n_head, c->n_head_kv, c->d_head, c->kv_f32);
    kernel_fixture f;
    if (!open_for_coop(&f, _i / COOP_HEADS, &heads)) return;
    sequence s;
    open_sequence(&f, &s, &heads, MAX_KEYS);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        grow_sequence(&f, &s, shapes[i].keys);
        question q = ask_last(&s, shapes[i].rows);
        q.coop = true;
        q.splits = 1;
        for (uint32_t w = 0; w < 4; w++) {
            q.window = windows[w];
            if (w == 0 || c->d_head <= 64 || w == i % 4) ask(&f, &q);
        }
    }
    fixture_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_attention");
    TCase *c = add_case(suite, "attention", NULL, NULL);
    tcase_add_loop_test(c, rows_of_a_sequence_see_the_keys_before_them, 0,
                        HEADS_CASES * TUNED_BLIND);
    tcase_add_loop_test(c, rows_of_many_sequences_see_their_own, 0, HEADS_CASES * TUNED_BLIND);
    tcase_add_loop_test(c, matrices_see_the_keys_before_a_row, 0, COOP_HEADS * COOP_TUNINGS);
    return run_suite(suite);
}
