/* device.c - the public vklm_device: own VkInstance, own VkDevice with one compute queue.
 *
 * Nothing is shared between devices but the loader itself, so different devices may be used on
 * different threads. What is chosen stands in choose.c, what a device must have in probe.c; a program's own device is
 * taken in adopted.c. Also here, for both: how a VkResult becomes a status, and the one way to the queue.
 */
#include "gpu/pipeline.h"
#include "gpu/probe.h"

#include <string.h>

#include "base/checked.h"

#define NO_DRIVER                                                                                  \
    "no Vulkan driver was found; install the GPU vendor's driver, or mesa-vulkan-drivers "         \
    "(which also has one that runs on the CPU)"

static const char *result_name(VkResult result)
{
#define NAMED(name) {name, #name}
    static const struct {
        VkResult result;
        const char *name;
    } names[] = {
        NAMED(VK_ERROR_OUT_OF_HOST_MEMORY),    NAMED(VK_ERROR_OUT_OF_DEVICE_MEMORY),
        NAMED(VK_ERROR_INITIALIZATION_FAILED), NAMED(VK_ERROR_DEVICE_LOST),
        NAMED(VK_ERROR_MEMORY_MAP_FAILED),     NAMED(VK_ERROR_LAYER_NOT_PRESENT),
        NAMED(VK_ERROR_EXTENSION_NOT_PRESENT), NAMED(VK_ERROR_FEATURE_NOT_PRESENT),
        NAMED(VK_ERROR_INCOMPATIBLE_DRIVER),   NAMED(VK_ERROR_TOO_MANY_OBJECTS),
        NAMED(VK_ERROR_UNKNOWN),
    };
#undef NAMED
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].result == result) return names[i].name;
    return "VkResult";
}

vklm_status vki_check(vklm_device *device, VkResult result, const char *what, vklm_error *error)
{
    if (result >= VK_SUCCESS) return VKLM_OK;
    vklm_status status = VKLM_DRIVER_ERROR;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY) status = VKLM_OUT_OF_MEMORY;
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY) status = VKLM_OUT_OF_DEVICE_MEMORY;
    if (result == VK_ERROR_DEVICE_LOST) {
        status = VKLM_DEVICE_LOST;
        if (device) device->lost = true;
    }
    return vki_fail(error, status, "%s: %s (%d): %s", what, result_name(result), (int)result,
                    vklm_status_sentence(status));
}

vklm_status vki_device_usable(const vklm_device *device, vklm_error *error)
{
    if (!device->lost) return VKLM_OK;
    return vki_fail(error, VKLM_DEVICE_LOST,
                    "%s was lost; destroy it with all its models and make a new one",
                    device->info.name);
}

vklm_status vki_device_submit(vklm_device *device, const VkSubmitInfo *submit, VkFence fence, vklm_error *error)
{
    TRY(vki_device_usable(device, error));
    vki_mutex_lock(&device->queue_mutex);
    if (device->hooks.lock_queue) device->hooks.lock_queue(device->hooks.lock_user, device->queue);
    const VkResult result = device->fn.vkQueueSubmit(device->queue, 1, submit, fence);
    if (device->hooks.lock_queue) device->hooks.unlock_queue(device->hooks.lock_user, device->queue);
    vki_mutex_unlock(&device->queue_mutex);
    return vki_check(device, result, "vkQueueSubmit", error);
}

vklm_status vki_command_pool(vklm_device *device, VkCommandPoolCreateFlags flags, vklm_error *error, VkCommandPool *pool)
{
    const VkCommandPoolCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = flags,
        .queueFamilyIndex = device->queue_family,
    };
    const VkResult result = device->fn.vkCreateCommandPool(device->device, &create, device->callbacks, pool);
    return vki_check(device, result, "vkCreateCommandPool", error);
}

vklm_status vki_command_buffers(vklm_device *device, VkCommandPool pool, size_t n, vklm_error *error,
                                VkCommandBuffer *commands)
{
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = (uint32_t)n,
    };
    return vki_check(device, device->fn.vkAllocateCommandBuffers(device->device, &allocate, commands),
                     "vkAllocateCommandBuffers", error);
}

/* ---- The instance ---------------------------------------------------------------------------- */

/* Asks for Vulkan 1.2 and no more: what vklm likes of later versions are extensions of it, and the
 * shaders' sizes are constants in the way of 1.2, which validation layers call outdated in 1.3. */
static vklm_status open_instance(vklm_error *error, vki_instance_functions *fn,
                                 VkInstance *instance)
{
    *instance = VK_NULL_HANDLE;
    const uint32_t loader = vki_loader_open();
    if (loader == 0)
        return vki_fail(error, VKLM_NO_VULKAN,
                        "no Vulkan loader on this machine; install libvulkan1 and a driver, e.g. "
                        "mesa-vulkan-drivers");
    if (loader < VK_API_VERSION_1_2)
        return vki_fail(error, VKLM_NO_VULKAN,
                        "the Vulkan loader knows only Vulkan %u.%u; update it to 1.2",
                        VK_API_VERSION_MAJOR(loader), VK_API_VERSION_MINOR(loader));
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "vklm",
        .engineVersion = vklm_version(),
        .apiVersion = VK_API_VERSION_1_2,
    };
    /* Drivers that are not fully conformant (Vulkan over Metal) are shown only to those who ask, by
     * an extension that older loaders lack. */
    VkInstanceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR,
        .pApplicationInfo = &application,
        .enabledExtensionCount = 1,
        .ppEnabledExtensionNames = &(const char *){VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME},
    };
    VkResult result = vkCreateInstance(&create, NULL, instance);
    if (result == VK_ERROR_EXTENSION_NOT_PRESENT) {
        create.flags = 0;
        create.enabledExtensionCount = 0;
        result = vkCreateInstance(&create, NULL, instance);
    }
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) return vki_fail(error, VKLM_NO_VULKAN, NO_DRIVER);
    TRY(vki_check(NULL, result, "vkCreateInstance", error));
    vki_instance_functions_of(vki_loader_get(), *instance, fn);
    return VKLM_OK;
}

/* *probes: as many as *count, owned by the caller; NULL after a failure. */
static vklm_status probe_all(const vki_host *host, const vki_instance_functions *fn,
                             VkInstance instance, vklm_error *error, vki_probe **probes,
                             uint32_t *count)
{
    vklm_status status = VKLM_OK;
    VkPhysicalDevice *all = NULL;
    uint32_t n = 0;
    *probes = NULL;
    *count = 0;
    /* A loader whose drivers all found no hardware says INITIALIZATION_FAILED. */
    VkResult result = fn->EnumeratePhysicalDevices(instance, &n, NULL);
    if (result == VK_ERROR_INITIALIZATION_FAILED || (result >= VK_SUCCESS && n == 0))
        return vki_fail(error, VKLM_NO_VULKAN, NO_DRIVER);
    TRY(vki_check(NULL, result, "vkEnumeratePhysicalDevices", error));
    TRY_OR_FAIL(vki_alloc(host, n, sizeof *all, error, &all));
    TRY_OR_FAIL(vki_alloc(host, n, sizeof **probes, error, probes));
    result = fn->EnumeratePhysicalDevices(instance, &n, all);
    TRY_OR_FAIL(vki_check(NULL, result, "vkEnumeratePhysicalDevices", error));
    for (uint32_t i = 0; i < n; i++)
        TRY_OR_FAIL(vki_probe_device(host, fn, all[i], &(vki_enabled){.api_version = VK_API_VERSION_1_2}, error,
                                     &(*probes)[i]));
    *count = n;
fail:
    vki_release(host, &all);
    if (status != VKLM_OK) vki_release(host, probes);
    return status;
}

vklm_status vklm_device_list(vklm_error *error, vklm_device_info *infos, uint32_t *count)
{
    vki_error_clear(error);
    if (!count) return vki_fail(error, VKLM_INVALID_ARGUMENT, "vklm_device_list: count is NULL");
    const uint32_t capacity = infos ? *count : 0;
    *count = 0;
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    VkInstance instance = VK_NULL_HANDLE;
    vki_instance_functions fn;
    uint32_t n;
    vki_probe *probes = NULL;
    vklm_status status;
    TRY_OR_FAIL(open_instance(error, &fn, &instance));
    TRY_OR_FAIL(probe_all(&host, &fn, instance, error, &probes, &n));
    *count = n;
    for (uint32_t i = 0; i < n && i < capacity; i++) infos[i] = probes[i].info;
    if (infos && capacity < n)
        status = vki_fail(error, VKLM_BUFFER_TOO_SMALL, "room for %u devices, but there are %u",
                          capacity, n);
fail:
    vki_release(&host, &probes);
    if (instance) fn.DestroyInstance(instance, NULL);
    return status;
}

/* ---- The device ------------------------------------------------------------------------------ */

static vklm_status copy_shader_dir(vklm_device *device, const char *dir, vklm_error *error)
{
    if (!dir) return VKLM_OK;
#if defined(VKLM_RUNTIME_GLSL)
    char *copy;
    TRY(vki_alloc(&device->host, strlen(dir) + 1, 1, error, &copy));
    memcpy(copy, dir, strlen(dir));
    device->shader_dir = copy;
    return VKLM_OK;
#else
    (void)device;
    return vki_fail(error, VKLM_UNSUPPORTED,
                    "shader_dir: this build of vklm has no shader compiler; configure it with "
                    "-DVKLM_RUNTIME_GLSL=ON");
#endif
}

void vki_device_take_probe(vklm_device *device, const vki_probe *probe, uint64_t block_limit_bytes)
{
    device->physical = probe->physical;
    device->info = probe->info;
    device->limits = probe->limits;
    device->memory_properties = probe->memory;
    device->queue_family = probe->queue_family;
    device->has_memory_budget = probe->has_memory_budget;
    device->has_memory_priority = probe->features.memory_priority.memoryPriority;
    if (block_limit_bytes && block_limit_bytes < device->limits.max_block_bytes)
        device->limits.max_block_bytes = block_limit_bytes;
}

vklm_status vki_device_begin(const vklm_device_params *params, vklm_error *error, vklm_device_params *own,
                             vklm_device **device_out)
{
    *device_out = NULL;
    TRY(vki_params(own, sizeof *own, params, "vklm_device_params", error));
    if (!(own->submit_limit_ms >= 0))
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "submit_limit_ms is %g: it must not be negative",
                        own->submit_limit_ms);
    vki_host host;
    vki_host_init(&host, &own->allocator, &own->log);
    vklm_device *device;
    TRY(vki_alloc(&host, 1, sizeof *device, error, &device));
    device->host = host;
    device->memory_budget = own->memory_budget_bytes;
    device->submit_limit_ms = own->submit_limit_ms > 0 ? own->submit_limit_ms : 50;
    vklm_status status;
    TRY_OR_FAIL(vki_mutex_init(&device->queue_mutex, error));
    TRY_OR_FAIL(copy_shader_dir(device, own->shader_dir, error));
    *device_out = device;
    return VKLM_OK;
fail:
    vklm_device_destroy(&device);
    return status;
}

vklm_status vki_device_finish(vklm_device *device, const vklm_device_params *own, vklm_error *error)
{
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, VKI_PUSH_BYTES};
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    const VkResult result = device->fn.vkCreatePipelineLayout(device->device, &layout, device->callbacks,
                                                              &device->pipeline_layout);
    TRY(vki_check(device, result, "vkCreatePipelineLayout", error));
    if (!device->cache_borrowed)
        TRY(vki_device_create_cache(device, own->pipeline_cache, own->pipeline_cache_bytes, error));
    vki_log(&device->host, VKLM_LOG_INFO, "device: %s, %s; chosen: %s; %s", device->info.name, device->info.driver,
            device->info.reason, device->info.queue);
    return VKLM_OK;
}

/* Makes the device with a queue of this priority (0: the usual one). */
static VkResult create_device(vklm_device *device, vki_probe *probe, VkQueueGlobalPriorityKHR priority)
{
    const VkDeviceQueueGlobalPriorityCreateInfoKHR global = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR,
        .globalPriority = priority,
    };
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .pNext = priority ? &global : NULL,
        .queueFamilyIndex = probe->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &(const float){0.5f},
    };
    const char *extensions[VKI_MAX_EXTENSIONS + 1];
    memcpy(extensions, probe->extensions, sizeof probe->extensions);
    extensions[probe->n_extensions] = probe->priority_extension;
    const VkDeviceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = vki_features_chain(&probe->features, probe),
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = probe->n_extensions + (priority ? 1 : 0),
        .ppEnabledExtensionNames = extensions,
    };
    return device->instance_fn.CreateDevice(probe->physical, &create, NULL, &device->device);
}

/* A low priority lets the program's frames go first. Drivers may offer it and yet refuse it to a process. */
static vklm_status open_device(vklm_device *device, vki_probe *probe, vklm_queue_priority wanted, vklm_error *error)
{
    const bool ask = wanted == VKLM_QUEUE_PRIORITY_DEFAULT && probe->priority_extension;
    VkResult result = create_device(device, probe, ask ? VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR : 0);
    const bool low = ask && result >= VK_SUCCESS;
    if (ask && !low) result = create_device(device, probe, 0);
    TRY(vki_check(device, result, "vkCreateDevice", error));
    vki_loader_device_functions(&device->instance_fn, device->device, &device->fn);
    device->fn.vkGetDeviceQueue(device->device, probe->queue_family, 0, &device->queue);
    vki_describe_queue(probe, low ? "low priority" : ask ? "normal priority: low was refused" : "normal priority",
                       device->info.queue);
    return VKLM_OK;
}

vklm_status vklm_device_create(const vklm_device_params *params, vklm_error *error,
                               vklm_device **device_out)
{
    vki_error_clear(error);
    if (!device_out)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "vklm_device_create: device_out is NULL");
    *device_out = NULL;
    vklm_device_params own;
    vklm_device *device;
    TRY(vki_device_begin(params, error, &own, &device));
    const vki_host host = device->host;
    vklm_status status;
    vki_probe *probes = NULL;
    char reason[sizeof device->info.reason];
    uint32_t count, index;
    TRY_OR_FAIL(open_instance(error, &device->instance_fn, &device->instance));
    TRY_OR_FAIL(probe_all(&host, &device->instance_fn, device->instance, error, &probes, &count));
    TRY_OR_FAIL(vki_choose_device(&own, probes, count, error, &index, reason));
    vki_device_take_probe(device, &probes[index], own.block_limit_bytes);
    memcpy(device->info.reason, reason, sizeof reason);
    TRY_OR_FAIL(open_device(device, &probes[index], own.queue_priority, error));
    TRY_OR_FAIL(vki_device_finish(device, &own, error));
    *device_out = device;
    device = NULL;
fail:
    vki_release(&host, &probes);
    vklm_device_destroy(&device);
    return status;
}

void vklm_device_destroy(vklm_device **device)
{
    if (!device || !*device) return;
    vklm_device *own = *device;
    *device = NULL;
    if (own->device) {
        if (!own->cache_borrowed)
            own->fn.vkDestroyPipelineCache(own->device, own->pipeline_cache, own->callbacks);
        own->fn.vkDestroyPipelineLayout(own->device, own->pipeline_layout, own->callbacks);
        if (!own->adopted) own->fn.vkDestroyDevice(own->device, NULL);
    }
    if (own->instance && !own->adopted) own->instance_fn.DestroyInstance(own->instance, NULL);
    vki_mutex_free(&own->queue_mutex);
    const vki_host host = own->host;
    vki_release(&host, &own->shader_dir);
    vki_release(&host, &own);
}

void vklm_device_get_info(const vklm_device *device, vklm_device_info *info_out)
{
    *info_out = device->info;
}
