/* game_renderer.c - frames: slots, recording, submission. See game_renderer.h. */
#include "game_renderer.h"

#include <string.h>

#include "game_pipelines.h"

static bool create_slot(renderer *renderer, renderer_slot *slot)
{
    gpu *gpu = renderer->gpu;
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = gpu->family};
    if (!gpu_ok(vkCreateCommandPool(gpu->device, &pool, NULL, &slot->pool), "a command pool")) return false;
    const VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                  .commandPool = slot->pool,
                                                  .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                  .commandBufferCount = 1};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
                                     .flags = VK_FENCE_CREATE_SIGNALED_BIT};
    return gpu_ok(vkAllocateCommandBuffers(gpu->device, &commands, &slot->commands), "a command buffer") &&
           gpu_ok(vkCreateFence(gpu->device, &fence, NULL, &slot->done), "a fence") &&
           gpu_make_semaphore(gpu, &slot->ready) &&
           gpu_make_buffer(gpu, sizeof(shape) * CANVAS_MOST_SHAPES, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT,
                           &slot->shapes) &&
           gpu_make_buffer(gpu, TEXT_ATLAS_SIZE * TEXT_ATLAS_SIZE, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, &slot->texels);
}

bool renderer_create(renderer *renderer, gpu *gpu, VkFormat format, bool window)
{
    memset(renderer, 0, sizeof *renderer);
    renderer->gpu = gpu;
    renderer->gpu_ms = -1;
    if (!pipelines_create(renderer, format, window)) return false;
    for (uint32_t i = 0; i < RENDERER_SLOTS; i++)
        if (!create_slot(renderer, &renderer->slots[i])) return false;
    if (!gpu->timestamp_mask) return true;
    const VkQueryPoolCreateInfo times = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                         .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                         .queryCount = 2 * RENDERER_SLOTS};
    return gpu_ok(vkCreateQueryPool(gpu->device, &times, NULL, &renderer->times), "a query pool");
}

void renderer_destroy(renderer *renderer)
{
    gpu *gpu = renderer->gpu;
    if (!gpu || !gpu->device) return;
    for (uint32_t i = 0; i < RENDERER_SLOTS; i++) {
        renderer_slot *slot = &renderer->slots[i];
        gpu_free_buffer(gpu, &slot->texels);
        gpu_free_buffer(gpu, &slot->shapes);
        vkDestroySemaphore(gpu->device, slot->ready, NULL);
        vkDestroyFence(gpu->device, slot->done, NULL);
        vkDestroyCommandPool(gpu->device, slot->pool, NULL);
    }
    vkDestroyQueryPool(gpu->device, renderer->times, NULL);
    pipelines_destroy(renderer);
    memset(renderer, 0, sizeof *renderer);
}

static bool wait_slot(renderer *renderer, const renderer_slot *slot)
{
    return gpu_ok(vkWaitForFences(renderer->gpu->device, 1, &slot->done, VK_TRUE, UINT64_MAX),
                  "waiting for a frame");
}

static void read_times(renderer *renderer)
{
    renderer_slot *slot = &renderer->slots[renderer->slot];
    uint64_t ticks[2];
    if (!slot->timed) return;
    slot->timed = false;
    const VkResult read = vkGetQueryPoolResults(renderer->gpu->device, renderer->times, 2 * renderer->slot, 2,
                                                sizeof ticks, ticks, sizeof *ticks, VK_QUERY_RESULT_64_BIT);
    if (read != VK_SUCCESS) return;
    const uint64_t passed = (ticks[1] - ticks[0]) & renderer->gpu->timestamp_mask;
    renderer->gpu_ms = (double)passed * (double)renderer->gpu->properties.limits.timestampPeriod * 1e-6;
}

bool renderer_begin(renderer *renderer)
{
    renderer->slot = (renderer->slot + 1) % RENDERER_SLOTS;
    if (!wait_slot(renderer, &renderer->slots[renderer->slot])) return false;
    read_times(renderer);
    return true;
}

VkSemaphore renderer_ready(const renderer *renderer)
{
    return renderer->slots[renderer->slot].ready;
}

bool renderer_finish(renderer *renderer)
{
    for (uint32_t i = 0; i < RENDERER_SLOTS; i++)
        if (!wait_slot(renderer, &renderer->slots[i])) return false;
    read_times(renderer);
    return true;
}

/* ---- Recording ------------------------------------------------------------------------------------ */

static void change_atlas(const renderer *renderer, VkCommandBuffer commands, bool to_write)
{
    const VkImageLayout readable = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    const VkImageLayout writable = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    const VkImageMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .srcAccessMask = to_write ? 0 : VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = to_write ? VK_ACCESS_TRANSFER_WRITE_BIT : VK_ACCESS_SHADER_READ_BIT,
        .oldLayout = !to_write ? writable : renderer->atlas_filled ? readable : VK_IMAGE_LAYOUT_UNDEFINED,
        .newLayout = to_write ? writable : readable,
        .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .image = renderer->atlas.image,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    const VkPipelineStageFlags copy = VK_PIPELINE_STAGE_TRANSFER_BIT, read = VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT;
    vkCmdPipelineBarrier(commands, to_write ? read : copy, to_write ? copy : read, 0, 0, NULL, 0, NULL, 1, &barrier);
}

static void upload_text(renderer *renderer, const renderer_slot *slot, const text_change *change)
{
    if (change->n_rows == 0) return;
    const size_t start = (size_t)change->first_row * TEXT_ATLAS_SIZE;
    memcpy((uint8_t *)slot->texels.mapped + start, change->pixels + start,
           (size_t)change->n_rows * TEXT_ATLAS_SIZE);
    const VkBufferImageCopy region = {.bufferOffset = start,
                                      .imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                                      .imageOffset = {0, (int32_t)change->first_row, 0},
                                      .imageExtent = {TEXT_ATLAS_SIZE, change->n_rows, 1}};
    change_atlas(renderer, slot->commands, true);
    vkCmdCopyBufferToImage(slot->commands, slot->texels.buffer, renderer->atlas.image,
                           VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &region);
    change_atlas(renderer, slot->commands, false);
    renderer->atlas_filled = true;
}

static void draw_scene(const renderer *renderer, VkCommandBuffer commands, const scene *scene)
{
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, renderer->scene_pipeline);
    vkCmdPushConstants(commands, renderer->scene_layout, VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof *scene, scene);
    vkCmdDraw(commands, 3, 1, 0, 0);
}

static void draw_canvas(const renderer *renderer, const renderer_slot *slot, const float size[2],
                        const canvas *canvas)
{
    const VkDeviceSize offset = 0;
    memcpy(slot->shapes.mapped, canvas->shapes, canvas->n_shapes * sizeof(shape));
    vkCmdBindPipeline(slot->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, renderer->canvas_pipeline);
    vkCmdBindDescriptorSets(slot->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, renderer->canvas_layout, 0, 1,
                            &renderer->atlas_set, 0, NULL);
    vkCmdPushConstants(slot->commands, renderer->canvas_layout, VK_SHADER_STAGE_VERTEX_BIT, 0, 2 * sizeof(float),
                       size);
    vkCmdBindVertexBuffers(slot->commands, 0, 1, &slot->shapes.buffer, &offset);
    vkCmdDraw(slot->commands, 6, (uint32_t)canvas->n_shapes, 0, 0);
}

static void draw_pass(const renderer *renderer, const renderer_slot *slot, const target *target, uint32_t image,
                      const renderer_frame *frame)
{
    const VkRect2D all = {{0, 0}, target->size};
    const VkViewport viewport = {0, 0, (float)target->size.width, (float)target->size.height, 0, 1};
    const VkRenderPassBeginInfo pass = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                        .renderPass = renderer->pass,
                                        .framebuffer = target->framebuffers[image],
                                        .renderArea = all};
    vkCmdBeginRenderPass(slot->commands, &pass, VK_SUBPASS_CONTENTS_INLINE);
    vkCmdSetViewport(slot->commands, 0, 1, &viewport);
    vkCmdSetScissor(slot->commands, 0, 1, &all);
    draw_scene(renderer, slot->commands, frame->scene);
    if (frame->canvas->n_shapes > 0) draw_canvas(renderer, slot, frame->scene->size, frame->canvas);
    vkCmdEndRenderPass(slot->commands);
}

static void read_back(VkCommandBuffer commands, const target *target)
{
    const VkBufferImageCopy region = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                                      .imageExtent = {target->size.width, target->size.height, 1}};
    vkCmdCopyImageToBuffer(commands, target->offscreen.image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                           target->pixels.buffer, 1, &region);
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                         NULL, 0, NULL);
}

static void stamp(const renderer *renderer, VkCommandBuffer commands, bool end)
{
    if (!renderer->times) return;
    const uint32_t first = 2 * renderer->slot;
    if (!end) vkCmdResetQueryPool(commands, renderer->times, first, 2);
    vkCmdWriteTimestamp(commands, end ? VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT : VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
                        renderer->times, first + end);
}

static bool record(renderer *renderer, const target *target, uint32_t image, const renderer_frame *frame)
{
    renderer_slot *slot = &renderer->slots[renderer->slot];
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    if (!gpu_ok(vkResetCommandPool(renderer->gpu->device, slot->pool, 0), "vkResetCommandPool") ||
        !gpu_ok(vkBeginCommandBuffer(slot->commands, &begin), "vkBeginCommandBuffer"))
        return false;
    stamp(renderer, slot->commands, false);
    upload_text(renderer, slot, &frame->text);
    draw_pass(renderer, slot, target, image, frame);
    if (frame->read_back) read_back(slot->commands, target);
    stamp(renderer, slot->commands, true);
    return gpu_ok(vkEndCommandBuffer(slot->commands), "vkEndCommandBuffer");
}

bool renderer_draw(renderer *renderer, target *target, uint32_t image, const renderer_frame *frame)
{
    renderer_slot *slot = &renderer->slots[renderer->slot];
    gpu *gpu = renderer->gpu;
    if (!record(renderer, target, image, frame)) return false;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
    const uint32_t shown = target->window ? 1 : 0;
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .waitSemaphoreCount = shown,
                                 .pWaitSemaphores = &slot->ready,
                                 .pWaitDstStageMask = &stage,
                                 .commandBufferCount = 1,
                                 .pCommandBuffers = &slot->commands,
                                 .signalSemaphoreCount = shown,
                                 .pSignalSemaphores = &target->finished[image]};
    if (!gpu_ok(vkResetFences(gpu->device, 1, &slot->done), "vkResetFences")) return false;
    pthread_mutex_lock(&gpu->lock);
    const VkResult result = vkQueueSubmit(gpu->queue, 1, &submit, slot->done);
    pthread_mutex_unlock(&gpu->lock);
    slot->timed = renderer->times != VK_NULL_HANDLE;
    return gpu_ok(result, "submitting a frame");
}
