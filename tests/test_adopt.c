/* test_adopt.c - models on a device that the program made: what it must enable, what is taken, what is left behind.
 *
 * The program's functions are wrapped (support/driver_calls.h), so every test also checks that each object made was
 * destroyed with the program's allocation callbacks, that each submit stood between lock and unlock, and that nobody
 * waited for the device to be idle; with the validation layer installed, that it had nothing to say.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "support/driver_calls.h"
#include "support/suite.h"
#include "support/tiny_session.h"
#include "support/vulkan_app.h"

enum { PROMPT = 20, NEW = 5 };

static vulkan_app app;
static vklm_error error;
static vklm_token prompt[PROMPT], expected[NEW];
static tiny_model model_of_tests;
static atomic_int told[VK_MAX_MEMORY_HEAPS]; /* allocations less frees */
static atomic_int n_told, refuse_at;
static _Atomic int64_t told_bytes;

static void generate(vklm_model *model, vklm_token drawn[NEW])
{
    vklm_session *session = tiny_session(model, NULL);
    run_result result;
    vklm_error own;
    ck_assert_int_eq(vklm_session_set_ids(session, prompt, PROMPT, &own, NULL), VKLM_OK);
    run_greedy(session, NEW, &result);
    memcpy(drawn, result.drawn, NEW * sizeof *drawn);
    run_free(&result);
    vklm_session_destroy(&session);
}

static void check_generates(vklm_device *device)
{
    vklm_token drawn[NEW];
    vklm_model *model = tiny_load(device, &model_of_tests);
    generate(model, drawn);
    if (test_results_count()) ck_assert_mem_eq(drawn, expected, sizeof expected);
    vklm_model_destroy(&model);
}

static void set_up(void)
{
    driver_reset();
    model_of_tests = tiny_small("llama");
    model_of_tests.n_layer = 1;
    some_ids(23, 256, prompt, PROMPT);
    app_open(&app, VK_API_VERSION_1_2);
    app_ask(&app);
    if (expected[0] || expected[1]) return;
    vklm_device *own = test_device(NULL);
    vklm_model *model = tiny_load(own, &model_of_tests);
    generate(model, expected);
    vklm_model_destroy(&model);
    vklm_device_destroy(&own);
}

static void check_nothing_left(void)
{
    ck_assert_int_eq(driver.alive, 0);
    ck_assert_int_eq(driver.host_alive, 0);
    ck_assert_int_eq(driver.without_callbacks, 0);
    ck_assert_int_eq(driver.locked, 0);
    ck_assert_int_eq(driver.idle_waits, 0);
    ck_assert_int_eq(told_bytes, 0);
    for (size_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) ck_assert_int_eq(told[i], 0);
}

static void tear_down(void)
{
    check_nothing_left();
    app_close(&app);
}

static bool told_allocation(void *user, uint32_t heap, VkDeviceSize size_bytes)
{
    ck_assert_ptr_eq(user, told);
    ck_assert_uint_lt(heap, VK_MAX_MEMORY_HEAPS);
    if (++n_told == refuse_at) return false;
    told[heap]++;
    told_bytes += (int64_t)size_bytes;
    return true;
}

static void told_free(void *user, uint32_t heap, VkDeviceSize size_bytes)
{
    ck_assert_ptr_eq(user, told);
    told[heap]--;
    told_bytes -= (int64_t)size_bytes;
}

/* Everything that a program may give. */
static vklm_adopt_params all_params(void)
{
    static const vklm_device_params settings = {
        .struct_size = sizeof settings,
#if defined(VKLM_RUNTIME_GLSL)
        .shader_dir = VKLM_SOURCE_DIR "/shaders",
#endif
    };
    vklm_adopt_params params = app_params(&app);
    params.settings = &settings;
    params.allocation_callbacks = &driver_callbacks;
    params.allocate_memory = told_allocation;
    params.free_memory = told_free;
    params.memory_user = told;
    driver.expect_callbacks = true;
    return params;
}

static vklm_device *adopt(void)
{
    const vklm_adopt_params params = all_params();
    vklm_device *device;
    CHECK_OK(vklm_device_adopt(&params, &error, &device));
    return device;
}

/* ---- What to enable --------------------------------------------------------------------------------------- */

START_TEST(requirements_say_what_the_device_has_and_what_to_enable)
{
    ck_assert_uint_eq(app.needs.api_version, VK_API_VERSION_1_2);
    ck_assert_int_eq(app.needs.verdict, VKLM_OK);
    ck_assert_str_eq(app.needs.reason, "");
    ck_assert_str_ne(app.needs.info.name, "");
    ck_assert_ptr_nonnull(app.needs.features);
    ck_assert_uint_ge(app.needs.queue_family_size, 1);
    const char *const required[] = {"shaderInt64", "bufferDeviceAddress", "timelineSemaphore"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        ck_assert_msg(app_feature(&app, required[i]) != NULL, "%s", required[i]);
    for (uint32_t i = 0; i < app.needs.n_extensions; i++) ck_assert_ptr_nonnull(app.needs.extensions[i]);
}
END_TEST

START_TEST(requirements_refuse_wrong_arguments_and_old_instances)
{
    vklm_vulkan_requirements r = {.struct_size = sizeof r};
    const PFN_vkGetInstanceProcAddr get = vki_loader_get();
#define ASK(get, instance, physical, r)                                                                               \
    vklm_vulkan_get_requirements(get, instance, VK_API_VERSION_1_2, physical, &error, r)
    CHECK_FAILS(ASK(get, app.instance, app.physical, NULL), VKLM_INVALID_ARGUMENT, "requirements_out");
    CHECK_FAILS(ASK(NULL, app.instance, app.physical, &r), VKLM_INVALID_ARGUMENT, "get_instance_proc_addr is NULL");
    CHECK_FAILS(ASK(get, NULL, app.physical, &r), VKLM_INVALID_ARGUMENT, "instance is NULL");
    CHECK_FAILS(ASK(get, app.instance, NULL, &r), VKLM_INVALID_ARGUMENT, "physical_device is NULL");
    r.struct_size = 8;
    CHECK_FAILS(ASK(get, app.instance, app.physical, &r), VKLM_INVALID_ARGUMENT, "struct_size");
#undef ASK
    r.struct_size = sizeof r;
    CHECK_OK(vklm_vulkan_get_requirements(get, app.instance, VK_API_VERSION_1_1, app.physical, &error, &r));
    ck_assert_int_eq(r.verdict, VKLM_DEVICE_UNSUITABLE);
    ck_assert_ptr_nonnull(strstr(r.reason, "of Vulkan 1.1; make it with"));
    ck_assert_ptr_null(r.features);
}
END_TEST

static bool holds(const void *chain, VkStructureType type)
{
    for (const VkBaseInStructure *at = chain; at; at = at->pNext)
        if (at->sType == type) return true;
    return false;
}

/* A chain of the versions' structs takes all bits but those of extensions; the program's own stay. */
START_TEST(features_are_added_to_the_structs_that_a_program_has)
{
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .hostQueryReset = VK_TRUE};
    VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                            .pNext = &v12, .shaderDrawParameters = VK_TRUE};
    app.core.shaderInt64 = app.core.robustBufferAccess = VK_TRUE;
    app.features = vklm_vulkan_add_features(&app.needs, &v11, &app.core);
    ck_assert_ptr_eq(app.features, &v11);
    ck_assert_ptr_null(app.needs.features);
    ck_assert(v11.shaderDrawParameters && app.core.robustBufferAccess);
    ck_assert(v12.bufferDeviceAddress && v12.timelineSemaphore && v12.hostQueryReset);
    ck_assert(!holds(app.features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2));
    ck_assert(!holds(app.features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES));
    app_make_device(&app);
    vklm_device *device = adopt();
    check_generates(device);
    vklm_device_destroy(&device);
    app_end_device(&app);

    app_ask(&app); /* structs of single extensions: the rest comes as such */
    VkPhysicalDeviceBufferDeviceAddressFeatures address = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES};
    VkPhysicalDeviceFeatures2 two = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &address};
    app.core = (VkPhysicalDeviceFeatures){0};
    app.features = vklm_vulkan_add_features(&app.needs, &two, NULL);
    ck_assert_ptr_eq(app.features, &two);
    ck_assert(two.features.shaderInt64 && address.bufferDeviceAddress);
    ck_assert(holds(app.features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES));
    ck_assert_ptr_eq(vklm_vulkan_add_features(&app.needs, &two, NULL), &two); /* twice does no harm */
    app_make_device(&app);
    device = adopt();
    check_generates(device);
    vklm_device_destroy(&device);
    app_end_device(&app);

    app_ask(&app); /* none at all */
    app.features = vklm_vulkan_add_features(&app.needs, NULL, NULL);
    ck_assert(holds(app.features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2));
    app_make_device(&app);
    device = adopt();
    vklm_device_destroy(&device);
    app_end_device(&app);
}
END_TEST

/* ---- Adoption ---------------------------------------------------------------------------------------------- */

START_TEST(an_adopted_device_generates_what_an_own_one_does_and_stays_whole)
{
    app_make_device(&app);
    for (int round = 0; round < 3; round++) {
        vklm_device *device = adopt();
        vklm_device_info info;
        vklm_device_get_info(device, &info);
        ck_assert_str_eq(info.reason, "it is the program's own");
        ck_assert_ptr_nonnull(strstr(info.queue, "shared with the program"));
        check_generates(device);
        ck_assert_int_gt(driver.alive, 0);
        vklm_device_destroy(&device);
        check_nothing_left();
        app_submit(&app);
    }
    ck_assert_int_gt(driver.submits, 0);
    ck_assert_int_eq(driver.unlocked_submits, 0);
    ck_assert_int_eq(driver.submits, driver.locks);
    app_end_device(&app);
}
END_TEST

START_TEST(a_queue_of_its_own_is_not_locked_and_preferred)
{
    const vklm_vulkan_queue queues[] = {{.family = 99}, app.queue, {.family = app.queue.family}};
    app_make_device(&app);
    vklm_adopt_params params = all_params();
    params.queues = queues;
    params.n_queues = 3;
    vklm_device *device;
    CHECK_OK(vklm_device_adopt(&params, &error, &device));
    ck_assert_ptr_nonnull(strstr(device->info.queue, "lent by the program"));
    check_generates(device);
    vklm_device_destroy(&device);
    ck_assert_int_gt(driver.submits, 0);
    ck_assert_int_eq(driver.locks, 0);
    app_end_device(&app);
}
END_TEST

START_TEST(several_devices_live_side_by_side)
{
    app_make_device(&app);
    vklm_device *first = adopt(), *second = adopt();
    vklm_model *a = tiny_load(first, &model_of_tests), *b = tiny_load(second, &model_of_tests);
    vklm_token drawn[2][NEW];
    generate(a, drawn[0]);
    generate(b, drawn[1]);
    vklm_model_destroy(&a);
    vklm_device_destroy(&first);
    generate(b, drawn[1]);
    for (int i = 0; i < 2 && test_results_count(); i++) ck_assert_mem_eq(drawn[i], expected, sizeof expected);
    vklm_model_destroy(&b);
    vklm_device_destroy(&second);
    app_end_device(&app);
}
END_TEST

static void *work(void *device)
{
    for (int i = 0; i < 2; i++) check_generates(device);
    return NULL;
}

static void *submit_frames(void *stop)
{
    while (!*(atomic_bool *)stop) {
        driver_lock(NULL, (VkQueue)&app);
        app_submit(&app);
        driver_unlock(NULL, (VkQueue)&app);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return NULL;
}

START_TEST(threads_share_a_queue_by_its_locks)
{
    pthread_t frames, worker;
    atomic_bool stop = false;
    app_make_device(&app);
    vklm_device *first = adopt(), *second = adopt();
    pthread_create(&frames, NULL, submit_frames, &stop);
    pthread_create(&worker, NULL, work, first);
    work(second);
    pthread_join(worker, NULL);
    stop = true;
    pthread_join(frames, NULL);
    ck_assert_int_eq(driver.unlocked_submits, 0);
    vklm_device_destroy(&first);
    vklm_device_destroy(&second);
    app_end_device(&app);
}
END_TEST

START_TEST(a_model_loads_on_one_thread_while_another_generates)
{
    pthread_t loader;
    app_make_device(&app);
    vklm_device *device = adopt();
    vklm_model *model = tiny_load(device, &model_of_tests);
    pthread_create(&loader, NULL, work, device);
    vklm_token drawn[NEW];
    for (int i = 0; i < 8; i++) generate(model, drawn);
    pthread_join(loader, NULL);
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
    app_end_device(&app);
}
END_TEST

/* ---- What was enabled ---------------------------------------------------------------------------------------- */

START_TEST(each_optional_feature_can_be_done_without)
{
    const char *const optional[] = {"shaderInt8", "shaderFloat16", "hostQueryReset", "vulkanMemoryModel",
                                    "subgroupSizeControl", "computeFullSubgroups", "shaderIntegerDotProduct",
                                    "cooperativeMatrix"};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        app_ask(&app);
        VkBool32 *bit = app_feature(&app, optional[i]);
        if (!bit) continue;
        *bit = VK_FALSE;
        app_make_device(&app);
        vklm_device *device = adopt();
        if (strcmp(optional[i], "hostQueryReset") == 0) ck_assert_double_eq(device->limits.timestamp_ns, 0);
        if (strcmp(optional[i], "shaderIntegerDotProduct") == 0) ck_assert(!device->limits.fast_packed_dot);
        if (strcmp(optional[i], "cooperativeMatrix") == 0) ck_assert_uint_eq(device->limits.coop_f16.m, 0);
        if (strncmp(optional[i], "subgroupSize", 12) == 0) ck_assert(!device->limits.subgroup_control);
        check_generates(device);
        vklm_device_destroy(&device);
        app_end_device(&app);
    }
}
END_TEST

/* As instances of 1.2 have it; with 1.3 the first two are of the core. */
START_TEST(extensions_that_were_not_enabled_are_not_used)
{
    const bool has_memory_model = app_feature(&app, "vulkanMemoryModel") != NULL;
    app.features = NULL;
    app_drop_extension(&app, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    app_drop_extension(&app, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    app_drop_extension(&app, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .bufferDeviceAddress = VK_TRUE, .timelineSemaphore = VK_TRUE,
        .vulkanMemoryModel = has_memory_model}; /* by which atomics of the device's scope are not allowed */
    app.core.shaderInt64 = VK_TRUE;
    app.features = &v12; /* the least there is */
    app_make_device(&app);
    vklm_device *device = adopt();
    ck_assert(!device->limits.subgroup_control && !device->limits.full_subgroups && !device->limits.fast_packed_dot);
    ck_assert_double_eq(device->limits.timestamp_ns, 0);
    check_generates(device);
    vklm_device_destroy(&device);
    app_end_device(&app);
}
END_TEST

START_TEST(each_required_feature_is_asked_for_by_name)
{
    const char *const required[] = {"shaderInt64", "bufferDeviceAddress", "timelineSemaphore"};
    app_make_device(&app);
    vklm_adopt_params params = all_params();
    vklm_device *device;
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        VkBool32 *bit = app_feature(&app, required[i]);
        *bit = VK_FALSE;
        CHECK_FAILS(vklm_device_adopt(&params, &error, &device), VKLM_DEVICE_UNSUITABLE, required[i]);
        ck_assert_ptr_nonnull(strstr(error.text, "was made without"));
        ck_assert_ptr_null(device);
        *bit = VK_TRUE;
    }
    params.features = NULL;
    CHECK_FAILS(vklm_device_adopt(&params, &error, &device), VKLM_DEVICE_UNSUITABLE,
                "without shaderInt64, bufferDeviceAddress, timelineSemaphore; enable");
    app_end_device(&app);
}
END_TEST

START_TEST(wrong_params_are_named)
{
    app_make_device(&app);
    const vklm_adopt_params good = all_params();
    const vklm_vulkan_queue no_family = {.family = 77}, no_index = {.family = app.queue.family, .index = 1000};
    const vklm_device_params negative = {.struct_size = sizeof negative, .submit_limit_ms = -1};
    vklm_device *device;
#define REFUSED(change, status, text)                                                                                 \
    do {                                                                                                              \
        vklm_adopt_params p = good;                                                                                   \
        change;                                                                                                       \
        CHECK_FAILS(vklm_device_adopt(&p, &error, &device), status, text);                                            \
        ck_assert_ptr_null(device);                                                                                   \
    } while (0)
    REFUSED(p.struct_size = 0, VKLM_INVALID_ARGUMENT, "struct_size");
    REFUSED(p.get_instance_proc_addr = NULL, VKLM_INVALID_ARGUMENT, "get_instance_proc_addr");
    REFUSED(p.instance = NULL, VKLM_INVALID_ARGUMENT, "instance");
    REFUSED(p.physical_device = NULL, VKLM_INVALID_ARGUMENT, "physical_device");
    REFUSED(p.device = NULL, VKLM_INVALID_ARGUMENT, "device is NULL");
    REFUSED(p.queues = NULL, VKLM_INVALID_ARGUMENT, "queues");
    REFUSED(p.n_queues = 0, VKLM_INVALID_ARGUMENT, "queues");
    REFUSED(p.queues = &no_family, VKLM_INVALID_ARGUMENT, "none is of a family that computes");
    REFUSED(p.queues = &no_index, VKLM_INVALID_ARGUMENT, "ends before queue 1000");
    REFUSED(p.lock_queue = NULL, VKLM_INVALID_ARGUMENT, "both or neither");
    REFUSED(p.n_extensions = 3; p.extensions = NULL, VKLM_INVALID_ARGUMENT, "extensions");
    REFUSED(p.api_version = VK_API_VERSION_1_1, VKLM_DEVICE_UNSUITABLE, "1.1; make the instance");
    REFUSED(p.settings = &negative, VKLM_INVALID_ARGUMENT, "submit_limit_ms");
#undef REFUSED
    CHECK_FAILS(vklm_device_adopt(&good, &error, NULL), VKLM_INVALID_ARGUMENT, "device_out");
    CHECK_FAILS(vklm_device_adopt(NULL, &error, &device), VKLM_INVALID_ARGUMENT, "device is NULL");
    app_end_device(&app);
}
END_TEST

/* ---- What else a program lends -------------------------------------------------------------------------------- */

START_TEST(the_programs_pipeline_cache_is_used_and_kept)
{
    app_make_device(&app);
    const VkPipelineCacheCreateInfo create = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache;
    ck_assert_int_eq(app.table.vkCreatePipelineCache(app.device, &create, NULL, &cache), VK_SUCCESS);
    vklm_adopt_params params = all_params();
    params.pipeline_cache = cache;
    vklm_device *device;
    CHECK_OK(vklm_device_adopt(&params, &error, &device));
    check_generates(device);
    size_t before = 0, of_vklm = 0, after = 0;
    ck_assert_int_eq(app.table.vkGetPipelineCacheData(app.device, cache, &before, NULL), VK_SUCCESS);
    CHECK_FAILS(vklm_device_get_pipeline_cache(device, &error, NULL, 0, &of_vklm), VKLM_BUFFER_TOO_SMALL, "takes");
    ck_assert_uint_ge(of_vklm, before);
    vklm_device_destroy(&device);
    ck_assert_int_eq(app.table.vkGetPipelineCacheData(app.device, cache, &after, NULL), VK_SUCCESS);
    ck_assert_uint_eq(after, before);
    app.table.vkDestroyPipelineCache(app.device, cache, NULL);
    app_end_device(&app);
}
END_TEST

START_TEST(device_memory_is_told_of_and_may_be_refused)
{
    app_make_device(&app);
    vklm_device *device = adopt();
    n_told = 0;
    check_generates(device);
    const int n = n_told;
    ck_assert_int_gt(n, 2);
    ck_assert_int_eq(told_bytes, 0);
    vklm_model *model = tiny_load(device, &model_of_tests);
    ck_assert_int_eq(told_bytes, (int64_t)vklm_device_memory_used(device));
    vklm_model_destroy(&model);
    bool refused = false;
    for (int k = 1; k <= n; k++) { /* one heap may help out for another */
        n_told = 0;
        refuse_at = k;
        const vklm_status status = tiny_try_load(device, &model_of_tests, &error, &model);
        refuse_at = 0;
        refused = refused || status != VKLM_OK;
        if (status != VKLM_OK) ck_assert_int_eq(status, VKLM_OUT_OF_DEVICE_MEMORY);
        vklm_model_destroy(&model);
        ck_assert_int_eq(told_bytes, 0);
    }
    ck_assert(refused || !test_results_count() || app.needs.info.type != VKLM_DEVICE_CPU);
    check_generates(device);
    vklm_device_destroy(&device);
    app_end_device(&app);
}
END_TEST

START_TEST(a_lost_device_is_told_and_a_new_one_works)
{
    for (int round = 0; round < 2; round++) {
        app_ask(&app);
        app_make_device(&app);
        vklm_device *device = adopt();
        vklm_model *model = tiny_load(device, &model_of_tests), *no_model;
        vklm_session *session = tiny_session(model, NULL);
        const vklm_generate_params greedy = {.struct_size = sizeof greedy, .ignore_end = true, .max_tokens = NEW};
        vklm_event event = {.kind = VKLM_EVENT_NONE};
        CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
        CHECK_OK(vklm_session_generate(session, &greedy, &error));
        driver_fail(round ? DRIVER_WAIT : DRIVER_SUBMIT, 2, true, VK_ERROR_DEVICE_LOST);
        while (event.kind != VKLM_EVENT_DONE) CHECK_OK(vklm_session_wait_event(session, &error, &event));
        ck_assert_int_eq(event.status, VKLM_DEVICE_LOST);
        driver_fail(0, 0, false, VK_SUCCESS);
        size_t n;
        ck_assert_mem_eq(vklm_session_ids(session, &n), prompt, sizeof prompt);
        CHECK_FAILS(tiny_try_load(device, &model_of_tests, &error, &no_model), VKLM_DEVICE_LOST, "destroy it");
        app.table.vkDeviceWaitIdle(app.device); /* lost in name only */
        vklm_session_destroy(&session);
        vklm_model_destroy(&model);
        vklm_device_destroy(&device);
        check_nothing_left();
        app_end_device(&app);

        app_ask(&app);
        app_make_device(&app);
        device = adopt();
        check_generates(device);
        vklm_device_destroy(&device);
        app_end_device(&app);
    }
}
END_TEST

START_TEST(an_adoption_that_fails_leaves_nothing)
{
    app_make_device(&app);
    const vklm_adopt_params params = all_params();
    vklm_device *device = NULL;
    for (int n = 1; !device; n++) {
        driver_fail(DRIVER_MAKE, n, false, VK_ERROR_OUT_OF_HOST_MEMORY);
        const vklm_status status = vklm_device_adopt(&params, &error, &device);
        ck_assert_int_eq(status, driver.counted >= n ? VKLM_OUT_OF_MEMORY : VKLM_OK);
        if (!device) check_nothing_left();
    }
    ck_assert_int_gt(driver.counted, 0);
    driver_fail(0, 0, false, VK_SUCCESS);
    vklm_device_destroy(&device);
    app_end_device(&app);
}
END_TEST

START_TEST(an_instance_of_a_later_vulkan_needs_no_promoted_extensions)
{
    app_close(&app);
    app_open(&app, VK_API_VERSION_1_3);
    app_ask(&app);
    VkPhysicalDeviceVulkan13Features v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    const bool newer = app.needs.info.api_version >= VK_API_VERSION_1_3;
    const bool full = app_feature(&app, "computeFullSubgroups") != NULL;
    if (newer) {
        app.features = vklm_vulkan_add_features(&app.needs, &v13, NULL);
        ck_assert(!holds(app.features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES));
        app_drop_extension(&app, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        app_drop_extension(&app, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    }
    app_make_device(&app);
    vklm_device *device = adopt();
    if (newer) ck_assert(device->limits.full_subgroups == full);
    check_generates(device);
    vklm_device_destroy(&device);
    app_end_device(&app);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        requirements_say_what_the_device_has_and_what_to_enable,
        requirements_refuse_wrong_arguments_and_old_instances,
        features_are_added_to_the_structs_that_a_program_has,
        an_adopted_device_generates_what_an_own_one_does_and_stays_whole,
        a_queue_of_its_own_is_not_locked_and_preferred,
        several_devices_live_side_by_side,
        threads_share_a_queue_by_its_locks,
        a_model_loads_on_one_thread_while_another_generates,
        each_optional_feature_can_be_done_without,
        extensions_that_were_not_enabled_are_not_used,
        each_required_feature_is_asked_for_by_name,
        wrong_params_are_named,
        the_programs_pipeline_cache_is_used_and_kept,
        device_memory_is_told_of_and_may_be_refused,
        a_lost_device_is_told_and_a_new_one_works,
        an_adoption_that_fails_leaves_nothing,
        an_instance_of_a_later_vulkan_needs_no_promoted_extensions,
    };
    return run_tests("adopt", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
