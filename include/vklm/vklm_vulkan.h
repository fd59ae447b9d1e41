/* vklm_vulkan.h - vklm on the Vulkan device of your own program.
 *
 * vklm_device_create makes an instance and a device of its own, which suits programs that draw by another API.
 * A program that has a VkDevice lends it instead:
 *
 *     1. before vkCreateDevice, ask what to enable:   vklm_vulkan_get_requirements
 *     2. enable it, with an own compute queue:        requirements.extensions, .features or
 *                                                     vklm_vulkan_add_features, .queue_family
 *     3. after it, lend the device:                   vklm_device_adopt
 *     4. before vkDestroyDevice:                      vklm_device_destroy
 *
 * Everything else (models, sessions, steps) is as in vklm.h. On an adopted device the library calls Vulkan only
 * through the functions that vkGetInstanceProcAddr of the params gives, submits to one queue, waits for its own
 * submits alone (never for a queue or the device to be idle), and destroys what it made and nothing else: after
 * vklm_device_destroy the device is as it was. It writes no process-wide Vulkan pointers.
 *
 * What is enabled is what the params say, never what the device could do: without subgroup size control, packed
 * dot products, cooperative matrices or host query reset, models run by other kernels, or without device times.
 */
#ifndef VKLM_VULKAN_H
#define VKLM_VULKAN_H

#include <vulkan/vulkan_core.h>

#include <vklm/vklm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Before the device is made ----------------------------------------------------------------- */

enum { VKLM_VULKAN_MAX_EXTENSIONS = 16 };

/* What to make a VkDevice with. Strings live for ever; `features` points into the struct itself, so neither copy
 * nor move it while that is in use. */
typedef struct vklm_vulkan_requirements {
    size_t struct_size;      /* set before the call */
    vklm_status verdict;     /* VKLM_OK: the physical device will do. Else DEVICE_UNSUITABLE */
    char reason[640];        /* of that: a sentence that names everything missing; else empty */
    vklm_device_info info;   /* of the physical device */
    uint32_t api_version;    /* the least that VkApplicationInfo.apiVersion may be (VK_API_VERSION_1_2) */

    /* Device extensions to enable: all are offered, and none of those enabled already may be repeated. Only
     * VK_KHR_portability_subset, where it is among them, is more than an option. */
    uint32_t n_extensions;
    const char *extensions[VKLM_VULKAN_MAX_EXTENSIONS];

    /* A chain for VkDeviceCreateInfo.pNext (pEnabledFeatures stays NULL): VkPhysicalDeviceFeatures2, then a struct
     * for each group of features, with what vklm wants of what the device has. More structs may be put behind
     * its last one, but none of a kind that is in it, nor VkPhysicalDeviceVulkan12 or -13Features, which mean the
     * same bits: a program that has a chain of its own calls vklm_vulkan_add_features instead. */
    void *features;

    /* The queue to make for vklm: of a family that computes and does not draw, where there is one, so that models
     * run beside frames; else of the first that computes. Ask for one queue of it more than the program uses. */
    uint32_t queue_family;
    uint32_t queue_family_size; /* queues that the family has */
    bool queue_async;           /* the family does not draw */
    bool queue_shared;          /* the device has no second queue that computes: lend the program's own, with
                                   locks (vklm_vulkan_queue.shared) */
    const char *priority_extension; /* the extension (VK_KHR_global_priority, VK_EXT_global_priority) with which that
                                       queue may be made with VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR, so that frames come
                                       first; NULL: not offered. Not among `extensions` */

    uint64_t storage[128];      /* private: the structs of `features` */
} vklm_vulkan_requirements;

/* Says whether a physical device can run vklm and what to enable. api_version: what the instance was made with
 * (VkApplicationInfo.apiVersion). VKLM_OK also with a verdict of DEVICE_UNSUITABLE. Errors: INVALID_ARGUMENT (an
 * argument is NULL, struct_size is not set), OUT_OF_MEMORY. Makes nothing. Any thread. */
VKLM_API vklm_status vklm_vulkan_get_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr,
                                                  VkInstance instance, uint32_t api_version,
                                                  VkPhysicalDevice physical_device, vklm_error *error,
                                                  vklm_vulkan_requirements *requirements_out);

/* Adds what vklm wants to features that the program enables anyway. `chain`: what VkDeviceCreateInfo.pNext points to,
 * or NULL; `core`: what pEnabledFeatures points to, or NULL. Each wanted bit is set where the chain has a struct for
 * it, be it VkPhysicalDeviceVulkan12, -13Features or the struct of one extension; for the rest structs
 * of `requirements` are put behind the chain's last, which takes them out of requirements->features. Returns the
 * chain's head: `chain` where that was not NULL. No bit is cleared. Call it once for one requirements struct, which
 * has to outlive vkCreateDevice. Any thread. */
VKLM_API void *vklm_vulkan_add_features(vklm_vulkan_requirements *requirements, void *chain,
                                        VkPhysicalDeviceFeatures *core);

/* ---- Lending the device -------------------------------------------------------------------------- */

typedef struct vklm_vulkan_queue {
    uint32_t family, index;
    VkDeviceQueueCreateFlags flags; /* that it was made with. Where they have
                                       VK_DEVICE_QUEUE_CREATE_INTERNALLY_SYNCHRONIZED_BIT_KHR no lock is called */
    bool shared;                    /* the program, or another vklm_device, submits to it too */
} vklm_vulkan_queue;

typedef struct vklm_adopt_params {
    size_t struct_size;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkInstance instance;
    uint32_t api_version;           /* that it was made with */
    VkPhysicalDevice physical_device;
    VkDevice device;

    /* What was enabled when the device was made. NULL: nothing. */
    const char *const *extensions;
    uint32_t n_extensions;
    const void *features;           /* VkDeviceCreateInfo.pNext; structs that vklm does not know are passed over */
    const VkPhysicalDeviceFeatures *core_features; /* VkDeviceCreateInfo.pEnabledFeatures */

    /* One or more, of which vklm uses one: a queue that is not shared before one that is, then one of a family that
     * does not draw, then the first. */
    const vklm_vulkan_queue *queues;
    uint32_t n_queues;

    /* Called around each use of a shared queue, vkQueueSubmit alone, on the thread that calls vklm (or on one that
     * vklm works on). Not recursive: never call vklm on this device while holding it. Both or neither; without,
     * the program itself never uses the queue while a function of vklm, or a thread of its, is at work. */
    void (*lock_queue)(void *user, VkQueue queue);
    void (*unlock_queue)(void *user, VkQueue queue);
    void *lock_user;

    /* Passed to every vkCreate, vkAllocate, vkFree and vkDestroy. Copied. Called on up to vklm_model_params.threads
     * threads at once while pipelines are compiled. */
    const VkAllocationCallbacks *allocation_callbacks;

    /* Told of device memory: allocate_memory before an allocation (false refuses it: the call fails with
     * OUT_OF_DEVICE_MEMORY, or takes memory of another heap), free_memory after one was freed, or was not made after
     * all. heap: index in VkPhysicalDeviceMemoryProperties. Either may be NULL. */
    bool (*allocate_memory)(void *user, uint32_t heap, VkDeviceSize size_bytes);
    void (*free_memory)(void *user, uint32_t heap, VkDeviceSize size_bytes);
    void *memory_user;

    /* The program's, used for vklm's pipelines too and never destroyed; not one that it made EXTERNALLY_SYNCHRONIZED.
     * Null: one of vklm's own, from settings->pipeline_cache. */
    VkPipelineCache pipeline_cache;

    /* NULL or the rest: allocator, log, shader_dir, submit_limit_ms, block_limit_bytes, memory_budget_bytes,
     * pipeline_cache. What chooses a device or makes its queue is not read. */
    const vklm_device_params *settings;
} vklm_adopt_params;

/* Makes a vklm_device of the program's. The params are read during the call; handles and callbacks have to stay good
 * until vklm_device_destroy has returned, which comes before vkDestroyDevice and after the models' destruction. One
 * VkDevice may be adopted several times, also at the same time. Errors: INVALID_ARGUMENT (a handle, a queue or the
 * locks; the text says which), DEVICE_UNSUITABLE (the device lacks something, or was made without it: the text
 * names each feature to enable), UNSUPPORTED, OUT_OF_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST, DRIVER_ERROR. On
 * failure nothing is left behind. Any thread. */
VKLM_API vklm_status vklm_device_adopt(const vklm_adopt_params *params, vklm_error *error, vklm_device **device_out);

#ifdef __cplusplus
}
#endif
#endif
