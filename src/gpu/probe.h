/* probe.h - what a physical device is and has, and which one a caller means. Inside gpu/ only. */
#ifndef VKI_PROBE_H
#define VKI_PROBE_H

#include "gpu/device.h"

enum { VKI_MAX_EXTENSIONS = 4 };

typedef struct vki_probe {
    VkPhysicalDevice physical;
    vklm_device_info info;        /* reason is empty */
    vki_limits limits;
    uint32_t queue_family;
    VkPhysicalDeviceMemoryProperties memory;
    bool has_size_control, has_integer_dot, has_coop; /* the feature structs may be chained */
    const char *extensions[VKI_MAX_EXTENSIONS]; /* to enable */
    uint32_t n_extensions;
} vki_probe;

/* The features that a device is made with: the required ones, and the optional ones that it has. */
typedef struct vki_features {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceSubgroupSizeControlFeatures size_control;
    VkPhysicalDeviceShaderIntegerDotProductFeatures integer_dot;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR coop;
} vki_features;

/* Fills *probe; info.missing names what the device lacks. Fails where the host has no memory. */
vklm_status vki_probe_device(const vki_host *host, const vki_instance_functions *fn,
                             VkPhysicalDevice physical, vklm_error *error, vki_probe *probe);

/* Asks for the probed device's features and switches off those that vklm has no use for. */
void vki_probe_features(const vki_instance_functions *fn, const vki_probe *probe,
                        vki_features *features);

/* Index of the device that `select` (of vklm_device_params) means, and why, in `reason` of 256
 * bytes. INVALID_ARGUMENT and DEVICE_UNSUITABLE list what there is. */
vklm_status vki_choose_device(const char *select, const vki_probe *probes, uint32_t count,
                              vklm_error *error, uint32_t *index, char *reason);

#endif
