/* probe.h - what a physical device is and has, and which one a caller means. Inside gpu/ only. */
#ifndef VKI_PROBE_H
#define VKI_PROBE_H

#include "gpu/device.h"

enum { VKI_MAX_EXTENSIONS = 8 };

/* The bits that vklm needs or likes, a struct for each group of them; others are always zero. features.c */
typedef struct vki_features {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceBufferDeviceAddressFeatures address;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline;
    VkPhysicalDeviceShaderFloat16Int8Features float16_int8;
    VkPhysicalDeviceHostQueryResetFeatures query_reset;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceSubgroupSizeControlFeatures size_control;
    VkPhysicalDeviceShaderIntegerDotProductFeatures integer_dot;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR coop;
    VkPhysicalDeviceMemoryPriorityFeaturesEXT memory_priority;
} vki_features;

typedef struct vki_probe {
    VkPhysicalDevice physical;
    vklm_device_info info;        /* reason is empty */
    vki_limits limits;
    vki_features features;        /* not chained: see vki_features_chain */
    uint32_t queue_family;
    uint32_t family_size;         /* its queues */
    uint32_t n_compute_queues;    /* of all families */
    bool queue_async;             /* the family computes and does not draw */
    double tick_ns;               /* of timestamps; 0: the host cannot reset them */
    VkPhysicalDeviceMemoryProperties memory;
    bool has_size_control, has_integer_dot, has_coop, has_memory_priority; /* the feature structs may be chained */
    bool has_memory_budget;
    const char *priority_extension; /* or NULL */
    const char *extensions[VKI_MAX_EXTENSIONS]; /* to enable */
    uint32_t n_extensions;
} vki_probe;

/* What a physical device is probed for: with `made`, for what a VkDevice was made with, else for what it offers. */
typedef struct vki_enabled {
    uint32_t api_version;         /* of the instance */
    bool made;
    const char *const *extensions;
    uint32_t n_extensions;
    const void *features;         /* as in vklm_adopt_params */
    const VkPhysicalDeviceFeatures *core_features;
} vki_enabled;

/* Fills *probe; info.missing names what the device lacks. Fails where the host has no memory. */
vklm_status vki_probe_device(const vki_host *host, const vki_instance_functions *fn, VkPhysicalDevice physical,
                             const vki_enabled *enabled, vklm_error *error, vki_probe *probe);

/* Has the probe speak of this queue family. *computes_out: whether it is there and does. */
vklm_status vki_probe_family(const vki_host *host, const vki_instance_functions *fn, uint32_t family,
                             vklm_error *error, vki_probe *probe, bool *computes_out);

/* Links the structs that the device knows, bits as they are. The head. */
void *vki_features_chain(vki_features *features, const vki_probe *probe);
/* Copies the bits that vklm has use for. */
void vki_features_keep(vki_features *features, const vki_features *offered);
/* Reads a chain of a program's, and its core features (NULL: none). */
void vki_features_read(vki_features *features, const vki_probe *probe, const void *chain,
                       const VkPhysicalDeviceFeatures *core);
/* vklm_vulkan_add_features, for features that are chained. */
void *vki_features_add(vki_features *features, void *chain, VkPhysicalDeviceFeatures *core);
/* The next required bit that is off, from row *at (0 at first) on; NULL: no more. */
const char *vki_features_missing(const vki_features *features, size_t *at);

/* "queue family 1 (compute alone), low priority", into info.queue. */
void vki_describe_queue(const vki_probe *probe, const char *what, char text[128]);

/* Index of the device that the params mean, and why, in `reason` of 256
 * bytes. INVALID_ARGUMENT and DEVICE_UNSUITABLE list what there is. */
vklm_status vki_choose_device(const vklm_device_params *params, const vki_probe *probes, uint32_t count,
                              vklm_error *error, uint32_t *index, char *reason);

/* Takes over what was probed. device.c */
void vki_device_take_probe(vklm_device *device, const vki_probe *probe, uint64_t block_limit_bytes);

#endif
