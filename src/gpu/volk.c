/* volk.c - the one file that instantiates volk, and the only place where its process-wide pointers
 * are written: the loader's own functions, and vkGetDeviceProcAddr while a device's table is
 * filled. Both happen under one flag, so that devices may be made on several threads at once.
 * Everything else in the library calls through tables that belong to a device.
 */
#define VOLK_IMPLEMENTATION
#include "gpu/vulkan.h"

#include <stdatomic.h>

/* Held while the loader is opened or a table is filled, never for long: spinning is fine. */
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) continue;
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

uint32_t vki_loader_open(void)
{
    lock();
    if (!vkCreateInstance) (void)volkInitialize();
    const uint32_t version = vkCreateInstance ? volkGetInstanceVersion() : 0;
    unlock();
    return version;
}

PFN_vkGetInstanceProcAddr vki_loader_get(void)
{
    return vkGetInstanceProcAddr;
}

void vki_instance_functions_of(PFN_vkGetInstanceProcAddr get, VkInstance instance, vki_instance_functions *fn)
{
#define FETCH(name) fn->name = (PFN_vk##name)(void (*)(void))get(instance, "vk" #name);
    VKI_INSTANCE_FUNCTIONS(FETCH)
#undef FETCH
}

void vki_loader_device_functions(const vki_instance_functions *fn, VkDevice device,
                                 struct VolkDeviceTable *table)
{
    lock();
    vkGetDeviceProcAddr = fn->GetDeviceProcAddr;
    volkLoadDeviceTable(table, device);
    unlock();
}
