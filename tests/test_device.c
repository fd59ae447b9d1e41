/* test_device.c - the public device, and device memory (pools, uploads), on any device. */
#include "support/gpu.h"
#include "support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "gpu/memory.h"
#include "gpu/pipeline.h"
#include "support/test_memory.h"

static vklm_error error;

/* ---- Finding and making devices -------------------------------------------------------------- */

START_TEST(the_list_says_how_many_and_what)
{
    uint32_t n = 0;
    CHECK_OK(vklm_device_list(&error, NULL, &n));
    ck_assert_uint_ge(n, 1);
    vklm_device_info infos[16];
    uint32_t count = 0;
    CHECK_FAILS(vklm_device_list(&error, infos, &count), VKLM_BUFFER_TOO_SMALL,
                "room for 0 devices");
    ck_assert_uint_eq(count, n);
    count = 16;
    CHECK_OK(vklm_device_list(&error, infos, &count));
    ck_assert_uint_eq(count, n);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(infos[i].name[0] != '\0');
        ck_assert(infos[i].memory_bytes > 0);
        ck_assert_str_eq(infos[i].reason, "");
    }
    CHECK_FAILS(vklm_device_list(&error, infos, NULL), VKLM_INVALID_ARGUMENT, "count is NULL");
}
END_TEST

static vklm_status create_selected(const char *select, vklm_device_info *info)
{
    vklm_device *device;
    const vklm_device_params params = {.struct_size = sizeof params, .select = select};
    const vklm_status status = vklm_device_create(&params, &error, &device);
    ck_assert((status == VKLM_OK) == (device != NULL));
    if (device) vklm_device_get_info(device, info);
    vklm_device_destroy(&device);
    ck_assert_ptr_null(device);
    return status;
}

START_TEST(a_device_is_chosen_by_index_uuid_and_name)
{
    vklm_device_info first, chosen;
    CHECK_OK(create_selected(NULL, &first));
    ck_assert_str_eq(first.missing, "");
    ck_assert(strstr(first.reason, "the first usable") != NULL);
    CHECK_OK(create_selected(first.name, &chosen));
    ck_assert_str_eq(chosen.name, first.name);
    ck_assert(strstr(chosen.reason, first.name) != NULL);

    char uuid[33] = "";
    for (size_t i = 0; i < 16; i++) sprintf(uuid + 2 * i, "%02x", first.uuid[i]);
    CHECK_OK(create_selected(uuid, &chosen));
    ck_assert_mem_eq(chosen.uuid, first.uuid, 16);
    CHECK_FAILS(create_selected("no such device", &chosen), VKLM_INVALID_ARGUMENT, first.name);
    CHECK_FAILS(create_selected("99", &chosen), VKLM_INVALID_ARGUMENT, first.name);
}
END_TEST

START_TEST(params_are_checked_and_may_be_short)
{
    vklm_device *device = (vklm_device *)&error;
    CHECK_FAILS(vklm_device_create(&(vklm_device_params){0}, &error, &device),
                VKLM_INVALID_ARGUMENT, "struct_size");
    ck_assert_ptr_null(device);
    CHECK_FAILS(vklm_device_create(NULL, &error, NULL), VKLM_INVALID_ARGUMENT, "device_out");
    vklm_device_params params = {.struct_size = sizeof params, .submit_limit_ms = -1};
    CHECK_FAILS(vklm_device_create(&params, &error, &device), VKLM_INVALID_ARGUMENT,
                "submit_limit_ms");
    params.struct_size = offsetof(vklm_device_params, submit_limit_ms); /* of an older header */
    CHECK_OK(vklm_device_create(&params, NULL, &device));
    vklm_device_destroy(&device);
    vklm_device_destroy(&device);
    vklm_device_destroy(NULL);
}
END_TEST

#if !defined(_WIN32) /* a process of its own, with other variables */
START_TEST(a_machine_without_a_driver_is_told_what_to_install)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setenv("VK_ICD_FILENAMES", "/dev/null", 1);
        setenv("VK_DRIVER_FILES", "/dev/null", 1);
        vklm_device *device;
        uint32_t count = 7;
        const bool right = vklm_device_create(NULL, &error, &device) == VKLM_NO_VULKAN && !device &&
                           strstr(error.text, "mesa-vulkan-drivers") &&
                           vklm_device_list(NULL, NULL, &count) == VKLM_NO_VULKAN && count == 0;
        _exit(right ? 0 : 1);
    }
    int exit_status;
    ck_assert_int_eq(waitpid(child, &exit_status, 0), child);
    ck_assert_int_eq(exit_status, 0);
}
END_TEST
#endif

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    vklm_status status = VKLM_OUT_OF_MEMORY;
    for (size_t k = 1; status != VKLM_OK; k++) {
        ck_assert_uint_lt(k, 100);
        test_memory heap = {.fail_at = k};
        const vklm_device_params params = {.struct_size = sizeof params,
                                           .allocator = test_allocator(&heap)};
        vklm_device *device;
        status = vklm_device_create(&params, &error, &device);
        ck_assert_msg(status == VKLM_OK || status == VKLM_OUT_OF_MEMORY, "allocation %zu: %s", k,
                      error.text);
        ck_assert((status == VKLM_OK) == (heap.n_calls < k));
        vklm_device_destroy(&device);
        ck_assert_uint_eq(heap.n_live, 0);
    }
}
END_TEST

static void note_line(void *user, vklm_log_level level, const char *line)
{
    if (level == VKLM_LOG_INFO) snprintf(user, 512, "%s", line);
}

START_TEST(the_log_names_the_device)
{
    char line[512] = "";
    vklm_device *device = test_device(
        &(vklm_device_params){.struct_size = sizeof(vklm_device_params), .log = {note_line, line}});
    ck_assert(strstr(line, device->info.name) != NULL);
    vklm_device_destroy(&device);
}
END_TEST

START_TEST(limits_are_sound)
{
    vklm_device *device = test_device(NULL);
    const vki_limits *limits = &device->limits;
    ck_assert_uint_ge(limits->subgroup_min, 4);
    ck_assert_uint_le(limits->subgroup_min, limits->subgroup_size);
    ck_assert_uint_le(limits->subgroup_size, limits->subgroup_max);
    ck_assert_uint_ge(limits->max_workgroup_invocations, 128);
    ck_assert_uint_ge(limits->max_grid[0], 65535);
    ck_assert_uint_ge(limits->shared_bytes, 16384);
    ck_assert_uint_ge(limits->max_block_bytes, 1 << 30);
    const vki_matrix_size sizes[] = {limits->coop_f16, limits->coop_s8};
    for (size_t i = 0; i < 2; i++) { /* none, or what divides a tile */
        if (sizes[i].m == 0) continue;
        ck_assert_uint_eq(32 % sizes[i].m + 32 % sizes[i].n + 32 % sizes[i].k, 0);
    }
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}
END_TEST

START_TEST(a_lost_device_stays_lost_and_is_destroyed)
{
    vklm_device *device = test_device(NULL);
    vki_buffer before, after;
    CHECK_OK(vki_buffer_create(device, VKI_MEMORY_DEVICE, 4096, "before", &error, &before));
    vki_queue queue;
    CHECK_OK(vki_queue_init(&queue, device, &error));
    vki_check(device, VK_ERROR_DEVICE_LOST, "vkQueueSubmit", &error);
    ck_assert_str_eq(error.text,
                     "vkQueueSubmit: VK_ERROR_DEVICE_LOST (-4): the device was lost; destroy it "
                     "and everything made from it");
    CHECK_FAILS(vki_buffer_create(device, VKI_MEMORY_DEVICE, 4096, "after", &error, &after),
                VKLM_DEVICE_LOST, device->info.name);
    uint64_t value;
    CHECK_FAILS(vki_queue_submit(&queue, NULL, 0, &error, &value), VKLM_DEVICE_LOST, "was lost");
    vki_queue_free(&queue);
    vki_buffer_destroy(device, &before);
    vklm_device_destroy(&device);
}
END_TEST

START_TEST(vulkan_results_become_statuses)
{
    CHECK_OK(vki_check(NULL, VK_TIMEOUT, "vkWaitSemaphores", &error));
    CHECK_FAILS(vki_check(NULL, VK_ERROR_OUT_OF_HOST_MEMORY, "vkA", &error), VKLM_OUT_OF_MEMORY,
                "vkA: VK_ERROR_OUT_OF_HOST_MEMORY (-1)");
    CHECK_FAILS(vki_check(NULL, VK_ERROR_OUT_OF_DEVICE_MEMORY, "vkB", &error),
                VKLM_OUT_OF_DEVICE_MEMORY, "OUT_OF_DEVICE_MEMORY");
    CHECK_FAILS(vki_check(NULL, VK_ERROR_FRAGMENTATION, "vkC", &error), VKLM_DRIVER_ERROR,
                "-1000161000");
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------------------- */

START_TEST(buffers_have_addresses_and_are_counted)
{
    vklm_device *device = test_device(NULL);
    const vki_memory_kind kinds[] = {VKI_MEMORY_DEVICE, VKI_MEMORY_SHARED, VKI_MEMORY_READBACK,
                                     VKI_MEMORY_STAGING};
    const uint64_t sizes[] = {1, 4096, 3000001, 0};
    vki_buffer buffers[4];
    for (int i = 0; i < 4; i++) {
        CHECK_OK(vki_buffer_create(device, kinds[i], sizes[i], "a test", &error, &buffers[i]));
        ck_assert(buffers[i].address != 0);
        ck_assert_uint_eq(buffers[i].address % 64, 0);
        ck_assert_uint_eq(buffers[i].size_bytes, sizes[i]);
        ck_assert(i == 0 || buffers[i].mapped);
    }
    ck_assert_uint_ge(vklm_device_memory_used(device), 3000001);
    for (int i = 0; i < 4; i++) vki_buffer_destroy(device, &buffers[i]);
    vki_buffer_destroy(device, &buffers[0]);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    CHECK_FAILS(vki_buffer_create(device, VKI_MEMORY_DEVICE, device->limits.max_block_bytes + 1,
                                  "the KV cache", &error, &buffers[0]),
                VKLM_OUT_OF_DEVICE_MEMORY, "the KV cache needs");
    vklm_device_destroy(&device);
}
END_TEST

static vklm_device *small_block_device(uint64_t block_limit_bytes)
{
    return test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params),
                                             .block_limit_bytes = block_limit_bytes});
}

enum { BLOCK = 64 << 10 };

START_TEST(slices_are_aligned_apart_and_within_their_block)
{
    vklm_device *device = small_block_device(BLOCK);
    vki_pool pool;
    vki_pool_init(&pool, device, "a test", 1 << 30);
    const uint64_t sizes[] = {1, 255, 256, 257, 10000, BLOCK, 3, BLOCK - 255, 40000};
    enum { N = sizeof sizes / sizeof sizes[0] };
    vki_slice slices[N];
    for (size_t i = 0; i < N; i++) {
        CHECK_OK(vki_pool_take(&pool, sizes[i], &error, &slices[i]));
        ck_assert_uint_eq(slices[i].size_bytes, sizes[i]);
        ck_assert_uint_eq(slices[i].offset % 256, 0);
        ck_assert_uint_le(slices[i].offset + sizes[i], BLOCK);
        ck_assert_uint_eq(slices[i].address,
                          pool.blocks[slices[i].block].address + slices[i].offset);
        for (size_t k = 0; k < i; k++)
            ck_assert(slices[i].address + sizes[i] <= slices[k].address ||
                      slices[k].address + sizes[k] <= slices[i].address);
    }
    CHECK_FAILS(vki_pool_take(&pool, BLOCK + 1, &error, &slices[0]), VKLM_OUT_OF_DEVICE_MEMORY,
                "0.0625 MiB");
    vki_pool_free(&pool);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}
END_TEST

START_TEST(what_is_given_back_is_joined_and_used_again)
{
    vklm_device *device = small_block_device(BLOCK);
    vki_pool pool;
    vki_pool_init(&pool, device, "a test", BLOCK);
    vki_slice slices[8], whole, none = {0};
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 8; i++)
            CHECK_OK(vki_pool_take(&pool, i ? BLOCK / 8 - 100 : 0, &error, &slices[i]));
        ck_assert_uint_eq(pool.n_blocks, 1);
        for (size_t i = 0; i < 8; i++) CHECK_OK(vki_pool_give(&pool, &slices[i * 5 % 8], &error));
        CHECK_OK(vki_pool_take(&pool, BLOCK, &error, &whole));
        ck_assert_uint_eq(pool.n_blocks, 1);
        CHECK_OK(vki_pool_give(&pool, &whole, &error));
        CHECK_OK(vki_pool_give(&pool, &none, &error));
    }
    vki_pool_free(&pool);
    vklm_device_destroy(&device);
}
END_TEST

/* Copies a slice's bytes to the host, by a copy on the device where it is not mapped. */
static void read_slice(vklm_device *device, const vki_pool *pool, const vki_slice *slice,
                       uint8_t *bytes)
{
    if (slice->mapped) {
        memcpy(bytes, slice->mapped, slice->size_bytes);
        return;
    }
    vki_buffer back;
    vki_recording recording;
    vki_queue queue;
    CHECK_OK(
        vki_buffer_create(device, VKI_MEMORY_READBACK, slice->size_bytes, "a test", &error, &back));
    CHECK_OK(vki_recording_init(&recording, device, &error));
    CHECK_OK(vki_queue_init(&queue, device, &error));
    vki_unit unit = {0};
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = recording.pool,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const VkBufferCopy copy = {slice->offset, 0, slice->size_bytes};
    CHECK_OK(vki_check(
        device, device->fn.vkAllocateCommandBuffers(device->device, &allocate, &unit.command),
        "allocate", &error));
    device->fn.vkBeginCommandBuffer(unit.command, &begin);
    device->fn.vkCmdCopyBuffer(unit.command, pool->blocks[slice->block].buffer, back.buffer, 1,
                               &copy);
    device->fn.vkEndCommandBuffer(unit.command);
    uint64_t value;
    bool done;
    CHECK_OK(vki_queue_submit(&queue, &unit, 1, &error, &value));
    CHECK_OK(vki_queue_wait(&queue, value, UINT64_MAX, &error, &done));
    memcpy(bytes, back.mapped, slice->size_bytes);
    vki_queue_free(&queue);
    vki_recording_free(&recording);
    vki_buffer_destroy(device, &back);
}

static uint8_t pattern(uint64_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

/* Uploads a pattern in pieces of odd sizes, staged or however the slice allows, and reads it. */
static void upload_and_compare(bool staged)
{
    enum { SIZE = 50000003 }; /* more than both halves of the staging buffer */
    vklm_device *device = test_device(NULL);
    vki_pool pool;
    vki_slice skipped, slice, target;
    vki_upload upload;
    vki_pool_init(&pool, device, "a test", 60 << 20);
    CHECK_OK(vki_pool_take(&pool, 1000, &error, &skipped));
    CHECK_OK(vki_pool_take(&pool, SIZE, &error, &slice));
    target = slice;
    if (staged) target.mapped = NULL;
    CHECK_OK(vki_upload_begin(&upload, device, &error));
    uint64_t at = 0;
    for (uint64_t piece = 1; at < SIZE; piece = piece * 5 + 3) {
        if (piece > VKI_UPLOAD_HALF_BYTES) piece = VKI_UPLOAD_HALF_BYTES;
        if (piece > SIZE - at) piece = SIZE - at;
        uint8_t *bytes;
        CHECK_OK(vki_upload_map(&upload, &pool, &target, at, piece, &error, &bytes));
        for (uint64_t i = 0; i < piece; i++) bytes[i] = pattern(at + i);
        at += piece;
    }
    CHECK_OK(vki_upload_finish(&upload, &error));
    vki_upload_free(&upload);
    uint8_t *bytes = malloc(SIZE);
    read_slice(device, &pool, &slice, bytes);
    uint64_t wrong = 0;
    while (wrong < SIZE && bytes[wrong] == pattern(wrong)) wrong++;
    if (test_results_count()) ck_assert_uint_eq(wrong, SIZE);
    free(bytes);
    vki_pool_free(&pool);
    vklm_device_destroy(&device);
}

START_TEST(an_upload_arrives)
{
    upload_and_compare(false);
}
END_TEST

START_TEST(an_upload_through_staging_arrives)
{
    upload_and_compare(true);
}
END_TEST

START_TEST(an_upload_can_be_dropped_half_way)
{
    vklm_device *device = test_device(NULL);
    vki_pool pool;
    vki_slice slice;
    vki_upload upload;
    uint8_t *bytes;
    vki_pool_init(&pool, device, "a test", 40 << 20);
    CHECK_OK(vki_pool_take(&pool, 40 << 20, &error, &slice));
    slice.mapped = NULL;
    CHECK_OK(vki_upload_begin(&upload, device, &error));
    CHECK_OK(vki_upload_map(&upload, &pool, &slice, 0, VKI_UPLOAD_HALF_BYTES, &error, &bytes));
    CHECK_OK(vki_upload_map(&upload, &pool, &slice, VKI_UPLOAD_HALF_BYTES, 64, &error, &bytes));
    vki_upload_free(&upload); /* one half under way, one being recorded */
    vki_upload_free(&upload);
    vki_pool_free(&pool);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}
END_TEST

/* ---- What the shaders need ---------------------------------------------------------------------- */

typedef struct capability {
    uint32_t id;
    const char *of; /* what the module's name has; it is chosen where the device has the feature */
} capability;

static bool may_need(const vki_shader *shader, uint32_t id)
{
    static const capability all[] = {
        {1, ""}, {11, ""}, {5347, ""},         /* shader, Int64, PhysicalStorageBufferAddresses */
        {61, ""}, {63, ""}, {65, ""},          /* GroupNonUniform, its Arithmetic and Shuffle */
        {6018, "8_"}, {6019, "8_"},            /* dot products of packed bytes */
        {9, "_coop"}, {5345, "_coop"}, {6022, "_coop"}, /* Float16, VulkanMemoryModel, CooperativeMatrixKHR */
        {39, "_coop8"},                        /* Int8 */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].id == id && strstr(shader->name, all[i].of)) return true;
    return false;
}

/* The operand that says the scope of an atomic or of a barrier, or 0. */
static uint32_t scope_operand(uint32_t op)
{
    enum { OP_CONTROL_BARRIER = 224, OP_MEMORY_BARRIER = 225, OP_ATOMIC_LOAD = 227, OP_ATOMIC_STORE = 228,
           OP_ATOMIC_XOR = 242 };
    if (op == OP_CONTROL_BARRIER || op == OP_ATOMIC_STORE) return 2;
    if (op == OP_MEMORY_BARRIER) return 1;
    return op >= OP_ATOMIC_LOAD && op <= OP_ATOMIC_XOR ? 4 : 0;
}

static uint32_t constant_of(const vki_shader *shader, uint32_t id)
{
    enum { OP_CONSTANT = 43 };
    const uint32_t *words = shader->words;
    for (size_t at = 5; at < shader->size_bytes / 4; at += words[at] >> 16)
        if ((words[at] & 0xffff) == OP_CONSTANT && words[at + 2] == id) return words[at + 3];
    ck_abort_msg("%s: %u is no constant", shader->name, id);
    return 0;
}

/* Of features that are not asked for, one is the scope of the whole device, where the memory model is on. */
START_TEST(shaders_need_what_devices_are_asked_for)
{
    enum { OP_CAPABILITY = 17, SCOPE_DEVICE = 1 };
    for (size_t i = 0; i < vki_shader_count; i++) {
        const vki_shader *shader = &vki_shaders[i];
        const uint32_t *words = shader->words;
        for (size_t at = 5; at < shader->size_bytes / 4; at += words[at] >> 16) {
            const uint32_t op = words[at] & 0xffff, scope = scope_operand(op);
            if (op == OP_CAPABILITY)
                ck_assert_msg(may_need(shader, words[at + 1]), "%s: capability %u", shader->name, words[at + 1]);
            if (scope && constant_of(shader, words[at + scope]) == SCOPE_DEVICE)
                ck_abort_msg("%s: an atomic or a barrier of the device's scope", shader->name);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *c = add_case(suite, "choice", NULL, NULL);
    tcase_add_test(c, the_list_says_how_many_and_what);
    tcase_add_test(c, a_device_is_chosen_by_index_uuid_and_name);
    tcase_add_test(c, params_are_checked_and_may_be_short);
#if !defined(_WIN32)
    tcase_add_test(c, a_machine_without_a_driver_is_told_what_to_install);
#endif
    tcase_add_test(c, every_failed_allocation_is_reported_and_leaks_nothing);
    tcase_add_test(c, the_log_names_the_device);
    tcase_add_test(c, limits_are_sound);
    tcase_add_test(c, a_lost_device_stays_lost_and_is_destroyed);
    tcase_add_test(c, vulkan_results_become_statuses);
    TCase *m = add_case(suite, "memory", NULL, NULL);
    tcase_add_test(m, buffers_have_addresses_and_are_counted);
    tcase_add_test(m, slices_are_aligned_apart_and_within_their_block);
    tcase_add_test(m, what_is_given_back_is_joined_and_used_again);
    tcase_add_test(m, an_upload_arrives);
    tcase_add_test(m, an_upload_through_staging_arrives);
    tcase_add_test(m, an_upload_can_be_dropped_half_way);
    TCase *s = add_case(suite, "shaders", NULL, NULL);
    tcase_add_test(s, shaders_need_what_devices_are_asked_for);
    return run_suite(suite);
}
