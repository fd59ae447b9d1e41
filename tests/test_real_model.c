/* test_real_model.c - SmolLM2-135M-Instruct (Q4_1), whole: text in, text out, against golden
 * tokens.
 *
 * VKLM_TEST_MODEL names the file (samples/get-model.sh fetches it); without it the test is skipped.
 * The golden ids are llama.cpp 0.7.0's, from its CPU backend on the exact F32 expansion of the
 * file; on the file itself it draws the same. So that ties cannot part us, precision is high and KV
 * is f32.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/gpu.h"
#include "support/suite.h"
#include "vklm/vklm.h"

enum { SKIPPED = 77, N_GOLDEN = 24 };

static const vklm_token story[] = {6403, 1980, 253, 655}; /* "Once upon a time" */
static const vklm_token story_goes_on[N_GOLDEN] = {
    28,    260,   2240, 282,   23324, 27108, 436,  253, 15114, 39228, 28,   351,
    25854, 41658, 284,  14055, 9018,  30,    1249, 347, 260,   929,   3514, 411};
static const char question[] = "Explain in two sentences why the sky is blue.";
static const vklm_token asked[] = {1,    9690, 198,   2683, 359,   253, 5356, 5646,  11173, 3365,
                                   3511, 308,  34519, 28,   7018,  411, 407,  19712, 8182,  2,
                                   198,  1,    4093,  198,  36971, 281, 827,  8545,  1701,  260,
                                   6376, 314,  4461,  30,   2,     198, 1,    520,   9531,  198};
static const vklm_token answered[N_GOLDEN] = {504,  6376,  314,   4461,  975, 282, 253,  980,
                                              1217, 13739, 43464, 24484, 28,  837, 1420, 13242,
                                              5383, 6756,  282,   1512,  284, 314, 753,  6475};

static vklm_device *device;
static vklm_model *model;
static vklm_session *session;
static vklm_error error;

static void setup(void)
{
    device = test_device(NULL);
    const vklm_model_params load = {.struct_size = sizeof load,
                                    .path = getenv("VKLM_TEST_MODEL"),
                                    .precision = VKLM_PRECISION_HIGH};
    CHECK_OK(vklm_model_load(device, &load, &error, &model));
    const vklm_session_params params = {.struct_size = sizeof params, .kv = VKLM_KV_F32};
    CHECK_OK(vklm_session_create(model, &params, &error, &session));
}

static void teardown(void)
{
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    vklm_device_destroy(&device);
}

/* Generates n tokens greedily, checks their ids, and returns the text of the events in `text`. */
static void check_greedy(const vklm_token *ids, size_t n, char *text, size_t text_size)
{
    vklm_generate_params params = {.struct_size = sizeof params, .max_tokens = (uint32_t)n};
    params.sampling.temperature = -1;
    CHECK_OK(vklm_session_generate(session, &params, &error));
    size_t n_seen = 0, used = 0;
    for (vklm_event event = {0}; event.kind != VKLM_EVENT_DONE;) {
        CHECK_OK(vklm_session_wait_event(session, &error, &event));
        if (event.kind == VKLM_EVENT_DONE) ck_assert_int_eq(event.reason, VKLM_DONE_LENGTH);
        if (event.kind != VKLM_EVENT_TOKEN) continue;
        ck_assert_uint_lt(n_seen, n);
        ck_assert_msg(event.id == ids[n_seen], "token %zu is %d instead of %d", n_seen, event.id,
                      ids[n_seen]);
        n_seen++;
        ck_assert_uint_lt(used + event.text_len, text_size);
        memcpy(text + used, event.text, event.text_len);
        used += event.text_len;
    }
    text[used] = 0;
    ck_assert_uint_eq(n_seen, n);
}

START_TEST(a_text_goes_on_as_the_reference_says)
{
    vklm_token ids[8];
    size_t n = 0;
    CHECK_OK(vklm_tokenize(vklm_model_vocab(model), "Once upon a time", 16, VKLM_ADD_SPECIAL,
                           &error, ids, 8, &n));
    ck_assert_uint_eq(n, sizeof story / sizeof *story);
    ck_assert_mem_eq(ids, story, sizeof story);
    CHECK_OK(vklm_session_set_ids(session, ids, n, &error, NULL));
    char text[1024];
    check_greedy(story_goes_on, N_GOLDEN, text, sizeof text);
    ck_assert_msg(strncmp(text, ", the city of", 13) == 0, "\"%s\"", text);
}
END_TEST

START_TEST(a_question_is_answered_as_the_reference_says)
{
    const vklm_message ask = {"user", question};
    vklm_token ids[64];
    size_t n = 0, n_reused = 1;
    ck_assert_str_eq(vklm_chat_family(vklm_model_vocab(model)), "smollm");
    CHECK_OK(vklm_chat_tokenize(vklm_model_vocab(model), &ask, 1, &error, ids, 64, &n));
    ck_assert_uint_eq(n, sizeof asked / sizeof *asked);
    ck_assert_mem_eq(ids, asked, sizeof asked);
    CHECK_OK(vklm_session_set_chat(session, &ask, 1, &error, &n_reused));
    ck_assert_uint_eq(n_reused, 0);
    char text[1024];
    check_greedy(answered, N_GOLDEN, text, sizeof text);
    /* Asked again, the session has the prompt already, and says the same. */
    CHECK_OK(vklm_session_set_chat(session, &ask, 1, &error, &n_reused));
    ck_assert_uint_ge(n_reused, n - 1);
    char again[1024];
    check_greedy(answered, N_GOLDEN, again, sizeof again);
    ck_assert_str_eq(text, again);
}
END_TEST

/* ---- Where it comes from and what it takes ---------------------------------------------------------- */

static bool read_model(void *file, uint64_t offset, void *bytes, size_t n)
{
    return fseek(file, (long)offset, SEEK_SET) == 0 && fread(bytes, 1, n, file) == n;
}

/* The model of the fixture, read by calls in place of mapped. */
static void load_by_calls(const vklm_session_params *params)
{
    teardown();
    device = test_device(NULL);
    FILE *file = fopen(getenv("VKLM_TEST_MODEL"), "rb");
    ck_assert(file && fseek(file, 0, SEEK_END) == 0);
    const vklm_source source = {.struct_size = sizeof source, .kind = VKLM_SOURCE_READ, .name = "SmolLM2",
                                .size = (uint64_t)ftell(file), .read = read_model, .user = file};
    const vklm_model_params load = {.struct_size = sizeof load, .sources = &source, .precision = VKLM_PRECISION_HIGH};
    vklm_estimate estimate;
    CHECK_OK(vklm_model_estimate(device, &load, params, 1, &error, &estimate));
    CHECK_OK(vklm_model_load(device, &load, &error, &model));
    ck_assert_uint_eq(vklm_device_memory_used(device), estimate.weight_bytes + estimate.buffer_bytes);
    ck_assert(estimate.fits);
    ck_assert_uint_lt(estimate.host_bytes, 64 << 20);
    CHECK_OK(vklm_session_create(model, params, &error, &session));
    CHECK_OK(vklm_session_set_ids(session, story, sizeof story / sizeof *story, &error, NULL));
    char text[1024];
    check_greedy(story_goes_on, N_GOLDEN, text, sizeof text);
    vklm_token filler[512] = {1};
    CHECK_OK(vklm_session_set_ids(session, filler, 512, &error, NULL));
    const vklm_generate_params digest = {.struct_size = sizeof digest, .prompt_only = true};
    CHECK_OK(vklm_session_generate(session, &digest, &error));
    vklm_event event = {0};
    while (event.kind != VKLM_EVENT_DONE) CHECK_OK(vklm_session_wait_event(session, &error, &event));
    ck_assert_int_eq(event.reason, VKLM_DONE_PROMPT);
    ck_assert_uint_eq(vklm_device_memory_used(device), estimate.total_bytes);
    fclose(file);
}

START_TEST(read_by_calls_it_says_the_same_and_takes_what_was_estimated)
{
    load_by_calls(&(vklm_session_params){.struct_size = sizeof(vklm_session_params), .context = 512, .kv = VKLM_KV_F32});
}
END_TEST

int main(void)
{
    const char *path = getenv("VKLM_TEST_MODEL");
    if (!path || !*path) {
        puts("skipped: VKLM_TEST_MODEL names no model file; samples/get-model.sh fetches it");
        return SKIPPED;
    }
    const TTest *const tests[] = {
        a_text_goes_on_as_the_reference_says,
        a_question_is_answered_as_the_reference_says,
        read_by_calls_it_says_the_same_and_takes_what_was_estimated,
    };
    return run_tests("real model", setup, teardown, tests, sizeof tests / sizeof *tests);
}
