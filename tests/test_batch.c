/* test_batch.c - sessions that decode together: each gets the tokens it gets alone, whoever joins and leaves; prompts
 * and steps take turns; budgets bound what is submitted; threads; memory that comes back.
 *
 * Time is never measured: what a submit takes is what the test says it does, see fix_costs.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/os.h"
#include "support/suite.h"
#include "support/test_memory.h"
#include "support/tiny_session.h"

enum { SESSIONS = 11 };

static vklm_error error;
static vklm_device *device;
static vklm_model *model;
static vklm_token prompt[RUN_MAX_IDS];

static void open_model(const tiny_model *m)
{
    device = test_device(NULL);
    model = tiny_load(device, m);
    model->kernels.tuning.split_keys = 32; /* few tokens see many splits */
    some_ids(23, 256, prompt, RUN_MAX_IDS);
}

static void close_model(void)
{
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}

/* Heads of 64 values and rows of 256, so that several rows go together. */
static tiny_model batch_model(void)
{
    tiny_model m = tiny_model_of("llama");
    tiny_model_set_formats(&m, VKI_Q8_0);
    m.default_precision = true;
    return m;
}

static vklm_session *make(vklm_kv_type kv)
{
    return tiny_session(model, &(vklm_session_params){.kv = kv, .chunk = 64, .no_sharing = true});
}

static void arm(vklm_session *session, size_t first, size_t n, vklm_generate_params params)
{
    params.struct_size = sizeof params;
    params.ignore_end = true;
    CHECK_OK(vklm_session_set_ids(session, prompt + first, n, &error, NULL));
    CHECK_OK(vklm_session_generate(session, &params, &error));
}

static const vklm_sampling greedy = {.temperature = -1};

static void take_all(vklm_session *session, run_result *r)
{
    vklm_event event;
    while (vklm_session_next_event(session, &event)) run_take(r, session, &event);
}

static bool step(uint64_t budget_ns)
{
    const vklm_status status = vklm_model_step(model, budget_ns, &error);
    if (status == VKLM_NOTHING_TO_DO) return false;
    CHECK_OK(status);
    return true;
}

static void await(void)
{
    CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
}

/* ---- The same tokens ------------------------------------------------------------------------------------ */

/* Contexts on both sides of a split and of a page; both caches; drawn on the device and on the host. */
static const struct {
    vklm_kv_type kv;
    size_t first, n;
    vklm_generate_params params;
} cases[SESSIONS] = {
    {VKLM_KV_F16, 0, 1, {.max_tokens = 40, .sampling = {.temperature = -1}}},
    {VKLM_KV_F16, 1, 30, {.max_tokens = 9, .sampling = {.temperature = -1}}},
    {VKLM_KV_F16, 2, 250, {.max_tokens = 14, .sampling = {.temperature = -1}}},
    {VKLM_KV_F16, 3, 60, {.max_tokens = 11, .sampling = {.temperature = -1}}},
    {VKLM_KV_F32, 4, 25, {.max_tokens = 17, .sampling = {.temperature = -1}}},
    {VKLM_KV_F16, 5, 5, {.max_tokens = 3, .sampling = {.temperature = -1}}},
    {VKLM_KV_F16, 6, 120, {.max_tokens = 21, .sampling = {.temperature = -1}}},
    {VKLM_KV_F32, 7, 31, {.max_tokens = 6, .sampling = {.seed = 3}}},
    {VKLM_KV_F16, 8, 33, {.max_tokens = 8, .want_logits = true, .sampling = {.temperature = -1}}},
    {VKLM_KV_F16, 9, 62, {.max_tokens = 12, .sampling = {.temperature = -1}}},
    {VKLM_KV_F16, 10, 18, {.max_tokens = 15, .sampling = {.temperature = -1}}},
};

static void check_same(const run_result *a, const run_result *b, size_t i)
{
    ck_assert_int_eq(a->done.reason, VKLM_DONE_LENGTH);
    ck_assert_uint_eq(a->n_drawn, b->n_drawn);
    ck_assert_uint_eq(a->n_logits, b->n_logits);
    if (!test_results_count()) return;
    ck_assert_msg(memcmp(a->drawn, b->drawn, a->n_drawn * sizeof *a->drawn) == 0, "session %zu: other tokens", i);
    if (a->n_logits)
        ck_assert_mem_eq(a->logits, b->logits, a->n_logits * model->weights.hparams.n_vocab * sizeof *a->logits);
}

/* All of them together; each joins at a step of its own, and again once it has left, `rounds` times. */
static uint32_t run_together(const run_result *alone, uint64_t budget_ns, int rounds)
{
    vklm_session *sessions[SESSIONS] = {NULL};
    run_result *results = calloc(SESSIONS, sizeof *results);
    int left[SESSIONS], n_left = SESSIONS;
    uint32_t most = 0;
    for (size_t i = 0; i < SESSIONS; i++) left[i] = rounds;
    for (uint32_t n_steps = 0; n_left > 0; n_steps++) {
        for (size_t i = 0; i < SESSIONS; i++) {
            if (sessions[i]) take_all(sessions[i], &results[i]);
            if (sessions[i] && results[i].done.kind == VKLM_EVENT_DONE) {
                check_same(&results[i], &alone[i], i);
                run_free(&results[i]);
                vklm_session_destroy(&sessions[i]);
                n_left -= --left[i] == 0;
            } else if (!sessions[i] && left[i] > 0 && n_steps >= i * 2) {
                sessions[i] = make(cases[i].kv);
                arm(sessions[i], cases[i].first, cases[i].n, cases[i].params);
            }
        }
        if (step(budget_ns)) await();
        most = model->batch.n_rows > most ? model->batch.n_rows : most;
        ck_assert_uint_eq(model->pipelines.n_late, 0);
    }
    free(results);
    return most;
}

static const struct {
    const char *arch;
    vki_format format;
    bool precise;
} models[] = {{"llama", VKI_Q4_0, false}, {"qwen3", VKI_F16, true}, {"gemma3", VKI_Q6_K, false}};

START_TEST(together_each_gets_the_tokens_it_gets_alone)
{
    tiny_model m = tiny_model_of(models[_i].arch);
    tiny_model_set_formats(&m, models[_i].format);
    m.default_precision = !models[_i].precise;
    open_model(&m);
    ck_assert(model->rows_fit);
    run_result *alone = calloc(SESSIONS, sizeof *alone);
    for (size_t i = 0; i < SESSIONS; i++) {
        vklm_session *session = make(cases[i].kv);
        arm(session, cases[i].first, cases[i].n, cases[i].params);
        while (step(0)) {
            await();
            take_all(session, &alone[i]);
        }
        ck_assert_uint_le(model->batch.n_rows, 1);
        vklm_session_destroy(&session);
    }
    ck_assert_uint_ge(run_together(alone, 0, 2), 5);
    if (_i == 0) run_together(alone, 1, 1);
    for (size_t i = 0; i < SESSIONS; i++) run_free(&alone[i]);
    free(alone);
    close_model();
}
END_TEST

START_TEST(eight_go_together_and_more_take_turns)
{
    enum { N = 10, NEW = 40 };
    const tiny_model m = batch_model();
    vklm_session *sessions[N];
    run_result *results = calloc(N, sizeof *results);
    uint32_t most = 0, uneven = 0;
    open_model(&m);
    for (size_t i = 0; i < N; i++) {
        sessions[i] = make(VKLM_KV_F16);
        arm(sessions[i], i, 1, (vklm_generate_params){.max_tokens = NEW, .sampling = greedy});
    }
    while (step(0)) {
        uint32_t low = NEW, high = 0;
        await();
        for (size_t i = 0; i < N; i++) {
            take_all(sessions[i], &results[i]);
            const uint32_t n = (uint32_t)results[i].n_drawn;
            low = n < low ? n : low;
            high = n > high ? n : high;
        }
        uneven = high - low > uneven ? high - low : uneven;
        most = model->batch.n_rows > most ? model->batch.n_rows : most;
    }
    ck_assert_uint_eq(most, 8);
    ck_assert_uint_le(uneven, 2 * VKI_TURN_STEPS); /* nobody is left behind */
    for (size_t i = 0; i < N; i++) {
        ck_assert_uint_eq(results[i].n_drawn, NEW);
        run_free(&results[i]);
        vklm_session_destroy(&sessions[i]);
    }
    free(results);
    close_model();
}
END_TEST

/* ---- Turns of prompts and steps ----------------------------------------------------------------------------- */

START_TEST(a_long_prompt_and_the_others_steps_alternate)
{
    const tiny_model m = batch_model();
    vklm_session *talker, *reader;
    run_result *talks = calloc(2, sizeof *talks), *reads = talks + 1;
    uint32_t same = 0, longest = 0, n_slices = 0;
    open_model(&m);
    talker = make(VKLM_KV_F16);
    reader = make(VKLM_KV_F16);
    arm(talker, 0, 1, (vklm_generate_params){.sampling = greedy});
    while (talks->n_drawn < 3 && step(0)) take_all(talker, talks);
    arm(reader, 0, 300, (vklm_generate_params){.max_tokens = 1, .sampling = greedy});
    bool last = model->step_was_last;
    while (reads->n_drawn == 0) {
        const uint64_t before = model->queue.submitted;
        ck_assert(step(1)); /* a unit at a time */
        take_all(reader, reads);
        take_all(talker, talks);
        if (model->queue.submitted > before) {
            same = model->step_was_last == last ? same + 1 : 0;
            last = model->step_was_last;
            n_slices += !last;
            longest = same > longest ? same : longest;
        }
        await();
    }
    ck_assert_uint_ge(n_slices, 5 * 10); /* of five chunks */
    ck_assert_uint_le(longest, 1);       /* a step that is being composed anew misses a turn */
    vklm_session_destroy(&talker);
    vklm_session_destroy(&reader);
    free(talks);
    close_model();
}
END_TEST

START_TEST(a_cancelled_prompt_is_not_submitted_on_and_the_others_do_not_notice)
{
    const tiny_model m = batch_model();
    const vklm_generate_params params = {.max_tokens = 60, .sampling = greedy};
    run_result *alone = calloc(2, sizeof *alone), *talks = alone + 1;
    open_model(&m);
    vklm_session *talker = make(VKLM_KV_F16), *reader = make(VKLM_KV_F16);
    arm(talker, 0, 1, params);
    for (; step(0); take_all(talker, alone)) await();
    take_all(talker, alone);
    arm(talker, 0, 1, params);
    arm(reader, 0, 300, params);
    for (int i = 0; i < 9; i++) ck_assert(step(1)); /* a unit of the first chunk or two */
    ck_assert_int_eq(model->job.kind, VKI_JOB_CHUNK);
    const size_t submitted = model->job.next_unit;
    ck_assert_uint_gt(submitted, 0);
    vklm_session_cancel(reader);
    vklm_event event = {.kind = VKLM_EVENT_NONE};
    while (!vklm_session_next_event(reader, &event)) {
        ck_assert(step(1));
        ck_assert_uint_eq(model->job.next_unit, submitted);
    }
    ck_assert_int_eq(event.reason, VKLM_DONE_CANCELLED);
    while (step(0)) await();
    take_all(talker, talks);
    check_same(talks, alone, 0);
    vklm_session_destroy(&talker);
    vklm_session_destroy(&reader);
    free(alone);
    close_model();
}
END_TEST

/* ---- Budgets ---------------------------------------------------------------------------------------------------- */

static uint64_t n_submits, n_commands; /* commands: of the last submit */
static PFN_vkQueueSubmit driver_submit;

static VKAPI_ATTR VkResult VKAPI_CALL count_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos, VkFence fence)
{
    n_submits++;
    n_commands = infos->commandBufferCount;
    return driver_submit(queue, n, infos, fence);
}

/* From here on all work takes as much for its cost, whatever is measured. */
static void fix_costs(double ns_per_cost)
{
    for (int w = 0; w < VKI_WORK_KINDS; w++) model->queue.ns_per_cost[w] = ns_per_cost;
}

static void wait_for_all(void)
{
    bool done;
    CHECK_OK(vki_queue_wait(&model->queue, model->queue.submitted, UINT64_MAX, &error, &done));
}

static double expected_ns(void)
{
    double ns = 0;
    for (uint32_t i = 0; i < model->n_flights; i++) ns += model->flights[i].ns;
    return ns;
}

/* A step of decode takes 1000 ns here. */
static void check_budget(uint64_t budget_ns, const run_result *alone, double ns_per_cost, uint32_t steps_at_once)
{
    run_result *r = calloc(1, sizeof *r);
    vklm_session *session = make(VKLM_KV_F16);
    uint32_t most = 0, n_sliced = 0;
    arm(session, 0, 100, (vklm_generate_params){.max_tokens = 30, .sampling = greedy});
    while (r->done.kind == VKLM_EVENT_NONE) {
        const uint64_t before = n_submits;
        fix_costs(ns_per_cost);
        ck_assert(step(budget_ns));
        ck_assert_msg(expected_ns() <= (double)budget_ns * 1.001 || (n_submits == before + 1 && n_commands == 1),
                      "%.0f ns were submitted within %llu", expected_ns(), (unsigned long long)budget_ns);
        const uint32_t ahead = model->batch.steps_submitted - model->batch.steps_taken;
        most = ahead > most ? ahead : most;
        n_sliced += model->batch.next_unit > 0;
        wait_for_all();
        take_all(session, r);
    }
    ck_assert_uint_eq(most, steps_at_once);
    ck_assert((budget_ns < 1000) == (n_sliced > 0));
    check_same(r, alone, 0);
    vklm_session_destroy(&session);
    free(r);
}

START_TEST(a_budget_bounds_what_is_submitted_and_is_used_up)
{
    const tiny_model m = batch_model();
    run_result *alone = calloc(1, sizeof *alone);
    open_model(&m);
    vklm_session *session = make(VKLM_KV_F16);
    arm(session, 0, 100, (vklm_generate_params){.max_tokens = 30, .sampling = greedy});
    for (; step(0); take_all(session, alone)) await();
    take_all(session, alone);
    vklm_session_destroy(&session);
    uint64_t cost = 0;
    for (size_t f = 0; f < model->n_forms; f++) cost = vki_max(cost, model->forms[f].cost);
    driver_submit = device->fn.vkQueueSubmit;
    device->fn.vkQueueSubmit = count_submit;
    const double ns_per_cost = 1000.0 / (double)cost;
    check_budget(1, alone, ns_per_cost, 1);
    check_budget(100, alone, ns_per_cost, 1);
    check_budget(900, alone, ns_per_cost, 1);
    check_budget(1010, alone, ns_per_cost, 1);
    check_budget(3010, alone, ns_per_cost, 3);
    check_budget(1000000, alone, ns_per_cost, VKI_MOST_AHEAD);
    device->fn.vkQueueSubmit = driver_submit;
    free(alone);
    close_model();
}
END_TEST

START_TEST(without_a_measurement_no_submit_may_take_a_second)
{
    const tiny_model m = batch_model();
    open_model(&m);
    vklm_session *session = make(VKLM_KV_F16);
    driver_submit = device->fn.vkQueueSubmit;
    device->fn.vkQueueSubmit = count_submit;
    run_result *r = calloc(1, sizeof *r);
    for (int slow = 0; slow < 2; slow++) {
        n_submits = 0;
        arm(session, (size_t)slow, 1, (vklm_generate_params){.max_tokens = 1, .sampling = greedy});
        fix_costs(slow ? 1e4 : 0); /* the step is some ten MB: a guess of 10 ms; or 100 s */
        while (step(0)) {
            wait_for_all();
            if (slow) fix_costs(1e4);
        }
        ck_assert((n_submits > 1) == (slow == 1));
        take_all(session, r);
        ck_assert_uint_eq(r->n_drawn, 1);
        run_free(r);
    }
    device->fn.vkQueueSubmit = driver_submit;
    vklm_session_destroy(&session);
    free(r);
    close_model();
}
END_TEST

/* ---- Threads ------------------------------------------------------------------------------------------------------ */

typedef struct talker {
    vki_thread thread;
    vklm_session *session;
    run_result result;
    bool failed;
} talker;

static void talk(void *user)
{
    talker *t = user;
    vklm_error failure;
    vklm_event event = {.kind = VKLM_EVENT_NONE};
    while (event.kind != VKLM_EVENT_DONE && !t->failed) {
        t->failed = vklm_session_wait_event(t->session, &failure, &event) != VKLM_OK;
        if (!t->failed && event.kind == VKLM_EVENT_TOKEN) t->result.drawn[t->result.n_drawn++] = event.id;
        if (!t->failed && event.kind == VKLM_EVENT_LOGITS) t->result.n_logits += event.logits[0] == event.logits[0];
    }
    t->result.done = event;
}

START_TEST(threads_that_wait_for_their_sessions_share_batches)
{
    enum { N = 4 };
    const tiny_model m = batch_model();
    run_result *alone = calloc(1, sizeof *alone);
    talker *talkers = calloc(N, sizeof *talkers);
    open_model(&m);
    for (uint32_t i = 0; i < N; i++) {
        /* Two whose logits keep the others waiting until their own thread takes them. */
        const vklm_generate_params params = {.max_tokens = 40, .want_logits = i > 1, .sampling = greedy};
        talkers[i].session = make(VKLM_KV_F16);
        arm(talkers[i].session, 0, 1, params);
    }
    for (uint32_t i = 0; i < N; i++) {
        talkers[i].thread = (vki_thread){.main = talk, .user = &talkers[i]};
        ck_assert(vki_thread_start(&talkers[i].thread));
    }
    for (uint32_t i = 0; i < N; i++) vki_thread_join(&talkers[i].thread);
    for (uint32_t i = 0; i < N; i++) {
        const run_result *r = &talkers[i].result;
        ck_assert(!talkers[i].failed);
        ck_assert_int_eq(r->done.reason, VKLM_DONE_LENGTH);
        ck_assert_uint_eq(r->n_drawn, 40);
        ck_assert_uint_eq(r->n_logits, i > 1 ? 40 : 0);
        if (test_results_count())
            ck_assert_mem_eq(r->drawn, talkers[0].result.drawn, 40 * sizeof *r->drawn);
        vklm_session_destroy(&talkers[i].session);
    }
    bool shared = false;
    for (size_t f = 0; f < model->n_forms; f++) shared = shared || model->forms[f].rows > 1;
    ck_assert(shared);
    free(talkers);
    free(alone);
    close_model();
}
END_TEST

typedef struct counter {
    atomic_uint n_calls, n_tokens, n_done;
    vklm_session *sessions[2];
} counter;

static void take_on_worker(void *user)
{
    counter *c = user;
    vklm_event event;
    atomic_fetch_add(&c->n_calls, 1);
    for (int i = 0; i < 2; i++)
        while (vklm_session_next_event(c->sessions[i], &event)) {
            if (event.kind == VKLM_EVENT_TOKEN) atomic_fetch_add(&c->n_tokens, 1);
            if (event.kind == VKLM_EVENT_DONE) atomic_fetch_add(&c->n_done, 1);
        }
}

START_TEST(a_worker_steps_for_those_who_wait_and_those_who_are_called)
{
    const tiny_model m = batch_model();
    const vklm_generate_params params = {.max_tokens = 20, .sampling = greedy};
    const uint64_t budgets[] = {0, 50000000, 50000000}, intervals[] = {1000000, 1000000, 1};
    vklm_worker *worker, *other;
    counter c = {0};
    open_model(&m);
    for (int i = 0; i < 2; i++) c.sessions[i] = make(VKLM_KV_F16);
    for (size_t b = 0; b < 3; b++) {
        vklm_worker_params how = {.struct_size = sizeof how, .budget_ns = budgets[b], .interval_ns = intervals[b]};
        CHECK_OK(vklm_worker_create(model, &how, &error, &worker));
        CHECK_FAILS(vklm_worker_create(model, &how, &error, &other), VKLM_INVALID_ARGUMENT, "already");
        run_result *r = calloc(2, sizeof *r);
        for (int i = 0; i < 2; i++) arm(c.sessions[i], 0, (size_t)i * 99 + 1, params); /* it sleeps until then */
        for (int i = 0; i < 2; i++)
            while (r[i].done.kind == VKLM_EVENT_NONE) {
                vklm_event event;
                CHECK_OK(vklm_session_wait_event(c.sessions[i], &error, &event));
                run_take(&r[i], c.sessions[i], &event);
            }
        for (int i = 0; i < 2; i++) ck_assert_uint_eq(r[i].n_drawn, 20);
        free(r);
        vklm_worker_destroy(&worker);
        vklm_worker_destroy(&worker);
    }
    vklm_worker_params how = {.struct_size = sizeof how, .budget_ns = 1, .interval_ns = UINT64_MAX};
    vklm_event event;
    CHECK_OK(vklm_worker_create(model, &how, &error, &worker));
    arm(c.sessions[0], 0, 1, params); /* for which it takes a first step, and then waits for long */
    CHECK_OK(vklm_model_wait(model, 20000000, &error));
    vklm_worker_destroy(&worker);
    do CHECK_OK(vklm_session_wait_event(c.sessions[0], &error, &event));
    while (event.kind != VKLM_EVENT_DONE);
    how = (vklm_worker_params){.struct_size = sizeof how, .ready = take_on_worker, .user = &c};
    CHECK_OK(vklm_worker_create(model, &how, &error, &worker));
    for (int i = 0; i < 2; i++) arm(c.sessions[i], 0, (size_t)i * 99 + 1, params);
    while (atomic_load(&c.n_done) < 2) continue;
    ck_assert_uint_eq(atomic_load(&c.n_tokens), 40);
    ck_assert_uint_ge(atomic_load(&c.n_calls), 2);
    for (int i = 0; i < 2; i++) arm(c.sessions[i], 0, 3, (vklm_generate_params){.sampling = greedy});
    vklm_session_cancel(c.sessions[0]);
    while (atomic_load(&c.n_done) < 3) continue;
    vklm_worker_destroy(&worker); /* while the other generates */
    for (int i = 0; i < 2; i++) vklm_session_destroy(&c.sessions[i]);
    close_model();
}
END_TEST

/* ---- What comes back ---------------------------------------------------------------------------------------------- */

START_TEST(a_thousand_sessions_leave_nothing_behind)
{
    enum { AT_ONCE = 8, ROUNDS = 1000 / AT_ONCE, NEW = 10 };
    tiny_model m = batch_model();
    m.n_layer = 1;
    vklm_session *sessions[AT_ONCE];
    size_t host_first = 0;
    test_memory heap = {0};
    uint64_t device_first = 0;
    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params),
                                               .allocator = test_allocator(&heap)});
    model = tiny_load(device, &m);
    some_ids(23, 256, prompt, RUN_MAX_IDS);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            sessions[i] = make(VKLM_KV_F16);
            arm(sessions[i], i, 1 + (size_t)round % 3 * i, (vklm_generate_params){.max_tokens = NEW, .sampling = greedy});
        }
        while (step(0)) await();
        for (size_t i = 0; i < AT_ONCE; i++) {
            ck_assert_uint_eq(sessions[i]->n_drawn, NEW);
            vklm_session_destroy(&sessions[i]);
        }
        if (round == 8) { /* almost every form of a step that there will be has been recorded */
            host_first = heap.bytes;
            device_first = vklm_device_memory_used(device);
        }
        if (round > 8) ck_assert_uint_le(vklm_device_memory_used(device), device_first);
        if (round > 8 && round % 3 == 2) ck_assert_uint_le(heap.bytes, host_first + 16384);
    }
    close_model();
    ck_assert_uint_eq(heap.bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *c = add_case(suite, "batch", NULL, NULL);
    tcase_add_loop_test(c, together_each_gets_the_tokens_it_gets_alone, 0, sizeof models / sizeof *models);
    tcase_add_test(c, eight_go_together_and_more_take_turns);
    tcase_add_test(c, a_long_prompt_and_the_others_steps_alternate);
    tcase_add_test(c, a_cancelled_prompt_is_not_submitted_on_and_the_others_do_not_notice);
    tcase_add_test(c, a_budget_bounds_what_is_submitted_and_is_used_up);
    tcase_add_test(c, without_a_measurement_no_submit_may_take_a_second);
    tcase_add_test(c, threads_that_wait_for_their_sessions_share_batches);
    tcase_add_test(c, a_worker_steps_for_those_who_wait_and_those_who_are_called);
    tcase_add_test(c, a_thousand_sessions_leave_nothing_behind);
    return run_suite(suite);
}
