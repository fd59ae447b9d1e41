/* copy.c - see copy.h. Each copy is a command buffer of its own, submitted like any other unit. */
#include "gpu/copy.h"

#include <assert.h>

void vki_copier_init(vki_copier *copier, vklm_device *device, vki_queue *queue)
{
    *copier = (vki_copier){.device = device, .queue = queue};
}

void vki_copier_free(vki_copier *copier)
{
    vklm_device *device = copier->device;
    if (!device) return;
    if (copier->pool) device->fn.vkDestroyCommandPool(device->device, copier->pool, device->callbacks);
    vki_buffer_destroy(device, &copier->staging);
    *copier = (vki_copier){0};
}

static vklm_status create_commands(vki_copier *copier, vklm_error *error)
{
    vklm_device *device = copier->device;
    TRY(vki_command_pool(device, VK_COMMAND_POOL_CREATE_TRANSIENT_BIT | VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                         error, &copier->pool));
    const vklm_status status = vki_command_buffers(device, copier->pool, VKI_COPIES, error, copier->commands);
    if (status == VKLM_OK) return VKLM_OK;
    device->fn.vkDestroyCommandPool(device->device, copier->pool, device->callbacks);
    copier->pool = VK_NULL_HANDLE;
    return status;
}

/* The copy between two barriers: against what came before, and for what comes after. */
static vklm_status record(vklm_device *device, VkCommandBuffer command, VkBuffer from, VkBuffer to,
                          const VkBufferCopy *region, vklm_error *error)
{
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkPipelineStageFlags transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags moved = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkMemoryBarrier before = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = moved,
    };
    const VkMemoryBarrier after = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = moved | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT,
    };
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    const VkResult result = device->fn.vkBeginCommandBuffer(command, &begin);
    TRY(vki_check(device, result, "vkBeginCommandBuffer", error));
    device->fn.vkCmdPipelineBarrier(command, compute | transfer, transfer, 0, 1, &before, 0, NULL, 0, NULL);
    device->fn.vkCmdCopyBuffer(command, from, to, 1, region);
    device->fn.vkCmdPipelineBarrier(command, transfer, compute | transfer | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &after,
                                    0, NULL, 0, NULL);
    return vki_check(device, device->fn.vkEndCommandBuffer(command), "vkEndCommandBuffer", error);
}

static vklm_status copy(vki_copier *copier, VkBuffer from, VkBuffer to, const VkBufferCopy *region, vklm_error *error)
{
    TRY(vki_device_usable(copier->device, error));
    if (!copier->pool) TRY(create_commands(copier, error));
    const uint32_t i = copier->next;
    bool done;
    TRY(vki_queue_wait(copier->queue, copier->values[i], UINT64_MAX, error, &done));
    TRY(record(copier->device, copier->commands[i], from, to, region, error));
    copier->next = (i + 1) % VKI_COPIES;
    const vki_unit unit = {.command = copier->commands[i]};
    return vki_queue_submit(copier->queue, &unit, 1, error, &copier->values[i]);
}

vklm_status vki_copy_slice(vki_copier *copier, const vki_pool *pool, const vki_slice *from, const vki_slice *to,
                           vklm_error *error)
{
    assert(from->size_bytes == to->size_bytes);
    const VkBufferCopy region = {from->offset, to->offset, from->size_bytes};
    return copy(copier, pool->blocks[from->block].buffer, pool->blocks[to->block].buffer, &region, error);
}

vklm_status vki_copy_read(vki_copier *copier, const vki_pool *pool, const vki_slice *slice, uint64_t offset,
                          uint64_t size_bytes, vklm_error *error, const uint8_t **bytes)
{
    *bytes = NULL;
    vki_queue *queue = copier->queue;
    if (!slice->mapped) {
        assert(size_bytes <= VKI_READ_BYTES);
        if (!copier->staging.buffer)
            TRY(vki_buffer_create(copier->device, VKI_MEMORY_READBACK, VKI_READ_BYTES, "the buffer for reading back",
                                  error, &copier->staging));
        const VkBufferCopy region = {slice->offset + offset, 0, size_bytes};
        TRY(copy(copier, pool->blocks[slice->block].buffer, copier->staging.buffer, &region, error));
    }
    bool done;
    TRY(vki_queue_wait(queue, queue->submitted, UINT64_MAX, error, &done));
    *bytes = slice->mapped ? slice->mapped + offset : copier->staging.mapped;
    return VKLM_OK;
}
