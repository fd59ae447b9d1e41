/* memory.c - buffers with their own allocation, and pools of large blocks.
 *
 * A memory type is chosen by what a kind must have, would like and would rather avoid; where its
 * heap is full the next best type is tried. Device memory of discrete GPUs stays unmapped even
 * where it could be mapped: mapped heaps are small or slow on some drivers.
 */
#include "gpu/memory.h"

#include "base/checked.h"

enum {
    SLICE_ALIGNMENT = 256, /* the widest cache line and copy granularity of current GPUs */
    /* A driver call and an entry in a table of some 4096, however small: below this size the memory
     * is cheap, and the validation layers ask for sub-allocation. */
    SMALLEST_ALLOCATION = 1 << 20,
    MEASURED_ADDRESS = SLICE_ALIGNMENT, /* of a buffer that is only measured: not 0 */
};

/* Where the driver has to move something out, textures (0.5 by default) go before weights. */
static const float device_priority = 0.8f;

typedef struct type_wish {
    VkMemoryPropertyFlags required, wanted, unwanted;
} type_wish;

static bool is_unified(const vklm_device *device)
{
    return device->limits.is_cpu || device->info.type == VKLM_DEVICE_INTEGRATED;
}

static type_wish wish_of(const vklm_device *device, vki_memory_kind kind)
{
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const VkMemoryPropertyFlags mapped =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    switch (kind) {
    case VKI_MEMORY_DEVICE: return is_unified(device) ? (type_wish){local, mapped, 0}
                                                      : (type_wish){local, 0, mapped};
    case VKI_MEMORY_SHARED: return (type_wish){mapped, local, 0};
    case VKI_MEMORY_READBACK: return (type_wish){mapped, cached, local};
    case VKI_MEMORY_STAGING: break;
    }
    return (type_wish){mapped, 0, local | cached};
}

/* The best of the types allowed by `bits`, or UINT32_MAX. Types with properties beyond the four
 * plain ones (protected, lazily allocated, a vendor's) need features that are not enabled. */
static uint32_t best_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t bits, type_wish wish)
{
    const VkMemoryPropertyFlags plain =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    uint32_t best = UINT32_MAX;
    int best_score = 0;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        const VkMemoryPropertyFlags flags = memory->memoryTypes[i].propertyFlags;
        if (!(bits & (1u << i)) || (flags & ~plain) || (flags & wish.required) != wish.required)
            continue;
        const int score =
            ((flags & wish.wanted) == wish.wanted ? 2 : 0) - ((flags & wish.unwanted) ? 1 : 0);
        if (best != UINT32_MAX && score <= best_score) continue;
        best = i;
        best_score = score;
    }
    return best;
}

/* The type that a buffer of this kind is made in first, of those in `bits`; UINT32_MAX: none. */
static uint32_t type_of(const vklm_device *device, vki_memory_kind kind, uint32_t bits)
{
    return best_type(&device->memory_properties, bits, wish_of(device, kind));
}

bool vki_heap_is_local(const vklm_device *device, uint32_t heap)
{
    const VkPhysicalDeviceMemoryProperties *memory = &device->memory_properties;
    uint32_t bits = 0;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++)
        if (memory->memoryTypes[i].heapIndex == heap) bits |= 1u << i;
    return type_of(device, VKI_MEMORY_DEVICE, bits) != UINT32_MAX;
}

/* Adds to memory_used, unless that would be over the budget: also where several threads allocate at once. */
static vklm_status take_budget(vklm_device *device, uint64_t size_bytes, const char *what, vklm_error *error)
{
    const uint64_t budget = device->memory_budget, used = atomic_fetch_add(&device->memory_used, size_bytes);
    if (budget == 0 || (used <= budget && size_bytes <= budget - used)) return VKLM_OK;
    device->memory_used -= size_bytes;
    return vki_fail(error, VKLM_OUT_OF_DEVICE_MEMORY,
                    "%s: %.4g MiB more are over the budget: of the %.4g MiB of memory_budget_bytes %.4g are used; "
                    "raise it, shorten contexts, or destroy a session or model",
                    what, (double)size_bytes / (1 << 20), (double)budget / (1 << 20), (double)used / (1 << 20));
}

static vklm_status out_of_memory(uint64_t size_bytes, const char *what, vklm_error *error)
{
    return vki_fail(
        error, VKLM_OUT_OF_DEVICE_MEMORY,
        "%s: the device has no %.4g MiB left; use a smaller model or context, or close other "
        "programs that use the GPU",
        what, (double)size_bytes / (1 << 20));
}

static void count_off(vklm_device *device, const vki_buffer *buffer)
{
    device->memory_used -= buffer->allocated_bytes;
    device->heap_used[buffer->heap] -= buffer->allocated_bytes;
}

/* vkAllocateMemory, of which the program is told and which it may refuse. */
static VkResult allocate_from(vklm_device *device, const VkMemoryAllocateInfo *info, vki_buffer *buffer)
{
    const uint32_t heap = device->memory_properties.memoryTypes[info->memoryTypeIndex].heapIndex;
    if (device->hooks.allocate_memory &&
        !device->hooks.allocate_memory(device->hooks.memory_user, heap, info->allocationSize))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    buffer->heap = heap;
    const VkResult result = device->fn.vkAllocateMemory(device->device, info, device->callbacks, &buffer->memory);
    if (result >= VK_SUCCESS) device->heap_used[heap] += info->allocationSize;
    else if (device->hooks.free_memory)
        device->hooks.free_memory(device->hooks.memory_user, heap, info->allocationSize);
    return result;
}

/* From the best type of memory that has so much left. */
static vklm_status allocate_any(vklm_device *device, vki_memory_kind kind, uint32_t type_bits,
                                const char *what, vklm_error *error, vki_buffer *buffer, uint32_t *type)
{
    const VkMemoryPriorityAllocateInfoEXT priority = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_PRIORITY_ALLOCATE_INFO_EXT,
        .priority = device_priority,
    };
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .pNext = device->has_memory_priority && kind == VKI_MEMORY_DEVICE ? &priority : NULL,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    for (;;) {
        *type = type_of(device, kind, type_bits);
        if (*type == UINT32_MAX) return out_of_memory(buffer->allocated_bytes, what, error);
        const VkMemoryAllocateInfo allocate = {
            .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
            .pNext = &flags,
            .allocationSize = buffer->allocated_bytes,
            .memoryTypeIndex = *type,
        };
        const VkResult result = allocate_from(device, &allocate, buffer);
        if (result >= VK_SUCCESS) return VKLM_OK;
        buffer->memory = VK_NULL_HANDLE;
        if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY) return vki_check(device, result, what, error);
        type_bits &= ~(1u << *type);
    }
}

static vklm_status allocate(vklm_device *device, vki_memory_kind kind, uint32_t type_bits,
                            const char *what, vklm_error *error, vki_buffer *buffer, uint32_t *type)
{
    TRY(take_budget(device, buffer->allocated_bytes, what, error));
    const vklm_status status = allocate_any(device, kind, type_bits, what, error, buffer, type);
    if (status != VKLM_OK) device->memory_used -= buffer->allocated_bytes;
    return status;
}

/* Whether the host gets to see a buffer of this kind in memory of this type. */
static bool is_mapped(const vklm_device *device, vki_memory_kind kind, uint32_t type)
{
    const VkMemoryPropertyFlags mapped =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if (type == UINT32_MAX || (kind == VKI_MEMORY_DEVICE && !is_unified(device))) return false;
    return (device->memory_properties.memoryTypes[type].propertyFlags & mapped) == mapped;
}

bool vki_uploads_are_staged(const vklm_device *device)
{
    return !is_mapped(device, VKI_MEMORY_DEVICE, type_of(device, VKI_MEMORY_DEVICE, UINT32_MAX));
}

static vklm_status map_and_address(vklm_device *device, vki_memory_kind kind, uint32_t type,
                                   const char *what, vklm_error *error, vki_buffer *buffer)
{
    VkResult result =
        device->fn.vkBindBufferMemory(device->device, buffer->buffer, buffer->memory, 0);
    TRY(vki_check(device, result, what, error));
    const VkBufferDeviceAddressInfo address = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
        .buffer = buffer->buffer,
    };
    buffer->address = device->fn.vkGetBufferDeviceAddress(device->device, &address);
    if (!is_mapped(device, kind, type)) return VKLM_OK;
    void *bytes = NULL;
    result = device->fn.vkMapMemory(device->device, buffer->memory, 0, VK_WHOLE_SIZE, 0, &bytes);
    TRY(vki_check(device, result, what, error));
    buffer->mapped = bytes;
    return VKLM_OK;
}

/* The VkBuffer, and what it needs of memory. */
static vklm_status create_buffer(vklm_device *device, const char *what, vklm_error *error, vki_buffer *buffer,
                                 VkMemoryRequirements *needs)
{
    const VkBufferCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = vki_max(buffer->size_bytes, SLICE_ALIGNMENT),
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    *needs = (VkMemoryRequirements){.size = vki_round_up(create.size, SLICE_ALIGNMENT)};
    if (device->measured_size == create.size) {
        *needs = device->measured;
    } else if (device->device) {
        const VkResult result = device->fn.vkCreateBuffer(device->device, &create, device->callbacks, &buffer->buffer);
        TRY(vki_check(device, result, what, error));
        device->fn.vkGetBufferMemoryRequirements(device->device, buffer->buffer, needs);
    }
    buffer->allocated_bytes = vki_max(needs->size, SMALLEST_ALLOCATION);
    return VKLM_OK;
}

/* Counts the buffer; where the host would see it, host memory stands in. */
static vklm_status measure(vklm_device *device, vki_memory_kind kind, const VkMemoryRequirements *needs,
                           vklm_error *error, vki_buffer *buffer)
{
    if (buffer->buffer) device->fn.vkDestroyBuffer(device->device, buffer->buffer, device->callbacks);
    buffer->buffer = VK_NULL_HANDLE;
    device->measured = *needs;
    device->measured_size = vki_max(buffer->size_bytes, SLICE_ALIGNMENT);
    buffer->address = MEASURED_ADDRESS;
    const uint32_t type = type_of(device, kind, needs->memoryTypeBits);
    buffer->heap = type == UINT32_MAX ? 0 : device->memory_properties.memoryTypes[type].heapIndex;
    device->memory_used += buffer->allocated_bytes;
    device->heap_used[buffer->heap] += buffer->allocated_bytes;
    if (kind == VKI_MEMORY_DEVICE || kind == VKI_MEMORY_STAGING) return VKLM_OK;
    return vki_alloc(&device->host, (size_t)buffer->size_bytes, 1, error, &buffer->mapped);
}

vklm_status vki_buffer_create(vklm_device *device, vki_memory_kind kind, uint64_t size_bytes,
                              const char *what, vklm_error *error, vki_buffer *buffer)
{
    *buffer = (vki_buffer){.size_bytes = size_bytes};
    TRY(vki_device_usable(device, error));
    if (kind == VKI_MEMORY_DEVICE && size_bytes > device->limits.max_block_bytes)
        return vki_fail(
            error, VKLM_OUT_OF_DEVICE_MEMORY,
            "%s needs %.4g MiB in one piece, but blocks of device memory end at %.4g MiB here",
            what, (double)size_bytes / (1 << 20),
            (double)device->limits.max_block_bytes / (1 << 20));
    vklm_status status;
    VkMemoryRequirements needs;
    uint32_t type;
    TRY_OR_FAIL(create_buffer(device, what, error, buffer, &needs));
    if (device->measuring) {
        TRY_OR_FAIL(measure(device, kind, &needs, error, buffer));
        return VKLM_OK;
    }
    TRY_OR_FAIL(allocate(device, kind, needs.memoryTypeBits, what, error, buffer, &type));
    TRY_OR_FAIL(map_and_address(device, kind, type, what, error, buffer));
    return VKLM_OK;
fail:
    vki_buffer_destroy(device, buffer);
    return status;
}

void vki_buffer_destroy(vklm_device *device, vki_buffer *buffer)
{
    if (device->measuring && buffer->address) {
        count_off(device, buffer);
        vki_release(&device->host, &buffer->mapped);
    }
    if (buffer->buffer) device->fn.vkDestroyBuffer(device->device, buffer->buffer, device->callbacks);
    if (buffer->memory) {
        device->fn.vkFreeMemory(device->device, buffer->memory, device->callbacks);
        count_off(device, buffer);
        if (device->hooks.free_memory)
            device->hooks.free_memory(device->hooks.memory_user, buffer->heap, buffer->allocated_bytes);
    }
    *buffer = (vki_buffer){0};
}

void vki_measure_init(vklm_device *measuring, const vklm_device *device)
{
    if (device) {
        *measuring = (vklm_device){.host = device->host, .info = device->info, .limits = device->limits,
                                   .device = device->device, .fn = device->fn, .callbacks = device->callbacks,
                                   .memory_properties = device->memory_properties, .lost = device->lost};
    } else {
        *measuring = (vklm_device){.limits.max_block_bytes = UINT64_MAX};
        vki_host_init(&measuring->host, NULL, NULL);
    }
    measuring->host.log = (vklm_log){0};
    measuring->measuring = true;
}

/* ---- Pools ----------------------------------------------------------------------------------- */

void vki_pool_init(vki_pool *pool, vklm_device *device, const char *what, uint64_t block_bytes)
{
    *pool = (vki_pool){
        .device = device,
        .what = what,
        .block_bytes = vki_min(block_bytes, device->limits.max_block_bytes),
    };
}

void vki_pool_free(vki_pool *pool)
{
    if (!pool->device) return;
    for (size_t i = 0; i < pool->n_blocks; i++) vki_buffer_destroy(pool->device, &pool->blocks[i]);
    vki_release(&pool->device->host, &pool->blocks);
    vki_release(&pool->device->host, &pool->free_slices);
    *pool = (vki_pool){0};
}

/* A new block, free as a whole, in the place of one that went or behind all. */
static vklm_status add_block(vki_pool *pool, uint64_t size_bytes, vklm_error *error)
{
    const vki_host *host = &pool->device->host;
    size_t at = 0;
    while (at < pool->n_blocks && pool->blocks[at].buffer) at++;
    TRY(vki_grow(host, at + 1, sizeof *pool->blocks, error, &pool->blocks, &pool->blocks_capacity));
    TRY(vki_grow(host, pool->n_free + 1, sizeof *pool->free_slices, error, &pool->free_slices,
                 &pool->free_capacity));
    vki_buffer *block = &pool->blocks[at];
    TRY(vki_buffer_create(pool->device, VKI_MEMORY_DEVICE, size_bytes, pool->what, error, block));
    if (at == pool->n_blocks) pool->n_blocks++;
    pool->free_slices[pool->n_free++] = (vki_slice){
        .address = block->address,
        .size_bytes = size_bytes,
        .block = (uint32_t)at,
        .mapped = block->mapped,
    };
    return VKLM_OK;
}

/* What a slice of so many bytes takes from its block. */
static uint64_t taken_bytes(uint64_t size_bytes)
{
    return vki_round_up(vki_max(size_bytes, 1), SLICE_ALIGNMENT);
}

static size_t find_free(const vki_pool *pool, uint64_t size_bytes)
{
    size_t i = 0;
    while (i < pool->n_free && pool->free_slices[i].size_bytes < size_bytes) i++;
    return i;
}

/* Cuts `bytes` off the front of *rest. */
static vki_slice cut(vki_slice *rest, uint64_t bytes)
{
    vki_slice front = *rest;
    front.size_bytes = bytes;
    rest->address += bytes;
    rest->offset += bytes;
    rest->size_bytes -= bytes;
    if (rest->mapped) rest->mapped += bytes;
    return front;
}

vklm_status vki_pool_take(vki_pool *pool, uint64_t size_bytes, vklm_error *error, vki_slice *slice)
{
    *slice = (vki_slice){0};
    const uint64_t bytes = taken_bytes(size_bytes);
    size_t i = find_free(pool, bytes);
    if (i == pool->n_free) TRY(add_block(pool, vki_max(bytes, pool->block_bytes), error));
    vki_slice *rest = &pool->free_slices[i];
    *slice = cut(rest, bytes);
    slice->size_bytes = size_bytes;
    if (rest->size_bytes == 0) *rest = pool->free_slices[--pool->n_free];
    return VKLM_OK;
}

/* Joins free slice `i` with the one that begins where it ends, if there is one. */
static bool join_next(vki_pool *pool, size_t i)
{
    vki_slice *slices = pool->free_slices;
    for (size_t k = 0; k < pool->n_free; k++) {
        if (slices[k].block != slices[i].block || slices[k].offset != slices[i].offset + slices[i].size_bytes)
            continue;
        slices[i].size_bytes += slices[k].size_bytes;
        slices[k] = slices[--pool->n_free];
        return true;
    }
    return false;
}

vklm_status vki_pool_give(vki_pool *pool, const vki_slice *slice, vklm_error *error)
{
    if (slice->address == 0) return VKLM_OK;
    TRY(vki_grow(&pool->device->host, pool->n_free + 1, sizeof *pool->free_slices, error,
                 &pool->free_slices, &pool->free_capacity));
    pool->free_slices[pool->n_free] = *slice;
    pool->free_slices[pool->n_free].size_bytes = taken_bytes(slice->size_bytes);
    pool->n_free++;
    size_t i = 0;
    while (i < pool->n_free) i = join_next(pool, i) ? 0 : i + 1;
    return VKLM_OK;
}

void vki_pool_shrink(vki_pool *pool)
{
    for (size_t i = 0; i < pool->n_free;) {
        vki_buffer *block = &pool->blocks[pool->free_slices[i].block];
        if (pool->free_slices[i].size_bytes < block->size_bytes) {
            i++;
            continue;
        }
        vki_buffer_destroy(pool->device, block);
        pool->free_slices[i] = pool->free_slices[--pool->n_free];
    }
}
