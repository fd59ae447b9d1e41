/* test_draw.c - who draws the tokens of a session, and what ends them: the device as the host would, whatever else is
 * in its batch; a sampler of the caller's; stop strings and ids; parameters that are refused. On a tiny model.
 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "support/suite.h"
#include "support/tiny_session.h"

enum { PROMPT = 30, NEW = 20 };

static vklm_device *device;
static vklm_model *model;
static vklm_error error;
static vklm_token prompt[PROMPT];
static uint32_t n_vocab;

static void set_up(void)
{
    const tiny_model m = tiny_small("llama");
    device = test_device(NULL);
    model = tiny_load(device, &m);
    n_vocab = m.n_vocab;
    some_ids(11, 256, prompt, PROMPT);
}

static void tear_down(void)
{
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}

static vklm_session *with_prompt(void)
{
    vklm_session *session = tiny_session(model, NULL);
    CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
    return session;
}

static void run(vklm_generate_params params, run_result *r)
{
    vklm_session *session = with_prompt();
    run_generate(session, params, r);
    vklm_session_destroy(&session);
}

/* ---- The device --------------------------------------------------------------------------------------- */

static const vklm_logit_bias some_bias[] = {{65, 2.5f}, {66, 2.5f}, {67, -INFINITY}, {300, 1}};

static const vklm_generate_params kinds[] = {
    {.sampling = {.temperature = 1.5f, .seed = 7}},
    {.sampling = {.temperature = 1, .top_k = -1, .top_p = 1, .min_p = -1, .seed = 8}},
    {.sampling = {.temperature = 2, .top_k = 20, .top_p = 0.9f, .repeat_penalty = 1.5f, .presence_penalty = 0.5f,
                  .frequency_penalty = 0.25f, .repeat_last_n = 8, .seed = 9}, .bias = some_bias, .n_bias = 3},
    {.sampling = {.temperature = -1, .repeat_penalty = 1.5f, .presence_penalty = 0.5f, .repeat_last_n = -1}},
    {.sampling = {.temperature = -1}, .bias = some_bias, .n_bias = 2},
    {.sampling = {.temperature = -1}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static vklm_generate_params kind(size_t which)
{
    vklm_generate_params params = kinds[which];
    params.max_tokens = NEW;
    params.ignore_end = true;
    return params;
}

START_TEST(the_device_draws_what_the_host_would)
{
    if (!test_results_count()) return;
    for (size_t k = 0; k < KINDS; k++) {
        run_result on_device, on_host;
        vklm_generate_params params = kind(k);
        run(params, &on_device);
        params.want_logits = true;
        run(params, &on_host);
        ck_assert_uint_eq(on_device.n_drawn, NEW);
        ck_assert_uint_eq(on_device.n_logits, 0);
        ck_assert_msg(memcmp(on_device.drawn, on_host.drawn, NEW * sizeof *on_host.drawn) == 0, "kind %zu", k);
        run_free(&on_device);
        run_free(&on_host);
    }
}
END_TEST

/* All kinds in one batch: each session's tokens are those it has alone. */
START_TEST(sessions_of_a_batch_draw_each_in_its_way)
{
    if (!test_results_count()) return;
    vklm_session *sessions[KINDS];
    run_result alone;
    for (size_t k = 0; k < KINDS; k++) {
        vklm_generate_params params = kind(k);
        params.struct_size = sizeof params;
        sessions[k] = with_prompt();
        CHECK_OK(vklm_session_generate(sessions[k], &params, &error));
    }
    for (size_t k = 0; k < KINDS; k++) {
        vklm_event event = {0};
        size_t n = 0;
        run(kind(k), &alone);
        while (event.kind != VKLM_EVENT_DONE) {
            CHECK_OK(vklm_session_wait_event(sessions[k], &error, &event));
            if (event.kind == VKLM_EVENT_TOKEN) ck_assert_int_eq(event.id, alone.drawn[n++]);
        }
        ck_assert_uint_eq(n, NEW);
        run_free(&alone);
        vklm_session_destroy(&sessions[k]);
    }
}
END_TEST

START_TEST(a_generation_in_pieces_is_the_whole)
{
    if (!test_results_count()) return;
    for (size_t k = 0; k < KINDS; k++) {
        run_result whole, piece;
        vklm_session *session = with_prompt();
        run(kind(k), &whole);
        for (size_t at = 0, n; at < NEW; at += n) {
            n = at + 1 < NEW - at ? at + 1 : NEW - at; /* 1, 2, 4 ... */
            vklm_generate_params params = kind(k);
            params.max_tokens = (uint32_t)n;
            run_generate(session, params, &piece);
            ck_assert_uint_eq(piece.n_drawn, n);
            ck_assert_mem_eq(piece.drawn, whole.drawn + at, n * sizeof *piece.drawn);
            run_free(&piece);
        }
        run_free(&whole);
        vklm_session_destroy(&session);
    }
}
END_TEST

/* ---- A sampler of the caller's --------------------------------------------------------------------------- */

typedef struct script {
    const vklm_token *ids;
    size_t n, at, n_history;
} script;

static vklm_token next_of_script(void *user, const float *logits, uint32_t n, const vklm_token *history, size_t n_history)
{
    script *s = user;
    ck_assert_uint_eq(n, n_vocab);
    for (uint32_t i = 0; i < n && test_results_count(); i++) ck_assert(isfinite(logits[i]));
    ck_assert_uint_eq(n_history, PROMPT + s->at);
    ck_assert_mem_eq(history, prompt, sizeof prompt);
    s->n_history = n_history;
    return s->at < s->n ? s->ids[s->at++] : (vklm_token)n_vocab;
}

static vklm_token take_largest(void *user, const float *logits, uint32_t n, const vklm_token *history, size_t n_history)
{
    (void)history;
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) best = logits[i] > logits[best] ? i : best;
    *(size_t *)user = n_history;
    return (vklm_token)best;
}

START_TEST(the_callers_sampler_draws)
{
    run_result greedy, own;
    size_t last = 0;
    vklm_generate_params params = kind(KINDS - 1);
    run(params, &greedy);
    params.sampling.temperature = 1; /* means nothing */
    params.sample = take_largest;
    params.sample_user = &last;
    run(params, &own);
    ck_assert_uint_eq(own.n_drawn, NEW);
    if (test_results_count()) ck_assert_mem_eq(own.drawn, greedy.drawn, NEW * sizeof *own.drawn);
    ck_assert_uint_eq(last, PROMPT + NEW - 1);
    run_free(&greedy);
    run_free(&own);
}
END_TEST

START_TEST(a_sampler_that_returns_no_token_ends_the_generation)
{
    if (!test_results_count()) return;
    run_result r;
    script s = {.ids = (const vklm_token[]){70, 71, 72}, .n = 3};
    run((vklm_generate_params){.ignore_end = true, .sample = next_of_script, .sample_user = &s}, &r);
    ck_assert_uint_eq(r.n_drawn, 3);
    ck_assert_int_eq(r.done.reason, VKLM_DONE_ERROR);
    ck_assert_int_eq(r.done.status, VKLM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(r.failure, "sampler returned"));
    run_free(&r);
}
END_TEST

/* ---- Stops --------------------------------------------------------------------------------------------------- */

/* Generates the text, a token a byte or so, with these stops. */
static void run_text(const char *text, vklm_generate_params params, run_result *r)
{
    vklm_token ids[64];
    size_t n;
    CHECK_OK(vklm_tokenize(vklm_model_vocab(model), text, strlen(text), 0, &error, ids, 64, &n));
    script s = {.ids = ids, .n = n};
    params.max_tokens = (uint32_t)n;
    params.sample = next_of_script;
    params.sample_user = &s;
    run(params, r);
}

START_TEST(a_stop_string_ends_the_text_before_it)
{
    if (!test_results_count()) return;
    const char *const stops[] = {"\nUser:", "END"};
    const struct { const char *text, *out; vklm_done_reason reason; int32_t stop; } cases[] = {
        {"Hello.\nUser: and more", "Hello.", VKLM_DONE_STOP, 0}, {"the END of it", "the ", VKLM_DONE_STOP, 1},
        {"END", "", VKLM_DONE_STOP, 1}, {"nothing here", "nothing here", VKLM_DONE_LENGTH, 0},
        {"held back: \nUse", "held back: \nUse", VKLM_DONE_LENGTH, 0}, {"EN\nUser", "EN\nUser", VKLM_DONE_LENGTH, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_result r;
        run_text(cases[i].text, (vklm_generate_params){.ignore_end = true, .stop = stops, .n_stop = 2}, &r);
        ck_assert_int_eq(r.done.reason, cases[i].reason);
        ck_assert_int_eq(r.done.stop, cases[i].stop);
        ck_assert_uint_eq(r.text_len, strlen(cases[i].out));
        ck_assert_mem_eq(r.text, cases[i].out, r.text_len);
        run_free(&r);
    }
}
END_TEST

START_TEST(a_stop_id_ends_too)
{
    run_result all, r;
    vklm_generate_params params = kind(KINDS - 1);
    run(params, &all);
    const vklm_token ids[] = {all.drawn[5], (vklm_token)n_vocab - 1};
    size_t first = 0;
    while (all.drawn[first] != ids[0] && all.drawn[first] != ids[1]) first++;
    params.stop_ids = ids;
    params.n_stop_ids = 2;
    if (test_results_count()) {
        run(params, &r);
        ck_assert_int_eq(r.done.reason, VKLM_DONE_STOP);
        ck_assert_int_eq(r.done.stop, -1);
        ck_assert_int_eq(r.done.id, all.drawn[first]);
        ck_assert_uint_eq(r.n_drawn, first + 1); /* the history has it */
        run_free(&r);
    }
    run_free(&all);
}
END_TEST

/* ---- Parameters ------------------------------------------------------------------------------------------------ */

START_TEST(parameters_out_of_range_are_refused_by_name)
{
    const vklm_logit_bias outside = {(vklm_token)n_vocab, 1}, no_number = {1, NAN};
    const vklm_token no_id = -1;
    const char *const empty = "";
    const struct { vklm_generate_params params; const char *text; } cases[] = {
        {{.bias = &outside, .n_bias = 1}, "outside the vocabulary"}, {{.bias = &no_number, .n_bias = 1}, "bias 0"},
        {{.bias = NULL, .n_bias = 1}, "no pointer"}, {{.stop = &empty, .n_stop = 1}, "stop string 0"},
        {{.stop_ids = &no_id, .n_stop_ids = 1}, "stop id 0"}, {{.sampling = {.top_p = NAN}}, "top_p"},
    };
    const char *const fine = "x";
    vklm_session *session = with_prompt(), *ids_only = tiny_session(model, &(vklm_session_params){.ids_only = true});
    run_result r;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vklm_generate_params params = cases[i].params;
        params.struct_size = sizeof params;
        CHECK_FAILS(vklm_session_generate(session, &params, &error), VKLM_INVALID_ARGUMENT, cases[i].text);
    }
    CHECK_OK(vklm_session_set_ids(ids_only, prompt, PROMPT, &error, NULL));
    CHECK_FAILS(vklm_session_generate(ids_only, &(vklm_generate_params){.struct_size = sizeof(vklm_generate_params),
                                                                        .stop = &fine, .n_stop = 1}, &error),
                VKLM_INVALID_ARGUMENT, "no text");
    run_generate(session, kind(2), &r); /* as if nothing had been asked */
    ck_assert_uint_eq(r.n_drawn, NEW);
    run_free(&r);
    vklm_session_destroy(&session);
    vklm_session_destroy(&ids_only);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        the_device_draws_what_the_host_would, sessions_of_a_batch_draw_each_in_its_way,
        a_generation_in_pieces_is_the_whole, the_callers_sampler_draws,
        a_sampler_that_returns_no_token_ends_the_generation, a_stop_string_ends_the_text_before_it, a_stop_id_ends_too,
        parameters_out_of_range_are_refused_by_name,
    };
    return run_tests("draw", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
