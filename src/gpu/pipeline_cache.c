/* pipeline_cache.c - the driver's pipeline cache, as bytes that the embedder keeps from one run to the next.
 *
 * A driver has to refuse data of another device or of its own other version, and does by the header that Vulkan
 * puts before them. Few check what lies behind it, and a program that was stopped while it wrote a file leaves
 * half of one. So there is a header of our own with size and hash, and only data that are whole, of this device
 * and of this driver reach the driver. What is refused costs the time that it would have saved, nothing else.
 */
#include <string.h>

#include "base/hash.h"
#include "gpu/device.h"

typedef struct blob_header {
    char magic[8];
    uint64_t size_bytes, hash; /* of what follows */
} blob_header;

static const char magic[8] = {'v', 'k', 'l', 'm', 'p', 'i', 'p', '2'}; /* the last: our version */

/* Whether the header that Vulkan prescribes names this device and this driver. */
static bool is_ours(const vklm_device *device, const uint8_t *data)
{
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    device->instance_fn.GetPhysicalDeviceProperties2(device->physical, &properties);
    const VkPhysicalDeviceProperties *p = &properties.properties;
    uint32_t words[4]; /* size, version, vendor, device */
    memcpy(words, data, sizeof words);
    return words[0] >= 32 && words[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && words[2] == p->vendorID &&
           words[3] == p->deviceID && memcmp(data + 16, p->pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

/* The part of the blob for the driver, empty where it is no use; the log says why. */
static VkPipelineCacheCreateInfo choose_data(const vklm_device *device, const void *blob, size_t size_bytes)
{
    VkPipelineCacheCreateInfo create = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    blob_header header = {.size_bytes = 0};
    const uint8_t *data = (const uint8_t *)blob + sizeof header;
    if (!blob || size_bytes == 0) return create;
    if (size_bytes >= sizeof header) memcpy(&header, blob, sizeof header);
    const size_t data_bytes = size_bytes - sizeof header;
    const char *why = NULL;
    if (memcmp(header.magic, magic, 7) == 0 && header.magic[7] != magic[7])
        why = "of another version of vklm";
    else if (size_bytes < sizeof header + 32 || memcmp(header.magic, magic, sizeof magic) != 0 ||
             header.size_bytes != data_bytes || header.hash != vki_hash(data, data_bytes, 0))
        why = "damaged";
    else if (!is_ours(device, data))
        why = "of another device or driver version";
    if (why)
        vki_log(&device->host, why[0] == 'd' ? VKLM_LOG_WARNING : VKLM_LOG_INFO,
                "the pipeline cache is %s and is ignored: pipelines are compiled anew", why);
    create.initialDataSize = why ? 0 : data_bytes;
    create.pInitialData = why ? NULL : data;
    return create;
}

vklm_status vki_device_create_cache(vklm_device *device, const void *blob, size_t size_bytes, vklm_error *error)
{
    VkPipelineCacheCreateInfo create = choose_data(device, blob, size_bytes);
    const PFN_vkCreatePipelineCache make = device->fn.vkCreatePipelineCache;
    VkResult result = make(device->device, &create, device->callbacks, &device->pipeline_cache);
    if (result < VK_SUCCESS && create.initialDataSize) {
        create.initialDataSize = 0;
        result = make(device->device, &create, device->callbacks, &device->pipeline_cache);
    }
    return vki_check(device, result, "vkCreatePipelineCache", error);
}

vklm_status vklm_device_get_pipeline_cache(vklm_device *device, vklm_error *error, void *bytes, size_t capacity,
                                           size_t *size_out)
{
    vki_error_clear(error);
    if (size_out) *size_out = 0;
    if (!device || !size_out) return vki_fail(error, VKLM_INVALID_ARGUMENT, "no device, or no place for the size");
    TRY(vki_device_usable(device, error));
    blob_header header;
    size_t needed = 0;
    VkResult result = device->fn.vkGetPipelineCacheData(device->device, device->pipeline_cache, &needed, NULL);
    TRY(vki_check(device, result, "vkGetPipelineCacheData", error));
    *size_out = sizeof header + needed;
    if (!bytes || capacity < *size_out)
        return vki_fail(error, VKLM_BUFFER_TOO_SMALL, "the pipeline cache takes %zu bytes", *size_out);
    uint8_t *data = (uint8_t *)bytes + sizeof header;
    result = device->fn.vkGetPipelineCacheData(device->device, device->pipeline_cache, &needed, data);
    TRY(vki_check(device, result, "vkGetPipelineCacheData", error));
    header.size_bytes = needed;
    header.hash = vki_hash(data, needed, 0);
    memcpy(header.magic, magic, sizeof magic);
    memcpy(bytes, &header, sizeof header);
    *size_out = sizeof header + needed;
    return VKLM_OK;
}
