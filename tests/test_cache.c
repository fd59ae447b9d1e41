/* test_cache.c - KV caches shared, copied, dropped and taken away: forks, sessions that begin alike, replies taken
 * back, and device memory that runs out.
 *
 * What a session generates greedily is compared with what its history brings in a session that is alone.
 */
#include <check.h>
#include <string.h>

#include "support/suite.h"
#include "support/test_memory.h"
#include "support/tiny_session.h"

enum { LONG = 600, NEW = 8, PAGE = VKI_KV_PAGE_KEYS };

static vklm_device *device;
static vklm_model *model;
static vklm_error error;
static test_memory heap;
static vklm_token ids[RUN_MAX_IDS], other_ids[RUN_MAX_IDS];

static const vklm_session_params alone = {.no_sharing = true};

static void load(const char *arch)
{
    const tiny_model m = tiny_small(arch);
    vklm_model_destroy(&model);
    model = tiny_load(device, &m);
}

static void set_up(void)
{
    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params),
                                               .allocator = test_allocator(&heap)});
    load("llama");
    some_ids(31, 256, ids, RUN_MAX_IDS);
    some_ids(37, 256, other_ids, RUN_MAX_IDS);
}

static void tear_down(void)
{
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}

static size_t set(vklm_session *s, const vklm_token *tokens, size_t n)
{
    size_t reused;
    CHECK_OK(vklm_session_set_ids(s, tokens, n, &error, &reused));
    return reused;
}

/* A session with the first n ids digested. */
static vklm_session *digested(const vklm_session_params *params, size_t n)
{
    run_result r;
    vklm_session *s = tiny_session(model, params);
    set(s, ids, n);
    run_generate(s, (vklm_generate_params){.prompt_only = true}, &r);
    run_free(&r);
    ck_assert_uint_eq(s->n_cached, n);
    return s;
}

/* The session goes on as its history does in a session of its own. */
static void check_goes_on(vklm_session *s)
{
    run_result got, wanted;
    vklm_session_params params = alone;
    params.kv = s->kv_type;
    vklm_session *fresh = tiny_session(model, &params);
    set(fresh, s->ids, s->n_ids);
    run_greedy(fresh, NEW, &wanted);
    run_greedy(s, NEW, &got);
    if (test_results_count()) ck_assert_mem_eq(got.drawn, wanted.drawn, NEW * sizeof *got.drawn);
    vklm_session_destroy(&fresh);
    run_free(&got);
    run_free(&wanted);
}

/* No page that two caches hold lies where one of them may write. */
static void check_pages(void)
{
    for (const vklm_session *s = model->sessions; s; s = s->next)
        for (uint32_t i = 0; i < s->kv.n_pages; i++) {
            uint32_t users = 0;
            for (const vklm_session *o = model->sessions; o; o = o->next)
                for (uint32_t k = 0; k < o->kv.n_pages; k++) users += o->kv.pages[k] == s->kv.pages[i];
            ck_assert_uint_eq(users, s->kv.pages[i]->users);
            if (users > 1) ck_assert_uint_le(i, s->kv.n_kept / PAGE);
        }
}

/* ---- Forks -------------------------------------------------------------------------------------------------- */

START_TEST(a_fork_shares_whole_pages_and_goes_on_like_a_fresh_session)
{
    static const char *const archs[] = {"llama", "gemma3"}; /* gemma3: layers that see a window alone */
    static const size_t lengths[] = {0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, LONG};
    for (int a = 0; a < 2; a++) {
        load(archs[a]);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            vklm_session *source = digested(&(vklm_session_params){.kv = i % 2}, LONG), *fork;
            const size_t n = lengths[i] ? lengths[i] : LONG;
            const uint64_t before = vklm_device_memory_used(device), page = source->kv.pool->page_bytes;
            CHECK_OK(vklm_session_fork(source, lengths[i], &error, &fork));
            ck_assert_uint_eq(fork->n_ids, n);
            ck_assert_mem_eq(fork->ids, ids, n * sizeof *ids);
            ck_assert_uint_eq(fork->n_cached, n);
            ck_assert_uint_eq(stats_of(fork).kv_shared_bytes, n / PAGE * page);
            ck_assert_uint_eq(stats_of(source).kv_shared_bytes, n / PAGE * page);
            ck_assert_uint_eq(stats_of(fork).kv_bytes, vki_kv_pages_of((uint32_t)n) * page);
            /* A table, and a page for the part that is copied: a MiB each, the least that is allocated. */
            ck_assert_uint_le(vklm_device_memory_used(device) - before, 2 << 20);
            check_pages();
            CHECK_OK(vklm_session_append_ids(fork, other_ids, 20, &error));
            check_goes_on(fork);
            check_pages();
            check_goes_on(source);
            if (i % 2) vklm_session_destroy(&source);
            else vklm_session_destroy(&fork);
            check_goes_on(i % 2 ? fork : source);
            vklm_session_destroy(&source);
            vklm_session_destroy(&fork);
        }
    }
}
END_TEST

START_TEST(nobody_writes_a_shared_page)
{
    vklm_token edited[LONG];
    vklm_session *source = digested(&alone, LONG), *fork, *third;
    CHECK_OK(vklm_session_fork(source, 0, &error, &fork));
    CHECK_OK(vklm_session_fork(fork, 2 * PAGE, &error, &third));
    check_goes_on(third); /* all is cached, so its last token is digested again, in a page of two others */
    check_pages();
    memcpy(edited, ids, sizeof edited);
    edited[300] ^= 1;
    ck_assert_uint_eq(set(source, edited, LONG), 300);
    ck_assert_ptr_eq(source->kv.pages[1], fork->kv.pages[1]); /* nothing is copied before it must */
    check_goes_on(source);
    ck_assert_ptr_eq(source->kv.pages[0], fork->kv.pages[0]);
    ck_assert_ptr_ne(source->kv.pages[1], fork->kv.pages[1]);
    check_pages();
    ck_assert_uint_eq(set(fork, ids, PAGE), PAGE);
    check_goes_on(fork);
    check_pages();
    set(third, ids, 2 * PAGE);
    check_goes_on(third);
    vklm_session_destroy(&source);
    vklm_session_destroy(&third);
    vklm_session_destroy(&fork);
}
END_TEST

START_TEST(a_generating_session_is_forked_as_far_as_it_has_come)
{
    for (int host_draws = 0; host_draws < 2; host_draws++) {
        vklm_session *source = tiny_session(model, &alone), *forks[NEW];
        run_result r = {0};
        size_t n = 0;
        set(source, ids, PAGE - 3); /* the page fills up meanwhile */
        const vklm_generate_params params = {.struct_size = sizeof params, .max_tokens = NEW, .ignore_end = true,
                                             .want_logits = host_draws, .sampling = {.temperature = -1}};
        CHECK_OK(vklm_session_generate(source, &params, &error));
        while (r.done.kind == VKLM_EVENT_NONE) {
            vklm_event event;
            CHECK_OK(vklm_session_wait_event(source, &error, &event));
            run_take(&r, source, &event);
            if (event.kind != VKLM_EVENT_TOKEN || n == NEW) continue;
            (void)vklm_model_step(model, 0, &error); /* more is in flight, unless it was the last */
            CHECK_OK(vklm_session_fork(source, 0, &error, &forks[n]));
            n++;
        }
        for (size_t i = 0; i < n; i++) {
            check_goes_on(forks[i]);
            vklm_session_destroy(&forks[i]);
        }
        ck_assert_uint_eq(r.n_drawn, NEW);
        check_goes_on(source);
        vklm_session_destroy(&source);
        run_free(&r);
    }
}
END_TEST

START_TEST(a_fork_that_cannot_be_leaves_nothing)
{
    vklm_session *source = digested(&alone, 300), *fork = source;
    CHECK_FAILS(vklm_session_fork(NULL, 0, &error, &fork), VKLM_INVALID_ARGUMENT, "needs a session");
    ck_assert_ptr_null(fork);
    CHECK_FAILS(vklm_session_fork(source, 0, &error, NULL), VKLM_INVALID_ARGUMENT, "place");
    CHECK_FAILS(vklm_session_fork(source, 301, &error, &fork), VKLM_INVALID_ARGUMENT, "301 tokens");
    vklm_status status = VKLM_OUT_OF_MEMORY;
    for (size_t k = 1; status != VKLM_OK; k++) {
        heap.fail_at = heap.n_calls + k;
        status = vklm_session_fork(source, 0, &error, &fork);
        heap.fail_at = 0;
        if (status != VKLM_OK) ck_assert_int_eq(status, VKLM_OUT_OF_MEMORY);
        check_pages();
    }
    vklm_session_destroy(&fork);
    CHECK_OK(vklm_session_fork(source, 0, &error, &fork));
    check_goes_on(source);
    check_goes_on(fork);
    vklm_session_destroy(&fork);
    vklm_session_destroy(&source);
}
END_TEST

/* ---- Sessions that begin alike ------------------------------------------------------------------------------- */

START_TEST(what_another_session_has_cached_is_shared)
{
    vklm_session *first = digested(NULL, 2 * PAGE + 40), *second = tiny_session(model, NULL);
    vklm_token own[LONG];
    memcpy(own, ids, sizeof own);
    own[PAGE + 100] ^= 1;
    ck_assert_uint_eq(set(second, own, LONG), PAGE + 100);
    check_pages();
    check_goes_on(second);
    ck_assert_uint_eq(stats_of(second).n_reused, PAGE + 100);
    ck_assert_uint_eq(stats_of(second).kv_shared_bytes, second->kv.pool->page_bytes);
    ck_assert_uint_eq(set(second, ids, LONG), 2 * PAGE + 40); /* a longer prefix than its own */
    check_goes_on(second);
    ck_assert_uint_eq(set(second, ids, 10), 10); /* too little to gain */
    check_goes_on(first);

    vklm_session *lone = tiny_session(model, &alone);
    ck_assert_uint_eq(set(lone, ids, LONG), 0);
    vklm_session *wide = tiny_session(model, &(vklm_session_params){.kv = VKLM_KV_F32});
    ck_assert_uint_eq(set(wide, ids, LONG), 0);
    check_goes_on(wide);
    vklm_session_destroy(&first);
    vklm_session_destroy(&second);
    vklm_session_destroy(&lone);
    vklm_session_destroy(&wide);
}
END_TEST

START_TEST(a_step_beyond_the_end_does_not_reach_pages_shared_after_it)
{
    vklm_session *first = digested(NULL, LONG), *second = tiny_session(model, NULL);
    run_result r;
    set(second, other_ids, PAGE + 5);
    run_greedy(second, NEW, &r); /* a step ahead may be in flight still */
    run_free(&r);
    ck_assert_uint_eq(set(second, ids, LONG), LONG);
    check_goes_on(first);
    set(second, ids, LONG);
    check_goes_on(second);
    vklm_session_destroy(&first);
    vklm_session_destroy(&second);
}
END_TEST

START_TEST(a_reply_that_is_written_anew_can_be_taken_back)
{
    enum { PROMPT = 300, REPLY = 40 };
    const vklm_generate_params anew = {.max_tokens = REPLY, .ignore_end = true, .sampling = {.seed = 3}};
    vklm_session *s = tiny_session(model, &(vklm_session_params){.keep_replaced = true, .no_sharing = true});
    vklm_token history[2][PROMPT + REPLY];
    run_result r;
    size_t n;
    set(s, ids, PROMPT);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(set(s, ids, PROMPT), i ? PROMPT : 0);
        if (i) run_generate(s, anew, &r);
        else run_greedy(s, REPLY, &r);
        run_free(&r);
        memcpy(history[i], vklm_session_ids(s, &n), sizeof history[i]);
    }
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(set(s, history[i % 2], PROMPT + REPLY), PROMPT + REPLY - 1);
        ck_assert_uint_gt(stats_of(s).kv_shared_bytes, 0);
        check_pages();
    }
    ck_assert_uint_eq(model->ready[0], 1); /* what is kept never generates, so nothing was compiled for several */
    set(s, history[0], PROMPT + REPLY);
    check_goes_on(s);
    set(s, history[1], PROMPT + REPLY);
    check_goes_on(s);
    ck_assert_uint_eq(set(s, other_ids, LONG), 0); /* another conversation: of the old one nothing is kept */
    check_goes_on(s);
    vklm_session_destroy(&s);
}
END_TEST

/* ---- Dropping ---------------------------------------------------------------------------------------------------- */

START_TEST(a_dropped_cache_is_memory_and_the_history_stays)
{
    vklm_session *s = tiny_session(model, &alone);
    const uint64_t empty = vklm_device_memory_used(device);
    vklm_session_destroy(&s);
    s = digested(&alone, LONG);
    ck_assert_uint_gt(vklm_device_memory_used(device), empty);
    CHECK_OK(vklm_session_drop_cache(s, &error));
    ck_assert_uint_eq(vklm_device_memory_used(device), empty);
    ck_assert_uint_eq(stats_of(s).kv_bytes, 0);
    ck_assert_uint_eq(stats_of(s).n_cache_lost, 1);
    ck_assert_uint_eq(stats_of(s).context_used, LONG);
    CHECK_OK(vklm_session_drop_cache(s, &error));
    ck_assert_uint_eq(stats_of(s).n_cache_lost, 1); /* there was none */
    check_goes_on(s);
    ck_assert_uint_eq(stats_of(s).n_prompt, LONG);
    CHECK_OK(vklm_session_generate(s, NULL, &error));
    CHECK_FAILS(vklm_session_drop_cache(s, &error), VKLM_INVALID_ARGUMENT, "generating");
    CHECK_FAILS(vklm_session_drop_cache(NULL, &error), VKLM_INVALID_ARGUMENT, "no session");
    vklm_session_destroy(&s);
}
END_TEST

static PFN_vkAllocateMemory allocate;
static int allocations_left;

static VKAPI_ATTR VkResult VKAPI_CALL scarce(VkDevice handle, const VkMemoryAllocateInfo *info,
                                             const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory)
{
    if (allocations_left == 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    allocations_left--;
    return allocate(handle, info, callbacks, memory);
}

static PFN_vkFreeMemory free_memory;

static VKAPI_ATTR void VKAPI_CALL freed(VkDevice handle, VkDeviceMemory memory, const VkAllocationCallbacks *callbacks)
{
    allocations_left += memory != VK_NULL_HANDLE;
    free_memory(handle, memory, callbacks);
}

static void hook(void)
{
    allocate = device->fn.vkAllocateMemory;
    free_memory = device->fn.vkFreeMemory;
    device->fn.vkAllocateMemory = scarce;
    device->fn.vkFreeMemory = freed;
    allocations_left = 0;
}

static void unhook(void)
{
    device->fn.vkAllocateMemory = allocate;
    device->fn.vkFreeMemory = free_memory;
}

/* Generates a little without the comparison, which would need memory. */
static vklm_done_reason generate(vklm_session *s)
{
    run_result r;
    run_generate(s, (vklm_generate_params){.max_tokens = 2, .ignore_end = true, .sampling = {.temperature = -1}}, &r);
    const vklm_done_reason reason = r.done.reason;
    run_free(&r);
    return reason;
}

START_TEST(without_memory_idle_caches_go_the_longest_unused_first)
{
    for (int kv = 0; kv < 2; kv++) { /* whose memory is of another type: it goes to the device and comes back */
        vklm_session *kept = digested(&(vklm_session_params){.no_sharing = true, .keep_cache = true}, 10);
        vklm_session *old = digested(&alone, PAGE), *newer = digested(&alone, LONG), *shared;
        CHECK_OK(vklm_session_fork(kept, 0, &error, &shared));
        vklm_session *s = tiny_session(model, &(vklm_session_params){.kv = kv, .no_sharing = true});
        set(s, other_ids, LONG);
        hook();
        CHECK_OK(vklm_session_generate(s, &(vklm_generate_params){.struct_size = sizeof(vklm_generate_params),
                                                                  .max_tokens = 2, .ignore_end = true,
                                                                  .sampling = {.temperature = -1}}, &error));
        run_result r = {0};
        while (r.done.kind == VKLM_EVENT_NONE) {
            vklm_event event;
            CHECK_OK(vklm_session_wait_event(s, &error, &event));
            run_take(&r, s, &event);
        }
        unhook();
        ck_assert_int_eq(r.done.reason, VKLM_DONE_LENGTH);
        run_free(&r);
        ck_assert_uint_eq(stats_of(old).n_cache_lost, 1);
        ck_assert_uint_eq(stats_of(newer).n_cache_lost, 1);
        ck_assert_uint_eq(stats_of(kept).n_cache_lost, 0);
        check_goes_on(s);
        check_goes_on(old);
        check_goes_on(newer);
        check_goes_on(kept);
        vklm_session_destroy(&s);
        vklm_session_destroy(&old);
        vklm_session_destroy(&newer);
        vklm_session_destroy(&kept);
        vklm_session_destroy(&shared);
    }
}
END_TEST

START_TEST(only_as_much_goes_as_must)
{
    vklm_session *old = digested(&alone, PAGE), *newer = digested(&alone, PAGE), *s = tiny_session(model, &alone);
    set(s, other_ids, PAGE - 10);
    hook();
    ck_assert_int_eq(generate(s), VKLM_DONE_LENGTH);
    ck_assert_uint_eq(stats_of(old).n_cache_lost, 1);
    ck_assert_uint_eq(stats_of(newer).n_cache_lost, 0);
    unhook();
    vklm_session_destroy(&s);
    vklm_session_destroy(&old);
    vklm_session_destroy(&newer);
}
END_TEST

START_TEST(where_nothing_can_go_the_refusal_says_what_would_help)
{
    vklm_session *kept = digested(&(vklm_session_params){.keep_cache = true}, PAGE), *s = tiny_session(model, &alone);
    vklm_event event = {0};
    set(s, other_ids, LONG);
    hook();
    CHECK_OK(vklm_session_generate(s, NULL, &error));
    while (event.kind != VKLM_EVENT_DONE) CHECK_OK(vklm_session_wait_event(s, &error, &event));
    ck_assert_int_eq(event.reason, VKLM_DONE_ERROR);
    ck_assert_int_eq(error.status, VKLM_OUT_OF_DEVICE_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.text, " tokens need "));
    ck_assert_ptr_nonnull(strstr(error.text, "vklm_session_drop_cache"));
    CHECK_OK(vklm_session_drop_cache(kept, &error));
    set(s, other_ids, PAGE - 10); /* shortened, and with what was dropped, it fits */
    ck_assert_int_eq(generate(s), VKLM_DONE_LENGTH);
    unhook();
    check_goes_on(s);
    vklm_session_destroy(&s);
    vklm_session_destroy(&kept);
}
END_TEST

START_TEST(a_budget_makes_idle_caches_go_like_a_full_device)
{
    vklm_session *old = digested(&alone, 2 * PAGE), *s = tiny_session(model, &alone);
    set(s, other_ids, LONG);
    device->memory_budget = vklm_device_memory_used(device) + (1 << 20); /* a page, of three */
    ck_assert_int_eq(generate(s), VKLM_DONE_LENGTH);
    ck_assert_uint_eq(stats_of(old).n_cache_lost, 1);
    ck_assert_uint_le(vklm_device_memory_used(device), device->memory_budget);
    vklm_session_destroy(&old);
    device->memory_budget = 0;
    check_goes_on(s);
    vklm_session_destroy(&s);
}
END_TEST

/* ---- Host memory ---------------------------------------------------------------------------------------------------- */

/* A chat that does not fit, a reply over the context's end, another turn, and to bytes and back. */
static vklm_status converse(vklm_session *s)
{
    static const vklm_message chat[] = {{"system", "be brief"}, {"user", "one question"}, {"assistant", "an answer"},
                                        {"user", "another"}, {"assistant", "and that"}, {"user", "the last"}};
    static uint8_t bytes[1 << 20];
    const vklm_generate_params go = {.struct_size = sizeof go, .max_tokens = 50, .ignore_end = true,
                                     .sampling = {.temperature = -1}};
    size_t size;
    vklm_event event = {0};
    vklm_status status = vklm_session_set_chat(s, chat, 6, &error, NULL);
    if (status == VKLM_OK) status = vklm_session_generate(s, &go, &error);
    while (status == VKLM_OK && event.kind != VKLM_EVENT_DONE) status = vklm_session_wait_event(s, &error, &event);
    if (status == VKLM_OK && event.reason == VKLM_DONE_ERROR) status = event.status;
    if (status == VKLM_OK) status = vklm_session_append_chat(s, chat + 5, 1, &error, NULL);
    if (status == VKLM_OK) status = vklm_session_save(s, VKLM_SAVE_CACHE, &error, bytes, sizeof bytes, &size);
    if (status == VKLM_OK) status = vklm_session_load(s, bytes, size, &error, NULL);
    return status;
}

START_TEST(a_conversation_survives_any_failed_allocation)
{
    for (size_t k = 1, failed = 1; failed; k += 1 + k / 8) {
        vklm_session *s = tiny_session(model, &(vklm_session_params){.context = 120, .keep_replaced = true,
                                                                     .on_overflow = VKLM_OVERFLOW_DROP});
        heap.fail_at = heap.n_calls + k;
        const vklm_status status = converse(s);
        failed = heap.fail_at <= heap.n_calls;
        heap.fail_at = 0;
        ck_assert_msg(status == VKLM_OK || (failed && status == VKLM_OUT_OF_MEMORY), "%zu: %s", k, error.text);
        check_pages();
        CHECK_OK(converse(s));
        if (s->n_ids) check_goes_on(s);
        vklm_session_destroy(&s);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_fork_shares_whole_pages_and_goes_on_like_a_fresh_session,
        nobody_writes_a_shared_page,
        a_generating_session_is_forked_as_far_as_it_has_come,
        a_fork_that_cannot_be_leaves_nothing,
        what_another_session_has_cached_is_shared,
        a_step_beyond_the_end_does_not_reach_pages_shared_after_it,
        a_reply_that_is_written_anew_can_be_taken_back,
        a_dropped_cache_is_memory_and_the_history_stays,
        without_memory_idle_caches_go_the_longest_unused_first,
        only_as_much_goes_as_must,
        where_nothing_can_go_the_refusal_says_what_would_help,
        a_budget_makes_idle_caches_go_like_a_full_device,
        a_conversation_survives_any_failed_allocation,
    };
    return run_tests("cache", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
