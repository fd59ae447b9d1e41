/* test_estimate.c - what a load is said to take is what it takes, to the byte; budgets of the embedder's and the
 * driver's hold exactly there, say what helps, and are recovered from.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "support/suite.h"
#include "support/temp.h"
#include "support/test_memory.h"
#include "support/tiny_session.h"

static vklm_device *device;
static vklm_error error;
static char path[TEMP_FOLDER_SIZE];

static void save(const tiny_model *m)
{
    temp_path(path, "estimate.gguf");
    gguf_writer *w = tiny_model_write(m);
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
}

/* A few MB of cache in a full context of 3 pages. */
static tiny_model estimate_model(void)
{
    tiny_model m = tiny_model_of("llama");
    m.context_length = 700;
    return m;
}

static void set_up(void)
{
    const tiny_model m = estimate_model();
    save(&m);
    device = test_device(NULL);
}

static void tear_down(void)
{
    if (device) ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
    remove(path);
}

static const vklm_model_params *from_path(void)
{
    static vklm_model_params params;
    params = (vklm_model_params){.struct_size = sizeof params, .path = path};
    return &params;
}

static vklm_estimate estimated(const vklm_session_params *session, uint32_t n)
{
    vklm_estimate e;
    const uint64_t used = vklm_device_memory_used(device);
    CHECK_OK(vklm_model_estimate(device, from_path(), session, n, &error, &e));
    ck_assert_uint_eq(vklm_device_memory_used(device), used);
    return e;
}

/* Takes what a full context takes. */
static void fill(vklm_session *session)
{
    CHECK_OK(vki_kv_reserve(&session->kv, session->context, &error));
}

/* Digests a prompt as long as the context. */
static void fill_really(vklm_session *session)
{
    static vklm_token ids[RUN_MAX_IDS];
    static run_result result;
    some_ids(3, 256, ids, session->context);
    CHECK_OK(vklm_session_set_ids(session, ids, session->context, &error, NULL));
    run_generate(session, (vklm_generate_params){.prompt_only = true}, &result);
    ck_assert_int_eq(result.done.reason, VKLM_DONE_PROMPT);
    run_free(&result);
}

/* ---- Estimates -------------------------------------------------------------------------------------------- */

static void check_exact(const vklm_session_params *params, uint32_t n)
{
    vklm_session *sessions[4];
    vklm_model *model;
    const vklm_estimate e = estimated(params, n);
    CHECK_OK(vklm_model_load(device, from_path(), &error, &model));
    ck_assert_uint_eq(vklm_device_memory_used(device), e.weight_bytes + e.buffer_bytes);
    ck_assert_uint_ge(e.load_bytes, e.weight_bytes + e.buffer_bytes);
    for (uint32_t i = 0; i < n; i++) sessions[i] = tiny_session(model, params);
    for (uint32_t i = 0; i < n; i++) {
        fill(sessions[i]);
        ck_assert_uint_eq(sessions[i]->context, e.context);
    }
    ck_assert_uint_eq(vklm_device_memory_used(device), e.total_bytes);
    ck_assert_uint_eq(e.total_bytes, e.weight_bytes + e.buffer_bytes + n * e.kv_bytes);
    ck_assert(e.fits);
    while (n > 0) vklm_session_destroy(&sessions[--n]);
    vklm_model_destroy(&model);
}

START_TEST(an_estimate_is_exact_for_every_architecture_and_format)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};
    static const vki_format formats[] = {VKI_F32, VKI_Q4_K, VKI_Q5_1, VKI_F16};
    for (size_t i = 0; i < 4; i++) {
        tiny_model m = tiny_model_of(archs[i]);
        tiny_model_set_formats(&m, formats[i]);
        m.formats.down = VKI_Q6_K;
        m.tied = i % 2;
        m.default_precision = true;
        m.n_vocab = 300 + 1000 * (uint32_t)i;
        m.context_length = 600;
        save(&m);
        if (i % 2) check_exact(NULL, 1);
        else check_exact(&(vklm_session_params){.struct_size = sizeof(vklm_session_params), .context = 300,
                                                .kv = VKLM_KV_F32}, 2);
    }
}
END_TEST

START_TEST(small_blocks_are_estimated_as_they_are_taken)
{
    vklm_device_destroy(&device);
    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params),
                                               .block_limit_bytes = 5 << 20});
    check_exact(NULL, 3);
}
END_TEST

START_TEST(without_a_device_an_estimate_is_about_the_same)
{
    vklm_estimate e;
    const vklm_estimate exact = estimated(NULL, 2);
    CHECK_OK(vklm_model_estimate(NULL, from_path(), NULL, 2, &error, &e));
    ck_assert_uint_le(e.total_bytes, exact.total_bytes + exact.total_bytes / 20);
    ck_assert_uint_ge(e.total_bytes, exact.total_bytes - exact.total_bytes / 20);
    ck_assert_uint_eq(e.kv_token_bytes, exact.kv_token_bytes);
    ck_assert_uint_eq(e.free_bytes, 0);
    ck_assert_uint_eq(e.largest_context, 700);
    ck_assert_uint_gt(e.load_bytes, e.weight_bytes + e.buffer_bytes); /* staged */
}
END_TEST

START_TEST(what_cannot_be_estimated_is_said)
{
    vklm_estimate e;
    const vklm_model_params none = {.struct_size = sizeof none, .path = "/nowhere/m.gguf"}, empty = {.struct_size = sizeof empty};
    const vklm_session_params long_one = {.struct_size = sizeof long_one, .context = 701};
    CHECK_FAILS(vklm_model_estimate(device, &none, NULL, 1, &error, &e), VKLM_IO_ERROR, "/nowhere/m.gguf");
    CHECK_FAILS(vklm_model_estimate(device, &empty, NULL, 1, &error, &e), VKLM_INVALID_ARGUMENT, "a path, or sources");
    CHECK_FAILS(vklm_model_estimate(NULL, from_path(), &long_one, 1, &error, &e), VKLM_INVALID_ARGUMENT, "701");
    ck_assert_uint_eq(e.total_bytes, 0);
    CHECK_FAILS(vklm_model_estimate(device, from_path(), NULL, 1, &error, NULL), VKLM_INVALID_ARGUMENT, "place");
    tiny_model m = estimate_model();
    m.omitted[0] = "blk.1.ffn_up.weight";
    save(&m);
    CHECK_FAILS(vklm_model_estimate(NULL, from_path(), NULL, 1, &error, &e), VKLM_BAD_FILE, "blk.1.ffn_up.weight");
}
END_TEST

static bool read_file(void *user, uint64_t offset, void *bytes, size_t n)
{
    FILE *file = fopen(path, "rb");
    const bool good = file && fseek(file, (long)offset, SEEK_SET) == 0 && fread(bytes, 1, n, file) == n;
    if (file) fclose(file);
    *(uint64_t *)user += n;
    return good;
}

START_TEST(a_load_keeps_to_the_host_memory_that_was_estimated)
{
    uint64_t n_read = 0;
    test_memory heap = {0};
    tiny_model m = tiny_model_of("llama");
    m.n_vocab = 25000; /* a head larger than a window */
    save(&m);
    vklm_device_destroy(&device);
    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params),
                                               .allocator = test_allocator(&heap)});
    for (int read = 0; read < 2; read++) {
        vklm_estimate e;
        vklm_model *model;
        vklm_model_params params = *from_path();
        FILE *file = fopen(path, "rb");
        fseek(file, 0, SEEK_END);
        const vklm_source source = {.struct_size = sizeof source, .kind = VKLM_SOURCE_READ, .read = read_file,
                                    .user = &n_read, .size = (uint64_t)ftell(file)};
        fclose(file);
        if (read) params.path = NULL, params.sources = &source;
        CHECK_OK(vklm_model_estimate(device, &params, NULL, 1, &error, &e));
        if (read) ck_assert_uint_le(n_read, 1 << 20); /* its header, no weights */
        const size_t before = heap.bytes;
        heap.most_bytes = heap.bytes;
        CHECK_OK(vklm_model_load(device, &params, &error, &model));
        ck_assert_msg(heap.most_bytes - before <= e.host_bytes, "%zu, not %llu", heap.most_bytes - before,
                      (unsigned long long)e.host_bytes);
        ck_assert_uint_lt(e.host_bytes, read ? 50 << 20 : 10 << 20);
        vklm_model_destroy(&model);
    }
    vklm_device_destroy(&device);
    ck_assert_uint_eq(heap.bytes, 0);
}
END_TEST

/* ---- The embedder's budget ----------------------------------------------------------------------------------- */

static void with_budget(uint64_t bytes)
{
    vklm_device_destroy(&device);
    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params), .memory_budget_bytes = bytes});
}

START_TEST(a_budget_of_what_is_needed_is_enough_and_a_byte_less_is_not)
{
    vklm_model *model;
    const vklm_estimate e = estimated(NULL, 2);
    const uint64_t total = e.total_bytes, load = e.load_bytes;
    vklm_model_params params = *from_path();
    params.expected = &(vklm_session_params){.struct_size = sizeof(vklm_session_params)};
    params.n_expected = 2;
    with_budget(total > load ? total : load);
    ck_assert(estimated(NULL, 2).fits);
    ck_assert_uint_eq(estimated(NULL, 2).largest_context, 700);
    CHECK_OK(vklm_model_load(device, &params, &error, &model));
    vklm_session *one = tiny_session(model, NULL), *two = tiny_session(model, NULL);
    fill_really(one);
    fill(two);
    ck_assert_uint_eq(vklm_device_memory_used(device), total);
    vklm_session_destroy(&one);
    vklm_session_destroy(&two);
    vklm_model_destroy(&model);
    if (load > total) return; /* then the staging buffer decides, which the next test is about */
    with_budget(total - 1);
    const vklm_estimate less = estimated(NULL, 2);
    ck_assert(!less.fits);
    ck_assert_uint_eq(less.largest_context, 512);
    CHECK_FAILS(vklm_model_load(device, &params, &error, &model), VKLM_OUT_OF_DEVICE_MEMORY,
                "it fits with a context of 512");
    ck_assert_ptr_nonnull(strstr(error.text, "2 sessions of 700 tokens"));
    ck_assert_ptr_nonnull(strstr(error.text, "memory_budget_bytes is"));
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
}
END_TEST

START_TEST(a_model_that_is_over_the_budget_is_refused_before_anything_is_allocated)
{
    vklm_model *model;
    const vklm_session_params page = {.struct_size = sizeof page, .context = 256};
    const vklm_estimate e = estimated(&page, 1);
    const uint64_t enough = e.total_bytes > e.load_bytes ? e.total_bytes : e.load_bytes;
    with_budget(enough - 1);
    CHECK_FAILS(vklm_model_load(device, from_path(), &error, &model), VKLM_OUT_OF_DEVICE_MEMORY, "smaller model");
    ck_assert_uint_eq(estimated(NULL, 1).largest_context, 0);
    with_budget(enough);
    CHECK_OK(vklm_model_load(device, from_path(), &error, &model));
    vklm_memory memory;
    vklm_device_get_memory(device, &memory);
    ck_assert_uint_eq(memory.budget_bytes, enough);
    ck_assert_uint_eq(memory.used_bytes, e.weight_bytes + e.buffer_bytes);
    vklm_model *second;
    CHECK_FAILS(vklm_model_load(device, from_path(), &error, &second), VKLM_OUT_OF_DEVICE_MEMORY, "are used");
    vklm_model_destroy(&model);
}
END_TEST

START_TEST(a_cache_that_is_over_the_budget_ends_the_generation_and_goes_on_later)
{
    const vklm_session_params page = {.struct_size = sizeof page, .context = 512};
    const vklm_estimate e = estimated(&page, 1);
    with_budget(e.total_bytes > e.load_bytes ? e.total_bytes : e.load_bytes);
    vklm_model *model;
    CHECK_OK(vklm_model_load(device, from_path(), &error, &model));
    static vklm_token ids[600];
    static run_result result;
    some_ids(3, 256, ids, 600);
    vklm_memory memory;
    vklm_session *session = tiny_session(model, NULL);
    CHECK_OK(vklm_session_set_ids(session, ids, 600, &error, NULL));
    uint64_t left; /* where staging made the budget larger, others fill it up */
    vki_buffer other = {0};
    vklm_device_get_memory(device, &memory);
    left = memory.budget_bytes - e.total_bytes;
    if (left > 0) CHECK_OK(vki_buffer_create(device, VKI_MEMORY_SHARED, left, "another", &error, &other));
    run_generate(session, (vklm_generate_params){.max_tokens = 3, .ignore_end = true}, &result);
    ck_assert_int_eq(result.done.reason, VKLM_DONE_ERROR);
    ck_assert_int_eq(result.done.status, VKLM_OUT_OF_DEVICE_MEMORY);
    ck_assert_msg(strstr(result.failure, "the KV cache") && strstr(result.failure, "memory_budget_bytes"), "%s",
                  result.failure);
    run_free(&result);
    CHECK_OK(vklm_session_set_ids(session, ids, 500, &error, NULL)); /* less of it works */
    run_generate(session, (vklm_generate_params){.max_tokens = 3, .ignore_end = true}, &result);
    if (test_results_count()) ck_assert_int_eq(result.done.reason, VKLM_DONE_LENGTH);
    run_free(&result);
    vklm_device_get_memory(device, &memory);
    ck_assert_uint_le(memory.used_bytes, memory.budget_bytes);
    vki_buffer_destroy(device, &other);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
}
END_TEST

/* ---- The driver's budget ------------------------------------------------------------------------------------- */

static PFN_vkGetPhysicalDeviceMemoryProperties2 driver_properties;
static uint64_t driver_left;

/* All local memory but driver_left bytes is in use by others. */
static VKAPI_ATTR void VKAPI_CALL busy_properties(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *properties)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *live = properties->pNext;
    if (driver_properties) driver_properties(physical, properties);
    for (uint32_t i = 0, first = 1; i < VK_MAX_MEMORY_HEAPS; i++) {
        if (!vki_heap_is_local(device, i)) continue;
        live->heapBudget[i] = 1000;
        live->heapUsage[i] = first ? 0 : 1000;
        if (first) live->heapBudget[i] = driver_left;
        first = 0;
    }
}

START_TEST(what_the_driver_has_no_room_for_is_refused)
{
    vklm_model *model;
    vklm_model_params params = *from_path();
    params.expected = &(vklm_session_params){.struct_size = sizeof(vklm_session_params), .context = 700};
    const vklm_estimate e = estimated(params.expected, 1);
    driver_properties = device->instance_fn.GetPhysicalDeviceMemoryProperties2;
    device->instance_fn.GetPhysicalDeviceMemoryProperties2 = busy_properties;
    device->has_memory_budget = true;
    driver_left = 64 << 20;
    vklm_memory memory;
    vklm_device_get_memory(device, &memory);
    ck_assert_uint_eq(memory.free_bytes, 64 << 20);
    ck_assert_uint_ge(memory.driver_budget_bytes, 64 << 20);
    driver_left = e.weight_bytes;
    ck_assert(!estimated(NULL, 1).fits);
    CHECK_FAILS(vklm_model_load(device, &params, &error, &model), VKLM_OUT_OF_DEVICE_MEMORY, "MiB free: free ");
    ck_assert_ptr_nonnull(strstr(error.text, device->info.name));
    driver_left = e.total_bytes + e.load_bytes;
    CHECK_OK(vklm_model_load(device, &params, &error, &model));
    vklm_model_destroy(&model);
}
END_TEST

START_TEST(memory_is_told_by_every_device)
{
    vklm_memory memory;
    vklm_device_get_memory(device, &memory);
    ck_assert_uint_eq(memory.used_bytes, 0);
    ck_assert_uint_eq(memory.budget_bytes, 0);
    ck_assert_uint_ge(memory.local_bytes, device->info.memory_bytes);
    ck_assert_uint_gt(memory.free_bytes, 0);
    ck_assert_uint_le(memory.free_bytes, memory.local_bytes);
    if (!device->has_memory_budget) ck_assert_uint_eq(memory.driver_budget_bytes, 0);
    vki_buffer buffer;
    CHECK_OK(vki_buffer_create(device, VKI_MEMORY_DEVICE, 3 << 20, "a buffer", &error, &buffer));
    vklm_device_get_memory(device, &memory);
    ck_assert_uint_ge(memory.local_used_bytes, 3 << 20);
    ck_assert_uint_eq(memory.local_used_bytes, memory.used_bytes);
    vki_buffer_destroy(device, &buffer);
    vklm_device_get_memory(device, &memory);
    ck_assert_uint_eq(memory.local_used_bytes, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        an_estimate_is_exact_for_every_architecture_and_format,
        small_blocks_are_estimated_as_they_are_taken,
        without_a_device_an_estimate_is_about_the_same,
        what_cannot_be_estimated_is_said,
        a_load_keeps_to_the_host_memory_that_was_estimated,
        a_budget_of_what_is_needed_is_enough_and_a_byte_less_is_not,
        a_model_that_is_over_the_budget_is_refused_before_anything_is_allocated,
        a_cache_that_is_over_the_budget_ends_the_generation_and_goes_on_later,
        what_the_driver_has_no_room_for_is_refused,
        memory_is_told_by_every_device,
    };
    return run_tests("estimate", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
