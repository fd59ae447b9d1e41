/* test_kernel_sample.c - the end of a step: the drawn token against the host's sampler, its twin; what a step leaves in
 * state, ring and history; and the distribution of many draws.
 *
 * The twin sums in double what the device sums of f32 exponentials. Where they differ by a token, the twin must draw
 * it with its random number or its top_p off by a little.
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ref/kernels_ref.h"
#include "support/exact_sampling.h"
#include "support/kernel_fixture.h"
#include "support/suite.h"

static vklm_error error;

enum { MOST_HISTORY = 300, MOST_BIAS = 8, ROWS = VKI_MAX_BATCH };

/* How one row draws. */
typedef struct setting {
    vklm_sampling params; /* resolved */
    uint32_t n_history;
    vklm_logit_bias bias[MOST_BIAS];
    uint32_t n_bias;
} setting;

#define OFF .top_p = 1, .min_p = -1, .repeat_penalty = 1
#define PENALTIES .repeat_penalty = 1.3f, .presence_penalty = 0.4f, .frequency_penalty = 0.3f

static const setting settings[] = {
    {{.temperature = -1, OFF}, .n_history = 1},
    {{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1}, .n_history = 7},
    {{.temperature = 1, .top_k = 1, OFF}, .n_history = 2},
    {{.temperature = 1, .top_k = 40, OFF}, .n_history = 3},
    {{.temperature = 1, .top_k = 128, OFF}, .n_history = 4},
    {{.temperature = 1.5f, .top_k = 129, OFF}, .n_history = 5},
    {{.temperature = 2, .top_k = 1000, OFF}, .n_history = 6},
    {{.temperature = 1, OFF}, .n_history = 8},
    {{.temperature = 0.5f, OFF}, .n_history = 9},
    {{.temperature = 1e-9f, OFF}, .n_history = 10},
    {{.temperature = 1e9f, OFF}, .n_history = 11},
    {{.temperature = 1, .top_p = 0.9f, .min_p = -1, .repeat_penalty = 1}, .n_history = 12},
    {{.temperature = 1, .top_p = 1e-9f, .min_p = -1, .repeat_penalty = 1}, .n_history = 13},
    {{.temperature = 2, .top_p = 0.9999f, .min_p = -1, .repeat_penalty = 1}, .n_history = 14},
    {{.temperature = 1, .top_p = 1, .min_p = 0.05f, .repeat_penalty = 1}, .n_history = 15},
    {{.temperature = 1, .top_p = 1, .min_p = 1, .repeat_penalty = 1}, .n_history = 16},
    {{.temperature = 3, .top_p = 1, .min_p = 1e-6f, .repeat_penalty = 1}, .n_history = 17},
    {{.temperature = 2, .top_p = 0.5f, .min_p = 0.01f, .repeat_penalty = 1}, .n_history = 18},
    {{.temperature = 1e30f, .top_k = 1000, .top_p = 0.99f, .min_p = 1e-3f, .repeat_penalty = 1}, .n_history = 19},
    {{.temperature = -1, .top_p = 1, .min_p = -1, PENALTIES, .repeat_last_n = 64}, .n_history = 200},
    {{.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, PENALTIES, .repeat_last_n = -1}, .n_history = 299},
    {{.temperature = 1, .top_p = 1, .min_p = -1, .repeat_penalty = 0.8f, .frequency_penalty = -0.3f, .repeat_last_n = 5},
     .n_history = 20},
    {{.temperature = -1, OFF}, .n_history = 21, .bias = {{0, 3}, {30, -INFINITY}, {31, 40}, {5, -2}}, .n_bias = 4},
    {{.temperature = 1, .top_k = 5, .top_p = 0.99f, .min_p = -1, PENALTIES, .repeat_last_n = 1}, .n_history = 22,
     .bias = {{0, -INFINITY}, {7, 12}, {8, 12}, {9, 11}, {999, 12}, {31, -1}}, .n_bias = 6},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/* Rows as a step has them. */
typedef struct batch {
    uint32_t n_vocab, rows;
    operand logits;
    float *before; /* of the logits */
    struct row_state *state;
    struct sampling *sampling;
    uint32_t *history; /* [rows][MOST_HISTORY] */
    uint32_t *ring;    /* [VKI_RING_STEPS][VKI_MAX_BATCH] */
    uint64_t state_address, sampling_address, history_address, counts, bias, ring_address, partial;
    uint8_t *bias_at;
} batch;

static batch make_batch(kernel_fixture *f, uint32_t n_vocab, uint32_t rows)
{
    const uint32_t stride = (uint32_t)vki_round_up(n_vocab, 32);
    batch b = {.n_vocab = n_vocab, .rows = rows};
    b.logits = fixture_input(f, rows, n_vocab, stride, stride);
    b.before = fixture_host(f, (size_t)rows * stride, sizeof *b.before);
    b.state_address = fixture_state(f, rows, &b.state);
    const vki_buffer *buffers[] = {
        fixture_buffer(f, rows * sizeof *b.sampling), fixture_buffer(f, (uint64_t)rows * MOST_HISTORY * 4),
        fixture_buffer(f, (uint64_t)rows * stride * 4), fixture_buffer(f, (uint64_t)rows * MOST_BIAS * 8),
        fixture_buffer(f, VKI_RING_STEPS * VKI_MAX_BATCH * 4),
        fixture_buffer(f, (uint64_t)rows * vki_sample_parts(n_vocab) * 8)};
    b.sampling = (void *)buffers[0]->mapped;
    b.history = (void *)buffers[1]->mapped;
    b.bias_at = buffers[3]->mapped;
    b.ring = (void *)buffers[4]->mapped;
    b.sampling_address = buffers[0]->address;
    b.history_address = buffers[1]->address;
    b.counts = buffers[2]->address;
    b.bias = buffers[3]->address;
    b.ring_address = buffers[4]->address;
    b.partial = buffers[5]->address;
    return b;
}

static void start_sampler(const kernel_fixture *f, const setting *s, uint64_t seed, uint32_t n_vocab, vki_sampler *sampler)
{
    vklm_sampling params = s->params;
    vklm_logit_bias bias[MOST_BIAS];
    size_t n_bias = 0;
    params.seed = seed;
    vki_sampler_start(sampler, &f->device->host, &params);
    for (uint32_t i = 0; i < s->n_bias; i++) {
        const bool last = (uint32_t)s->bias[i].id >= n_vocab; /* banning all is refused */
        if (!last && !(n_vocab == 1 && s->bias[i].bias < 0)) bias[n_bias++] = s->bias[i];
    }
    CHECK_OK(vki_sampler_set_bias(sampler, bias, n_bias, n_vocab, &error));
}

/* The history of a row: few ids, so that some come often, and some outside of the vocabulary. */
static void place_row(kernel_fixture *f, const batch *b, uint32_t row, const vki_sampler *sampler, uint32_t n_history)
{
    uint32_t *history = b->history + row * MOST_HISTORY;
    for (uint32_t i = 0; i < n_history; i++)
        history[i] = i % 9 ? fixture_below(f, (uint32_t)vki_min(40, b->n_vocab)) : fixture_below(f, UINT32_MAX);
    vki_sampler_write(sampler, &b->sampling[row]);
    b->sampling[row].history = b->history_address + row * MOST_HISTORY * 4;
    b->sampling[row].counts = b->counts + (uint64_t)row * b->logits.span.stride * 4;
    b->sampling[row].bias = b->bias + row * MOST_BIAS * 8;
    b->sampling[row].n_history = MOST_HISTORY;
    for (size_t i = 0; i < sampler->n_bias; i++) {
        memcpy(b->bias_at + (row * MOST_BIAS + i) * 8, &sampler->bias[i].id, 4);
        memcpy(b->bias_at + (row * MOST_BIAS + i) * 8 + 4, &sampler->bias[i].bias, 4);
    }
    b->state[row] = (struct row_state){.pages = 77, .token = 5, .position = n_history - 1, .step = 13 + row, .pad = 9,
                                       .sampling = b->sampling_address + row * sizeof *b->sampling};
}

static void plan_batch(kernel_fixture *f, const batch *b)
{
    CHECK_OK(vki_sample(&f->kernels,
                        &(vki_sample_args){.logits = b->logits.span, .n_vocab = b->n_vocab, .state = b->state_address,
                                           .partial = b->partial, .ring = b->ring_address},
                        &error));
}

/* ---- Against the twin -------------------------------------------------------------------------- */

/* Whether the twin draws the token, or would with numbers that rounding could make of its own. */
static bool may_draw(vki_sampler *sampler, const batch *b, uint32_t row, uint32_t n_history, vklm_token token,
                     vklm_token *twin)
{
    static const double near[] = {0, -1e-5, 1e-5};
    const float *logits = b->before + (size_t)row * b->logits.span.stride, top_p = sampler->params.top_p;
    const vklm_token *history = (const void *)(b->history + row * MOST_HISTORY);
    const double random = vki_random_at(sampler->params.seed, n_history);
    vklm_token id;
    CHECK_OK(vki_sampler_draw(sampler, logits, b->n_vocab, history, n_history, &error, twin));
    if (*twin == token) return true;
    if (sampler->params.temperature < 0) return false;
    for (size_t p = 0; p < 3; p++)
        for (size_t r = 0; r < 3; r++) {
            sampler->params.top_p = top_p < 1 ? top_p * (float)(1 + near[p]) : top_p;
            CHECK_OK(vki_sampler_pick(sampler, logits, b->n_vocab, history, n_history, fmax(0, random + near[r]), &error, &id));
            if (id == token) return true;
        }
    return false;
}

static void check_row(kernel_fixture *f, const batch *b, uint32_t row, const setting *s, uint64_t seed)
{
    const struct row_state *state = &b->state[row];
    vki_sampler sampler = {0};
    vklm_token twin = -1;
    start_sampler(f, s, seed, b->n_vocab, &sampler);
    const bool right = may_draw(&sampler, b, row, s->n_history, (vklm_token)state->token, &twin);
    ck_assert_msg(right, "%s, row %u, setting %zu: token %u, not %d", f->name, row, (size_t)(s - settings), state->token,
                  twin);
    ck_assert_uint_eq(state->position, s->n_history);
    ck_assert_uint_eq(state->step, 14 + row);
    ck_assert(state->pages == 77 && state->pad == 9);
    ck_assert_uint_eq(b->ring[(13 + row) % VKI_RING_STEPS * VKI_MAX_BATCH + row], state->token);
    if (vki_sampler_penalises(&sampler)) ck_assert_uint_eq(b->history[row * MOST_HISTORY + s->n_history], state->token);
    vki_sampler_free(&sampler);
}

typedef enum logits_kind { SPREAD, LEVELS, ALL_EQUAL, ONE_HUGE, MOSTLY_LOWEST, NEARLY_FLAT, LOGITS_KINDS } logits_kind;

static float make_logit(kernel_fixture *f, logits_kind kind, uint32_t i, uint32_t n)
{
    const float x = fixture_random(f);
    switch (kind) {
    case LEVELS: return floorf(x * 4);
    case ALL_EQUAL: return -7;
    case ONE_HUGE: return i == n / 2 ? 3e38f : x;
    case MOSTLY_LOWEST: return i % 5 ? -3e38f : x * 10;
    case NEARLY_FLAT: return 20 + x * 0.01f;
    default: return 12 * x + 6 * x * x * x;
    }
}

static void check_batch(kernel_fixture *f, uint32_t n_vocab, logits_kind kind, uint32_t first, uint64_t n_seeds)
{
    const uint32_t rows = (uint32_t)vki_min(ROWS, N_SETTINGS - first);
    const batch b = make_batch(f, n_vocab, rows);
    const size_t bytes = (size_t)rows * b.logits.span.stride * sizeof(float);
    fixture_case(f, "vocabulary %u, kind %d", n_vocab, kind);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < n_vocab; i++) b.logits.at[row * b.logits.span.stride + i] = make_logit(f, kind, i, n_vocab);
    memcpy(b.before, b.logits.at, bytes);
    for (uint64_t seed = 1; seed <= n_seeds; seed++) {
        for (uint32_t row = 0; row < rows; row++) {
            vki_sampler sampler = {0};
            start_sampler(f, &settings[first + row], seed, n_vocab, &sampler);
            place_row(f, &b, row, &sampler, settings[first + row].n_history);
            vki_sampler_free(&sampler);
        }
        uint32_t drawn[ROWS];
        for (uint32_t again = 0; again < (n_vocab <= 1000 ? 2 : 1); again++) { /* the same on every run */
            memcpy(b.logits.at, b.before, bytes);
            for (uint32_t row = 0; row < rows; row++) {
                b.state[row].position = settings[first + row].n_history - 1;
                b.state[row].step = 13 + row;
            }
            plan_batch(f, &b);
            fixture_check_reads(f, operand_range(&b.logits, 0, n_vocab));
            fixture_check_writes(f, operand_range(&b.logits, 0, n_vocab));
            fixture_check_writes(f, vki_range_of(b.state_address, rows * sizeof *b.state));
            fixture_run(f);
            for (uint32_t row = 0; row < rows && test_results_count(); row++) {
                if (again) ck_assert_uint_eq(b.state[row].token, drawn[row]);
                else check_row(f, &b, row, &settings[first + row], seed);
                drawn[row] = b.state[row].token;
            }
        }
    }
    fixture_drop(f);
}

START_TEST(a_step_draws_what_the_host_would)
{
    static const uint32_t small[] = {1, 31, 32, 33, 1000}, large[] = {49152, 262144};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (uint32_t first = 0; first < N_SETTINGS; first += ROWS) {
        for (size_t v = 0; v < sizeof small / sizeof *small; v++)
            for (int kind = 0; kind < LOGITS_KINDS; kind++) check_batch(&f, small[v], (logits_kind)kind, first, _i == TUNED_NATIVE ? 4 : 1);
        if (_i == TUNED_NATIVE) check_batch(&f, large[1], (logits_kind)(first / ROWS % 2 ? LEVELS : SPREAD), first, 1);
        else check_batch(&f, large[0], (logits_kind)(first / ROWS % 2 ? LEVELS : SPREAD), first, 1);
    }
    fixture_close(&f);
}
END_TEST

/* ---- What a step leaves -------------------------------------------------------------------------- */

START_TEST(a_logit_that_is_no_number_is_told)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
    static const uint32_t sizes[] = {1, 33, 1000};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (size_t v = 0; v < 3; v++) {
        const uint32_t n_vocab = sizes[v];
        const batch b = make_batch(&f, n_vocab, ROWS);
        for (uint32_t row = 0; row < ROWS; row++) {
            vki_sampler sampler = {0};
            start_sampler(&f, &settings[(row * 3 + v) % N_SETTINGS], 1, n_vocab, &sampler);
            place_row(&f, &b, row, &sampler, 100);
            vki_sampler_free(&sampler);
            if (row % 2) b.logits.at[row * b.logits.span.stride + fixture_below(&f, n_vocab)] = bad[row / 2];
        }
        plan_batch(&f, &b);
        fixture_run(&f);
        for (uint32_t row = 0; row < ROWS && test_results_count(); row++) {
            const uint32_t token = b.ring[(13 + row) % VKI_RING_STEPS * VKI_MAX_BATCH + row];
            ck_assert_msg(row % 2 ? token == UINT32_MAX : token < n_vocab, "vocabulary %u, row %u: token %u", n_vocab, row,
                          token);
            ck_assert_uint_eq(b.state[row].position, 100);
        }
        fixture_drop(&f);
    }
    fixture_close(&f);
}
END_TEST

/* Greedy rows without parameters, as profiles run them; and the ring's ends, where the counter itself wraps. */
START_TEST(rows_without_parameters_are_greedy)
{
    static const uint32_t steps[VKI_MAX_BATCH] = {0, 1, 14, 15, 16, 17, 1000, UINT32_MAX}, sizes[] = {1, 31, 33, 49152};
    kernel_fixture f;
    fixture_open(&f, (kernel_tuning)_i);
    for (size_t v = 0; v < sizeof sizes / sizeof *sizes; v++)
        for (uint32_t rows = 1; rows <= ROWS; rows += 7) {
            const batch b = make_batch(&f, sizes[v], rows);
            uint32_t expected[VKI_RING_STEPS * VKI_MAX_BATCH];
            memset(expected, 0xff, sizeof expected);
            for (uint32_t row = 0; row < rows; row++) {
                b.state[row] = (struct row_state){.pages = 7, .position = 255 + row, .step = steps[row]};
                expected[steps[row] % VKI_RING_STEPS * VKI_MAX_BATCH + row] =
                    ref_argmax(b.logits.at + row * b.logits.span.stride, sizes[v]);
            }
            plan_batch(&f, &b);
            fixture_run(&f);
            for (uint32_t row = 0; row < rows && test_results_count(); row++) {
                ck_assert_uint_eq(b.state[row].position, 256 + row);
                ck_assert_uint_eq(b.state[row].step, steps[row] + 1);
                ck_assert_uint_eq(b.state[row].token, expected[steps[row] % VKI_RING_STEPS * VKI_MAX_BATCH + row]);
            }
            if (test_results_count()) ck_assert_mem_eq(b.ring, expected, sizeof expected);
            fixture_drop(&f);
        }
    fixture_close(&f);
}
END_TEST

/* ---- Many draws ---------------------------------------------------------------------------------- */

enum { FEW_TOKENS = 48, BATCHES = 25, SUBMITS = 500 }; /* 10^5 draws */

static const vklm_sampling drawn[] = {
    {.temperature = 1, OFF},
    {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1},
    {.temperature = 1.5f, .top_k = 11, .top_p = 0.7f, .min_p = 0.02f, .repeat_penalty = 1},
    {.temperature = 2, .top_p = 0.6f, .min_p = -1, .repeat_penalty = 1},
    {.temperature = 0.9f, .top_k = 30, .top_p = 0.9f, .min_p = 0.1f, PENALTIES, .repeat_last_n = 4},
};

START_TEST(many_draws_follow_the_exact_distribution)
{
    static const vklm_token history[] = {47, 3, 5, 47, 12, 47, 29};
    const uint32_t n_history = sizeof history / sizeof *history;
    kernel_fixture f;
    batch batches[BATCHES];
    float logits[FEW_TOKENS];
    double probability[FEW_TOKENS];
    uint32_t counts[FEW_TOKENS] = {0};
    fixture_open(&f, TUNED_NATIVE);
    for (int i = 0; i < FEW_TOKENS; i++) logits[i] = (float)((i < 40 ? i : i - 8) * 29 % 48) / 8 - 3; /* and ties */
    for (uint32_t i = 0; i < BATCHES; i++) batches[i] = make_batch(&f, FEW_TOKENS, ROWS);
    vki_sampler sampler = {0};
    vki_sampler_start(&sampler, &f.device->host, &drawn[_i]);
    for (uint32_t submit = 0; submit < SUBMITS; submit++) {
        for (uint32_t i = 0; i < BATCHES * ROWS; i++) {
            const batch *b = &batches[i / ROWS];
            const uint32_t row = i % ROWS;
            if (submit == 0) place_row(&f, b, row, &sampler, n_history);
            memcpy(b->history + row * MOST_HISTORY, history, sizeof history);
            memcpy(b->logits.at + row * b->logits.span.stride, logits, sizeof logits);
            b->state[row].position = n_history - 1;
            b->sampling[row].seed_low = submit * BATCHES * ROWS + i; /* neighbours are as good as any */
        }
        for (uint32_t i = 0; i < BATCHES; i++) plan_batch(&f, &batches[i]);
        fixture_run(&f);
        for (uint32_t i = 0; i < BATCHES * ROWS && test_results_count(); i++) {
            const uint32_t token = batches[i / ROWS].state[i % ROWS].token;
            ck_assert_uint_lt(token, FEW_TOKENS);
            counts[token]++;
        }
    }
    exact_probabilities(&drawn[_i], logits, FEW_TOKENS, history, n_history, probability);
    if (test_results_count()) exact_check_counts(probability, counts, FEW_TOKENS, SUBMITS * BATCHES * ROWS);
    vki_sampler_free(&sampler);
    fixture_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_sample");
    TCase *c = add_case(suite, "sampling", NULL, NULL);
    tcase_add_loop_test(c, a_step_draws_what_the_host_would, 0, KERNEL_TUNINGS);
    tcase_add_loop_test(c, a_logit_that_is_no_number_is_told, 0, KERNEL_TUNINGS);
    tcase_add_loop_test(c, rows_without_parameters_are_greedy, 0, KERNEL_TUNINGS);
    tcase_add_loop_test(c, many_draws_follow_the_exact_distribution, 0, sizeof drawn / sizeof *drawn);
    return run_suite(suite);
}
