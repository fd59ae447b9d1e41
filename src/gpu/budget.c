/* budget.c - how much device memory there is, and how much of it may still be taken.
 *
 * Two limits hold: the embedder's budget, on all that a vklm_device allocates, and what is left of the heaps that
 * weights and caches can come from. Of those VK_EXT_memory_budget tells what the whole process uses and may use
 * now; without it, others' use is not known.
 */
#include "gpu/memory.h"

#include "base/checked.h"

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t vklm_device_memory_used(const vklm_device *device)
{
    return device->memory_used;
}

uint64_t vki_local_used(const vklm_device *device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < device->memory_properties.memoryHeapCount; i++)
        if (vki_heap_is_local(device, i)) bytes += device->heap_used[i];
    return bytes;
}

void vklm_device_get_memory(const vklm_device *device, vklm_memory *memory_out)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT live = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &live};
    const VkPhysicalDeviceMemoryProperties *memory = &device->memory_properties;
    if (device->has_memory_budget) device->instance_fn.GetPhysicalDeviceMemoryProperties2(device->physical, &properties);
    *memory_out = (vklm_memory){.used_bytes = device->memory_used, .budget_bytes = device->memory_budget,
                                .local_used_bytes = vki_local_used(device)};
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++) {
        if (!vki_heap_is_local(device, i)) continue;
        const uint64_t size = memory->memoryHeaps[i].size, left = minus(size, device->heap_used[i]);
        const uint64_t budget = live.heapBudget[i], usage = live.heapUsage[i]; /* 0: not known */
        memory_out->local_bytes += size;
        memory_out->driver_budget_bytes += budget;
        memory_out->driver_usage_bytes += usage;
        memory_out->free_bytes += budget ? vki_min(left, minus(budget, usage)) : left;
    }
}
