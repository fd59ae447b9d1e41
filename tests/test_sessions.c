/* test_sessions.c - several sessions on one model, polled and blocking, and sessions that differ from the
 * plain one: f32 caches, ids without text, models without a vocabulary, a file's recommendations.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"
#include "support/tiny_session.h"

enum { SESSIONS = 5, PROMPT = 40, NEW = 16 };

static vklm_device *device;
static vklm_model *model;
static vklm_error error;
static vklm_token prompt[RUN_MAX_IDS];

static void load(const tiny_model *m)
{
    vklm_model_destroy(&model);
    model = tiny_load(device, m);
}

static void set_up(void)
{
    tiny_model m = tiny_small("qwen3");
    tiny_model_set_formats(&m, VKI_Q8_0); /* as models are usually run: quantised, in the default precision */
    m.default_precision = true;
    device = test_device(NULL);
    load(&m);
    some_ids(17, 256, prompt, RUN_MAX_IDS);
}

static void tear_down(void)
{
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}

/* ---- Several at once ----------------------------------------------------------------------------------- */

/* Sessions of every kind: what draws, which cache, how the prompt is cut. */
static const struct {
    vklm_session_params session;
    vklm_generate_params generate;
    size_t first, n; /* of prompt[] */
} kinds[SESSIONS] = {
    {{0}, {.max_tokens = NEW, .sampling = {.temperature = -1}}, 0, PROMPT},
    {{.chunk = 7}, {.max_tokens = NEW + 3, .sampling = {.seed = 5}}, 10, PROMPT},
    {{.kv = VKLM_KV_F32}, {.max_tokens = NEW, .want_logits = true, .sampling = {.seed = 6}}, 20, 31},
    {{.kv = VKLM_KV_F32, .chunk = 16}, {.max_tokens = NEW - 5, .sampling = {.temperature = -1}}, 3, 1},
    {{0}, {.prompt_only = true, .want_logits = true}, 60, 25},
};

static void arm(size_t kind, vklm_session **session)
{
    vklm_generate_params params = kinds[kind].generate;
    params.struct_size = sizeof params;
    params.ignore_end = true;
    *session = tiny_session(model, &kinds[kind].session);
    CHECK_OK(vklm_session_set_ids(*session, prompt + kinds[kind].first, kinds[kind].n, &error, NULL));
    CHECK_OK(vklm_session_generate(*session, &params, &error));
}

static void run_to_end(vklm_session *session, run_result *r)
{
    while (r->done.kind == VKLM_EVENT_NONE) {
        vklm_event event;
        CHECK_OK(vklm_session_wait_event(session, &error, &event));
        run_take(r, session, &event);
    }
}

static void run_kind_alone(size_t kind, run_result *r)
{
    vklm_session *session;
    *r = (run_result){0};
    arm(kind, &session);
    run_to_end(session, r);
    vklm_session_destroy(&session);
}

static void check_same(const run_result *a, const run_result *b, size_t kind)
{
    ck_assert_int_eq(a->done.reason, b->done.reason);
    ck_assert_uint_eq(a->n_drawn, b->n_drawn);
    ck_assert_uint_eq(a->n_logits, b->n_logits);
    if (!test_results_count()) return;
    ck_assert_msg(memcmp(a->drawn, b->drawn, a->n_drawn * sizeof *a->drawn) == 0, "kind %zu: other tokens", kind);
    ck_assert_uint_eq(a->text_len, b->text_len);
    ck_assert_mem_eq(a->text, b->text, a->text_len);
    const size_t n = (size_t)a->n_logits * model->weights.hparams.n_vocab;
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(a->logits[i] == b->logits[i], "kind %zu: another logit at %zu", kind, i);
}

static void take_all(vklm_session *session, run_result *r)
{
    vklm_event event;
    while (session && vklm_session_next_event(session, &event)) run_take(r, session, &event);
}

/* Polls until all sessions (NULL: none) are done; their events are taken every `lag` steps. */
static void poll_all(vklm_session **sessions, run_result *results, size_t n, uint64_t budget_ns, int lag)
{
    int step = 0;
    vklm_status status = VKLM_OK;
    while (status == VKLM_OK) {
        status = vklm_model_step(model, budget_ns, &error);
        for (size_t i = 0; i < n && (step % lag == 0 || status != VKLM_OK); i++) take_all(sessions[i], &results[i]);
        step++;
    }
    ck_assert_int_eq(status, VKLM_NOTHING_TO_DO);
}

START_TEST(sessions_side_by_side_bring_what_each_brings_alone)
{
    static const struct { size_t n; uint64_t budget_ns; int lag; } ways[] = {
        {2, 0, 1}, {SESSIONS, 0, 1}, {SESSIONS, 0, 7}, {SESSIONS, 1, 1}, {SESSIONS, 1000000, 3},
    };
    run_result alone[SESSIONS], *results = calloc(SESSIONS, sizeof *results);
    for (size_t i = 0; i < SESSIONS; i++) run_kind_alone(i, &alone[i]);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        vklm_session *sessions[SESSIONS];
        for (size_t i = 0; i < ways[w].n; i++) arm(i, &sessions[i]);
        poll_all(sessions, results, ways[w].n, ways[w].budget_ns, ways[w].lag);
        for (size_t i = 0; i < ways[w].n; i++) {
            check_same(&results[i], &alone[i], i);
            run_free(&results[i]);
            vklm_session_destroy(&sessions[i]);
        }
    }
    for (size_t i = 0; i < SESSIONS; i++) run_free(&alone[i]);
    free(results);
}
END_TEST

START_TEST(one_that_blocks_lets_the_others_go_on)
{
    run_result alone, first = {0}, second = {0};
    vklm_session *sessions[2];
    run_kind_alone(0, &alone);
    arm(0, &sessions[0]);
    arm(0, &sessions[1]);
    run_to_end(sessions[0], &first);
    vklm_session_stats stats;
    vklm_session_get_stats(sessions[1], &stats);
    ck_assert_uint_ge(stats.n_generated, NEW / 2); /* they took turns */
    run_to_end(sessions[1], &second);
    check_same(&first, &alone, 0);
    check_same(&second, &alone, 0);
    for (int i = 0; i < 2; i++) vklm_session_destroy(&sessions[i]);
    run_free(&alone);
    run_free(&first);
    run_free(&second);
}
END_TEST

START_TEST(logits_that_nobody_took_keep_the_model_standing)
{
    run_result alone[2], results[2] = {{.n_drawn = 0}};
    vklm_session *sessions[2];
    vklm_event event;
    run_kind_alone(2, &alone[0]);
    run_kind_alone(1, &alone[1]);
    arm(2, &sessions[0]);
    arm(1, &sessions[1]);
    while (results[1].n_logits == 0 && !vki_logits_wait(model)) {
        CHECK_OK(vklm_model_step(model, 0, &error));
        CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
    }
    for (int i = 0; i < 20; i++) {
        CHECK_OK(vklm_model_step(model, 0, &error));
        CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
    }
    take_all(sessions[1], &results[1]);
    CHECK_FAILS(vklm_session_wait_event(sessions[1], &error, &event), VKLM_INVALID_ARGUMENT, "LOGITS");
    ck_assert_int_eq(event.kind, VKLM_EVENT_NONE);
    /* The other can be cancelled all the same, and made to start again. */
    vklm_session_cancel(sessions[1]);
    CHECK_OK(vklm_session_wait_event(sessions[1], &error, &event));
    ck_assert_int_eq(event.reason, VKLM_DONE_CANCELLED);
    vklm_session_destroy(&sessions[1]);
    run_free(&results[1]);
    arm(1, &sessions[1]);
    poll_all(sessions, results, 2, 0, 1);
    check_same(&results[0], &alone[0], 2);
    check_same(&results[1], &alone[1], 1);
    for (int i = 0; i < 2; i++) {
        vklm_session_destroy(&sessions[i]);
        run_free(&results[i]);
        run_free(&alone[i]);
    }
}
END_TEST

START_TEST(one_is_cancelled_or_destroyed_and_the_others_do_not_notice)
{
    run_result alone[2], results[3] = {{.n_drawn = 0}};
    vklm_session *sessions[3];
    run_kind_alone(0, &alone[0]);
    run_kind_alone(1, &alone[1]);
    for (int destroy = 0; destroy < 2; destroy++) {
        for (int after = 0; after < 12; after++) {
            arm(0, &sessions[0]);
            arm(2, &sessions[1]);
            arm(1, &sessions[2]);
            for (int step = 0; step < after; step++) {
                CHECK_OK(vklm_model_step(model, 0, &error));
                for (size_t i = 0; i < 3; i++) take_all(sessions[i], &results[i]);
                if (step % 2) CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
            }
            if (destroy) vklm_session_destroy(&sessions[1]);
            else vklm_session_cancel(sessions[1]);
            poll_all(sessions, results, 3, 0, 1);
            check_same(&results[0], &alone[0], 0);
            check_same(&results[2], &alone[1], 1);
            for (size_t i = 0; i < 3; i++) {
                vklm_session_destroy(&sessions[i]);
                run_free(&results[i]);
            }
        }
    }
    run_free(&alone[0]);
    run_free(&alone[1]);
}
END_TEST

/* ---- Polling ------------------------------------------------------------------------------------------------ */

static struct {
    PFN_vkWaitSemaphores wait;
    PFN_vkQueueSubmit submit;
    uint64_t longest_ns, n_submits, most_commands;
} watched;

static VKAPI_ATTR VkResult VKAPI_CALL watch_wait(VkDevice handle, const VkSemaphoreWaitInfo *info, uint64_t timeout_ns)
{
    if (timeout_ns > watched.longest_ns) watched.longest_ns = timeout_ns;
    return watched.wait(handle, info, timeout_ns);
}

static VKAPI_ATTR VkResult VKAPI_CALL watch_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos, VkFence fence)
{
    watched.n_submits++;
    if (infos->commandBufferCount > watched.most_commands) watched.most_commands = infos->commandBufferCount;
    return watched.submit(queue, n, infos, fence);
}

START_TEST(a_step_with_a_small_budget_submits_little_and_never_waits)
{
    run_result alone, r = {0};
    vklm_session *session;
    run_kind_alone(0, &alone);
    arm(0, &session);
    watched.wait = device->fn.vkWaitSemaphores;
    watched.submit = device->fn.vkQueueSubmit;
    device->fn.vkWaitSemaphores = watch_wait;
    device->fn.vkQueueSubmit = watch_submit;
    vklm_status status = VKLM_OK;
    uint32_t n_slices = 0;
    while (status == VKLM_OK) {
        const uint64_t before = watched.n_submits;
        status = vklm_model_step(model, 1, &error);
        ck_assert_uint_le(watched.n_submits - before, 2); /* a second where the first has finished already */
        ck_assert_uint_le(model->job.in_flight, 1);
        n_slices += model->job.kind == VKI_JOB_CHUNK && watched.n_submits > before;
        if (model->job.kind == VKI_JOB_CHUNK) ck_assert_uint_eq(watched.most_commands, 1);
        take_all(session, &r);
    }
    ck_assert_uint_eq(watched.longest_ns, 0);
    ck_assert_uint_ge(n_slices, 20); /* of the prompt, a dispatch or two each */
    device->fn.vkWaitSemaphores = watched.wait;
    device->fn.vkQueueSubmit = watched.submit;
    check_same(&r, &alone, 0);
    vklm_session_destroy(&session);
    run_free(&alone);
    run_free(&r);
}
END_TEST

START_TEST(wait_returns_when_its_time_is_over)
{
    vklm_session *session;
    arm(0, &session);
    CHECK_OK(vklm_model_wait(model, 0, &error)); /* nothing in flight yet */
    CHECK_OK(vklm_model_step(model, 0, &error));
    CHECK_OK(vklm_model_wait(model, 0, &error));
    CHECK_OK(vklm_model_wait(model, 1000, &error));
    run_result r = {0};
    run_to_end(session, &r);
    CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
    run_free(&r);
    vklm_session_destroy(&session);
}
END_TEST

/* ---- Sessions of other kinds ----------------------------------------------------------------------------------- */

START_TEST(an_f32_cache_after_an_f16_one)
{
    const tiny_model m = tiny_small("gemma3");
    run_result first, again;
    load(&m);
    run_kind_alone(3, &first); /* f32, and the first of all */
    load(&m);
    run_kind_alone(0, &again);
    run_free(&again);
    run_kind_alone(3, &again);
    check_same(&first, &again, 3);
    run_free(&first);
    run_free(&again);
}
END_TEST

START_TEST(equal_seeds_bring_equal_texts)
{
    run_result a, b;
    run_kind_alone(1, &a);
    run_kind_alone(1, &b);
    check_same(&a, &b, 1);
    run_free(&a);
    run_free(&b);
}
END_TEST

START_TEST(ids_only_sessions_take_any_id_and_give_no_text)
{
    static const vklm_token wild[] = {3, -1, 5000, INT32_MAX, INT32_MIN, 7};
    for (int without_vocabulary = 0; without_vocabulary < 2; without_vocabulary++) {
        tiny_model m = tiny_small("llama");
        m.no_vocab = without_vocabulary;
        load(&m);
        vklm_model_info info;
        vklm_model_get_info(model, &info);
        ck_assert((vklm_model_vocab(model) == NULL) == m.no_vocab);
        ck_assert((strlen(info.no_vocab) > 0) == m.no_vocab);
        vklm_session *session = tiny_session(model, &(vklm_session_params){.ids_only = !without_vocabulary});
        CHECK_OK(vklm_session_set_ids(session, wild, 6, &error, NULL));
        run_result r;
        run_greedy(session, NEW, &r);
        ck_assert_uint_eq(r.text_len, 0);
        size_t n;
        ck_assert_mem_eq(vklm_session_ids(session, &n), wild, sizeof wild);
        ck_assert_uint_eq(n, 6 + NEW);
        run_free(&r);
        CHECK_OK(vklm_session_append_ids(session, wild, 6, &error));
        run_generate(session, (vklm_generate_params){.max_tokens = 3, .ignore_end = true,
                                                     .sampling = {.repeat_penalty = 1.1f}}, &r);
        ck_assert_int_eq(r.done.reason, VKLM_DONE_LENGTH);
        run_free(&r);
        const vklm_message ask = {"user", "a"};
        if (without_vocabulary)
            CHECK_FAILS(vklm_session_set_chat(session, &ask, 1, &error, NULL), VKLM_UNSUPPORTED, "no tokenizer");
        vklm_session_destroy(&session);
    }
}
END_TEST

START_TEST(no_session_has_nothing)
{
    vklm_event event = {.kind = VKLM_EVENT_TOKEN};
    vklm_session_stats stats = {.n_prompt = 1};
    size_t n = 1, n_ids = 1;
    ck_assert(!vklm_session_next_event(NULL, &event) && event.kind == VKLM_EVENT_NONE);
    vklm_session_get_stats(NULL, &stats);
    ck_assert_uint_eq(stats.n_prompt, 0);
    ck_assert_ptr_null(vklm_session_ids(NULL, &n));
    ck_assert_ptr_null(vklm_session_chat(NULL, &n_ids, NULL));
    ck_assert_uint_eq(n + n_ids, 0);
    vklm_session_cancel(NULL);
}
END_TEST

START_TEST(model_parameters_are_checked)
{
    vklm_model *none = NULL;
    vklm_model_params params = {.struct_size = sizeof params, .path = "x", .precision = (vklm_precision)77};
    CHECK_FAILS(vklm_model_load(device, &params, &error, &none), VKLM_INVALID_ARGUMENT, "precision is 77");
    params = (vklm_model_params){.struct_size = sizeof params, .path = ""};
    CHECK_FAILS(vklm_model_load(device, &params, &error, &none), VKLM_INVALID_ARGUMENT, "it is empty");
}
END_TEST

START_TEST(session_parameters_are_checked)
{
    static const struct { vklm_session_params params; const char *text; } cases[] = {
        {{.context = 1025}, "ask for 1024 or fewer"}, {{.kv = 2}, "kv is 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vklm_session_params params = cases[i].params;
        params.struct_size = sizeof params;
        vklm_session *session = (vklm_session *)&error;
        CHECK_FAILS(vklm_session_create(model, &params, &error, &session), VKLM_INVALID_ARGUMENT, cases[i].text);
        ck_assert_ptr_null(session);
    }
    tiny_model m = tiny_small("qwen3");
    m.context_length = 100000;
    load(&m);
    vklm_session *session = tiny_session(model, NULL);
    vklm_session_stats stats;
    vklm_session_get_stats(session, &stats);
    ck_assert_uint_eq(stats.context_size, 4096);
    vklm_session_destroy(&session);
}
END_TEST

/* ---- Recommendations of the file ---------------------------------------------------------------------------------- */

static void put_recommendations(gguf_writer *w, void *user)
{
    const vklm_sampling *s = user;
    gguf_put_f32(w, "general.sampling.temp", s->temperature);
    gguf_put_i32(w, "general.sampling.top_k", s->top_k);
    gguf_put_f32(w, "general.sampling.top_p", s->top_p);
    gguf_put_f32(w, "general.sampling.min_p", s->min_p);
    gguf_put_f32(w, "general.sampling.penalty_repeat", s->repeat_penalty);
    gguf_put_i32(w, "general.sampling.penalty_last_n", s->repeat_last_n);
}

/* What a generation that asks for nothing gets from a file with these recommendations. */
static vklm_sampling resolved(vklm_sampling recommended)
{
    tiny_model m = tiny_small("llama");
    m.n_layer = 1;
    m.extra = put_recommendations;
    m.extra_user = &recommended;
    load(&m);
    vklm_session *session = tiny_session(model, NULL);
    CHECK_OK(vklm_session_set_ids(session, prompt, 1, &error, NULL));
    CHECK_OK(vklm_session_generate(session, NULL, &error));
    const vklm_sampling sampling = session->sampler.params;
    vklm_session_destroy(&session);
    return sampling;
}

START_TEST(what_the_file_recommends_is_the_default)
{
    vklm_sampling s = resolved((vklm_sampling){.temperature = 0.6f, .top_k = 20, .top_p = 0.9f, .min_p = 0.1f,
                                               .repeat_penalty = 1.1f, .repeat_last_n = 128});
    ck_assert_float_eq(s.temperature, 0.6f);
    ck_assert_int_eq(s.top_k, 20);
    ck_assert_float_eq(s.top_p, 0.9f);
    ck_assert_float_eq(s.min_p, 0.1f);
    ck_assert_float_eq(s.repeat_penalty, 1.1f);
    ck_assert_int_eq(s.repeat_last_n, 128);
    /* In a file a zero says off, and -1 the whole context. */
    s = resolved((vklm_sampling){.top_p = 1, .repeat_penalty = 1.1f, .repeat_last_n = -1});
    ck_assert_float_lt(s.temperature, 0);
    ck_assert_int_lt(s.top_k, 0);
    ck_assert_float_eq(s.top_p, 1);
    ck_assert_float_lt(s.min_p, 0);
    ck_assert_float_eq(s.repeat_penalty, 1.1f);
    ck_assert_int_lt(s.repeat_last_n, 0);
    s = resolved((vklm_sampling){.top_k = -1, .top_p = 0.5f, .repeat_penalty = 1.1f});
    ck_assert_int_lt(s.top_k, 0);
    ck_assert_float_eq(s.repeat_penalty, 1); /* over none of the tokens */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        sessions_side_by_side_bring_what_each_brings_alone,
        one_that_blocks_lets_the_others_go_on,
        logits_that_nobody_took_keep_the_model_standing,
        one_is_cancelled_or_destroyed_and_the_others_do_not_notice,
        a_step_with_a_small_budget_submits_little_and_never_waits,
        wait_returns_when_its_time_is_over,
        an_f32_cache_after_an_f16_one,
        equal_seeds_bring_equal_texts,
        ids_only_sessions_take_any_id_and_give_no_text,
        session_parameters_are_checked, no_session_has_nothing, model_parameters_are_checked,
        what_the_file_recommends_is_the_default,
    };
    return run_tests("sessions", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
