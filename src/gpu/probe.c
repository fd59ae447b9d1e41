/* probe.c - reads a physical device: name, limits, memory, queue, and what it lacks for vklm.
 *
 * What it has is what it offers, or, of a device that a program made, what that was made with. A refusal names every
 * missing feature and subgroup operation. Structs that the device's Vulkan version does not know are never
 * chained: a device older than 1.2 is refused from its core properties alone.
 */
#include "gpu/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Adds a name to info.missing; one that no longer fits is dropped: the first will do to refuse. */
static void add_missing(vklm_device_info *info, const char *name)
{
    const size_t used = strlen(info->missing);
    if (used + strlen(name) + 3 > sizeof info->missing) return;
    snprintf(info->missing + used, sizeof info->missing - used, "%s%s", used ? ", " : "", name);
}

static bool has_name(const char *const *names, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Finds the extensions that are of use, or must be enabled where they are offered. */
static void find_extensions(const char *const *names, uint32_t n, uint32_t version, vki_probe *probe)
{
    static const char *const known[] = {
        VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
        VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
        VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
        VK_EXT_MEMORY_PRIORITY_EXTENSION_NAME,
        VK_EXT_MEMORY_BUDGET_EXTENSION_NAME,
        "VK_KHR_portability_subset",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has_name(names, n, known[i])) probe->extensions[probe->n_extensions++] = known[i];
    probe->has_size_control = version >= VK_API_VERSION_1_3 || has_name(names, n, known[0]);
    probe->has_integer_dot = version >= VK_API_VERSION_1_3 || has_name(names, n, known[1]);
    probe->has_coop = has_name(names, n, known[2]);
    probe->has_memory_priority = has_name(names, n, known[3]);
    probe->has_memory_budget = has_name(names, n, known[4]);
    if (has_name(names, n, VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME))
        probe->priority_extension = VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME;
    else if (has_name(names, n, VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME))
        probe->priority_extension = VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME;
}

static vklm_status read_extensions(const vki_host *host, const vki_instance_functions *fn,
                                   const vki_enabled *enabled, vklm_error *error, vki_probe *probe)
{
    const uint32_t version = (uint32_t)vki_min(enabled->api_version, probe->info.api_version);
    if (enabled->made) {
        find_extensions(enabled->extensions, enabled->n_extensions, version, probe);
        return VKLM_OK;
    }
    vklm_status status;
    VkExtensionProperties *all = NULL;
    const char **names = NULL;
    uint32_t n = 0;
    (void)fn->EnumerateDeviceExtensionProperties(probe->physical, NULL, &n, NULL);
    TRY_OR_FAIL(vki_alloc(host, n, sizeof *all, error, &all));
    TRY_OR_FAIL(vki_alloc(host, n, sizeof *names, error, &names));
    if (n && fn->EnumerateDeviceExtensionProperties(probe->physical, NULL, &n, all) < VK_SUCCESS)
        n = 0;
    for (uint32_t i = 0; i < n; i++) names[i] = all[i].extensionName;
    find_extensions(names, n, version, probe);
fail:
    vki_release(host, &names);
    vki_release(host, &all);
    return status;
}

static void read_features(const vki_instance_functions *fn, const vki_enabled *enabled, vki_probe *probe)
{
    if (enabled->made) {
        vki_features_read(&probe->features, probe, enabled->features, enabled->core_features);
    } else {
        vki_features offered = {0};
        (void)vki_features_chain(&offered, probe);
        fn->GetPhysicalDeviceFeatures2(probe->physical, &offered.core);
        vki_features_keep(&probe->features, &offered);
    }
    const char *name;
    for (size_t at = 0; (name = vki_features_missing(&probe->features, &at));) add_missing(&probe->info, name);
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

static bool computes(const VkQueueFamilyProperties *family)
{
    return (family->queueFlags & VK_QUEUE_COMPUTE_BIT) && family->queueCount > 0;
}

static vklm_status read_families(const vki_host *host, const vki_instance_functions *fn, VkPhysicalDevice physical,
                                 vklm_error *error, VkQueueFamilyProperties **families, uint32_t *n)
{
    *n = 0;
    fn->GetPhysicalDeviceQueueFamilyProperties(physical, n, NULL);
    TRY(vki_alloc(host, *n, sizeof **families, error, families));
    fn->GetPhysicalDeviceQueueFamilyProperties(physical, n, *families);
    return VKLM_OK;
}

static void take_family(const VkQueueFamilyProperties *families, uint32_t family, vki_probe *probe)
{
    const uint32_t bits = families[family].timestampValidBits;
    probe->limits.timestamp_ns = bits ? probe->tick_ns : 0;
    probe->limits.timestamp_mask = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
    probe->queue_family = family;
    probe->family_size = families[family].queueCount;
    probe->queue_async = !(families[family].queueFlags & VK_QUEUE_GRAPHICS_BIT);
}

/* A family that computes but does not draw runs beside a program's own frames. */
static vklm_status find_queue(const vki_host *host, const vki_instance_functions *fn,
                              vklm_error *error, vki_probe *probe)
{
    VkQueueFamilyProperties *families;
    uint32_t n;
    TRY(read_families(host, fn, probe->physical, error, &families, &n));
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) {
        if (!computes(&families[i])) continue;
        probe->n_compute_queues += families[i].queueCount;
        const bool compute_only = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT);
        if (best == n || (compute_only && (families[best].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            best = i;
    }
    if (best == n) add_missing(&probe->info, "a compute queue");
    else take_family(families, best, probe);
    vki_release(host, &families);
    return VKLM_OK;
}

vklm_status vki_probe_family(const vki_host *host, const vki_instance_functions *fn, uint32_t family,
                             vklm_error *error, vki_probe *probe, bool *computes_out)
{
    VkQueueFamilyProperties *families;
    uint32_t n;
    *computes_out = false;
    TRY(read_families(host, fn, probe->physical, error, &families, &n));
    *computes_out = family < n && computes(&families[family]);
    if (*computes_out) take_family(families, family, probe);
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
    const vki_features *features = &probe->features;
    /* Mesa's software Vulkan offers them at any size of subgroups, but its compiler crashes at others than 8. */
    if (probe->limits.is_cpu && probe->limits.subgroup_size != 8) return VKLM_OK;
    if (!features->coop.cooperativeMatrix || !features->memory_model.vulkanMemoryModel ||
        !features->float16_int8.shaderFloat16 || !features->float16_int8.shaderInt8 ||
        !fn->GetPhysicalDeviceCooperativeMatrixPropertiesKHR)
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

    const vki_features *features = &probe->features;
    check_subgroups(&v11, &probe->info);

    const VkPhysicalDeviceLimits *limits = &all.properties.limits;
    const bool control_usable = features->size_control.subgroupSizeControl &&
                                features->size_control.computeFullSubgroups &&
                                (control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
    probe->limits = (vki_limits){
        .subgroup_size = v11.subgroupSize,
        .subgroup_min = control_usable ? control.minSubgroupSize : v11.subgroupSize,
        .subgroup_max = control_usable ? control.maxSubgroupSize : v11.subgroupSize,
        .subgroup_control = control_usable,
        .subgroup_fixed = probe->has_size_control && control.minSubgroupSize == control.maxSubgroupSize,
        .full_subgroups = features->size_control.computeFullSubgroups,
        .max_workgroup_subgroups = control.maxComputeWorkgroupSubgroups,
        .subgroup_operations = v11.subgroupSupportedOperations,
        .max_workgroup_invocations =
            (uint32_t)vki_min(limits->maxComputeWorkGroupInvocations, limits->maxComputeWorkGroupSize[0]),
        .shared_bytes = limits->maxComputeSharedMemorySize,
        .max_block_bytes = v11.maxMemoryAllocationSize,
        .is_cpu = probe->info.type == VKLM_DEVICE_CPU,
        .is_discrete = probe->info.type == VKLM_DEVICE_DISCRETE,
        .vendor = all.properties.vendorID,
        .fast_packed_dot = features->integer_dot.shaderIntegerDotProduct &&
                           (dot.integerDotProduct4x8BitPackedSignedAccelerated ||
                            probe->info.type == VKLM_DEVICE_CPU),
    };
    if (features->query_reset.hostQueryReset) probe->tick_ns = (double)limits->timestampPeriod;
    memcpy(probe->limits.max_grid, limits->maxComputeWorkGroupCount, sizeof probe->limits.max_grid);
    probe->info.subgroup_size = v11.subgroupSize;
    memcpy(probe->info.uuid, v11.deviceUUID, sizeof probe->info.uuid);
    memcpy(probe->info.luid, v11.deviceLUID, sizeof probe->info.luid);
    probe->info.luid_valid = v11.deviceLUIDValid;
    snprintf(probe->info.driver, sizeof probe->info.driver, "%.100s %.150s", v12.driverName,
             v12.driverInfo);
}

vklm_status vki_probe_device(const vki_host *host, const vki_instance_functions *fn, VkPhysicalDevice physical,
                             const vki_enabled *enabled, vklm_error *error, vki_probe *probe)
{
    *probe = (vki_probe){.physical = physical};
    VkPhysicalDeviceProperties2 core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    fn->GetPhysicalDeviceProperties2(physical, &core);
    const VkPhysicalDeviceProperties *properties = &core.properties;
    snprintf(probe->info.name, sizeof probe->info.name, "%s", properties->deviceName);
    probe->info.type = type_of(properties->deviceType);
    probe->info.api_version = properties->apiVersion;
    read_memory(fn, probe);
    if (vki_min(properties->apiVersion, enabled->api_version) < VK_API_VERSION_1_2) {
        add_missing(&probe->info, "Vulkan 1.2");
        return VKLM_OK;
    }
    TRY(read_extensions(host, fn, enabled, error, probe));
    read_features(fn, enabled, probe);
    read_properties(fn, probe);
    TRY(read_matrix_sizes(host, fn, error, probe));
    return find_queue(host, fn, error, probe);
}

void vki_describe_queue(const vki_probe *probe, const char *what, char text[128])
{
    snprintf(text, 128, "queue family %u (%s), %s", probe->queue_family,
             probe->queue_async ? "compute without graphics" : "graphics and compute", what);
}
