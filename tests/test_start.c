/* test_start.c - what a load does at once: jobs on threads, pipelines made together and never later, their failures,
 * and the cache of what the driver compiled.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"
#include "support/temp.h"
#include "support/tiny_session.h"

static vklm_error error;
static vklm_device *device;

/* ---- Jobs ------------------------------------------------------------------------------------------------ */

enum { JOBS = 1000 };
static atomic_int times_run[JOBS];

static void run_one(void *user, size_t index)
{
    ck_assert_ptr_eq(user, times_run);
    atomic_fetch_add(&times_run[index], 1);
}

static void check_all_ran_once(size_t n)
{
    for (size_t i = 0; i < JOBS; i++) ck_assert_int_eq(atomic_exchange(&times_run[i], 0), i < n);
}

static void run_jobs(uint32_t threads, size_t n)
{
    vki_crew crew = {.job = run_one, .user = times_run, .n = n};
    vki_crew_start(&crew, threads);
    while (vki_crew_work(&crew)) continue;
    vki_crew_end(&crew);
}

START_TEST(every_job_runs_once_on_any_number_of_threads)
{
    ck_assert_uint_ge(vki_core_count(), 1);
    for (uint32_t threads = 0; threads < 40; threads += threads < 4 ? 1 : 11)
        for (size_t n = 0; n <= JOBS; n = n * 10 + 1) {
            run_jobs(threads, n);
            check_all_ran_once(n);
        }
}
END_TEST

START_TEST(a_crew_can_be_helped_and_ended_early)
{
    for (uint32_t threads = 0; threads < 3; threads++) {
        vki_crew crew = {.job = run_one, .user = times_run, .n = JOBS};
        vki_crew_start(&crew, threads);
        while (vki_crew_work(&crew)) continue;
        ck_assert(!vki_crew_work(&crew));
        vki_crew_end(&crew);
        check_all_ran_once(JOBS);
        crew = (vki_crew){.job = run_one, .user = times_run, .n = JOBS};
        vki_crew_start(&crew, threads);
        vki_crew_end(&crew);
        vki_crew_end(&crew);
        for (size_t i = 0; i < JOBS; i++) ck_assert_int_le(atomic_exchange(&times_run[i], 0), 1);
    }
    vki_crew none = {0};
    vki_crew_end(&none);
}
END_TEST

/* ---- Pipelines ------------------------------------------------------------------------------------------- */

static void set_up(void)
{
    device = test_device(NULL);
}

static void tear_down(void)
{
    vklm_device_destroy(&device);
}

static vklm_status load_with(const char *path, uint32_t threads, vklm_model **model)
{
    const vklm_model_params params = {.struct_size = sizeof params, .path = path, .threads = threads};
    return vklm_model_load(device, &params, &error, model);
}

static void save(const tiny_model *m, char path[TEMP_FOLDER_SIZE])
{
    temp_path(path, "start.gguf");
    gguf_writer *w = tiny_model_write(m);
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
}

/* Prompts of all kinds of lengths, drawn on the device and on the host, to a depth with many splits. */
static void use_in_every_way(vklm_model *model, const vklm_session_params *params)
{
    static const uint32_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 24, 31, 33, 48, 63, 65, 96,
                                       127, 129, 200, 255, 257, 300, 511, 512, 513, 700};
    static vklm_token ids[RUN_MAX_IDS];
    some_ids(5, 256, ids, RUN_MAX_IDS);
    vklm_session *session = tiny_session(model, params);
    const uint32_t context = session->context;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        run_result result;
        const vklm_generate_params generate = {.max_tokens = 2, .ignore_end = true, .want_logits = i % 3 == 1,
                                               .sampling = {.temperature = i % 3 == 2 ? 1 : -1}};
        CHECK_OK(vklm_session_set_ids(session, NULL, 0, &error, NULL));
        CHECK_OK(vklm_session_set_ids(session, ids, lengths[i], &error, NULL));
        run_generate(session, generate, &result);
        run_free(&result);
    }
    for (uint32_t depth = 900; depth < context - 4; depth += 700) {
        run_result result;
        CHECK_OK(vklm_session_set_ids(session, ids, depth, &error, NULL));
        run_generate(session, (vklm_generate_params){.max_tokens = 4, .sampling = {.temperature = -1}}, &result);
        run_free(&result);
    }
    vklm_session_destroy(&session);
}

static void check_nothing_is_late(const tiny_model *m, bool small_chunks)
{
    vklm_model *model;
    char path[TEMP_FOLDER_SIZE];
    save(m, path);
    CHECK_OK(load_with(path, 2, &model));
    remove(path);
    const size_t n = model->pipelines.n_items;
    for (size_t i = 0; i < n; i++) ck_assert(model->pipelines.items[i]->pipeline != VK_NULL_HANDLE);
    use_in_every_way(model, &(vklm_session_params){.chunk = small_chunks ? 37 : 0});
    ck_assert_uint_eq(model->pipelines.n_items, n);
    use_in_every_way(model, &(vklm_session_params){.kv = VKLM_KV_F32});
    ck_assert_uint_gt(model->pipelines.n_items, n);
    ck_assert_uint_eq(model->pipelines.n_late, 0);
    vklm_model_destroy(&model);
}

START_TEST(nothing_is_compiled_after_a_load)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        tiny_model m = tiny_small(archs[i]);
        m.n_layer = 2;
        m.context_length = i == 0 ? 2048 : 1024;
        check_nothing_is_late(&m, i == 0);
    }
}
END_TEST

START_TEST(nothing_is_compiled_after_a_load_of_mixed_formats)
{
    tiny_model m = tiny_model_of("llama");
    tiny_model_set_formats(&m, VKI_Q4_K);
    m.formats.v = m.formats.down = VKI_Q6_K;
    m.formats.up = VKI_F16;
    m.default_precision = true;
    m.n_layer = 1;
    m.context_length = 1024;
    check_nothing_is_late(&m, false);
}
END_TEST

START_TEST(any_number_of_threads_makes_the_same_pipelines)
{
    char path[TEMP_FOLDER_SIZE];
    const tiny_model m = tiny_small("llama");
    save(&m, path);
    size_t n = 0;
    for (uint32_t threads = 0; threads < 18; threads = threads * 2 + 1) {
        vklm_model *model;
        CHECK_OK(load_with(path, threads, &model));
        ck_assert_uint_ge(model->threads, 1);
        ck_assert_uint_le(model->threads, 16);
        if (threads == 1) ck_assert_uint_eq(model->threads, 1);
        if (n == 0) n = model->pipelines.n_items;
        ck_assert_uint_eq(model->pipelines.n_items, n);
        ck_assert_uint_eq(model->pipelines.n_late, 0);
        vklm_model_destroy(&model);
    }
    remove(path);
}
END_TEST

/* ---- Failures of the compiler ---------------------------------------------------------------------------- */

static PFN_vkCreateComputePipelines driver_create;
static atomic_int creations_left; /* until one fails */

static VKAPI_ATTR VkResult VKAPI_CALL failing_create(VkDevice handle, VkPipelineCache cache, uint32_t n,
                                                     const VkComputePipelineCreateInfo *infos,
                                                     const VkAllocationCallbacks *callbacks, VkPipeline *pipelines)
{
    if (atomic_fetch_sub(&creations_left, 1) != 0) return driver_create(handle, cache, n, infos, callbacks, pipelines);
    *pipelines = VK_NULL_HANDLE;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* The second session, or a load that expects it, makes the pipelines of batches. */
START_TEST(batches_are_made_ready_when_sessions_are_several)
{
    tiny_model m = tiny_model_of("llama");
    tiny_model_set_formats(&m, VKI_Q8_0); /* whose products take several rows */
    char path[TEMP_FOLDER_SIZE];
    save(&m, path);
    size_t n[2][2];
    for (uint32_t expects = 0; expects < 2; expects++) {
        vklm_model *model;
        const vklm_model_params params = {.struct_size = sizeof params, .path = path, .threads = 2,
                                          .n_expected = 1 + expects};
        CHECK_OK(vklm_model_load(device, &params, &error, &model));
        vklm_session *first = tiny_session(model, NULL);
        n[expects][0] = model->pipelines.n_items;
        vklm_session *second = tiny_session(model, NULL);
        n[expects][1] = model->pipelines.n_items;
        ck_assert_uint_eq(model->pipelines.n_late, 0);
        vklm_session_destroy(&second);
        vklm_session_destroy(&first);
        vklm_model_destroy(&model);
    }
    remove(path);
    ck_assert_uint_lt(n[0][0], n[0][1]);
    ck_assert_uint_eq(n[0][1], n[1][0]);
    ck_assert_uint_eq(n[1][0], n[1][1]);
}
END_TEST

static bool never(void *user, double fraction)
{
    (void)user;
    return fraction < 0.9;
}

START_TEST(a_pipeline_that_fails_on_any_thread_fails_the_load)
{
    char path[TEMP_FOLDER_SIZE];
    vklm_model *model;
    const tiny_model m = tiny_small("gemma3");
    save(&m, path);
    driver_create = device->fn.vkCreateComputePipelines;
    device->fn.vkCreateComputePipelines = failing_create;
    for (uint32_t threads = 1; threads < 4; threads++)
        for (int left = 0; left < 9; left += 4) {
            atomic_store(&creations_left, left);
            CHECK_FAILS(load_with(path, threads, &model), VKLM_OUT_OF_MEMORY, "compiling shader");
            ck_assert_ptr_null(model);
            ck_assert_uint_eq(vklm_device_memory_used(device), 0);
        }
    CHECK_OK(load_with(path, 2, &model));
    atomic_store(&creations_left, 1);
    vklm_session *session;
    const vklm_session_params f32 = {.struct_size = sizeof f32, .kv = VKLM_KV_F32};
    CHECK_FAILS(vklm_session_create(model, &f32, &error, &session), VKLM_OUT_OF_MEMORY, "compiling shader");
    CHECK_OK(vklm_session_create(model, &f32, &error, &session)); /* tried again, and all there */
    ck_assert_uint_eq(model->pipelines.n_late, 0);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    const vklm_model_params params = {.struct_size = sizeof params, .path = path, .threads = 2, .progress = never};
    CHECK_FAILS(vklm_model_load(device, &params, &error, &model), VKLM_CANCELLED, "cancelled");
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    remove(path);
}
END_TEST

/* ---- The cache ------------------------------------------------------------------------------------------- */

static char log_text[4096];

static void keep_log(void *user, vklm_log_level level, const char *line)
{
    (void)user;
    (void)level;
    const size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

static uint8_t *take_cache(size_t *size)
{
    CHECK_FAILS(vklm_device_get_pipeline_cache(device, &error, NULL, 0, size), VKLM_BUFFER_TOO_SMALL, "bytes");
    ck_assert_uint_ge(*size, 56); /* both headers */
    uint8_t *bytes = malloc(*size);
    CHECK_FAILS(vklm_device_get_pipeline_cache(device, &error, bytes, *size - 1, size), VKLM_BUFFER_TOO_SMALL, "bytes");
    CHECK_OK(vklm_device_get_pipeline_cache(device, &error, bytes, *size, size));
    return bytes;
}

/* A device made with it is usable; its log says `wanted`, or nothing of a cache where that is NULL. */
static void check_given(const uint8_t *bytes, size_t size, const char *wanted)
{
    vklm_device *other;
    log_text[0] = '\0';
    uint8_t *copy = malloc(size + 1); /* of this very size: reads behind it would be seen */
    memcpy(copy, bytes, size);
    other = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params), .log = {.write = keep_log},
                                              .pipeline_cache = copy, .pipeline_cache_bytes = size});
    free(copy);
    ck_assert_msg(wanted ? strstr(log_text, wanted) != NULL : strstr(log_text, "cache") == NULL, "%s", log_text);
    const tiny_model m = tiny_small("llama");
    vklm_model *model = tiny_load(other, &m);
    vklm_model_destroy(&model);
    vklm_device_destroy(&other);
}

START_TEST(a_cache_serves_the_next_device_and_a_bad_one_is_ignored)
{
    size_t size = 0;
    const tiny_model m = tiny_small("llama");
    vklm_model *model = tiny_load(device, &m);
    uint8_t *bytes = take_cache(&size);
    vklm_model_destroy(&model);
    check_given(bytes, size, NULL);
    check_given(bytes, 0, NULL);
    check_given(bytes, 1, "damaged");
    check_given(bytes, 40, "damaged");
    check_given(bytes, size - 1, "damaged");
    bytes[size - 1] ^= 4;
    check_given(bytes, size, "damaged");
    bytes[size - 1] ^= 4;
    bytes[0] ^= 1;
    check_given(bytes, size, "damaged");
    bytes[0] ^= 1;
    bytes[7]--; /* of the version before */
    check_given(bytes, size, "another version of vklm");
    check_given(bytes, 24, "another version of vklm");
    check_given(bytes, 23, "damaged");
    free(bytes);
}
END_TEST

static PFN_vkGetPhysicalDeviceProperties2 driver_properties;

static VKAPI_ATTR void VKAPI_CALL other_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
    driver_properties(physical, properties);
    properties->properties.pipelineCacheUUID[3] ^= 1;
}

START_TEST(a_cache_of_another_driver_is_ignored)
{
    size_t size = 0;
    uint8_t *bytes = take_cache(&size);
    vklm_device_destroy(&device);
    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params), .log = {.write = keep_log}});
    driver_properties = device->instance_fn.GetPhysicalDeviceProperties2;
    device->instance_fn.GetPhysicalDeviceProperties2 = other_properties;
    device->fn.vkDestroyPipelineCache(device->device, device->pipeline_cache, NULL);
    log_text[0] = '\0';
    CHECK_OK(vki_device_create_cache(device, bytes, size, &error));
    ck_assert_ptr_nonnull(strstr(log_text, "another device or driver"));
    CHECK_FAILS(vklm_device_get_pipeline_cache(device, &error, bytes, size, NULL), VKLM_INVALID_ARGUMENT, "size");
    CHECK_FAILS(vklm_device_get_pipeline_cache(NULL, &error, bytes, size, &size), VKLM_INVALID_ARGUMENT, "device");
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("start");
    TCase *jobs = add_case(suite, "jobs", NULL, NULL);
    tcase_add_test(jobs, every_job_runs_once_on_any_number_of_threads);
    tcase_add_test(jobs, a_crew_can_be_helped_and_ended_early);
    TCase *c = add_case(suite, "pipelines", set_up, tear_down);
    tcase_add_test(c, nothing_is_compiled_after_a_load);
    tcase_add_test(c, nothing_is_compiled_after_a_load_of_mixed_formats);
    tcase_add_test(c, any_number_of_threads_makes_the_same_pipelines);
    tcase_add_test(c, a_pipeline_that_fails_on_any_thread_fails_the_load);
    tcase_add_test(c, batches_are_made_ready_when_sessions_are_several);
    tcase_add_test(c, a_cache_serves_the_next_device_and_a_bad_one_is_ignored);
    tcase_add_test(c, a_cache_of_another_driver_is_ignored);
    return run_suite(suite);
}
