/* test_session.c - sessions, sentence by sentence of vklm.h: history, the ends of a generation, events,
 * cancelling, destroying, and several sessions on one model. On a tiny model with a vocabulary of bytes.
 *
 * What a session generates greedily is compared with what the same ids bring in a session that is alone.
 */
#include <check.h>
#include <string.h>

#include "support/suite.h"
#include "support/tiny_session.h"
#include "text/vocab_types.h"

enum { PROMPT = 40, NEW = 16 };

static vklm_device *device;
static vklm_model *model;
static vklm_session *session;
static vklm_error error;
static run_result result;
static vklm_token prompt[RUN_MAX_IDS], expected[NEW]; /* what follows prompt[0 .. PROMPT) */
static uint32_t n_vocab;

static const vklm_generate_params greedy = {.struct_size = sizeof greedy, .ignore_end = true,
                                            .max_tokens = NEW, .sampling = {.temperature = -1}};

/* What follows n ids, in a session of its own. */
static void run_alone(const vklm_token *ids, size_t n, vklm_generate_params params, run_result *r)
{
    vklm_session *own = tiny_session(model, NULL);
    CHECK_OK(vklm_session_set_ids(own, ids, n, &error, NULL));
    run_generate(own, params, r);
    vklm_session_destroy(&own);
}

static void open_model(const vklm_device_params *params, const tiny_model *m)
{
    device = test_device(params);
    model = tiny_load(device, m);
    n_vocab = m->n_vocab;
    some_ids(11, 256, prompt, RUN_MAX_IDS);
}

static void set_up(void)
{
    tiny_model m = tiny_small("llama");
    open_model(NULL, &m);
    run_alone(prompt, PROMPT, greedy, &result);
    memcpy(expected, result.drawn, sizeof expected);
    run_free(&result);
    session = tiny_session(model, NULL);
}

static void tear_down(void)
{
    run_free(&result);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}

static void set_prompt(void)
{
    CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
}

static void check_ids(const vklm_token *ids, size_t n)
{
    size_t n_ids;
    const vklm_token *history = vklm_session_ids(session, &n_ids);
    ck_assert_uint_eq(n_ids, n);
    if (n) ck_assert_mem_eq(history, ids, n * sizeof *ids);
}

static void check_drawn(const run_result *r, size_t first, size_t n)
{
    ck_assert_uint_eq(r->n_drawn, n);
    if (n && test_results_count()) ck_assert_mem_eq(r->drawn, expected + first, n * sizeof *expected);
}

/* The session generates what it would have generated alone and at once. */
static void check_continues(size_t n_so_far)
{
    vklm_generate_params params = greedy;
    params.max_tokens = (uint32_t)(NEW - n_so_far);
    run_free(&result);
    run_generate(session, params, &result);
    ck_assert_int_eq(result.done.reason, VKLM_DONE_LENGTH);
    check_drawn(&result, n_so_far, NEW - n_so_far);
}

/* Takes events until one of this kind, which it returns. */
static vklm_event wait_for(vklm_event_kind kind)
{
    vklm_event event = {0};
    while (event.kind != kind) {
        CHECK_OK(vklm_session_wait_event(session, &error, &event));
        run_take(&result, session, &event);
    }
    return event;
}

static void generate(vklm_generate_params params)
{
    run_free(&result);
    CHECK_OK(vklm_session_generate(session, &params, &error));
}

/* ---- History ------------------------------------------------------------------------------------------- */

START_TEST(the_history_is_exactly_what_was_set_and_appended)
{
    size_t n_reused = 7;
    check_ids(NULL, 0);
    CHECK_OK(vklm_session_set_ids(session, prompt, 10, &error, &n_reused));
    ck_assert_uint_eq(n_reused, 0);
    check_ids(prompt, 10);
    CHECK_OK(vklm_session_append_ids(session, prompt + 10, 5, &error));
    CHECK_OK(vklm_session_append_ids(session, NULL, 0, &error));
    check_ids(prompt, 15);
    ck_assert_uint_eq(stats_of(session).context_used, 15);
    ck_assert_uint_eq(stats_of(session).context_size, 1024);
    ck_assert_uint_eq(stats_of(session).kv_bytes, 0); /* nothing is computed */
    CHECK_OK(vklm_session_set_ids(session, prompt + 3, 4, &error, &n_reused));
    check_ids(prompt + 3, 4);
    CHECK_OK(vklm_session_set_ids(session, NULL, 0, &error, &n_reused));
    check_ids(NULL, 0);
}
END_TEST

START_TEST(the_common_prefix_is_kept_and_only_the_rest_is_digested)
{
    size_t n_reused;
    vklm_token other[PROMPT];
    set_prompt();
    run_generate(session, greedy, &result);
    vklm_session_stats stats = stats_of(session);
    ck_assert_uint_eq(stats.n_prompt, PROMPT);
    ck_assert_uint_eq(stats.n_reused, 0);
    ck_assert_uint_eq(stats.n_generated, NEW);
    ck_assert_uint_gt(stats.kv_bytes, 0);

    memcpy(other, prompt, sizeof other);
    for (size_t same = PROMPT; same-- > 0; same -= same > 9 ? 9 : same) {
        other[same] ^= 1;
        CHECK_OK(vklm_session_set_ids(session, other, PROMPT, &error, &n_reused));
        ck_assert_uint_eq(n_reused, same);
        check_ids(other, PROMPT);
        run_result alone;
        run_free(&result);
        run_generate(session, greedy, &result);
        run_alone(other, PROMPT, greedy, &alone);
        ck_assert_mem_eq(result.drawn, alone.drawn, sizeof expected);
        stats = stats_of(session);
        ck_assert_uint_eq(stats.n_prompt, PROMPT - same);
        ck_assert_uint_eq(stats.n_reused, same);
        if (same == 0) break;
        other[same] = prompt[same];
    }
}
END_TEST

START_TEST(what_was_generated_is_reused_but_for_the_last_token)
{
    vklm_token history[PROMPT + NEW];
    size_t n_reused;
    set_prompt();
    run_generate(session, greedy, &result);
    memcpy(history, prompt, PROMPT * sizeof *history);
    memcpy(history + PROMPT, result.drawn, NEW * sizeof *history);
    check_ids(history, PROMPT + NEW);
    CHECK_OK(vklm_session_set_ids(session, history, PROMPT + NEW, &error, &n_reused));
    ck_assert_uint_eq(n_reused, PROMPT + NEW - 1); /* nothing has digested it yet */
    /* A prompt that is wholly in the cache: its last token is digested again, for the logits. */
    CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, &n_reused));
    ck_assert_uint_eq(n_reused, PROMPT);
    check_continues(0);
    ck_assert_uint_eq(stats_of(session).n_prompt, 1);
    ck_assert_uint_eq(stats_of(session).n_reused, PROMPT - 1);
}
END_TEST

START_TEST(the_history_itself_can_be_set_and_appended)
{
    size_t n;
    CHECK_OK(vklm_session_set_ids(session, prompt, 8, &error, NULL));
    CHECK_OK(vklm_session_append_ids(session, vklm_session_ids(session, &n), 8, &error)); /* it moves as it grows */
    const vklm_token *ids = vklm_session_ids(session, &n);
    ck_assert_uint_eq(n, 16);
    for (size_t i = 0; i < 16; i++) ck_assert_int_eq(ids[i], prompt[i % 8]);
    CHECK_OK(vklm_session_set_ids(session, ids + 3, 5, &error, NULL));
    ck_assert_mem_eq(vklm_session_ids(session, &n), prompt + 3, 5 * sizeof *prompt);
}
END_TEST

START_TEST(appended_ids_go_on_like_a_whole_prompt)
{
    for (size_t at = 0; at < PROMPT; at += 8) {
        CHECK_OK(vklm_session_append_ids(session, prompt + at, 8, &error));
        if (at + 8 < PROMPT) run_generate(session, (vklm_generate_params){.prompt_only = true}, &result);
        run_free(&result);
    }
    check_continues(0);
    ck_assert_uint_eq(stats_of(session).n_reused, PROMPT - 8);
}
END_TEST

START_TEST(ids_that_cannot_be_leave_the_session_as_before)
{
    vklm_session *small = tiny_session(model, &(vklm_session_params){.context = 50});
    size_t n_reused = 1;
    const vklm_token bad[] = {1, 2, -1}, high[] = {(vklm_token)n_vocab};
    vklm_session_destroy(&session);
    session = small;
    set_prompt();
    CHECK_FAILS(vklm_session_set_ids(session, prompt + 1, 51, &error, &n_reused), VKLM_CONTEXT_FULL, "51 tokens");
    ck_assert_uint_eq(n_reused, 0);
    CHECK_FAILS(vklm_session_append_ids(session, prompt, 11, &error), VKLM_CONTEXT_FULL, "context of 50");
    CHECK_FAILS(vklm_session_append_ids(session, prompt, SIZE_MAX, &error), VKLM_CONTEXT_FULL, "context of 50");
    CHECK_FAILS(vklm_session_set_ids(session, bad, 3, &error, NULL), VKLM_INVALID_ARGUMENT, "id -1 at 2");
    CHECK_FAILS(vklm_session_append_ids(session, high, 1, &error), VKLM_INVALID_ARGUMENT, "vocabulary of 272");
    CHECK_FAILS(vklm_session_set_ids(session, NULL, 3, &error, NULL), VKLM_INVALID_ARGUMENT, "no pointer");
    check_ids(prompt, PROMPT);
    vklm_generate_params params = greedy;
    params.max_tokens = 10;
    run_generate(session, params, &result);
    check_drawn(&result, 0, 10);
}
END_TEST

START_TEST(a_chat_is_its_tokens)
{
    const vklm_message messages[] = {{"user", "in the end"}, {"assistant", "a"}, {"user", "<|im_end|>"}};
    vklm_token ids[256];
    size_t n, n_reused;
    CHECK_OK(vklm_chat_tokenize(vklm_model_vocab(model), messages, 1, &error, ids, 256, &n));
    CHECK_OK(vklm_session_set_chat(session, messages, 1, &error, &n_reused));
    check_ids(ids, n);
    run_generate(session, greedy, &result);
    CHECK_OK(vklm_session_set_chat(session, messages, 3, &error, &n_reused));
    ck_assert_uint_eq(n_reused, n); /* all of the first question */
    const vklm_message unknown = {"nobody", "x"};
    CHECK_FAILS(vklm_session_set_chat(session, &unknown, 1, &error, &n_reused), VKLM_INVALID_ARGUMENT, "nobody");
    ck_assert_uint_eq(n_reused, 0);
}
END_TEST

/* ---- The ends of a generation ---------------------------------------------------------------------------- */

START_TEST(without_a_history_there_is_nothing_to_generate)
{
    vklm_event event;
    CHECK_FAILS(vklm_session_generate(session, NULL, &error), VKLM_INVALID_ARGUMENT, "empty");
    CHECK_FAILS(vklm_session_wait_event(session, &error, &event), VKLM_NOTHING_TO_DO, "not generating");
    CHECK_FAILS(vklm_model_step(model, 0, &error), VKLM_NOTHING_TO_DO, "no session");
    CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
    ck_assert(!vklm_session_next_event(session, &event));
    ck_assert_int_eq(event.kind, VKLM_EVENT_NONE);
}
END_TEST

START_TEST(max_tokens_are_drawn_and_another_generation_goes_on)
{
    vklm_generate_params params = greedy;
    set_prompt();
    for (uint32_t n = 1, so_far = 0; so_far < NEW; so_far += n, n = n * 2 < NEW - so_far ? n * 2 : NEW - so_far) {
        params.max_tokens = n;
        run_free(&result);
        run_generate(session, params, &result);
        ck_assert_int_eq(result.done.reason, VKLM_DONE_LENGTH);
        check_drawn(&result, so_far, n);
        ck_assert_uint_eq(stats_of(session).n_prompt, so_far ? 1 : PROMPT);
    }
}
END_TEST

START_TEST(the_contexts_end_is_an_end_and_everything_is_usable_after_it)
{
    vklm_generate_params params = greedy;
    for (int sampled = 0; sampled < 2; sampled++) {
        vklm_session_destroy(&session);
        session = tiny_session(model, &(vklm_session_params){.context = PROMPT + 5});
        set_prompt();
        params.max_tokens = 0;
        params.sampling.presence_penalty = sampled ? 1e-9f : 0; /* the host draws */
        run_free(&result);
        run_generate(session, params, &result);
        ck_assert_int_eq(result.done.reason, VKLM_DONE_CONTEXT_FULL);
        check_drawn(&result, 0, 5);
        ck_assert_uint_eq(stats_of(session).context_used, PROMPT + 5);
        run_free(&result);
        run_generate(session, params, &result); /* full already */
        ck_assert_int_eq(result.done.reason, VKLM_DONE_CONTEXT_FULL);
        ck_assert_uint_eq(result.n_drawn + result.n_progress, 0);
        CHECK_FAILS(vklm_session_append_ids(session, prompt, 1, &error), VKLM_CONTEXT_FULL, "larger context");
        run_generate(session, (vklm_generate_params){.prompt_only = true, .want_logits = true}, &result);
        ck_assert_int_eq(result.done.reason, VKLM_DONE_PROMPT); /* a full context can be digested */
        ck_assert_uint_eq(result.n_logits, 1);
        set_prompt();
        run_free(&result);
        run_generate(session, params, &result);
        check_drawn(&result, 0, 5);
    }
}
END_TEST

START_TEST(prompt_only_digests_and_draws_nothing)
{
    set_prompt();
    for (int i = 0; i < 2; i++) {
        run_free(&result);
        run_generate(session, (vklm_generate_params){.prompt_only = true, .max_tokens = 3}, &result);
        ck_assert_int_eq(result.done.reason, VKLM_DONE_PROMPT);
        ck_assert_uint_eq(result.n_drawn + result.n_logits, 0);
        ck_assert_uint_eq(stats_of(session).n_prompt, i ? 1 : PROMPT);
        ck_assert_uint_eq(stats_of(session).n_generated, 0);
        check_ids(prompt, PROMPT);
    }
    check_continues(0);
}
END_TEST

/* Where expected[] first holds what it does not hold earlier, from index `from` on. */
static size_t first_new(size_t from)
{
    for (size_t i = from, k; i < NEW; i++) {
        for (k = 0; expected[k] != expected[i]; k++) continue;
        if (k == i) return i;
    }
    ck_abort_msg("the tokens repeat too early");
    return 0;
}

START_TEST(an_end_token_is_in_the_history_and_not_in_the_text)
{
    if (!test_results_count()) return;
    const size_t at = first_new(3);
    const vklm_token end = expected[at];
    for (int device_draws = 0; device_draws < 2; device_draws++) {
        vklm_generate_params params = greedy;
        params.ignore_end = false;
        params.max_tokens = 0;
        params.want_logits = !device_draws;
        model->vocab->ends[end] = true;
        CHECK_OK(vklm_session_set_ids(session, NULL, 0, &error, NULL));
        CHECK_OK(vklm_session_append_ids(session, prompt, PROMPT, &error));
        generate(params);
        for (size_t i = 0; i < at; i++) wait_for(VKLM_EVENT_TOKEN);
        const size_t text_before = result.text_len;
        ck_assert_uint_eq(wait_for(VKLM_EVENT_TOKEN).text_len, 0);
        ck_assert_uint_eq(result.text_len, text_before);
        ck_assert_int_eq(wait_for(VKLM_EVENT_DONE).reason, VKLM_DONE_END);
        check_drawn(&result, 0, at + 1);
        size_t n_ids;
        ck_assert_int_eq(vklm_session_ids(session, &n_ids)[PROMPT + at], end);
        ck_assert_uint_eq(n_ids, PROMPT + at + 1);
        /* In the history it is a token like others; the step that was ahead of it has done no harm. */
        check_continues(at + 1);
        model->vocab->ends[end] = false;
    }
    model->vocab->ends[prompt[PROMPT - 1]] = true; /* of the prompt: no end */
    set_prompt();
    run_free(&result);
    vklm_generate_params one = greedy;
    one.max_tokens = 1;
    run_generate(session, one, &result);
    check_drawn(&result, 0, 1);
}
END_TEST

START_TEST(a_generating_session_refuses_other_work)
{
    const vklm_message ask = {"user", "a"};
    vklm_event event;
    set_prompt();
    generate(greedy);
    for (int i = 0; i < 3; i++) {
        CHECK_FAILS(vklm_session_set_ids(session, prompt, 1, &error, NULL), VKLM_INVALID_ARGUMENT, "generating");
        CHECK_FAILS(vklm_session_append_ids(session, prompt, 1, &error), VKLM_INVALID_ARGUMENT, "generating");
        CHECK_FAILS(vklm_session_set_chat(session, &ask, 1, &error, NULL), VKLM_INVALID_ARGUMENT, "generating");
        CHECK_FAILS(vklm_session_generate(session, &greedy, &error), VKLM_INVALID_ARGUMENT, "generating");
        CHECK_OK(vklm_session_wait_event(session, &error, &event));
        run_take(&result, session, &event);
    }
    wait_for(VKLM_EVENT_DONE);
    check_drawn(&result, 0, NEW);
    CHECK_FAILS(vklm_session_wait_event(session, &error, &event), VKLM_NOTHING_TO_DO, "no events left");
}
END_TEST

START_TEST(events_that_nobody_took_are_dropped_by_the_next_generation)
{
    set_prompt();
    generate(greedy);
    while (vklm_model_step(model, 0, &error) == VKLM_OK) CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
    set_prompt();
    check_continues(0); /* its first event is its own */
}
END_TEST

/* ---- Events ------------------------------------------------------------------------------------------------- */

START_TEST(logits_come_in_the_order_of_positions_and_before_the_token_they_bring)
{
    vklm_generate_params params = greedy;
    params.want_logits = true;
    vklm_session_destroy(&session);
    session = tiny_session(model, &(vklm_session_params){.chunk = 13});
    set_prompt();
    generate(params);
    while (result.n_drawn < NEW) {
        wait_for(VKLM_EVENT_TOKEN);
        ck_assert_uint_eq(result.n_logits, PROMPT - 1 + result.n_drawn);
        const float *row = result.logits + (size_t)(result.n_logits - 1) * n_vocab;
        uint32_t best = 0;
        for (uint32_t i = 1; i < n_vocab; i++)
            if (row[i] > row[best]) best = i;
        if (test_results_count()) ck_assert_int_eq(result.drawn[result.n_drawn - 1], (int)best);
    }
    ck_assert_uint_eq(result.first_logits, 0);
    ck_assert_uint_eq(result.n_progress, 4); /* chunks of 13, and a token's step */
    check_drawn(&result, 0, NEW);
}
END_TEST

/* Texts of events by the tokens' bytes, where characters are cut. */
static size_t texts_of(const char *bytes, size_t n, char *text)
{
    set_prompt();
    generate(greedy);
    for (size_t i = 0; i < n; i++)
        for (vklm_token id = 0; id < 256; id++) {
            char byte;
            size_t len;
            CHECK_OK(vklm_detokenize(model->vocab, &id, 1, true, &error, &byte, 1, &len));
            if (byte == bytes[i]) CHECK_OK(vki_session_accept(session, id, &error));
        }
    vki_session_finish(session, VKLM_DONE_LENGTH);
    wait_for(VKLM_EVENT_DONE);
    memcpy(text, result.text, result.text_len);
    text[result.text_len] = '\0';
    return result.text_len;
}

START_TEST(texts_never_cut_a_character)
{
    static const struct { const char *bytes, *text; } cases[] = {
        {"plain", "plain"},
        {"\xc3\xa9", "\xc3\xa9"},
        {"a\xe2\x82\xac z", "a\xe2\x82\xac z"},
        {"\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!"},
        {"\xf0\x9f\x98", "\xef\xbf\xbd"},               /* never whole: with DONE */
        {"x\xe2\x82", "x\xef\xbf\xbd"},
        {"\xe2\x82y", "\xef\xbf\xbdy"},                   /* broken off: at once */
        {"\xff\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
        {"\x80\xbf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
    };
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        texts_of(cases[i].bytes, strlen(cases[i].bytes), text);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

START_TEST(all_texts_together_are_the_text_of_the_tokens)
{
    char bytes[4096], text[4096];
    size_t len;
    vklm_generate_params params = greedy;
    params.max_tokens = 200;
    params.sampling = (vklm_sampling){.temperature = 5, .top_k = -1, .top_p = 1, .min_p = -1, .seed = 1};
    set_prompt();
    run_generate(session, params, &result);
    CHECK_OK(vklm_detokenize(model->vocab, result.drawn, result.n_drawn, false, &error, bytes, sizeof bytes, &len));
    vki_utf8_stream stream = {0};
    size_t text_len = vki_utf8_push(&stream, bytes, len, text);
    text_len += vki_utf8_flush(&stream, text + text_len);
    ck_assert_uint_eq(result.text_len, text_len);
    ck_assert_mem_eq(result.text, text, text_len);
}
END_TEST

/* ---- Cancelling -------------------------------------------------------------------------------------------------- */

START_TEST(cancelled_before_it_starts)
{
    set_prompt();
    vklm_session_cancel(session); /* of a session that is idle: nothing */
    generate(greedy);
    vklm_session_cancel(session);
    ck_assert_int_eq(wait_for(VKLM_EVENT_DONE).reason, VKLM_DONE_CANCELLED);
    ck_assert_uint_eq(result.n_drawn + result.n_progress, 0);
    ck_assert_uint_eq(model->queue.submitted, model->queue.finished);
    check_ids(prompt, PROMPT);
    check_continues(0);
}
END_TEST

/* Generates until a part of a chunk's units has been submitted. */
static void stop_in_a_chunk(void)
{
    CHECK_OK(vklm_session_set_ids(session, NULL, 0, &error, NULL));
    set_prompt();
    generate(greedy);
    CHECK_OK(vklm_model_step(model, 1, &error));
    ck_assert_int_eq(model->job.kind, VKI_JOB_CHUNK);
    ck_assert_uint_gt(model->job.in_flight, 0);
    ck_assert_uint_lt(model->job.next_unit, model->recording.n_units);
}

START_TEST(cancelled_in_the_middle_of_a_chunk)
{
    stop_in_a_chunk();
    const uint64_t submitted = model->queue.submitted;
    vklm_session_cancel(session);
    ck_assert_int_eq(wait_for(VKLM_EVENT_DONE).reason, VKLM_DONE_CANCELLED);
    ck_assert_uint_eq(model->queue.submitted, submitted);
    check_ids(prompt, PROMPT);
    check_continues(0);
}
END_TEST

START_TEST(cancelled_between_chunks_the_digested_part_stays)
{
    vklm_session_destroy(&session);
    session = tiny_session(model, &(vklm_session_params){.chunk = 8});
    set_prompt();
    generate(greedy);
    const vklm_event progress = wait_for(VKLM_EVENT_PROGRESS);
    ck_assert_uint_eq(progress.n_done, 8);
    ck_assert_uint_eq(progress.n_total, PROMPT);
    vklm_session_cancel(session);
    ck_assert_int_eq(wait_for(VKLM_EVENT_DONE).reason, VKLM_DONE_CANCELLED);
    check_continues(0);
    ck_assert_uint_ge(stats_of(session).n_reused, 8);
}
END_TEST

START_TEST(cancelled_between_tokens_the_history_keeps_them)
{
    for (int device_draws = 0; device_draws < 2; device_draws++) {
        vklm_generate_params params = greedy;
        params.want_logits = !device_draws;
        set_prompt();
        generate(params);
        for (int i = 0; i < 3; i++) wait_for(VKLM_EVENT_TOKEN);
        vklm_session_cancel(session);
        ck_assert_int_eq(wait_for(VKLM_EVENT_DONE).reason, VKLM_DONE_CANCELLED);
        ck_assert_uint_lt(result.n_drawn, NEW);
        check_drawn(&result, 0, result.n_drawn);
        ck_assert_uint_eq(stats_of(session).context_used, PROMPT + result.n_drawn);
        check_continues(result.n_drawn);
    }
}
END_TEST

/* ---- Destroying ---------------------------------------------------------------------------------------------------- */

/* After the session is gone another one works as ever, on the pages that the first gave back. */
static void destroy_and_go_on(void)
{
    vklm_session *next = tiny_session(model, NULL);
    vklm_session_destroy(&session);
    ck_assert_ptr_null(session);
    session = next;
    set_prompt();
    check_continues(0);
}

START_TEST(destroyed_in_the_middle_of_a_chunk)
{
    stop_in_a_chunk();
    destroy_and_go_on();
    stop_in_a_chunk();
    vklm_session_destroy(&session); /* and nobody goes on */
}
END_TEST

START_TEST(destroyed_in_the_middle_of_decoding)
{
    set_prompt();
    generate(greedy);
    for (int i = 0; i < 3; i++) wait_for(VKLM_EVENT_TOKEN);
    CHECK_OK(vklm_model_step(model, 0, &error));
    destroy_and_go_on();
}
END_TEST

START_TEST(destroyed_right_after_an_end_token)
{
    if (!test_results_count()) return;
    vklm_generate_params params = greedy;
    params.ignore_end = false;
    model->vocab->ends[expected[first_new(2)]] = true;
    set_prompt();
    generate(params);
    wait_for(VKLM_EVENT_DONE);
    ck_assert_int_eq(result.done.reason, VKLM_DONE_END);
    destroy_and_go_on(); /* a step that was ahead may still run */
}
END_TEST

START_TEST(device_memory_comes_back)
{
    const tiny_model m = tiny_small("llama");
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    model = tiny_load(device, &m);
    const uint64_t loaded = vklm_device_memory_used(device);
    uint64_t used = 0;
    session = tiny_session(model, NULL);
    for (int i = 0; i < 3; i++) {
        set_prompt();
        check_continues(0);
        ck_assert(i == 0 || vklm_device_memory_used(device) == used);
        used = vklm_device_memory_used(device);
        ck_assert_uint_gt(used, loaded);
        vklm_session_destroy(&session);
        session = tiny_session(model, NULL);
    }
    vklm_session_destroy(&session);
    vklm_session_destroy(&session);
    vklm_session_destroy(NULL);
    vklm_model_destroy(&model);
    vklm_model_destroy(NULL);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        the_history_is_exactly_what_was_set_and_appended,
        the_common_prefix_is_kept_and_only_the_rest_is_digested,
        what_was_generated_is_reused_but_for_the_last_token,
        the_history_itself_can_be_set_and_appended,
        appended_ids_go_on_like_a_whole_prompt,
        ids_that_cannot_be_leave_the_session_as_before,
        a_chat_is_its_tokens,
        without_a_history_there_is_nothing_to_generate,
        max_tokens_are_drawn_and_another_generation_goes_on,
        the_contexts_end_is_an_end_and_everything_is_usable_after_it,
        prompt_only_digests_and_draws_nothing,
        an_end_token_is_in_the_history_and_not_in_the_text,
        a_generating_session_refuses_other_work,
        events_that_nobody_took_are_dropped_by_the_next_generation,
        logits_come_in_the_order_of_positions_and_before_the_token_they_bring,
        texts_never_cut_a_character,
        all_texts_together_are_the_text_of_the_tokens,
        cancelled_before_it_starts,
        cancelled_in_the_middle_of_a_chunk,
        cancelled_between_chunks_the_digested_part_stays,
        cancelled_between_tokens_the_history_keeps_them,
        destroyed_in_the_middle_of_a_chunk,
        destroyed_in_the_middle_of_decoding,
        destroyed_right_after_an_end_token,
        device_memory_comes_back,
    };
    return run_tests("session", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
