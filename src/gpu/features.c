/* features.c - the feature bits that vklm needs or likes, and chains of structs that hold them.
 *
 * Each bit is a row of one table: its place in vki_features, which has a struct for each group of features, as the
 * extensions of their beginnings do, and its place in the struct of the Vulkan version that took them up. Programs may
 * enable a bit in either, never in both, so a chain of theirs is read and added to through both.
 */
#include "gpu/probe.h"

#include <stddef.h>
#include <string.h>

/* A bit at `bit` of vki_features, in its struct at `group`; at `version_bit` of a struct of type `version`. */
typedef struct feature {
    const char *name;
    size_t group, bit, version_bit;
    VkStructureType version; /* 0: there is none, and no struct of a chain has this type */
    bool required;
} feature;

#define V12(name, group, required)                                                                                    \
    {#name, offsetof(vki_features, group), offsetof(vki_features, group.name),                                        \
     offsetof(VkPhysicalDeviceVulkan12Features, name), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, required}
#define V13(name, group)                                                                                              \
    {#name, offsetof(vki_features, group), offsetof(vki_features, group.name),                                        \
     offsetof(VkPhysicalDeviceVulkan13Features, name), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, false}
#define PLAIN(name, group, member, required)                                                                          \
    {#name, offsetof(vki_features, group), offsetof(vki_features, member), 0, (VkStructureType)0, required}

static const feature wanted[] = {
    PLAIN(shaderInt64, core, core.features.shaderInt64, true),
    V12(bufferDeviceAddress, address, true),
    V12(timelineSemaphore, timeline, true),
    V12(shaderInt8, float16_int8, false),
    V12(shaderFloat16, float16_int8, false),
    V12(hostQueryReset, query_reset, false),
    V12(vulkanMemoryModel, memory_model, false),
    V13(subgroupSizeControl, size_control),
    V13(computeFullSubgroups, size_control),
    V13(shaderIntegerDotProduct, integer_dot),
    PLAIN(cooperativeMatrix, coop, coop.cooperativeMatrix, false),
    PLAIN(memoryPriority, memory_priority, memory_priority.memoryPriority, false),
};

/* The structs of vki_features, in the order of chains. */
static const struct {
    size_t offset;
    VkStructureType type;
} groups[] = {
    {offsetof(vki_features, core), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2},
    {offsetof(vki_features, address), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES},
    {offsetof(vki_features, timeline), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES},
    {offsetof(vki_features, float16_int8), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES},
    {offsetof(vki_features, query_reset), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES},
    {offsetof(vki_features, memory_model), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES},
    {offsetof(vki_features, size_control), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES},
    {offsetof(vki_features, integer_dot), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES},
    {offsetof(vki_features, coop), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR},
    {offsetof(vki_features, memory_priority), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PRIORITY_FEATURES_EXT},
};

enum { N_WANTED = sizeof wanted / sizeof *wanted, N_GROUPS = sizeof groups / sizeof *groups };

static VkBool32 *bit_at(void *base, size_t offset)
{
    return (VkBool32 *)(void *)((char *)base + offset);
}

static VkBaseOutStructure *group_at(vki_features *features, size_t offset)
{
    return (VkBaseOutStructure *)(void *)((char *)features + offset);
}

/* Structs that only extensions brought, which the device may lack. */
static bool is_known(const vki_probe *probe, VkStructureType type)
{
    switch ((int)type) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES: return probe->has_size_control;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES: return probe->has_integer_dot;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR: return probe->has_coop;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PRIORITY_FEATURES_EXT: return probe->has_memory_priority;
    default: return true;
    }
}

void *vki_features_chain(vki_features *features, const vki_probe *probe)
{
    VkBaseOutStructure *next = NULL;
    for (size_t i = N_GROUPS; i-- > 0;) {
        if (!is_known(probe, groups[i].type)) continue;
        VkBaseOutStructure *group = group_at(features, groups[i].offset);
        group->sType = groups[i].type;
        group->pNext = next;
        next = group;
    }
    return next;
}

void vki_features_keep(vki_features *features, const vki_features *offered)
{
    vki_features all = *offered;
    *features = (vki_features){0};
    for (size_t i = 0; i < N_WANTED; i++) *bit_at(features, wanted[i].bit) = *bit_at(&all, wanted[i].bit);
}

/* The bit of a row in a struct of a chain, or NULL where the struct has none. */
static VkBool32 *find_bit(void *structure, const feature *row, vki_features *layout)
{
    const VkStructureType type = ((const VkBaseInStructure *)structure)->sType;
    if (type == row->version) return bit_at(structure, row->version_bit);
    if (type == group_at(layout, row->group)->sType) return bit_at(structure, row->bit - row->group);
    return NULL;
}

void vki_features_read(vki_features *features, const vki_probe *probe, const void *chain,
                       const VkPhysicalDeviceFeatures *core)
{
    VkPhysicalDeviceFeatures2 plain = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    *features = (vki_features){0};
    (void)vki_features_chain(features, probe);
    if (core) plain.features = *core;
    for (size_t i = 0; i < N_WANTED; i++) {
        VkBool32 *own = bit_at(features, wanted[i].bit);
        const VkBool32 *bit = core ? find_bit(&plain, &wanted[i], features) : NULL;
        if (bit && *bit) *own = VK_TRUE;
        for (const VkBaseInStructure *at = chain; at; at = at->pNext) {
            bit = find_bit((void *)(uintptr_t)at, &wanted[i], features);
            if (bit && *bit) *own = VK_TRUE;
        }
    }
}

/* Sets the bits of one of our structs wherever the chain has them; false where it has no place for them. */
static bool place_group(size_t offset, vki_features *ours, void *chain)
{
    bool placed = true;
    for (size_t i = 0; i < N_WANTED; i++) {
        if (wanted[i].group != offset || !*bit_at(ours, wanted[i].bit)) continue;
        bool found = false;
        for (VkBaseOutStructure *at = chain; at; at = at->pNext) {
            VkBool32 *bit = find_bit(at, &wanted[i], ours);
            if (bit) *bit = found = true;
        }
        placed = placed && found;
    }
    return placed;
}

void *vki_features_add(vki_features *features, void *chain, VkPhysicalDeviceFeatures *core)
{
    VkPhysicalDeviceFeatures2 plain = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    if (core) plain.features = *core;
    VkBaseOutStructure *head = chain, *tail = chain;
    while (tail && tail->pNext) tail = tail->pNext;
    for (size_t i = 0; i < N_GROUPS; i++) {
        VkBaseOutStructure *group = group_at(features, groups[i].offset);
        if (group->sType != groups[i].type) continue; /* the device does not know it */
        const bool is_core = groups[i].offset == offsetof(vki_features, core);
        if (place_group(groups[i].offset, features, core && is_core ? (void *)&plain : head)) continue;
        group->pNext = NULL;
        if (tail) tail->pNext = group;
        else head = group;
        tail = group;
    }
    if (core) *core = plain.features;
    return head;
}

const char *vki_features_missing(const vki_features *features, size_t *at)
{
    vki_features copy = *features;
    while (*at < N_WANTED) {
        const feature *row = &wanted[(*at)++];
        if (row->required && !*bit_at(&copy, row->bit)) return row->name;
    }
    return NULL;
}
