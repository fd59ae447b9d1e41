/* probe.c - reads a physical device: name, limits, memory, queue, and what it lacks for vklm.
 *
 * Requirements stand in two tables, one of feature bits and one of subgroup operations, so that a
 * refusal names every missing one. Structs that the device's Vulkan version does not know are never
 * chained: a device older than 1.2 is refused from its core properties alone.
 */
#include "gpu/probe.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A feature bit by its place in vki_features. */
typedef struct feature {
    const char *name;
    size_t offset;
    bool required;
} feature;

#define CORE(name, required) {#name, offsetof(vki_features, core.features.name), required}
#define V11(name, required) {#name, offsetof(vki_features, v11.name), required}
#define V12(name, required) {#name, offsetof(vki_features, v12.name), required}
#define CONTROL(name) {#name, offsetof(vki_features, size_control.name), false}
#define DOT(name) {#name, offsetof(vki_features, integer_dot.name), false}
#define COOP(name) {#name, offsetof(vki_features, coop.name), false}

static const feature features_wanted[] = {
    CORE(shaderInt64, true),
    V11(storageBuffer16BitAccess, true),
    V12(storageBuffer8BitAccess, true),
    V12(bufferDeviceAddress, true),
    V12(timelineSemaphore, true),
    CORE(shaderInt16, false),
    V12(shaderInt8, false),
    V12(shaderFloat16, false),
    V12(shaderSubgroupExtendedTypes, false),
    V12(subgroupBroadcastDynamicId, false),
    V12(hostQueryReset, false),
    CONTROL(subgroupSizeControl),
    CONTROL(computeFullSubgroups),
    DOT(shaderIntegerDotProduct),
    V12(vulkanMemoryModel, false),
    COOP(cooperativeMatrix),
};

enum { N_WANTED = sizeof features_wanted / sizeof features_wanted[0] };

static VkBool32 *feature_bit(vki_features *features, const feature *wanted)
{
    return (VkBool32 *)(void *)((char *)features + wanted->offset);
}

/* Adds a name to info.missing; one that no longer fits is dropped: the first will do to refuse. */
static void add_missing(vklm_device_info *info, const char *name)
{
    const size_t used = strlen(info->missing);
    if (used + strlen(name) + 3 > sizeof info->missing) return;
    snprintf(info->missing + used, sizeof info->missing - used, "%s%s", used ? ", " : "", name);
}

/* Chains the structs of what the device has. */
static void chain_features(vki_features *features, const vki_probe *probe)
{
    *features = (vki_features){
        .core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .size_control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .integer_dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .coop.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
    };
    features->core.pNext = &features->v11;
    features->v11.pNext = &features->v12;
    void **tail = &features->v12.pNext;
    if (probe->has_size_control) {
        *tail = &features->size_control;
        tail = &features->size_control.pNext;
    }
    if (probe->has_integer_dot) {
        *tail = &features->integer_dot;
        tail = &features->integer_dot.pNext;
    }
    if (probe->has_coop) *tail = &features->coop;
}

void vki_probe_features(const vki_instance_functions *fn, const vki_probe *probe,
                        vki_features *features)
{
    vki_features offered;
    chain_features(&offered, probe);
    fn->GetPhysicalDeviceFeatures2(probe->physical, &offered.core);
    chain_features(features, probe);
    for (size_t i = 0; i < N_WANTED; i++)
        *feature_bit(features, &features_wanted[i]) = *feature_bit(&offered, &features_wanted[i]);
}

static bool has_extension(const VkExtensionProperties *extensions, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(extensions[i].extensionName, name) == 0) return true;
    return false;
}

/* Finds the extensions that are of use, or must be enabled where they are offered. */
static vklm_status read_extensions(const vki_host *host, const vki_instance_functions *fn,
                                   vklm_error *error, vki_probe *probe)
{
    VkExtensionProperties *all;
    uint32_t n = 0;
    (void)fn->EnumerateDeviceExtensionProperties(probe->physical, NULL, &n, NULL);
    TRY(vki_alloc(host, n, sizeof *all, error, &all));
    if (n && fn->EnumerateDeviceExtensionProperties(probe->physical, NULL, &n, all) < VK_SUCCESS)
        n = 0;
    const char *const known[] = {
        VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
        VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
        VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
        "VK_KHR_portability_subset",
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (has_extension(all, n, known[i])) probe->extensions[probe->n_extensions++] = known[i];
    probe->has_size_control = has_extension(all, n, known[0]);
    probe->has_integer_dot = has_extension(all, n, known[1]);
    probe->has_coop = has_extension(all, n, known[2]);
    vki_release(host, &all);
    return VKLM_OK;
}

static vklm_device_type type_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return VKLM_DEVICE_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return VKLM_DEVICE_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return VKLM_DEVICE_VIRTUAL;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return VKLM_DEVICE_CPU;
    default: return VKLM_DEVICE_OTHER;
    }
}

/* A family that computes but does not draw runs beside a program's own frames. */
static vklm_status find_queue(const vki_host *host, const vki_instance_functions *fn,
                              vklm_error *error, vki_probe *probe)
{
    VkQueueFamilyProperties *families;
    uint32_t n = 0;
    fn->GetPhysicalDeviceQueueFamilyProperties(probe->physical, &n, NULL);
    TRY(vki_alloc(host, n, sizeof *families, error, &families));
    fn->GetPhysicalDeviceQueueFamilyProperties(probe->physical, &n, families);
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0)
            continue;
        const bool compute_only = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT);
        if (best == n || (compute_only && (families[best].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            best = i;
    }
    if (best == n) {
        add_missing(&probe->info, "a compute queue");
    } else {
        const uint32_t bits = families[best].timestampValidBits;
        if (bits == 0) probe->limits.timestamp_ns = 0;
        probe->limits.timestamp_mask = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
        probe->queue_family = best;
    }
    vki_release(host, &families);
    return VKLM_OK;
}

static void read_memory(const vki_instance_functions *fn, vki_probe *probe)
{
    fn->GetPhysicalDeviceMemoryProperties(probe->physical, &probe->memory);
    for (uint32_t i = 0; i < probe->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &probe->memory.memoryHeaps[i];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
            heap->size > probe->info.memory_bytes)
            probe->info.memory_bytes = heap->size;
    }
}

static void check_subgroups(const VkPhysicalDeviceVulkan11Properties *v11, vklm_device_info *info)
{
    static const struct {
        VkSubgroupFeatureFlags bit;
        const char *name;
    } needed[] = {
        {VK_SUBGROUP_FEATURE_BASIC_BIT, "basic subgroup operations"},
        {VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, "subgroup arithmetic"},
        {VK_SUBGROUP_FEATURE_SHUFFLE_BIT, "subgroup shuffle"},
    };
    const bool in_compute = v11->subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!in_compute || !(v11->subgroupSupportedOperations & needed[i].bit))
            add_missing(info, needed[i].name);
}

/* Takes the largest product of each kind: it needs the fewest loads. Sizes that a tile of 32 x 32 with steps
 * of 32 is no multiple of are passed over. */
static void take_matrix_size(const VkCooperativeMatrixPropertiesKHR *p, vki_limits *limits)
{
    const bool f16 = p->AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p->CType == VK_COMPONENT_TYPE_FLOAT32_KHR;
    const bool s8 = p->AType == VK_COMPONENT_TYPE_SINT8_KHR && p->CType == VK_COMPONENT_TYPE_SINT32_KHR;
    if (p->scope != VK_SCOPE_SUBGROUP_KHR || p->BType != p->AType || p->ResultType != p->CType ||
        p->saturatingAccumulation || !p->MSize || !p->NSize || !p->KSize)
        return;
    if ((!f16 && !s8) || 32 % p->MSize || 32 % p->NSize || 32 % p->KSize) return;
    vki_matrix_size *best = f16 ? &limits->coop_f16 : &limits->coop_s8;
    if (p->MSize * p->NSize * p->KSize > best->m * best->n * best->k)
        *best = (vki_matrix_size){p->MSize, p->NSize, p->KSize};
}

static vklm_status read_matrix_sizes(const vki_host *host, const vki_instance_functions *fn,
                                     vklm_error *error, vki_probe *probe)
{
    vki_features features;
    vki_probe_features(fn, probe, &features);
    /* Mesa's software Vulkan offers them at any size of subgroups, but its compiler crashes at others than 8. */
    if (probe->limits.is_cpu && probe->limits.subgroup_size != 8) return VKLM_OK;
    if (!features.coop.cooperativeMatrix || !features.v12.vulkanMemoryModel || !features.v12.shaderFloat16 ||
        !features.v12.shaderInt8 || !fn->GetPhysicalDeviceCooperativeMatrixPropertiesKHR)
        return VKLM_OK;
    VkCooperativeMatrixPropertiesKHR *all;
    uint32_t n = 0;
    (void)fn->GetPhysicalDeviceCooperativeMatrixPropertiesKHR(probe->physical, &n, NULL);
    TRY(vki_alloc(host, n, sizeof *all, error, &all));
    for (uint32_t i = 0; i < n; i++) all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    if (n && fn->GetPhysicalDeviceCooperativeMatrixPropertiesKHR(probe->physical, &n, all) < VK_SUCCESS) n = 0;
    for (uint32_t i = 0; i < n; i++) take_matrix_size(&all[i], &probe->limits);
    vki_release(host, &all);
    return VKLM_OK;
}

/* Reads the properties of a device of Vulkan 1.2 or later. */
static void read_properties(const vki_instance_functions *fn, vki_probe *probe)
{
    VkPhysicalDeviceSubgroupSizeControlProperties control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceVulkan12Properties v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties v11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &v12};
    VkPhysicalDeviceProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v11};
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    if (probe->has_size_control) v12.pNext = &control;
    if (probe->has_integer_dot) {
        dot.pNext = v12.pNext;
        v12.pNext = &dot;
    }
    fn->GetPhysicalDeviceProperties2(probe->physical, &all);

    vki_features features;
    vki_probe_features(fn, probe, &features);
    for (size_t i = 0; i < N_WANTED; i++)
        if (features_wanted[i].required && !*feature_bit(&features, &features_wanted[i]))
            add_missing(&probe->info, features_wanted[i].name);
    check_subgroups(&v11, &probe->info);

    const VkPhysicalDeviceLimits *limits = &all.properties.limits;
    const bool control_usable = features.size_control.subgroupSizeControl &&
                                features.size_control.computeFullSubgroups &&
                                (control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
    probe->limits = (vki_limits){
        .subgroup_size = v11.subgroupSize,
        .subgroup_min = control_usable ? control.minSubgroupSize : v11.subgroupSize,
        .subgroup_max = control_usable ? control.maxSubgroupSize : v11.subgroupSize,
        .subgroup_control = control_usable,
        .subgroup_fixed = probe->has_size_control && control.minSubgroupSize == control.maxSubgroupSize,
        .full_subgroups = features.size_control.computeFullSubgroups,
        .max_workgroup_subgroups = control.maxComputeWorkgroupSubgroups,
        .subgroup_operations = v11.subgroupSupportedOperations,
        .max_workgroup_invocations = limits->maxComputeWorkGroupInvocations,
        .shared_bytes = limits->maxComputeSharedMemorySize,
        .max_block_bytes = v11.maxMemoryAllocationSize,
        .timestamp_ns = features.v12.hostQueryReset ? (double)limits->timestampPeriod : 0,
        .is_cpu = probe->info.type == VKLM_DEVICE_CPU,
        .is_discrete = probe->info.type == VKLM_DEVICE_DISCRETE,
        .vendor = all.properties.vendorID,
        .fast_packed_dot = features.integer_dot.shaderIntegerDotProduct &&
                           (dot.integerDotProduct4x8BitPackedSignedAccelerated ||
                            probe->info.type == VKLM_DEVICE_CPU),
    };
    memcpy(probe->limits.max_grid, limits->maxComputeWorkGroupCount, sizeof probe->limits.max_grid);
    probe->info.subgroup_size = v11.subgroupSize;
    memcpy(probe->info.uuid, v11.deviceUUID, sizeof probe->info.uuid);
    snprintf(probe->info.driver, sizeof probe->info.driver, "%.100s %.150s", v12.driverName,
             v12.driverInfo);
}

vklm_status vki_probe_device(const vki_host *host, const vki_instance_functions *fn,
                             VkPhysicalDevice physical, vklm_error *error, vki_probe *probe)
{
    *probe = (vki_probe){.physical = physical};
    VkPhysicalDeviceProperties2 core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    fn->GetPhysicalDeviceProperties2(physical, &core);
    const VkPhysicalDeviceProperties *properties = &core.properties;
    snprintf(probe->info.name, sizeof probe->info.name, "%s", properties->deviceName);
    probe->info.type = type_of(properties->deviceType);
    probe->info.api_version = properties->apiVersion;
    read_memory(fn, probe);
    if (properties->apiVersion < VK_API_VERSION_1_2) {
        add_missing(&probe->info, "Vulkan 1.2");
        return VKLM_OK;
    }
    TRY(read_extensions(host, fn, error, probe));
    read_properties(fn, probe);
    TRY(read_matrix_sizes(host, fn, error, probe));
    return find_queue(host, fn, error, probe);
}
