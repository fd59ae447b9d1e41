/* use_volk.c - a program that uses Vulkan itself, through a volk of its own or, with USE_LOADER, through the linked
 * loader, before and after vklm: neither disturbs the other. */
#ifdef USE_LOADER
#include <vulkan/vulkan.h>
#else
#define VOLK_IMPLEMENTATION
#include <volk.h>
#endif

#include <stdio.h>
#include <vklm/vklm.h>

static uint32_t count_devices(VkInstance instance)
{
    uint32_t n = 0;
    return vkEnumeratePhysicalDevices(instance, &n, NULL) == VK_SUCCESS ? n : 0;
}

int main(void)
{
    const VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, NULL, 0, NULL, 0, VK_API_VERSION_1_2};
    const VkInstanceCreateInfo create = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &application, 0, NULL, 0, NULL};
    VkInstance instance = VK_NULL_HANDLE;
#ifndef USE_LOADER
    if (volkInitialize() != VK_SUCCESS) return 0; /* no Vulkan on this machine */
#endif
    if (vkCreateInstance(&create, NULL, &instance) != VK_SUCCESS) return 0;
#ifndef USE_LOADER
    volkLoadInstance(instance);
    const PFN_vkEnumeratePhysicalDevices mine = vkEnumeratePhysicalDevices;
#endif
    vklm_error error;
    vklm_device *device = NULL;
    const uint32_t before = count_devices(instance);
    const vklm_status status = vklm_device_create(NULL, &error, &device);
    const uint32_t between = count_devices(instance);
    vklm_device_destroy(&device);
    const uint32_t after = count_devices(instance);
    printf("%u devices, %u, %u; vklm: %s\n", (unsigned)before, (unsigned)between, (unsigned)after,
           vklm_status_name(status));
    if (before != between || before != after || (before > 0 && status != VKLM_OK)) return 1;
#ifndef USE_LOADER
    if (mine != vkEnumeratePhysicalDevices) return 2;
#endif
    vkDestroyInstance(instance, NULL);
    return 0;
}
