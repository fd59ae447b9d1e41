/* game_renderer.h - draws a frame: the scene as one full-screen triangle, then the canvas over it.
 *
 * Two frames may be on their way. What the GPU took for a frame is known when its slot comes round again.
 */
#ifndef GAME_RENDERER_H
#define GAME_RENDERER_H

#include "game_canvas.h"
#include "game_target.h"
#include "game_text.h"

enum { RENDERER_SLOTS = 2 };

/* The push constants of shaders/scene.frag. */
typedef struct scene {
    float size[2];  /* of the picture, pixels */
    float time;     /* seconds */
    int32_t layers; /* of the aurora: the cost of a pixel grows with it */
    float talk[2];  /* how far the owl's and the fox's mouth is open, 0 to 1 */
    float look[2];  /* who listens: 1, else 0 */
} scene;

typedef struct renderer_slot {
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence done;       /* signalled: nothing of this slot is on the device */
    VkSemaphore ready;  /* the target's image may be written */
    gpu_buffer shapes, texels;
    bool timed;
} renderer_slot;

typedef struct renderer {
    gpu *gpu;
    VkRenderPass pass;
    VkDescriptorSetLayout set_layout;
    VkDescriptorPool descriptors;
    VkDescriptorSet atlas_set;
    VkSampler sampler;
    gpu_image atlas;
    bool atlas_filled;
    VkPipelineLayout scene_layout, canvas_layout;
    VkPipeline scene_pipeline, canvas_pipeline;
    VkQueryPool times; /* two of each slot; none where the queue has no timestamps */
    uint32_t slot;
    renderer_slot slots[RENDERER_SLOTS];
    double gpu_ms;     /* of the last frame known; negative: unknown */
} renderer;

typedef struct renderer_frame {
    const scene *scene;
    const canvas *canvas;
    text_change text;
    bool read_back; /* into target.pixels; headless only */
} renderer_frame;

/* For targets of this format; a window's images end up ready to be shown, others ready to be read. */
bool renderer_create(renderer *renderer, gpu *gpu, VkFormat format, bool window);
void renderer_destroy(renderer *renderer);

/* Waits until the next slot is free: at most for the frame before the last. */
bool renderer_begin(renderer *renderer);

/* Records and submits to an image of the target that was acquired with renderer_ready. */
VkSemaphore renderer_ready(const renderer *renderer);
bool renderer_draw(renderer *renderer, target *target, uint32_t image, const renderer_frame *frame);

/* Waits for all frames of ours; not for the model. */
bool renderer_finish(renderer *renderer);

#endif
