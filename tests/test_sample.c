/* test_sample.c - drawing a token: the order of the steps and what each one does, against an exact
 * distribution computed here straight from the definitions; parameters and their defaults; extremes.
 */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/exact_sampling.h"
#include "support/gpu.h"
#include "support/suite.h"
#include "support/test_memory.h"

static vklm_error error;
static vki_host host;
static vki_sampler sampler;
static test_memory heap;
static uint32_t n_draws;

static void set_up(void)
{
    const vklm_allocator allocator = test_allocator(&heap);
    heap.fail_from = 0;
    vki_host_init(&host, &allocator, NULL);
}

static void tear_down(void)
{
    vki_sampler_free(&sampler);
    ck_assert_uint_eq(heap.n_live, 0);
}

/* A random number more; the sampler alone would take the same for every history of one length. */
static vklm_token draw(const float *logits, uint32_t n, const vklm_token *history, size_t n_history)
{
    vklm_token id = -1;
    const double random = vki_random_at(sampler.params.seed, n_draws++);
    CHECK_OK(vki_sampler_pick(&sampler, logits, n, history, n_history, random, &error, &id));
    ck_assert_int_ge(id, 0);
    ck_assert_int_lt(id, (int)n);
    return id;
}

/* The ids that can be drawn, as a mask: every one that is left is as likely at this temperature. */
static uint64_t drawable(vklm_sampling params, const float *logits, uint32_t n)
{
    params.temperature = 1e30f;
    vki_sampler_start(&sampler, &host, &params);
    uint64_t mask = 0;
    for (int i = 0; i < 1000; i++) mask |= 1ull << draw(logits, n, NULL, 0);
    return mask;
}

/* Draws often. */
static void check_distribution(const vklm_sampling *params, const float *logits, uint32_t n,
                               const vklm_token *history, size_t n_history)
{
    enum { DRAWS = 20000 };
    double probability[EXACT_MOST_TOKENS];
    uint32_t counts[EXACT_MOST_TOKENS] = {0};
    exact_probabilities(params, logits, n, history, n_history, probability);
    vki_sampler_start(&sampler, &host, params);
    for (int i = 0; i < DRAWS; i++) counts[draw(logits, n, history, n_history)]++;
    exact_check_counts(probability, counts, n, DRAWS);
}

/* ---- One step at a time ------------------------------------------------------------------------------ */

START_TEST(greedy_takes_the_likeliest_and_of_equals_the_lowest_id)
{
    const float logits[] = {-3, 2, 5, -1, 5, 5, 0};
    vklm_sampling params = exact_plain();
    params.temperature = -1;
    vki_sampler_start(&sampler, &host, &params);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(draw(logits, 7, NULL, 0), 2);
    const vklm_token history[] = {2};
    params.presence_penalty = 0.25f;
    vki_sampler_start(&sampler, &host, &params);
    ck_assert_int_eq(draw(logits, 7, history, 1), 4);
}
END_TEST

START_TEST(top_k_keeps_exactly_k_and_of_equals_the_lowest_ids)
{
    const float logits[] = {1, 3, 2, 3, 2, 2, 0};
    vklm_sampling params = exact_plain();
    const struct { int32_t k; uint64_t left; } cases[] = {
        {1, 0x02}, {2, 0x0a}, {3, 0x0e}, {4, 0x1e}, {5, 0x3e}, {6, 0x3f}, {7, 0x7f}, {100, 0x7f}, {-1, 0x7f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params.top_k = cases[i].k;
        ck_assert_msg(drawable(params, logits, 7) == cases[i].left, "top_k %d", cases[i].k);
    }
}
END_TEST

START_TEST(top_p_keeps_the_token_that_crosses)
{
    /* probabilities 1/2, 1/4, 1/8, 1/8 in the order of ids 2, 0, 3, 1 */
    const float ln2 = logf(2), logits[] = {-2 * ln2, -3 * ln2, -ln2, -3 * ln2};
    vklm_sampling params = exact_plain();
    const struct { float p; uint64_t left; } cases[] = {
        {1e-30f, 0x4}, {0.49f, 0x4}, {0.51f, 0x5}, {0.74f, 0x5}, {0.76f, 0x7}, {0.874f, 0x7},
        {0.876f, 0xf}, {0.9999f, 0xf}, {1, 0xf}, {2, 0xf},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params.top_p = cases[i].p;
        ck_assert_msg(drawable(params, logits, 4) == cases[i].left, "top_p %g", (double)cases[i].p);
    }
    params.top_k = 2; /* renormalises: 2/3 and 1/3 */
    params.top_p = 0.66f;
    ck_assert_uint_eq(drawable(params, logits, 4), 0x4);
    params.top_p = 0.67f;
    ck_assert_uint_eq(drawable(params, logits, 4), 0x5);
}
END_TEST

START_TEST(min_p_keeps_what_is_near_the_largest)
{
    const float logits[] = {logf(0.2f), logf(0.4f), logf(0.1f), logf(0.2f), logf(0.1f)};
    vklm_sampling params = exact_plain();
    const struct { float p; uint64_t left; } cases[] = {
        {1, 0x02}, {0.51f, 0x02}, {0.49f, 0x0b}, {0.26f, 0x0b}, {0.24f, 0x1f}, {1e-30f, 0x1f}, {-1, 0x1f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params.min_p = cases[i].p;
        ck_assert_msg(drawable(params, logits, 5) == cases[i].left, "min_p %g", (double)cases[i].p);
    }
    const float equals[] = {1, 7, 7, 2, 7};
    params.min_p = 1;
    ck_assert_uint_eq(drawable(params, equals, 5), 0x16);
}
END_TEST

START_TEST(temperature_is_last_and_changes_no_cut)
{
    const float logits[] = {4, 3, 2, 1, 0, -1, -2};
    vklm_sampling params = exact_plain();
    params.top_p = 0.9f;
    const uint64_t left = drawable(params, logits, 7);
    ck_assert_uint_eq(left, 0x7); /* 0.633 + 0.233 + 0.086; scaled first, all would be alike and six left */
    params.top_p = 1;
    params.min_p = 0.1f;
    ck_assert_uint_eq(drawable(params, logits, 7), 0x7); /* e^-2 = 0.135 */
}
END_TEST

START_TEST(penalties_come_before_the_cuts)
{
    const float logits[] = {4, 3, 2, 1};
    const vklm_token history[] = {0};
    vklm_sampling params = exact_plain();
    params.top_k = 1;
    params.presence_penalty = 1.5f; /* 4 becomes 2.5 */
    vki_sampler_start(&sampler, &host, &params);
    for (int i = 0; i < 50; i++) ck_assert_int_eq(draw(logits, 4, history, 1), 1);
}
END_TEST

/* ---- Penalties ----------------------------------------------------------------------------------------- */

/* The penalised logits, as probabilities tell them: differences to token 0, which history leaves alone. */
static void check_penalised(const vklm_sampling *params, const float *logits, uint32_t n,
                            const vklm_token *history, size_t n_history, const double *expected)
{
    double probability[EXACT_MOST_TOKENS];
    exact_probabilities(params, logits, n, history, n_history, probability);
    for (uint32_t i = 1; i < n; i++)
        ck_assert_double_eq_tol(log(probability[i] / probability[0]), expected[i] - expected[0], 1e-5);
    check_distribution(params, logits, n, history, n_history);
}

START_TEST(the_repeat_penalty_knows_the_sign_and_counts_a_token_once)
{
    const float logits[] = {0.5f, 1, -1, 0, 0.75f};
    const vklm_token history[] = {1, 2, 2, 3, 1, 1, 2};
    vklm_sampling params = exact_plain();
    params.repeat_penalty = 2;
    check_penalised(&params, logits, 5, history, 7, (double[]){0.5, 0.5, -2, 0, 0.75});
    params.repeat_penalty = 0.5f; /* asks for repetition */
    check_penalised(&params, logits, 5, history, 7, (double[]){0.5, 2, -0.5, 0, 0.75});
}
END_TEST

START_TEST(frequency_counts_occurrences_and_presence_does_not)
{
    const float logits[] = {0, 0.5f, 1, -0.5f};
    const vklm_token history[] = {1, 2, 2, 3, 1, 2};
    vklm_sampling params = exact_plain();
    params.frequency_penalty = 0.25f;
    check_penalised(&params, logits, 4, history, 6, (double[]){0, 0, 0.25, -0.75});
    params.frequency_penalty = 0;
    params.presence_penalty = 0.25f;
    check_penalised(&params, logits, 4, history, 6, (double[]){0, 0.25, 0.75, -0.75});
    params.presence_penalty = -0.5f; /* negative: a bonus */
    check_penalised(&params, logits, 4, history, 6, (double[]){0, 1, 1.5, 0});
    params.frequency_penalty = 0.125f; /* all three: the repetition's factor first */
    params.repeat_penalty = 2;
    check_penalised(&params, logits, 4, history, 6, (double[]){0, 0.5, 0.625, -0.625});
}
END_TEST

START_TEST(the_window_is_the_last_tokens)
{
    const float logits[] = {0, 0, 0, 0};
    const vklm_token history[] = {1, 1, 2, 3, 3};
    vklm_sampling params = exact_plain();
    params.frequency_penalty = 0.5f;
    const struct { int32_t last_n; double logits[4]; } cases[] = {
        {1, {0, 0, 0, -0.5}}, {2, {0, 0, 0, -1}}, {3, {0, 0, -0.5, -1}}, {4, {0, -0.5, -0.5, -1}},
        {5, {0, -1, -0.5, -1}}, {1000, {0, -1, -0.5, -1}}, {-1, {0, -1, -0.5, -1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params.repeat_last_n = cases[i].last_n;
        check_penalised(&params, logits, 4, history, 5, cases[i].logits);
    }
    check_penalised(&params, logits, 4, NULL, 0, (double[]){0, 0, 0, 0});
}
END_TEST

START_TEST(ids_outside_the_vocabulary_are_no_trouble_to_the_penalties)
{
    const float logits[] = {0, 0, 0};
    const vklm_token history[] = {-1, 3, 1, INT32_MAX, INT32_MIN, 1000};
    vklm_sampling params = exact_plain();
    params.presence_penalty = 1;
    params.frequency_penalty = 0.5f;
    params.repeat_penalty = 1.25f;
    check_penalised(&params, logits, 3, history, 6, (double[]){0, -1.5, 0});
}
END_TEST

/* ---- Everything together --------------------------------------------------------------------------------- */

START_TEST(many_draws_follow_the_exact_distribution)
{
    float logits[48];
    for (int i = 0; i < 48; i++) logits[i] = (float)(i * 29 % 48) / 8 - 3; /* a permutation, and ties */
    for (int i = 40; i < 48; i++) logits[i] = logits[i - 8];
    const vklm_token history[] = {47, 3, 5, 47, 12, 47, 29};
    const vklm_sampling cases[] = {
        {.temperature = 1, .top_k = -1, .top_p = 1, .min_p = -1, .repeat_penalty = 1},
        {.temperature = 0.5f, .top_k = -1, .top_p = 1, .min_p = -1, .repeat_penalty = 1},
        {.temperature = 3, .top_k = -1, .top_p = 1, .min_p = -1, .repeat_penalty = 1},
        {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1},
        {.temperature = 1.5f, .top_k = 11, .top_p = 0.7f, .min_p = 0.02f, .repeat_penalty = 1},
        {.temperature = 2, .top_k = -1, .top_p = 0.6f, .min_p = 0.5f, .repeat_penalty = 1},
        {.temperature = 0.9f, .top_k = 30, .top_p = 0.9f, .min_p = 0.1f, .repeat_penalty = 1.3f,
         .presence_penalty = 0.4f, .frequency_penalty = 0.3f, .repeat_last_n = 4},
        {.temperature = 0.9f, .top_k = 20, .top_p = 1, .min_p = -1, .repeat_penalty = 0.8f,
         .frequency_penalty = -0.3f, .repeat_last_n = -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vklm_sampling params = cases[i];
        params.seed = i + 1;
        check_distribution(&params, logits, 48, history, 7);
    }
}
END_TEST

static int by_logit(const void *a, const void *b)
{
    const vki_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* The k best of a vocabulary of real size, many equal: the first k of a full sort, and no others. */
START_TEST(selection_in_a_large_vocabulary_equals_a_full_sort)
{
    enum { VOCAB = 5000 };
    float *logits = malloc(VOCAB * sizeof *logits);
    vki_candidate *sorted = malloc(VOCAB * sizeof *sorted);
    bool *allowed = calloc(VOCAB, sizeof *allowed), *drawn = calloc(VOCAB, sizeof *drawn);
    const int32_t ks[] = {1, 2, 40, 1000, VOCAB - 1};
    for (uint32_t levels = 3; levels <= 3000; levels *= 30) {
        for (uint32_t i = 0; i < VOCAB; i++) {
            logits[i] = (float)((i * 2654435761u >> 8) % levels);
            sorted[i] = (vki_candidate){logits[i], (vklm_token)i, 0};
        }
        qsort(sorted, VOCAB, sizeof *sorted, by_logit);
        for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
            vklm_sampling params = exact_plain();
            params.top_k = ks[k];
            params.temperature = 1e30f;
            vki_sampler_start(&sampler, &host, &params);
            memset(allowed, 0, VOCAB);
            memset(drawn, 0, VOCAB);
            int n_drawn = 0;
            for (int32_t i = 0; i < ks[k]; i++) allowed[sorted[i].id] = true;
            for (int i = 0; i < (ks[k] > 100 ? 5 : 500); i++) {
                const vklm_token id = draw(logits, VOCAB, NULL, 0);
                ck_assert(allowed[id]);
                n_drawn += !drawn[id];
                drawn[id] = true;
            }
            if (ks[k] <= 40) ck_assert_int_eq(n_drawn, ks[k]);
        }
    }
    free(logits);
    free(sorted);
    free(allowed);
    free(drawn);
}
END_TEST

START_TEST(a_seed_and_a_position_make_the_draw)
{
    float logits[EXACT_MOST_TOKENS] = {0};
    const vklm_token history[32] = {0};
    vklm_sampling params = exact_plain();
    vklm_token first[32], id;
    int n_equal = 0, n_other_seed = 0;
    vki_sampler_start(&sampler, &host, &params);
    for (size_t i = 0; i < 32; i++) {
        CHECK_OK(vki_sampler_draw(&sampler, logits, EXACT_MOST_TOKENS, history, i, &error, &first[i]));
        n_equal += i > 0 && first[i] == first[0];
    }
    ck_assert_int_lt(n_equal, 8);
    for (size_t i = 32; i-- > 0;) { /* in any order */
        CHECK_OK(vki_sampler_draw(&sampler, logits, EXACT_MOST_TOKENS, history, i, &error, &id));
        ck_assert_int_eq(id, first[i]);
    }
    params.seed = 2;
    vki_sampler_start(&sampler, &host, &params);
    for (size_t i = 0; i < 32; i++) {
        CHECK_OK(vki_sampler_draw(&sampler, logits, EXACT_MOST_TOKENS, history, i, &error, &id));
        n_other_seed += id == first[i];
    }
    ck_assert_int_lt(n_other_seed, 8);
}
END_TEST

/* ---- Bias ---------------------------------------------------------------------------------------------------- */

static void set_bias(const vklm_sampling *params, const vklm_logit_bias *bias, size_t n, uint32_t n_vocab)
{
    vki_sampler_start(&sampler, &host, params);
    CHECK_OK(vki_sampler_set_bias(&sampler, bias, n, n_vocab, &error));
}

START_TEST(a_bias_is_added_before_everything)
{
    const float logits[] = {1, 4, 2, 3};
    const vklm_token history[] = {2};
    vklm_sampling params = exact_plain();
    params.temperature = -1;
    set_bias(&params, (vklm_logit_bias[]){{2, 1.5f}, {0, 2}, {2, 1}}, 3, 4);
    ck_assert_int_eq(draw(logits, 4, NULL, 0), 2); /* both of token 2 count: 4.5 */
    params.repeat_penalty = 1.5f; /* of what the bias made */
    set_bias(&params, (vklm_logit_bias[]){{2, 2.5f}}, 1, 4);
    ck_assert_int_eq(draw(logits, 4, history, 1), 1);
    params.repeat_penalty = 1.1f;
    set_bias(&params, (vklm_logit_bias[]){{2, 2.5f}}, 1, 4);
    ck_assert_int_eq(draw(logits, 4, history, 1), 2);
    vki_sampler_start(&sampler, &host, &params); /* forgets it */
    ck_assert_int_eq(draw(logits, 4, NULL, 0), 1);
}
END_TEST

START_TEST(a_banned_token_is_never_drawn)
{
    const float logits[] = {1, 4, 2, 3};
    const vklm_token history[] = {1, 0};
    for (int forms = 0; forms < 8; forms++) {
        vklm_sampling params = exact_plain();
        params.temperature = forms & 1 ? -1 : 3e38f;
        params.top_k = forms & 2 ? 4 : -1;
        if (forms & 4) { /* neither a penalty nor another's calls it back */
            params.repeat_penalty = FLT_MAX;
            params.presence_penalty = FLT_MAX;
        }
        set_bias(&params, (vklm_logit_bias[]){{1, -INFINITY}, {3, FLT_MAX}, {3, FLT_MAX}, {3, -INFINITY}, {2, -INFINITY}},
                 5, 4);
        for (int i = 0; i < 50; i++) ck_assert_int_eq(draw(logits, 4, history, 2), 0);
    }
}
END_TEST

START_TEST(biases_out_of_range_are_refused)
{
    const vklm_sampling params = exact_plain();
    const struct { vklm_logit_bias bias; const char *text; } cases[] = {
        {{-1, 1}, "id -1"}, {{3, 1}, "id 3"}, {{INT32_MAX, 1}, "vocabulary of 3"}, {{1, NAN}, "nan"},
        {{2, INFINITY}, "inf"},
    };
    vki_sampler_start(&sampler, &host, &params);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_FAILS(vki_sampler_set_bias(&sampler, &cases[i].bias, 1, 3, &error), VKLM_INVALID_ARGUMENT,
                    cases[i].text);
    CHECK_FAILS(vki_sampler_set_bias(&sampler, NULL, 1, 3, &error), VKLM_INVALID_ARGUMENT, "no pointer");
    const vklm_logit_bias all[] = {{0, -INFINITY}, {1, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}};
    CHECK_FAILS(vki_sampler_set_bias(&sampler, all, 4, 3, &error), VKLM_INVALID_ARGUMENT, "bans all 3");
    CHECK_OK(vki_sampler_set_bias(&sampler, all, 3, 3, &error));
    heap.fail_from = 1;
    vki_sampler_free(&sampler);
    vki_sampler_start(&sampler, &host, &params);
    CHECK_FAILS(vki_sampler_set_bias(&sampler, all, 3, 3, &error), VKLM_OUT_OF_MEMORY, "no memory");
}
END_TEST

/* ---- Parameters ------------------------------------------------------------------------------------------- */

START_TEST(a_zero_means_the_files_recommendation_else_the_default)
{
    const vklm_sampling nothing = {0};
    vklm_sampling s;
    CHECK_OK(vki_sampling_resolve(&nothing, &nothing, &error, &s));
    ck_assert_float_eq(s.temperature, 0.8f);
    ck_assert_int_eq(s.top_k, 40);
    ck_assert_float_eq(s.top_p, 0.95f);
    ck_assert_float_eq(s.min_p, 0.05f);
    ck_assert_float_eq(s.repeat_penalty, 1);
    ck_assert_float_eq(s.presence_penalty, 0);
    ck_assert_float_eq(s.frequency_penalty, 0);
    ck_assert_int_eq(s.repeat_last_n, 64);
    ck_assert_uint_ne(s.seed, 0);

    const vklm_sampling file = {.temperature = 0.6f, .top_k = 20, .top_p = 0.8f, .min_p = -1,
                                .repeat_penalty = 1.05f, .repeat_last_n = 32};
    CHECK_OK(vki_sampling_resolve(&nothing, &file, &error, &s));
    ck_assert_float_eq(s.temperature, 0.6f);
    ck_assert_int_eq(s.top_k, 20);
    ck_assert_float_eq(s.top_p, 0.8f);
    ck_assert_float_eq(s.min_p, -1);
    ck_assert_float_eq(s.repeat_penalty, 1.05f);
    ck_assert_int_eq(s.repeat_last_n, 32);

    const vklm_sampling asked = {.temperature = -1, .top_k = -1, .top_p = 1, .min_p = 0.5f,
                                 .repeat_penalty = 1.5f, .presence_penalty = 0.5f,
                                 .frequency_penalty = -0.5f, .repeat_last_n = -1, .seed = 42};
    CHECK_OK(vki_sampling_resolve(&asked, &file, &error, &s));
    ck_assert_float_eq(s.temperature, -1);
    ck_assert_int_eq(s.top_k, -1);
    ck_assert_float_eq(s.top_p, 1);
    ck_assert_float_eq(s.min_p, 0.5f);
    ck_assert_float_eq(s.repeat_penalty, 1.5f);
    ck_assert_float_eq(s.presence_penalty, 0.5f);
    ck_assert_float_eq(s.frequency_penalty, -0.5f);
    ck_assert_int_eq(s.repeat_last_n, -1);
    ck_assert_uint_eq(s.seed, 42);
}
END_TEST

START_TEST(without_a_seed_every_generation_draws_anew)
{
    const vklm_sampling nothing = {0};
    vklm_sampling a, b;
    CHECK_OK(vki_sampling_resolve(&nothing, &nothing, &error, &a));
    CHECK_OK(vki_sampling_resolve(&nothing, &nothing, &error, &b));
    ck_assert_uint_ne(a.seed, b.seed);
}
END_TEST

START_TEST(parameters_out_of_range_are_refused)
{
    const struct { vklm_sampling asked; const char *text; } cases[] = {
        {{.temperature = NAN}, "temperature"}, {{.temperature = INFINITY}, "temperature"}, {{.top_p = NAN}, "top_p"},
        {{.min_p = -INFINITY}, "min_p"}, {{.repeat_penalty = NAN}, "repeat_penalty"},
        {{.presence_penalty = INFINITY}, "presence"}, {{.frequency_penalty = NAN}, "frequency"},
        {{.repeat_penalty = -1}, "repeat_penalty"}, {{.top_p = -0.5f}, "top_p"}, {{.min_p = 1.5f}, "min_p"},
    };
    const vklm_sampling nothing = {0};
    vklm_sampling s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_FAILS(vki_sampling_resolve(&cases[i].asked, &nothing, &error, &s), VKLM_INVALID_ARGUMENT,
                    cases[i].text);
        /* A file that recommends such a thing is no better, unless the caller asks for something else. */
        if (cases[i].asked.presence_penalty != 0 || cases[i].asked.frequency_penalty != 0) continue;
        CHECK_FAILS(vki_sampling_resolve(&nothing, &cases[i].asked, &error, &s), VKLM_INVALID_ARGUMENT,
                    cases[i].text);
        const vklm_sampling asked = exact_plain();
        CHECK_OK(vki_sampling_resolve(&asked, &cases[i].asked, &error, &s));
    }
}
END_TEST

/* ---- Extremes ------------------------------------------------------------------------------------------------ */

START_TEST(logits_that_are_not_numbers_are_refused_in_every_form)
{
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        for (int at = 0; at < 3; at++) {
            float logits[] = {1, 2, 3};
            logits[at] = bad[b];
            for (int greedy = 0; greedy < 2; greedy++) {
                vklm_sampling params = exact_plain();
                if (greedy) params.temperature = -1;
                vki_sampler_start(&sampler, &host, &params);
                vklm_token id = 0;
                CHECK_FAILS(vki_sampler_draw(&sampler, logits, 3, NULL, 0, &error, &id), VKLM_DRIVER_ERROR,
                            "not a finite number");
                ck_assert_int_eq(id, -1);
            }
        }
    }
}
END_TEST

START_TEST(a_vocabulary_of_one_token_has_one_answer)
{
    const float logits[] = {-7};
    const vklm_token history[] = {0, 0};
    const vklm_sampling cases[] = {
        {.temperature = -1, .repeat_penalty = 1}, {.temperature = 1, .top_k = 1, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 1, .top_k = 40, .top_p = 1e-9f, .min_p = 1, .repeat_penalty = 1e30f, .repeat_last_n = -1,
         .presence_penalty = FLT_MAX, .frequency_penalty = FLT_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vki_sampler_start(&sampler, &host, &cases[i]);
        ck_assert_int_eq(draw(logits, 1, history, 2), 0);
    }
}
END_TEST

START_TEST(cold_is_greedy_and_hot_is_even)
{
    const float logits[] = {1, 1.001f, 0.5f, -30};
    vklm_sampling params = exact_plain();
    params.temperature = 1e-9f;
    vki_sampler_start(&sampler, &host, &params);
    for (int i = 0; i < 100; i++) ck_assert_int_eq(draw(logits, 4, NULL, 0), 1);
    params.temperature = FLT_MIN / 1e6f; /* not even normal */
    vki_sampler_start(&sampler, &host, &params);
    for (int i = 0; i < 100; i++) ck_assert_int_eq(draw(logits, 4, NULL, 0), 1);
    params.temperature = 1e9f;
    check_distribution(&params, logits, 4, NULL, 0);
    ck_assert_uint_eq(drawable(params, logits, 4), 0xf);
}
END_TEST

START_TEST(logits_of_any_size_can_be_drawn_from)
{
    const float logits[] = {3e38f, -3e38f, 0, 3e38f};
    vklm_sampling params = exact_plain();
    ck_assert_uint_eq(drawable(params, logits, 4), 0x9);
    check_distribution(&params, logits, 4, NULL, 0);
    params.top_p = 0.99f;
    params.min_p = 1e-3f;
    ck_assert_uint_eq(drawable(params, logits, 4), 0x9);
}
END_TEST

/* Penalties may push every token out of a float's range: still one of them is drawn. */
START_TEST(penalties_of_any_size_leave_a_token)
{
    const float logits[] = {-20, 5, -1};
    const vklm_token history[] = {0, 1, 2, 2};
    const float sizes[] = {FLT_MAX, -FLT_MAX};
    for (size_t i = 0; i < 2; i++) {
        for (int forms = 0; forms < 4; forms++) {
            vklm_sampling params = {.temperature = forms & 1 ? -1 : 1, .top_k = 2, .top_p = 0.9f, .min_p = 0.1f,
                                    .repeat_penalty = forms & 2 ? FLT_MAX : FLT_MIN, .repeat_last_n = -1,
                                    .presence_penalty = sizes[i], .frequency_penalty = sizes[i], .seed = 1};
            vki_sampler_start(&sampler, &host, &params);
            (void)draw(logits, 3, history, 4);
        }
    }
    /* Tokens that are so raised, or spared, are the ones. */
    vklm_sampling params = exact_plain();
    params.frequency_penalty = -FLT_MAX;
    vki_sampler_start(&sampler, &host, &params);
    for (int i = 0; i < 20; i++) ck_assert_int_ne(draw(logits, 3, history + 1, 3), 0);
    params.frequency_penalty = FLT_MAX;
    vki_sampler_start(&sampler, &host, &params);
    for (int i = 0; i < 20; i++) ck_assert_int_eq(draw(logits, 3, history + 1, 3), 0);
}
END_TEST

START_TEST(a_failed_allocation_is_a_status_and_the_next_draw_works)
{
    const float logits[] = {1, 2};
    vklm_sampling params = exact_plain();
    vki_sampler_start(&sampler, &host, &params);
    vklm_token id = 0;
    heap.fail_from = 1;
    CHECK_FAILS(vki_sampler_draw(&sampler, logits, 2, NULL, 0, &error, &id), VKLM_OUT_OF_MEMORY, "no memory");
    ck_assert_int_eq(id, -1);
    heap.fail_from = 0;
    (void)draw(logits, 2, NULL, 0);
    vki_sampler_free(&sampler);
    vki_sampler_free(&sampler); /* safe twice */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        greedy_takes_the_likeliest_and_of_equals_the_lowest_id,
        top_k_keeps_exactly_k_and_of_equals_the_lowest_ids, top_p_keeps_the_token_that_crosses,
        min_p_keeps_what_is_near_the_largest, temperature_is_last_and_changes_no_cut,
        penalties_come_before_the_cuts, the_repeat_penalty_knows_the_sign_and_counts_a_token_once,
        frequency_counts_occurrences_and_presence_does_not, the_window_is_the_last_tokens,
        ids_outside_the_vocabulary_are_no_trouble_to_the_penalties,
        many_draws_follow_the_exact_distribution, selection_in_a_large_vocabulary_equals_a_full_sort,
        a_seed_and_a_position_make_the_draw, a_bias_is_added_before_everything, a_banned_token_is_never_drawn,
        biases_out_of_range_are_refused, a_zero_means_the_files_recommendation_else_the_default,
        without_a_seed_every_generation_draws_anew, parameters_out_of_range_are_refused,
        logits_that_are_not_numbers_are_refused_in_every_form, a_vocabulary_of_one_token_has_one_answer,
        cold_is_greedy_and_hot_is_even, logits_of_any_size_can_be_drawn_from,
        penalties_of_any_size_leave_a_token, a_failed_allocation_is_a_status_and_the_next_draw_works,
    };
    return run_tests("sample", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
