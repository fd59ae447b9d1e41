/* device.h - one Vulkan device, with its own instance or adopted from the program: features, limits, function table.
 *
 * The public vklm_device is this struct. What another layer needs to know of the hardware is read
 * here once. No vk* symbol is visible outside: volk's names are prefixed at build time.
 */
#ifndef VKI_DEVICE_H
#define VKI_DEVICE_H

#include "gpu/vulkan.h"
#include "base/os.h"

/* C of m rows and n columns from A of k columns and B, by all lanes of a subgroup; m 0: there is no such product. */
typedef struct vki_matrix_size {
    uint32_t m, n, k;
} vki_matrix_size;

typedef struct vki_limits {
    uint32_t subgroup_size;            /* what the driver picks by default */
    uint32_t subgroup_min, subgroup_max;
    bool subgroup_fixed;               /* the device has one size only, asked for or not */
    bool subgroup_control;             /* a pipeline may ask for a size, and for full subgroups */
    bool full_subgroups;               /* a pipeline may ask for full subgroups of the default size */
    uint32_t max_workgroup_subgroups;  /* where a size is asked for */
    uint32_t subgroup_operations;      /* VkSubgroupFeatureFlags in compute */
    uint32_t max_workgroup_invocations;
    uint32_t max_grid[3];
    uint32_t shared_bytes;
    uint64_t max_block_bytes;          /* of one allocation */
    double timestamp_ns;               /* per tick; 0: no timestamps that the host can reset */
    uint64_t timestamp_mask;           /* the bits that count */
    bool fast_packed_dot;              /* four products of bytes in an instruction, or software */
    bool is_cpu;                       /* software Vulkan: few lanes a row, no shared memory */
    bool is_discrete;
    uint32_t vendor;                   /* PCI id */
    vki_matrix_size coop_f16, coop_s8; /* cooperative matrices of f16 with f32 sums, of int8 with int32 sums */
} vki_limits;

struct vklm_device {
    vki_host host;
    vklm_device_info info;
    vki_limits limits;
    double submit_limit_ms;
    const char *shader_dir;            /* owned copy, or NULL */

    bool adopted;                      /* instance, device and queue are the program's */
    VkInstance instance;
    vki_instance_functions instance_fn;
    VkPhysicalDevice physical;
    VkDevice device;
    struct VolkDeviceTable fn;
    const VkAllocationCallbacks *callbacks; /* for every call that takes them: NULL or own_callbacks */
    VkAllocationCallbacks own_callbacks;
    VkPhysicalDeviceMemoryProperties memory_properties;
    uint32_t queue_family;
    VkQueue queue;                     /* vki_device_submit alone uses it */
    vki_mutex queue_mutex;
    VkPipelineLayout pipeline_layout;  /* no descriptor sets; 128 bytes of push constants */
    VkPipelineCache pipeline_cache;
    bool cache_borrowed;               /* from the program */
    struct {                           /* the program's; members may be NULL */
        void (*lock_queue)(void *user, VkQueue queue);
        void (*unlock_queue)(void *user, VkQueue queue);
        void *lock_user;
        bool (*allocate_memory)(void *user, uint32_t heap, VkDeviceSize size_bytes);
        void (*free_memory)(void *user, uint32_t heap, VkDeviceSize size_bytes);
        void *memory_user;
    } hooks;

    atomic_bool lost;                  /* sticky */
    _Atomic uint64_t memory_used;      /* bytes of device memory allocated now */
    _Atomic uint64_t heap_used[VK_MAX_MEMORY_HEAPS]; /* of them */
    uint64_t memory_budget;            /* that memory_used never exceeds; 0: none */
    bool has_memory_budget, has_memory_priority; /* extensions that are enabled */
    bool measuring;                    /* allocates nothing: vki_measure_init */
    VkMemoryRequirements measured;     /* then: of the last buffer, which was of this size */
    uint64_t measured_size;
};

/* OK, or the status and text of a failed Vulkan call; sets device->lost. `what` names the call or
 * the thing: "vkQueueSubmit", "memory for the KV cache". */
vklm_status vki_check(vklm_device *device, VkResult result, const char *what, vklm_error *error);

/* DEVICE_LOST where the device was lost before. */
vklm_status vki_device_usable(const vklm_device *device, vklm_error *error);

/* vkQueueSubmit of one submit to the device's queue, under its locks. Any thread. */
vklm_status vki_device_submit(vklm_device *device, const VkSubmitInfo *submit, VkFence fence, vklm_error *error);

/* A pool of command buffers for that queue, and n primary ones of it. */
vklm_status vki_command_pool(vklm_device *device, VkCommandPoolCreateFlags flags, vklm_error *error, VkCommandPool *pool);
vklm_status vki_command_buffers(vklm_device *device, VkCommandPool pool, size_t n, vklm_error *error,
                                VkCommandBuffer *commands);

/* How a device is made: begin reads the params (own) and allocates, the caller fills in instance, device and queue,
 * and finish makes what belongs to them. vklm_device_destroy undoes any part of it. */
vklm_status vki_device_begin(const vklm_device_params *params, vklm_error *error, vklm_device_params *own,
                             vklm_device **device_out);
vklm_status vki_device_finish(vklm_device *device, const vklm_device_params *own, vklm_error *error);

/* Makes device->pipeline_cache, from a blob of vklm_device_get_pipeline_cache where that is of use. pipeline_cache.c */
vklm_status vki_device_create_cache(vklm_device *device, const void *blob, size_t size_bytes, vklm_error *error);

#endif
