/* adopted.c - a program's own VkDevice as a vklm_device: what it has to be made with, and taking it.
 *
 * Nothing here makes or destroys an instance, device or queue. Vulkan is reached through the program's
 * vkGetInstanceProcAddr; the loader that vklm would open for itself stays closed.
 */
#include "gpu/probe.h"

#include <stdio.h>
#include <string.h>

#include "vklm/vklm_vulkan.h"

/* VK_DEVICE_QUEUE_CREATE_INTERNALLY_SYNCHRONIZED_BIT_KHR, which headers have since 2026. */
enum { INTERNALLY_SYNCHRONIZED = 0x4 };

_Static_assert(sizeof(vki_features) <= sizeof((vklm_vulkan_requirements *)0)->storage, "the features have room");
_Static_assert((int)VKI_MAX_EXTENSIONS <= (int)VKLM_VULKAN_MAX_EXTENSIONS, "the extensions have room");

static vklm_status open_functions(PFN_vkGetInstanceProcAddr get, VkInstance instance, VkPhysicalDevice physical,
                                  vklm_error *error, vki_instance_functions *fn)
{
    if (!get || !instance || !physical)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "%s is NULL",
                        !get ? "get_instance_proc_addr" : !instance ? "instance" : "physical_device");
    vki_instance_functions_of(get, instance, fn);
    if (fn->GetDeviceProcAddr && fn->GetPhysicalDeviceProperties2 && fn->GetPhysicalDeviceFeatures2) return VKLM_OK;
    return vki_fail(error, VKLM_INVALID_ARGUMENT,
                    "get_instance_proc_addr knows no functions of Vulkan 1.1 for this instance; make it with "
                    "VkApplicationInfo.apiVersion = VK_API_VERSION_1_2 or later");
}

/* ---- Requirements ------------------------------------------------------------------------------- */

static void fill_requirements(vki_probe *probe, vklm_vulkan_requirements *r)
{
    r->info = probe->info;
    r->n_extensions = probe->n_extensions;
    memcpy(r->extensions, probe->extensions, sizeof probe->extensions);
    r->queue_family = probe->queue_family;
    r->queue_family_size = probe->family_size;
    r->queue_async = probe->queue_async;
    r->queue_shared = probe->n_compute_queues < 2;
    r->priority_extension = probe->priority_extension;
    if (!probe->info.missing[0]) return;
    r->verdict = VKLM_DEVICE_UNSUITABLE;
    snprintf(r->reason, sizeof r->reason, "%s lacks %s; choose another or update its driver", probe->info.name,
             probe->info.missing);
}

vklm_status vklm_vulkan_get_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                         uint32_t api_version, VkPhysicalDevice physical_device, vklm_error *error,
                                         vklm_vulkan_requirements *requirements_out)
{
    vki_error_clear(error);
    vklm_vulkan_requirements *r = requirements_out;
    const size_t size = r ? r->struct_size : 0;
    if (size < sizeof *r) /* as a later header appends members, it becomes the size of today */
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "requirements_out is NULL, or its struct_size is not set");
    memset(r, 0, sizeof *r);
    r->struct_size = size;
    r->api_version = VK_API_VERSION_1_2;
    vki_host host;
    vki_instance_functions fn;
    vki_probe probe;
    vki_host_init(&host, NULL, NULL);
    if (api_version < VK_API_VERSION_1_2) {
        r->verdict = VKLM_DEVICE_UNSUITABLE;
        snprintf(r->reason, sizeof r->reason, "the instance is of Vulkan %u.%u; make it with "
                 "VkApplicationInfo.apiVersion = VK_API_VERSION_1_2 or later",
                 VK_API_VERSION_MAJOR(api_version), VK_API_VERSION_MINOR(api_version));
        return VKLM_OK;
    }
    TRY(open_functions(get_instance_proc_addr, instance, physical_device, error, &fn));
    TRY(vki_probe_device(&host, &fn, physical_device, &(vki_enabled){.api_version = api_version}, error, &probe));
    fill_requirements(&probe, r);
    vki_features *features = (vki_features *)(void *)r->storage;
    memcpy(features, &probe.features, sizeof *features);
    r->features = vki_features_chain(features, &probe);
    return VKLM_OK;
}

void *vklm_vulkan_add_features(vklm_vulkan_requirements *requirements, void *chain, VkPhysicalDeviceFeatures *core)
{
    if (!requirements || !requirements->features) return chain;
    requirements->features = NULL;
    return vki_features_add((vki_features *)(void *)requirements->storage, chain, core);
}

/* ---- Taking a device ---------------------------------------------------------------------------- */

static vklm_status check_params(const vklm_adopt_params *p, vklm_error *error)
{
    if (!p->device) return vki_fail(error, VKLM_INVALID_ARGUMENT, "device is NULL");
    if (!p->queues || p->n_queues == 0) return vki_fail(error, VKLM_INVALID_ARGUMENT, "queues: at least one is needed");
    if (p->n_extensions && !p->extensions) return vki_fail(error, VKLM_INVALID_ARGUMENT, "extensions is NULL");
    if (!p->lock_queue != !p->unlock_queue)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "lock_queue and unlock_queue: give both or neither");
    if (p->api_version >= VK_API_VERSION_1_2) return VKLM_OK;
    return vki_fail(error, VKLM_DEVICE_UNSUITABLE,
                    "api_version is %u.%u; make the instance with VkApplicationInfo.apiVersion = VK_API_VERSION_1_2 "
                    "or later and say so",
                    VK_API_VERSION_MAJOR(p->api_version), VK_API_VERSION_MINOR(p->api_version));
}

/* What the physical device lacks is told apart from what the device was made without. */
static vklm_status probe_made(const vklm_device *device, const vklm_adopt_params *p, vklm_error *error,
                              vki_probe *probe)
{
    const vki_host *host = &device->host;
    vki_enabled enabled = {.api_version = p->api_version};
    TRY(vki_probe_device(host, &device->instance_fn, p->physical_device, &enabled, error, probe));
    if (probe->info.missing[0])
        return vki_fail(error, VKLM_DEVICE_UNSUITABLE, "%s lacks %s", probe->info.name, probe->info.missing);
    enabled = (vki_enabled){p->api_version, true, p->extensions, p->n_extensions, p->features, p->core_features};
    TRY(vki_probe_device(host, &device->instance_fn, p->physical_device, &enabled, error, probe));
    if (!probe->info.missing[0]) return VKLM_OK;
    return vki_fail(error, VKLM_DEVICE_UNSUITABLE,
                    "the VkDevice was made without %s; enable it in VkDeviceCreateInfo, as "
                    "vklm_vulkan_get_requirements says, and pass the chain as `features`",
                    probe->info.missing);
}

static bool needs_lock(const vklm_vulkan_queue *queue)
{
    return queue->shared && !(queue->flags & INTERNALLY_SYNCHRONIZED);
}

/* Chooses the queue, and has the probe speak of its family. */
static vklm_status choose_queue(const vklm_device *device, const vklm_adopt_params *p, vklm_error *error,
                                vki_probe *probe, vklm_vulkan_queue *queue)
{
    int best = -1;
    for (uint32_t i = 0; i < p->n_queues; i++) {
        bool computes;
        TRY(vki_probe_family(&device->host, &device->instance_fn, p->queues[i].family, error, probe, &computes));
        const int score = (p->queues[i].shared ? 0 : 2) + (probe->queue_async ? 1 : 0);
        if (!computes || score <= best) continue;
        best = score;
        *queue = p->queues[i];
    }
    if (best < 0)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "queues: none is of a family that computes on this device");
    bool computes;
    TRY(vki_probe_family(&device->host, &device->instance_fn, queue->family, error, probe, &computes));
    if (queue->index < probe->family_size) return VKLM_OK;
    return vki_fail(error, VKLM_INVALID_ARGUMENT, "queues: family %u ends before queue %u", queue->family,
                    queue->index);
}

static vklm_status take_queue(vklm_device *device, const vklm_vulkan_queue *queue, vklm_error *error)
{
    const VkDeviceQueueInfo2 info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_INFO_2,
        .flags = queue->flags,
        .queueFamilyIndex = queue->family,
        .queueIndex = queue->index,
    };
    if (queue->flags) device->fn.vkGetDeviceQueue2(device->device, &info, &device->queue);
    else device->fn.vkGetDeviceQueue(device->device, queue->family, queue->index, &device->queue);
    if (device->queue) return VKLM_OK;
    return vki_fail(error, VKLM_INVALID_ARGUMENT,
                    "the device has no queue %u of family %u with flags %#x: they are those of its "
                    "VkDeviceQueueCreateInfo",
                    queue->index, queue->family, (unsigned)queue->flags);
}

static void take_hooks(vklm_device *device, const vklm_adopt_params *p, bool lock)
{
    if (p->allocation_callbacks) {
        device->own_callbacks = *p->allocation_callbacks;
        device->callbacks = &device->own_callbacks;
    }
    if (lock) {
        device->hooks.lock_queue = p->lock_queue;
        device->hooks.unlock_queue = p->unlock_queue;
        device->hooks.lock_user = p->lock_user;
    }
    device->hooks.allocate_memory = p->allocate_memory;
    device->hooks.free_memory = p->free_memory;
    device->hooks.memory_user = p->memory_user;
    device->pipeline_cache = p->pipeline_cache;
    device->cache_borrowed = p->pipeline_cache != VK_NULL_HANDLE;
}

static vklm_status take_device(vklm_device *device, const vklm_adopt_params *p, vklm_error *error)
{
    vki_loader_device_functions(&device->instance_fn, p->device, &device->fn);
    if (!device->fn.vkWaitSemaphores || !device->fn.vkGetBufferDeviceAddress || !device->fn.vkGetDeviceQueue2)
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "vkGetDeviceProcAddr knows no functions of Vulkan 1.2 for this device");
    device->device = p->device;
    return VKLM_OK;
}

vklm_status vklm_device_adopt(const vklm_adopt_params *params, vklm_error *error, vklm_device **device_out)
{
    vki_error_clear(error);
    if (!device_out) return vki_fail(error, VKLM_INVALID_ARGUMENT, "vklm_device_adopt: device_out is NULL");
    *device_out = NULL;
    vklm_adopt_params p;
    vklm_device_params settings;
    vklm_device *device;
    TRY(vki_params(&p, sizeof p, params, "vklm_adopt_params", error));
    TRY(check_params(&p, error));
    TRY(vki_device_begin(p.settings, error, &settings, &device));
    device->adopted = true;
    device->instance = p.instance;
    vklm_status status;
    vki_probe probe;
    vklm_vulkan_queue queue = {0};
    TRY_OR_FAIL(open_functions(p.get_instance_proc_addr, p.instance, p.physical_device, error, &device->instance_fn));
    TRY_OR_FAIL(probe_made(device, &p, error, &probe));
    TRY_OR_FAIL(choose_queue(device, &p, error, &probe, &queue));
    vki_device_take_probe(device, &probe, settings.block_limit_bytes);
    snprintf(device->info.reason, sizeof device->info.reason, "it is the program's own");
    vki_describe_queue(&probe, queue.shared ? "shared with the program" : "lent by the program", device->info.queue);
    take_hooks(device, &p, needs_lock(&queue));
    TRY_OR_FAIL(take_device(device, &p, error));
    TRY_OR_FAIL(take_queue(device, &queue, error));
    TRY_OR_FAIL(vki_device_finish(device, &settings, error));
    *device_out = device;
    return VKLM_OK;
fail:
    vklm_device_destroy(&device);
    return status;
}
