/* vulkan.h - Vulkan as the library sees it: no prototypes, volk's loader under prefixed names.
 *
 * volk_names.h is generated at configure time from the installed volk.h: it renames every global
 * that volk defines (vkCreateInstance -> vki_vkCreateInstance, volkInitialize ->
 * vki_volkInitialize), so that a host may link its own copy of volk or the Vulkan loader beside
 * this library.
 */
#ifndef VKI_VULKAN_H
#define VKI_VULKAN_H

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include "volk_names.h"
#include <volk.h>

/* The instance functions we call, fetched per instance: volk has process-wide pointers. */
#define VKI_INSTANCE_FUNCTIONS(X)                                                                  \
    X(DestroyInstance)                                                                             \
    X(EnumeratePhysicalDevices)                                                                    \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(GetPhysicalDeviceFeatures2)                                                                  \
    X(GetPhysicalDeviceProperties2)                                                                \
    X(GetPhysicalDeviceMemoryProperties)                                                           \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                      \
    X(CreateDevice)                                                                                \
    X(GetDeviceProcAddr)

typedef struct vki_instance_functions {
#define VKI_INSTANCE_MEMBER(name) PFN_vk##name name;
    VKI_INSTANCE_FUNCTIONS(VKI_INSTANCE_MEMBER)
#undef VKI_INSTANCE_MEMBER
} vki_instance_functions;

/* Opens the Vulkan loader, once a process. Its version, or 0 where there is none. Any thread. */
uint32_t vki_loader_open(void);
void vki_loader_instance_functions(VkInstance instance, vki_instance_functions *fn);
void vki_loader_device_functions(const vki_instance_functions *fn, VkDevice device,
                                 struct VolkDeviceTable *table);

#endif
