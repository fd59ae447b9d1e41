/* test_conversation.c - chats in a session: what of a growing or edited one is digested again, the turns appended to
 * it, and what happens where it, or a reply, outgrows the context. On a tiny model that speaks ChatML byte by byte.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"
#include "support/tiny_session.h"

enum { CONTEXT = 400, MOST = 64 };

static vklm_device *device;
static vklm_model *model;
static vklm_session *session;
static vklm_error error;
static run_result result;
static vklm_message chat[MOST];
static char texts[MOST][256];
static size_t n_chat;
static size_t n_asked;

static void set_up(void)
{
    const tiny_model m = tiny_small("llama");
    device = test_device(NULL);
    model = tiny_load(device, &m);
    n_chat = n_asked = 0;
}

static void tear_down(void)
{
    run_free(&result);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}

static void open_session(vklm_session_params params)
{
    vklm_session_destroy(&session);
    if (!params.context) params.context = CONTEXT;
    session = tiny_session(model, &params);
}

static void say(const char *role, const char *text)
{
    ck_assert_uint_lt(n_chat, MOST);
    snprintf(texts[n_chat], sizeof texts[n_chat], "%s", text);
    chat[n_chat] = (vklm_message){role, texts[n_chat]};
    n_chat++;
}

/* A system message and so many exchanges, then a question. */
static void say_much(size_t n)
{
    char text[64];
    say("system", "be brief");
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "question %zu of many", i);
        say("user", text);
        snprintf(text, sizeof text, "answer %zu", i);
        say("assistant", text);
    }
    say("user", "the last question");
}

static size_t tokenize(const vklm_message *messages, size_t n, vklm_token *ids)
{
    size_t n_ids;
    CHECK_OK(vklm_chat_tokenize(vklm_model_vocab(model), messages, n, &error, ids, RUN_MAX_IDS, &n_ids));
    return n_ids;
}

static size_t set_chat(void)
{
    size_t reused;
    CHECK_OK(vklm_session_set_chat(session, chat, n_chat, &error, &reused));
    return reused;
}

/* The history is what these messages are, and the session says so. */
static void check_history(const vklm_message *messages, size_t n)
{
    vklm_token ids[RUN_MAX_IDS];
    size_t n_own, n_own_ids;
    const size_t n_ids = tokenize(messages, n, ids);
    const vklm_message *own = vklm_session_chat(session, &n_own, &n_own_ids);
    ck_assert_uint_eq(n_own, n);
    ck_assert_uint_eq(n_own_ids, n_ids);
    ck_assert_uint_ge(session->n_ids, n_ids);
    ck_assert_mem_eq(session->ids, ids, n_ids * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(own[i].role, messages[i].role);
        ck_assert_str_eq(own[i].content, messages[i].content);
    }
}

static void run(uint32_t max_tokens, bool host_draws)
{
    run_free(&result);
    run_generate(session, (vklm_generate_params){.max_tokens = max_tokens, .ignore_end = true,
                                                 .sampling = {.temperature = -1, .presence_penalty = host_draws ? 1e-9f : 0}},
                 &result);
}

/* What was drawn since the history last changed is what its ids bring in a session of their own. */
static void check_tail(bool host_draws)
{
    const size_t n = result.n_drawn - result.drawn_before_drop;
    vklm_token drawn[RUN_MAX_IDS];
    if (!test_results_count()) return;
    memcpy(drawn, result.drawn + result.drawn_before_drop, n * sizeof *drawn);
    vklm_session *used = session;
    session = tiny_session(model, &(vklm_session_params){.no_sharing = true});
    CHECK_OK(vklm_session_set_ids(session, used->ids, used->n_ids - n, &error, NULL));
    run((uint32_t)n, host_draws);
    ck_assert_uint_eq(result.n_drawn, n);
    ck_assert_mem_eq(result.drawn, drawn, n * sizeof *drawn);
    vklm_session_destroy(&session);
    session = used;
}

/* ---- Growing and editing ------------------------------------------------------------------------------------- */

START_TEST(a_chat_that_grows_or_changes_is_digested_from_the_change_on)
{
    vklm_token before[RUN_MAX_IDS], after[RUN_MAX_IDS];
    open_session((vklm_session_params){.context = 1024});
    say_much(8);
    ck_assert_uint_eq(set_chat(), 0);
    run(1, false);
    size_t n = tokenize(chat, n_chat, before), n_after, common;
    say("assistant", "an answer");
    say("user", "one more");
    ck_assert_uint_ge(set_chat(), n);
    run(1, false);
    for (size_t edited = 1; edited < n_chat; edited += 5) {
        n = tokenize(chat, n_chat, before);
        texts[edited][3] ^= 1;
        n_after = tokenize(chat, n_chat, after);
        for (common = 0; common < n && before[common] == after[common];) common++;
        ck_assert_uint_eq(set_chat(), common);
        check_history(chat, n_chat);
        run(3, false);
        ck_assert_uint_eq(session->stats.n_reused, common);
        ck_assert_uint_eq(session->stats.n_prompt, n_after - common);
        check_tail(false);
    }
}
END_TEST

START_TEST(an_appended_turn_is_what_the_whole_chat_would_be)
{
    char reply[256];
    vklm_token whole[RUN_MAX_IDS];
    size_t n_own, reused, len;
    open_session((vklm_session_params){.context = 1024});
    say("system", "be brief");
    say("user", "a question");
    CHECK_OK(vklm_session_append_chat(session, chat, n_chat, &error, NULL)); /* the first turn, too */
    for (int turn = 0; turn < 3; turn++) {
        check_history(chat, n_chat);
        run(6, false);
        vklm_session_chat(session, &n_own, &reused);
        CHECK_OK(vklm_detokenize(model->vocab, session->ids + reused, session->n_ids - reused, false, &error, reply,
                                 sizeof reply, &len));
        reply[len] = '\0';
        say("assistant", reply);
        say("user", "and then?");
        CHECK_OK(vklm_session_append_chat(session, chat + n_chat - 1, 1, &error, &reused));
        const size_t n = tokenize(chat, n_chat, whole);
        ck_assert_uint_eq(session->n_ids, n);
        ck_assert_mem_eq(session->ids, whole, n * sizeof *whole);
        ck_assert_uint_gt(reused, 0);
    }
    CHECK_OK(vklm_session_set_ids(session, whole, 5, &error, NULL));
    vklm_session_chat(session, &n_own, NULL);
    ck_assert_uint_eq(n_own, 0);
    CHECK_FAILS(vklm_session_append_chat(session, chat, 1, &error, NULL), VKLM_INVALID_ARGUMENT, "no chat");
    CHECK_FAILS(vklm_session_append_chat(NULL, chat, 1, &error, NULL), VKLM_INVALID_ARGUMENT, "no session");
}
END_TEST

START_TEST(a_fork_takes_the_chat_along)
{
    vklm_session *fork;
    size_t n;
    open_session((vklm_session_params){.context = 1024});
    say("user", "a question");
    set_chat();
    run(4, false);
    CHECK_OK(vklm_session_fork(session, 5, &error, &fork)); /* not all of it: plain ids */
    vklm_session_chat(fork, &n, NULL);
    ck_assert_uint_eq(n, 0);
    vklm_session_destroy(&fork);
    CHECK_OK(vklm_session_fork(session, 0, &error, &fork));
    vklm_session_destroy(&session);
    session = fork;
    check_history(chat, n_chat);
    const vklm_message next = {"user", "another"};
    CHECK_OK(vklm_session_append_chat(session, &next, 1, &error, NULL));
    run(4, false);
    check_tail(false);
}
END_TEST

/* ---- Chats that do not fit -------------------------------------------------------------------------------------- */

START_TEST(without_a_policy_too_long_a_chat_is_refused)
{
    open_session((vklm_session_params){.context = 0});
    say("user", "short");
    set_chat();
    run(2, false);
    const size_t n_before = session->n_ids;
    n_chat = 0;
    say_much(12);
    CHECK_FAILS(vklm_session_set_chat(session, chat, n_chat, &error, NULL), VKLM_CONTEXT_FULL, "context of 400");
    ck_assert_uint_eq(session->n_ids, n_before);
    run(2, false);
    ck_assert_uint_eq(result.n_drawn, 2);
}
END_TEST

START_TEST(the_oldest_exchanges_go_and_no_more_before_it_is_full_again)
{
    vklm_message kept[MOST];
    vklm_token ids[RUN_MAX_IDS];
    size_t n_kept, n_drops = 0;
    open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_DROP});
    say("system", "be brief");
    for (size_t turn = 0; n_chat + 2 < MOST; turn++) {
        say("user", "a question of some length");
        const size_t n_all = tokenize(chat, n_chat, ids), reused = set_chat();
        const vklm_message *own = vklm_session_chat(session, &n_kept, NULL);
        memcpy(kept, own, n_kept * sizeof *kept);
        ck_assert_str_eq(kept[0].role, "system");
        ck_assert_str_eq(kept[1].role, "user");
        ck_assert_str_eq(kept[n_kept - 1].content, "a question of some length");
        ck_assert_uint_le(session->n_ids, CONTEXT - CONTEXT / 8);
        check_history(kept, n_kept);
        run(4, turn % 2);
        ck_assert_uint_eq(result.n_drops == 0, session->n_untold_tokens == 0 && result.n_messages_dropped == 0);
        if (result.n_drops) {
            n_drops++;
            ck_assert_uint_gt(result.n_messages_dropped, 2); /* half of the context is freed at once */
            ck_assert_uint_le(session->n_ids, CONTEXT / 2 + 4);
        } else if (turn > 0) {
            ck_assert_uint_gt(reused, 40); /* most of it: the chat has only grown */
        }
        ck_assert(n_all <= CONTEXT - CONTEXT / 8 || n_kept < n_chat);
        say("assistant", "an answer");
    }
    ck_assert_uint_ge(n_drops, 2);
    ck_assert_uint_le(n_drops, 10); /* of 30 turns */
}
END_TEST

START_TEST(what_no_policy_can_shorten_is_refused)
{
    char text[CONTEXT + 1] = {0};
    memset(text, 'x', CONTEXT);
    open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_DROP});
    const vklm_message huge[] = {{"user", "a"}, {"assistant", "b"}, {"user", text}};
    CHECK_FAILS(vklm_session_set_chat(session, huge, 3, &error, NULL), VKLM_CONTEXT_FULL, "shorten the messages");
    ck_assert_uint_eq(session->n_ids, 0);
    text[CONTEXT - 60] = '\0'; /* alone it fits, though not with the reserve */
    CHECK_OK(vklm_session_set_chat(session, huge, 3, &error, NULL));
    check_history(huge + 2, 1);
    run(3, false);
    ck_assert_uint_eq(result.n_drops, 1);
    ck_assert_uint_eq(result.n_messages_dropped, 2);
    check_tail(false);
}
END_TEST

static bool drop_second(void *user, vklm_overflow *what)
{
    ck_assert_ptr_eq(user, &n_asked);
    n_asked++;
    ck_assert_uint_gt(what->n_kept + what->n_behind, what->limit);
    if (what->n_messages == 0) {
        what->drop_behind = 100;
        return true;
    }
    for (size_t i = 0; i < what->n_messages; i++) ck_assert(!what->drop[i]);
    ck_assert_str_eq(what->messages[0].role, "system");
    what->drop[2] = true; /* the first answer; the last message stays in any case */
    what->drop[what->n_messages - 1] = true;
    what->drop_behind = what->n_messages < 5 ? 60 : 0;
    return what->n_messages > 3 || what->n_behind > 60;
}

START_TEST(a_callback_decides_what_goes)
{
    open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_CALLBACK, .overflow = drop_second,
                                       .overflow_user = &n_asked, .reserve = 100});
    say_much(8);
    set_chat();
    size_t n, n_ids;
    const vklm_message *own = vklm_session_chat(session, &n, &n_ids);
    ck_assert_uint_eq(n, n_chat - n_asked);
    ck_assert_str_eq(own[1].content, chat[1].content);
    ck_assert_str_eq(own[2].content, chat[2 + n_asked].content);
    ck_assert_str_eq(own[n - 1].content, "the last question");
    ck_assert_uint_le(n_ids, CONTEXT - 100);
    run(300, false);
    ck_assert_int_eq(result.done.reason, VKLM_DONE_LENGTH);
    ck_assert_uint_ge(result.n_drops, 2); /* set_chat's, and in the reply */
    check_tail(false);
    open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_CALLBACK, .overflow = drop_second,
                                       .overflow_user = &n_asked});
    vklm_token ids[RUN_MAX_IDS];
    some_ids(3, 256, ids, CONTEXT);
    CHECK_OK(vklm_session_set_ids(session, ids, CONTEXT - 10, &error, NULL));
    run(200, true);
    ck_assert_int_eq(result.done.reason, VKLM_DONE_LENGTH);
    check_tail(true);
}
END_TEST

START_TEST(what_was_dropped_of_a_chat_that_is_gone_is_not_told)
{
    const vklm_token id = 65;
    size_t size;
    open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_DROP});
    say_much(20);
    CHECK_OK(vklm_session_set_ids(session, &id, 1, &error, NULL));
    CHECK_FAILS(vklm_session_save(session, 0, &error, NULL, 0, &size), VKLM_BUFFER_TOO_SMALL, "");
    uint8_t *bytes = malloc(size);
    CHECK_OK(vklm_session_save(session, 0, &error, bytes, size, &size));
    for (int loads = 0; loads < 2; loads++) {
        set_chat();
        if (loads) CHECK_OK(vklm_session_load(session, bytes, size, &error, NULL));
        else CHECK_OK(vklm_session_set_ids(session, &id, 1, &error, NULL));
        run(1, false);
        ck_assert_uint_eq(result.n_drops, 0);
    }
    free(bytes);
}
END_TEST

/* ---- Replies that do not end ------------------------------------------------------------------------------------- */

START_TEST(a_generation_goes_on_over_the_contexts_end)
{
    vklm_message last;
    for (int host_draws = 0; host_draws < 2; host_draws++) {
        n_chat = 0;
        open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_DROP});
        say_much(6);
        set_chat();
        run(1000, host_draws);
        ck_assert_int_eq(result.done.reason, VKLM_DONE_LENGTH);
        ck_assert_uint_eq(result.n_drawn, 1000);
        ck_assert_uint_ge(result.n_drops, 4);
        size_t n;
        const vklm_message *own = vklm_session_chat(session, &n, NULL);
        ck_assert_uint_eq(n, 2); /* the rules, and the question that the reply is to */
        last = own[1];
        ck_assert_str_eq(own[0].content, "be brief");
        ck_assert_str_eq(last.content, "the last question");
        ck_assert_uint_eq(result.n_messages_dropped, n_chat - 2);
        ck_assert_uint_le(session->n_ids, CONTEXT);
        check_history((vklm_message[]){chat[0], chat[n_chat - 1]}, 2);
        check_tail(host_draws);
        const vklm_message next = {"user", "go on"};
        CHECK_OK(vklm_session_append_chat(session, &next, 1, &error, NULL));
        run(5, host_draws);
        ck_assert_uint_eq(result.n_drawn, 5);
        check_tail(host_draws);
    }
}
END_TEST

START_TEST(plain_ids_keep_their_first_and_lose_the_oldest_half_of_the_rest)
{
    enum { KEEP = 37 };
    vklm_token ids[RUN_MAX_IDS];
    some_ids(5, 256, ids, CONTEXT);
    for (int host_draws = 0; host_draws < 2; host_draws++) {
        open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_DROP, .n_keep = KEEP, .chunk = 50});
        CHECK_OK(vklm_session_set_ids(session, ids, CONTEXT, &error, NULL)); /* full from the start */
        run(700, host_draws);
        ck_assert_uint_eq(result.n_drawn, 700);
        ck_assert_uint_ge(result.n_drops, 4);
        ck_assert_mem_eq(session->ids, ids, KEEP * sizeof *ids);
        const size_t n = session->n_ids - KEEP;
        ck_assert_mem_eq(session->ids + KEEP, result.drawn + 700 - n, n * sizeof *ids);
        check_tail(host_draws);
    }
}
END_TEST

/* What is left then begins as what was there, and all of it is cached. */
START_TEST(a_reply_that_repeats_one_token_goes_on_over_the_contexts_end)
{
    enum { AGAIN = 65, NEW = 150 };
    const vklm_message question = {"user", "?"};
    const vklm_logit_bias bias = {AGAIN, 1e5f};
    const vklm_token first = AGAIN;
    for (int in_chat = 0; in_chat < 2; in_chat++) {
        open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_DROP, .context = 60});
        if (!in_chat) CHECK_OK(vklm_session_set_ids(session, &first, 1, &error, NULL));
        else CHECK_OK(vklm_session_set_chat(session, &question, 1, &error, NULL));
        run_free(&result);
        run_generate(session, (vklm_generate_params){.max_tokens = NEW, .bias = &bias, .n_bias = 1,
                                                     .sampling = {.temperature = -1}},
                     &result);
        ck_assert_int_eq(result.done.reason, VKLM_DONE_LENGTH);
        ck_assert_uint_ge(result.n_drops, 2);
        for (size_t i = 0; i < NEW && test_results_count(); i++) ck_assert_int_eq(result.drawn[i], AGAIN);
    }
}
END_TEST

START_TEST(others_do_not_notice_a_session_that_outgrows_its_context)
{
    vklm_token ids[RUN_MAX_IDS];
    run_result wanted, got = {0};
    some_ids(7, 256, ids, 100);
    const vklm_generate_params params = {.struct_size = sizeof params, .max_tokens = 400, .ignore_end = true,
                                         .sampling = {.temperature = -1}};
    vklm_session *other = tiny_session(model, &(vklm_session_params){.context = 1000});
    CHECK_OK(vklm_session_set_ids(other, ids, 20, &error, NULL));
    run_generate(other, params, &wanted);
    CHECK_OK(vklm_session_set_ids(other, ids, 20, &error, NULL));
    open_session((vklm_session_params){.on_overflow = VKLM_OVERFLOW_DROP, .context = 60});
    CHECK_OK(vklm_session_set_ids(session, ids + 10, 30, &error, NULL));
    CHECK_OK(vklm_session_generate(other, &params, &error));
    CHECK_OK(vklm_session_generate(session, &params, &error));
    run_free(&result);
    while (vklm_model_step(model, 0, &error) == VKLM_OK) {
        vklm_event event;
        CHECK_OK(vklm_model_wait(model, UINT64_MAX, &error));
        while (vklm_session_next_event(session, &event)) run_take(&result, session, &event);
        while (vklm_session_next_event(other, &event)) run_take(&got, other, &event);
    }
    for (vklm_event event; vklm_session_next_event(session, &event);) run_take(&result, session, &event);
    for (vklm_event event; vklm_session_next_event(other, &event);) run_take(&got, other, &event);
    ck_assert_uint_eq(result.n_drawn, 400);
    ck_assert_uint_ge(result.n_drops, 5);
    check_tail(false);
    if (test_results_count()) ck_assert_mem_eq(got.drawn, wanted.drawn, 400 * sizeof *ids);
    run_free(&wanted);
    run_free(&got);
    vklm_session_destroy(&other);
}
END_TEST

START_TEST(policies_are_checked)
{
    static const struct { vklm_session_params params; const char *text; } cases[] = {
        {{.on_overflow = 3}, "on_overflow is 3"},
        {{.on_overflow = VKLM_OVERFLOW_CALLBACK}, "callback"},
        {{.context = 50, .reserve = 50}, "reserve of 50"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vklm_session_params params = cases[i].params;
        params.struct_size = sizeof params;
        CHECK_FAILS(vklm_session_create(model, &params, &error, &session), VKLM_INVALID_ARGUMENT, cases[i].text);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_chat_that_grows_or_changes_is_digested_from_the_change_on,
        an_appended_turn_is_what_the_whole_chat_would_be,
        a_fork_takes_the_chat_along,
        without_a_policy_too_long_a_chat_is_refused,
        the_oldest_exchanges_go_and_no_more_before_it_is_full_again,
        what_no_policy_can_shorten_is_refused,
        a_callback_decides_what_goes,
        what_was_dropped_of_a_chat_that_is_gone_is_not_told,
        a_generation_goes_on_over_the_contexts_end,
        plain_ids_keep_their_first_and_lose_the_oldest_half_of_the_rest,
        a_reply_that_repeats_one_token_goes_on_over_the_contexts_end,
        others_do_not_notice_a_session_that_outgrows_its_context,
        policies_are_checked,
    };
    return run_tests("conversation", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
