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

#ifndef VK_KHR_cooperative_matrix /* headers before 1.3.255: what we use of it, as the specification has it */
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR ((VkStructureType)1000506000)
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR ((VkStructureType)1000506001)
typedef enum VkComponentTypeKHR {
    VK_COMPONENT_TYPE_FLOAT16_KHR = 0,
    VK_COMPONENT_TYPE_FLOAT32_KHR = 1,
    VK_COMPONENT_TYPE_SINT8_KHR = 3,
    VK_COMPONENT_TYPE_SINT32_KHR = 5,
    VK_COMPONENT_TYPE_MAX_ENUM_KHR = 0x7fffffff,
} VkComponentTypeKHR;
typedef enum VkScopeKHR { VK_SCOPE_SUBGROUP_KHR = 3, VK_SCOPE_MAX_ENUM_KHR = 0x7fffffff } VkScopeKHR;
typedef struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
typedef struct VkCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    VkComponentTypeKHR AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    VkScopeKHR scope;
} VkCooperativeMatrixPropertiesKHR;
typedef VkResult(VKAPI_PTR *PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(
    VkPhysicalDevice, uint32_t *, VkCooperativeMatrixPropertiesKHR *);
#endif

/* The instance functions we call, fetched per instance: volk has process-wide pointers. */
#define VKI_INSTANCE_FUNCTIONS(X)                                                                  \
    X(DestroyInstance)                                                                             \
    X(EnumeratePhysicalDevices)                                                                    \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(GetPhysicalDeviceFeatures2)                                                                  \
    X(GetPhysicalDeviceProperties2)                                                                \
    X(GetPhysicalDeviceMemoryProperties)                                                           \
    X(GetPhysicalDeviceMemoryProperties2)                                                          \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                      \
    X(CreateDevice)                                                                                \
    X(GetDeviceProcAddr)                                                                           \
    X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR) /* NULL where the loader lacks it */

typedef struct vki_instance_functions {
#define VKI_INSTANCE_MEMBER(name) PFN_vk##name name;
    VKI_INSTANCE_FUNCTIONS(VKI_INSTANCE_MEMBER)
#undef VKI_INSTANCE_MEMBER
} vki_instance_functions;

/* Opens the Vulkan loader, once a process. Its version, or 0 where there is none. Any thread. */
uint32_t vki_loader_open(void);
/* Of the loader that was opened. */
PFN_vkGetInstanceProcAddr vki_loader_get(void);
/* get: the loader's vkGetInstanceProcAddr, or a program's. */
void vki_instance_functions_of(PFN_vkGetInstanceProcAddr get, VkInstance instance, vki_instance_functions *fn);
void vki_loader_device_functions(const vki_instance_functions *fn, VkDevice device,
                                 struct VolkDeviceTable *table);

#endif
