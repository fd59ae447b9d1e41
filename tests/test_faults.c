/* test_faults.c - what happens to models and sessions when something fails: wrong arguments, params of an
 * older header, no host memory at any allocation, no device memory, a lost device, a load that is cancelled.
 * Each is a status, nothing leaks, and where the world allows it the next try works.
 */
#include <check.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "support/driver_calls.h"
#include "support/suite.h"
#include "support/temp.h"
#include "support/test_memory.h"
#include "support/tiny_session.h"

enum { PROMPT = 20, NEW = 5 };

static vklm_device *device;
static vklm_model *model;
static vklm_session *session;
static vklm_error error;
static vklm_token prompt[RUN_MAX_IDS], expected[NEW];
static run_result result;
static test_memory heap;

static tiny_model fault_model(void)
{
    tiny_model m = tiny_small("llama");
    m.n_layer = 1;
    return m;
}

static void set_up(void)
{
    const tiny_model m = fault_model();
    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params),
                                               .allocator = test_allocator(&heap)});
    driver_reset();
    driver_wrap(device);
    model = tiny_load(device, &m);
    some_ids(23, 256, prompt, RUN_MAX_IDS);
    session = tiny_session(model, NULL);
    CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
    run_greedy(session, NEW, &result);
    memcpy(expected, result.drawn, sizeof expected);
    vklm_session_destroy(&session);
    session = tiny_session(model, NULL);
}

static void tear_down(void)
{
    heap.fail_at = 0;
    run_free(&result);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    ck_assert_int_eq(driver.alive, 0);
    driver_unwrap(device);
    vklm_device_destroy(&device);
    ck_assert_uint_eq(heap.n_live, 0);
}

static const vklm_generate_params greedy = {.struct_size = sizeof greedy, .ignore_end = true,
                                            .max_tokens = NEW, .sampling = {.temperature = -1}};

/* A fresh history and a generation that brings what it should. */
static void check_works(vklm_session *s)
{
    CHECK_OK(vklm_session_set_ids(s, prompt, PROMPT, &error, NULL));
    run_free(&result);
    run_greedy(s, NEW, &result);
    if (test_results_count()) ck_assert_mem_eq(result.drawn, expected, sizeof expected);
}

static vklm_event wait_done(vklm_session *s)
{
    vklm_event event = {0};
    run_free(&result);
    while (event.kind != VKLM_EVENT_DONE) {
        ck_assert_int_eq(vklm_session_wait_event(s, &error, &event), VKLM_OK);
        run_take(&result, s, &event);
    }
    return event;
}

/* The generation under way ends with this status, which *error has as well. */
static void check_ends_with(vklm_session *s, vklm_status status, const char *text)
{
    ck_assert_int_eq(wait_done(s).reason, VKLM_DONE_ERROR);
    ck_assert_int_eq(result.done.status, status);
    ck_assert_int_eq(error.status, status);
    ck_assert_str_eq(error.text, result.failure);
    ck_assert_msg(strstr(result.failure, text) != NULL, "no \"%s\" in: %s", text, result.failure);
}

/* ---- Arguments ------------------------------------------------------------------------------------------- */

START_TEST(null_arguments_are_refused_with_a_sentence)
{
    const vklm_model_params no_path = {.struct_size = sizeof no_path};
    const vklm_model_params path = {.struct_size = sizeof path, .path = "x.gguf"};
    const vklm_vocab_params no_file = {.struct_size = sizeof no_file};
    const vklm_message ask = {"user", "a"}, no_role = {NULL, "a"}, no_content = {"user", NULL};
    const vklm_vocab *vocab = vklm_model_vocab(model);
    vklm_model *m = model;
    vklm_session *s = session;
    vklm_vocab *v = NULL;
    vklm_event event;
    vklm_token ids[4];
    char text[4];
    size_t n;
#define REFUSED(call) CHECK_FAILS(call, VKLM_INVALID_ARGUMENT, " ")
    REFUSED(vklm_model_load(NULL, &path, &error, &m));
    ck_assert_ptr_null(m);
    REFUSED(vklm_model_load(device, NULL, &error, &m));
    REFUSED(vklm_model_load(device, &no_path, &error, &m));
    REFUSED(vklm_model_load(device, &path, &error, NULL));
    REFUSED(vklm_session_create(NULL, NULL, &error, &s));
    ck_assert_ptr_null(s);
    REFUSED(vklm_session_create(model, NULL, &error, NULL));
    REFUSED(vklm_session_set_ids(NULL, prompt, 1, &error, &n));
    REFUSED(vklm_session_set_ids(session, NULL, 1, &error, &n));
    REFUSED(vklm_session_append_ids(NULL, prompt, 1, &error));
    REFUSED(vklm_session_append_ids(session, NULL, 1, &error));
    REFUSED(vklm_session_set_chat(NULL, &ask, 1, &error, &n));
    REFUSED(vklm_session_set_chat(session, NULL, 1, &error, &n));
    REFUSED(vklm_session_set_chat(session, &no_role, 1, &error, &n));
    REFUSED(vklm_session_set_chat(session, &no_content, 1, &error, &n));
    REFUSED(vklm_session_generate(NULL, NULL, &error));
    REFUSED(vklm_session_wait_event(NULL, &error, &event));
    REFUSED(vklm_session_wait_event(session, &error, NULL));
    REFUSED(vklm_model_step(NULL, 0, &error));
    REFUSED(vklm_model_wait(NULL, 0, &error));
    REFUSED(vklm_vocab_open(NULL, &error, &v));
    REFUSED(vklm_vocab_open(&no_file, &error, &v));
    REFUSED(vklm_vocab_open(&no_file, &error, NULL));
    REFUSED(vklm_tokenize(NULL, "a", 1, 0, &error, ids, 4, &n));
    REFUSED(vklm_tokenize(vocab, NULL, 1, 0, &error, ids, 4, &n));
    REFUSED(vklm_tokenize(vocab, "a", 1, 0, &error, ids, 4, NULL));
    REFUSED(vklm_detokenize(NULL, prompt, 1, false, &error, text, 4, &n));
    REFUSED(vklm_detokenize(vocab, NULL, 1, false, &error, text, 4, &n));
    REFUSED(vklm_detokenize(vocab, prompt, 1, false, &error, text, 4, NULL));
    REFUSED(vklm_chat_tokenize(NULL, &ask, 1, &error, ids, 4, &n));
    REFUSED(vklm_chat_tokenize(vocab, NULL, 1, &error, ids, 4, &n));
    REFUSED(vklm_chat_tokenize(vocab, &ask, 1, &error, ids, 4, NULL));
#undef REFUSED
    ck_assert_int_eq(vklm_model_step(NULL, 0, NULL), VKLM_INVALID_ARGUMENT);
    vklm_model_destroy(NULL);
    vklm_session_destroy(NULL);
    vklm_vocab_destroy(NULL);
    check_works(session);
}
END_TEST

START_TEST(params_of_an_older_header_mean_the_defaults_for_what_they_lack)
{
    vklm_session *other;
    vklm_session_params s = {.struct_size = offsetof(vklm_session_params, kv), .context = 64, .kv = 77, .chunk = 9999};
    CHECK_OK(vklm_session_create(model, &s, &error, &other));
    ck_assert_int_eq(other->kv_type, VKLM_KV_F16);
    ck_assert_uint_eq(other->context, 64);
    s.struct_size = sizeof s.struct_size;
    vklm_session_destroy(&other);
    CHECK_OK(vklm_session_create(model, &s, &error, &other));
    ck_assert_uint_eq(other->context, 1024);
    vklm_session_destroy(&other);
    struct { vklm_session_params known; uint64_t more; } newer = {{.struct_size = sizeof newer, .context = 32}, ~0ull};
    CHECK_OK(vklm_session_create(model, &newer.known, &error, &other));
    ck_assert_uint_eq(other->context, 32);
    vklm_session_destroy(&other);

    vklm_generate_params g = greedy;
    g.struct_size = offsetof(vklm_generate_params, sampling);
    g.sampling.temperature = NAN; /* not read */
    g.max_tokens = 2;
    CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
    CHECK_OK(vklm_session_generate(session, &g, &error));
    ck_assert_float_eq(session->sampler.params.temperature, 0.8f);
    ck_assert_int_eq(wait_done(session).reason, VKLM_DONE_LENGTH);

    for (size_t size = 0; size < sizeof size; size += 7) { /* 0 and 7 */
        const vklm_model_params m = {.struct_size = size, .path = "x"};
        const vklm_vocab_params v = {.struct_size = size, .path = "x"};
        vklm_model *no_model = model;
        vklm_vocab *no_vocab;
        s.struct_size = g.struct_size = size;
        CHECK_FAILS(vklm_session_create(model, &s, &error, &other), VKLM_INVALID_ARGUMENT, "struct_size");
        CHECK_FAILS(vklm_session_generate(session, &g, &error), VKLM_INVALID_ARGUMENT, "struct_size");
        CHECK_FAILS(vklm_model_load(device, &m, &error, &no_model), VKLM_INVALID_ARGUMENT, "struct_size");
        CHECK_FAILS(vklm_vocab_open(&v, &error, &no_vocab), VKLM_INVALID_ARGUMENT, "struct_size");
        ck_assert(!other && !no_model && !no_vocab);
    }
    check_works(session);
}
END_TEST

/* ---- Host memory ------------------------------------------------------------------------------------------- */

/* Loads, runs a prompt in chunks with logits on the host, then greedily on the device. */
static vklm_status whole_life(const char *path)
{
    const vklm_model_params load = {.struct_size = sizeof load, .path = path};
    const vklm_session_params create = {.struct_size = sizeof create, .chunk = 16};
    vklm_model *m = NULL;
    vklm_session *s = NULL;
    vklm_event event = {0};
    vklm_status status = vklm_model_load(device, &load, &error, &m);
    if (status == VKLM_OK) status = vklm_session_create(m, &create, &error, &s);
    for (int device_draws = 0; device_draws < 2 && status == VKLM_OK; device_draws++) {
        vklm_generate_params params = greedy;
        params.want_logits = !device_draws;
        status = vklm_session_append_ids(s, prompt, PROMPT, &error);
        if (status == VKLM_OK) status = vklm_session_generate(s, &params, &error);
        for (event.kind = VKLM_EVENT_NONE; status == VKLM_OK && event.kind != VKLM_EVENT_DONE;)
            status = vklm_session_wait_event(s, &error, &event);
        if (status == VKLM_OK && event.reason == VKLM_DONE_ERROR) status = event.status;
    }
    vklm_session_destroy(&s);
    vklm_model_destroy(&m);
    return status;
}

/* Writes the model where it stays; the caller removes it. */
static void save_model(const tiny_model *m, char path[TEMP_FOLDER_SIZE])
{
    temp_path(path, "faults.gguf");
    gguf_writer *w = tiny_model_write(m);
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
}

START_TEST(any_allocation_may_fail_and_nothing_leaks)
{
    if (!test_results_count()) return; /* drivers without hardware run out of memory after 40 loads */
    const tiny_model m = fault_model();
    char path[TEMP_FOLDER_SIZE];
    save_model(&m, path);
    const size_t live_before = heap.n_live, calls_before = heap.n_calls;
    const uint64_t used_before = vklm_device_memory_used(device);
    CHECK_OK(whole_life(path));
    const size_t n = heap.n_calls - calls_before;
    size_t n_survived = 0;
    for (size_t k = 1; k <= n; k++) {
        heap.fail_at = heap.n_calls + k;
        const vklm_status status = whole_life(path);
        heap.fail_at = 0;
        n_survived += status == VKLM_OK; /* what makes regular expressions fast can be done without */
        if (status != VKLM_OK) ck_assert_msg(error.status == VKLM_OUT_OF_MEMORY, "%zu of %zu: %s", k, n, error.text);
        ck_assert_uint_eq(heap.n_live, live_before);
        ck_assert_uint_eq(vklm_device_memory_used(device), used_before);
    }
    ck_assert_uint_le(n_survived, n / 4);
    CHECK_OK(whole_life(path));
    remove(path);
}
END_TEST

/* The next try of the same session, model and device brings what it should. */
START_TEST(a_session_survives_any_failed_allocation)
{
    for (int form = 0; form < 3; form++) {
        const vklm_session_params create = {.struct_size = sizeof create, .kv = form == 2, .chunk = 6};
        vklm_generate_params params = greedy;
        params.want_logits = form == 1;
        for (size_t k = 1, failed = 1; failed; k++) {
            vklm_session_destroy(&session);
            vklm_status status = VKLM_OK;
            heap.fail_at = heap.n_calls + k;
            status = vklm_session_create(model, &create, &error, &session);
            if (status == VKLM_OK) status = vklm_session_set_ids(session, prompt, PROMPT, &error, NULL);
            if (status == VKLM_OK) status = vklm_session_generate(session, &params, &error);
            if (status == VKLM_OK && wait_done(session).reason == VKLM_DONE_ERROR) {
                status = result.done.status;
                size_t n_ids; /* the history is kept, and every token of it was told */
                ck_assert_mem_eq(vklm_session_ids(session, &n_ids), prompt, PROMPT * sizeof *prompt);
                ck_assert_uint_eq(n_ids, PROMPT + result.n_drawn);
            }
            failed = heap.fail_at <= heap.n_calls;
            heap.fail_at = 0;
            ck_assert_int_eq(status, failed ? VKLM_OUT_OF_MEMORY : VKLM_OK);
            if (!session) CHECK_OK(vklm_session_create(model, &create, &error, &session));
            check_works(session);
        }
    }
}
END_TEST

/* ---- Device memory and other failures of the driver ------------------------------------------------------------ */

START_TEST(without_device_memory_for_the_cache_the_session_waits_for_better_times)
{
    vklm_session *other = tiny_session(model, &(vklm_session_params){.kv = VKLM_KV_F32});
    vklm_session_destroy(&session);
    session = tiny_session(model, &(vklm_session_params){.keep_cache = true});
    check_works(session);
    CHECK_OK(vklm_session_set_ids(other, prompt, 300, &error, NULL));
    CHECK_OK(vklm_session_generate(other, &greedy, &error));
    driver_fail(DRIVER_MEMORY, 2, true, VK_ERROR_OUT_OF_DEVICE_MEMORY); /* one page is left of two */
    check_ends_with(other, VKLM_OUT_OF_DEVICE_MEMORY, "the KV cache");
    size_t n;
    ck_assert_mem_eq(vklm_session_ids(other, &n), prompt, 300 * sizeof *prompt);
    ck_assert_uint_eq(n, 300);
    check_works(session); /* of what there is already */
    check_works(other);
    driver_fail(0, 0, false, VK_SUCCESS);
    CHECK_OK(vklm_session_set_ids(other, prompt, 300, &error, NULL));
    run_free(&result);
    run_greedy(other, NEW, &result);
    vklm_session_destroy(&other);
}
END_TEST

START_TEST(a_load_without_device_memory_leaves_nothing)
{
    const tiny_model m = fault_model();
    const uint64_t used_before = vklm_device_memory_used(device);
    const size_t live_before = heap.n_live;
    vklm_status status = VKLM_OUT_OF_DEVICE_MEMORY;
    int calls = 0;
    for (; status != VKLM_OK; calls++) {
        vklm_model *other;
        driver_fail(DRIVER_MEMORY, calls + 1, true, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        status = tiny_try_load(device, &m, &error, &other);
        driver_fail(0, 0, false, VK_SUCCESS);
        if (status != VKLM_OK) ck_assert_int_eq(status, VKLM_OUT_OF_DEVICE_MEMORY);
        vklm_model_destroy(&other);
        ck_assert_uint_eq(vklm_device_memory_used(device), used_before);
        ck_assert_uint_eq(heap.n_live, live_before);
    }
    ck_assert_int_gt(calls, 3);
    check_works(session);
}
END_TEST

enum { ALL_CALLS = DRIVER_MAKE | DRIVER_SUBMIT | DRIVER_WAIT };

/* Has call number n fail, as on a machine with no memory left of one kind or the other. */
static vklm_status fail_call(int n)
{
    driver_fail(ALL_CALLS, n, false, n % 2 ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_ERROR_OUT_OF_DEVICE_MEMORY);
    return n % 2 ? VKLM_OUT_OF_MEMORY : VKLM_OUT_OF_DEVICE_MEMORY;
}

/* Whether the call that failed may be one that another heap makes good, or a wait for work that nobody wants. */
static bool has_second_chance(int n)
{
    const char *name = driver.names[n];
    return strncmp(name, "vkWait", 6) == 0 || (n % 2 == 0 && strcmp(name, "vkAllocateMemory") == 0);
}

/* Whether call n of a life is the first or the last of its name. */
static bool is_outermost(const char *const *names, int n, int total)
{
    bool before = false, after = false;
    for (int i = 1; i <= total; i++)
        if (names[i] == names[n]) *(i < n ? &before : &after) |= i != n;
    return !before || !after;
}

START_TEST(calls_of_the_driver_may_fail_in_a_models_life_and_nothing_leaks)
{
    static const char *names[sizeof driver.names / sizeof *driver.names];
    const tiny_model m = fault_model();
    char path[TEMP_FOLDER_SIZE];
    save_model(&m, path);
    const size_t live_before = heap.n_live;
    const int alive_before = driver.alive;
    const uint64_t used_before = vklm_device_memory_used(device);
    (void)fail_call(0);
    CHECK_OK(whole_life(path));
    const int total = driver.counted;
    ck_assert_int_gt(total, 40);
    memcpy(names, driver.names, sizeof names);
    for (int n = 1; n <= total; n++) {
        if (!is_outermost(names, n, total)) continue;
        const vklm_status wanted = fail_call(n), status = whole_life(path);
        if (status != VKLM_OK) ck_assert_msg(status == wanted, "%s (call %d): %s", driver.names[n], n, error.text);
        else ck_assert_msg(has_second_chance(n), "%s (call %d) failed and nobody cares", driver.names[n], n);
        ck_assert_int_eq(driver.alive, alive_before);
        ck_assert_uint_eq(heap.n_live, live_before);
        ck_assert_uint_eq(vklm_device_memory_used(device), used_before);
    }
    (void)fail_call(0);
    CHECK_OK(whole_life(path));
    check_works(session);
    remove(path);
}
END_TEST

START_TEST(a_session_survives_any_failed_call_of_the_driver)
{
    const vklm_session_params create = {.struct_size = sizeof create, .chunk = 6};
    for (int n = 1, failed = true; failed; n++) {
        vklm_session_destroy(&session);
        const vklm_status wanted = fail_call(n);
        vklm_status status = vklm_session_create(model, &create, &error, &session);
        if (status == VKLM_OK) status = vklm_session_set_ids(session, prompt, PROMPT, &error, NULL);
        if (status == VKLM_OK) status = vklm_session_generate(session, &greedy, &error);
        if (status == VKLM_OK && wait_done(session).reason == VKLM_DONE_ERROR) status = result.done.status;
        failed = driver.counted >= n;
        if (status != VKLM_OK) ck_assert_msg(status == wanted, "%s (call %d): %s", driver.names[n], n, error.text);
        else ck_assert_msg(!failed || has_second_chance(n), "%s (call %d) failed and nobody cares", driver.names[n], n);
        driver_fail(0, 0, false, VK_SUCCESS);
        if (!session) CHECK_OK(vklm_session_create(model, &create, &error, &session));
        check_works(session);
    }
}
END_TEST

static void put_bad_norm(gguf_writer *w, void *user)
{
    (void)user;
    float bad[64];
    for (size_t i = 0; i < 64; i++) bad[i] = NAN;
    gguf_put_tensor(w, "output_norm.weight", 0, 1, (uint64_t[]){64}, bad, sizeof bad);
}

START_TEST(logits_that_are_no_numbers_end_the_generation)
{
    if (!test_results_count()) return;
    tiny_model m = fault_model();
    m.omitted[0] = "output_norm.weight";
    m.extra = put_bad_norm;
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    model = tiny_load(device, &m);
    session = tiny_session(model, NULL);
    for (int device_draws = 0; device_draws < 2; device_draws++) {
        vklm_generate_params params = greedy;
        params.want_logits = !device_draws;
        CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
        CHECK_OK(vklm_session_generate(session, &params, &error));
        vklm_event event = {0};
        while (event.kind != VKLM_EVENT_DONE) CHECK_OK(vklm_session_wait_event(session, &error, &event));
        ck_assert_int_eq(event.reason, VKLM_DONE_ERROR);
        ck_assert_int_eq(event.status, VKLM_DRIVER_ERROR);
        ck_assert_ptr_nonnull(strstr(error.text, "not numbers"));
    }
}
END_TEST

/* ---- A lost device ------------------------------------------------------------------------------------------------ */

/* Two sessions generate when the device is lost: both hear of it, every call after says so, destroying works. */
static void check_lost(vklm_session *other)
{
    vklm_model *no_model = model;
    vklm_session *no_session = session;
    const tiny_model m = fault_model();
    check_ends_with(session, VKLM_DEVICE_LOST, "lost");
    check_ends_with(other, VKLM_DEVICE_LOST, "lost");
    ck_assert(device->lost);
    CHECK_OK(vklm_session_set_ids(session, prompt, 3, &error, NULL)); /* computes nothing */
    CHECK_OK(vklm_session_generate(session, &greedy, &error));
    check_ends_with(session, VKLM_DEVICE_LOST, "destroy it");
    CHECK_OK(vklm_session_generate(session, &greedy, &error));
    CHECK_FAILS(vklm_model_step(model, 0, &error), VKLM_DEVICE_LOST, "lost");
    CHECK_FAILS(vklm_session_create(model, NULL, &error, &no_session), VKLM_DEVICE_LOST, "lost");
    CHECK_FAILS(tiny_try_load(device, &m, &error, &no_model), VKLM_DEVICE_LOST, "lost");
    ck_assert_ptr_null(no_session);
}

START_TEST(a_lost_device_is_told_to_every_session_and_can_be_destroyed)
{
    static const struct { unsigned kind; int n; } ways[] = {
        {DRIVER_SUBMIT, 1}, {DRIVER_SUBMIT, 3}, {DRIVER_SUBMIT, 5}, {DRIVER_WAIT, 1}, {DRIVER_WAIT, 4}, {DRIVER_WAIT, 7},
    };
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        vklm_session *other = tiny_session(model, NULL);
        CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
        CHECK_OK(vklm_session_set_ids(other, prompt, PROMPT, &error, NULL));
        CHECK_OK(vklm_session_generate(session, &greedy, &error));
        CHECK_OK(vklm_session_generate(other, &greedy, &error));
        driver_fail(ways[w].kind, ways[w].n, true, VK_ERROR_DEVICE_LOST);
        check_lost(other);
        driver_fail(0, 0, false, VK_SUCCESS);
        device->fn.vkDeviceWaitIdle(device->device); /* lost in name only */
        vklm_session_destroy(&other);
        tear_down();
        set_up();
    }
}
END_TEST

/* ---- Loading -------------------------------------------------------------------------------------------------------- */

static int reports_left;
static double last_fraction;

static bool report(void *user, double fraction)
{
    ck_assert_ptr_eq(user, &reports_left);
    ck_assert_double_ge(fraction, last_fraction);
    ck_assert_double_le(fraction, 1);
    last_fraction = fraction;
    return reports_left-- > 0;
}

START_TEST(a_load_can_be_cancelled_at_every_report_and_leaves_nothing)
{
    const tiny_model m = fault_model();
    char path[TEMP_FOLDER_SIZE];
    save_model(&m, path);
    const vklm_model_params params = {.struct_size = sizeof params, .path = path, .progress = report,
                                      .progress_user = &reports_left};
    const uint64_t used_before = vklm_device_memory_used(device);
    const size_t live_before = heap.n_live;
    vklm_status status = VKLM_CANCELLED;
    int n = 0;
    for (; status != VKLM_OK; n++) {
        vklm_model *other;
        reports_left = n;
        last_fraction = 0;
        status = vklm_model_load(device, &params, &error, &other);
        if (status != VKLM_OK) ck_assert_int_eq(status, VKLM_CANCELLED);
        vklm_model_destroy(&other);
        ck_assert_uint_eq(vklm_device_memory_used(device), used_before);
        ck_assert_uint_eq(heap.n_live, live_before);
    }
    ck_assert_int_gt(n, 2);
    ck_assert_double_eq(last_fraction, 1);
    remove(path);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        null_arguments_are_refused_with_a_sentence,
        params_of_an_older_header_mean_the_defaults_for_what_they_lack,
        any_allocation_may_fail_and_nothing_leaks,
        a_session_survives_any_failed_allocation,
        without_device_memory_for_the_cache_the_session_waits_for_better_times,
        a_load_without_device_memory_leaves_nothing,
        calls_of_the_driver_may_fail_in_a_models_life_and_nothing_leaks,
        a_session_survives_any_failed_call_of_the_driver,
        logits_that_are_no_numbers_end_the_generation,
        a_lost_device_is_told_to_every_session_and_can_be_destroyed,
        a_load_can_be_cancelled_at_every_report_and_leaves_nothing,
    };
    return run_tests("faults", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
