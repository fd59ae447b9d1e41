/* upload.c - fills slices: directly where they are mapped, else by copies from a staging buffer.
 *
 * The staging buffer has two halves, each with its own command buffer and fence: while the device
 * copies one, the caller fills the other. A copy is recorded when its piece is handed out and
 * submitted when its half is full; the caller knows when that is, and has filled the piece by then.
 */
#include "gpu/memory.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"

vklm_status vki_upload_begin(vki_upload *upload, vklm_device *device, vklm_error *error)
{
    *upload = (vki_upload){.device = device};
    return vki_device_usable(device, error);
}

static vklm_status create_half(vki_upload *upload, uint32_t half, vklm_error *error)
{
    vklm_device *device = upload->device;
    TRY(vki_command_pool(device, VK_COMMAND_POOL_CREATE_TRANSIENT_BIT, error, &upload->halves[half].pool));
    TRY(vki_command_buffers(device, upload->halves[half].pool, 1, error, &upload->halves[half].command));
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkResult result =
        device->fn.vkCreateFence(device->device, &fence, device->callbacks, &upload->halves[half].fence);
    return vki_check(device, result, "vkCreateFence", error);
}

static vklm_status wait_half(vki_upload *upload, uint32_t half, vklm_error *error)
{
    if (!upload->halves[half].pending) return VKLM_OK;
    vklm_device *device = upload->device;
    const VkFence *fence = &upload->halves[half].fence;
    VkResult result = device->fn.vkWaitForFences(device->device, 1, fence, VK_TRUE, UINT64_MAX);
    TRY(vki_check(device, result, "vkWaitForFences", error));
    upload->halves[half].pending = false;
    result = device->fn.vkResetFences(device->device, 1, fence);
    return vki_check(device, result, "vkResetFences", error);
}

static void release_staging(vki_upload *upload)
{
    vklm_device *device = upload->device;
    for (uint32_t i = 0; i < 2; i++) {
        if (!device->lost) (void)wait_half(upload, i, NULL);
        device->fn.vkDestroyFence(device->device, upload->halves[i].fence, device->callbacks);
        device->fn.vkDestroyCommandPool(device->device, upload->halves[i].pool, device->callbacks);
    }
    vki_buffer_destroy(device, &upload->staging);
    *upload = (vki_upload){.device = device};
}

static vklm_status create_staging(vki_upload *upload, vklm_error *error)
{
    vklm_status status;
    TRY_OR_FAIL(vki_buffer_create(upload->device, VKI_MEMORY_STAGING, VKI_UPLOAD_BYTES, "the staging buffer", error,
                                  &upload->staging));
    TRY_OR_FAIL(create_half(upload, 0, error));
    TRY_OR_FAIL(create_half(upload, 1, error));
    return VKLM_OK;
fail:
    release_staging(upload);
    return status;
}

vklm_status vki_upload_turn(vki_upload *upload, vklm_error *error)
{
    if (!upload->recording) return VKLM_OK;
    vklm_device *device = upload->device;
    const VkCommandBuffer command = upload->halves[upload->current].command;
    upload->recording = false;
    /* Recordings rely on it: they begin without a barrier. */
    const VkMemoryBarrier copied = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    device->fn.vkCmdPipelineBarrier(command, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &copied, 0, NULL, 0, NULL);
    TRY(vki_check(device, device->fn.vkEndCommandBuffer(command), "vkEndCommandBuffer", error));
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &command,
    };
    TRY(vki_device_submit(device, &submit, upload->halves[upload->current].fence, error));
    upload->halves[upload->current].pending = true;
    upload->current = 1 - upload->current;
    upload->used = 0;
    return VKLM_OK;
}

static vklm_status begin_half(vki_upload *upload, vklm_error *error)
{
    TRY(wait_half(upload, upload->current, error));
    vklm_device *device = upload->device;
    VkResult result =
        device->fn.vkResetCommandPool(device->device, upload->halves[upload->current].pool, 0);
    TRY(vki_check(device, result, "vkResetCommandPool", error));
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    result = device->fn.vkBeginCommandBuffer(upload->halves[upload->current].command, &begin);
    TRY(vki_check(device, result, "vkBeginCommandBuffer", error));
    upload->recording = true;
    return VKLM_OK;
}

uint64_t vki_upload_room(const vki_upload *upload)
{
    return VKI_UPLOAD_HALF_BYTES - vki_min(upload->used, VKI_UPLOAD_HALF_BYTES);
}

vklm_status vki_upload_map(vki_upload *upload, const vki_pool *pool, const vki_slice *slice,
                           uint64_t offset, uint64_t size_bytes, vklm_error *error, uint8_t **bytes)
{
    assert(size_bytes <= VKI_UPLOAD_HALF_BYTES && offset + size_bytes <= slice->size_bytes);
    *bytes = NULL;
    TRY(vki_device_usable(upload->device, error));
    if (slice->mapped) {
        *bytes = slice->mapped + offset;
        return VKLM_OK;
    }
    if (!upload->staging.buffer) TRY(create_staging(upload, error));
    if (size_bytes > vki_upload_room(upload)) TRY(vki_upload_turn(upload, error));
    if (!upload->recording) TRY(begin_half(upload, error));
    const uint64_t staged = upload->current * (uint64_t)VKI_UPLOAD_HALF_BYTES + upload->used;
    const VkBufferCopy copy = {staged, slice->offset + offset, size_bytes};
    if (size_bytes)
        upload->device->fn.vkCmdCopyBuffer(upload->halves[upload->current].command,
                                           upload->staging.buffer,
                                           pool->blocks[slice->block].buffer, 1, &copy);
    upload->used += vki_round_up(size_bytes, VKI_UPLOAD_ALIGNMENT);
    *bytes = upload->staging.mapped + staged;
    return VKLM_OK;
}

vklm_status vki_upload_zeroes(vki_upload *upload, const vki_pool *pool, const vki_slice *slice, vklm_error *error)
{
    if (upload->device->measuring) return VKLM_OK;
    for (uint64_t at = 0; at < slice->size_bytes; at += VKI_UPLOAD_HALF_BYTES) {
        const uint64_t piece = vki_min(slice->size_bytes - at, VKI_UPLOAD_HALF_BYTES);
        uint8_t *bytes;
        TRY(vki_upload_map(upload, pool, slice, at, piece, error, &bytes));
        memset(bytes, 0, (size_t)piece);
    }
    return VKLM_OK;
}

vklm_status vki_upload_finish(vki_upload *upload, vklm_error *error)
{
    TRY(vki_upload_turn(upload, error));
    TRY(wait_half(upload, 0, error));
    return wait_half(upload, 1, error);
}

void vki_upload_free(vki_upload *upload)
{
    if (upload->staging.buffer) release_staging(upload);
    *upload = (vki_upload){0};
}
