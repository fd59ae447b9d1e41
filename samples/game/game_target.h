/* game_target.h - what is drawn to: a window's swapchain, or one image that the host reads back.
 *
 * A window that was resized, minimised or taken away by the window system is a target that is not ready for some
 * frames; only a lost GPU ends the game.
 */
#ifndef GAME_TARGET_H
#define GAME_TARGET_H

#include "game_gpu.h"

struct GLFWwindow;
enum { TARGET_MOST_IMAGES = 8 };

typedef struct target {
    gpu *gpu;
    struct GLFWwindow *window; /* NULL: headless */
    VkSurfaceKHR surface;
    VkSwapchainKHR swapchain;
    VkFormat format;
    VkRenderPass pass; /* borrowed, from target_build */
    VkExtent2D size;
    bool stale;        /* the swapchain has to be made anew */
    uint32_t n_images;
    VkImage images[TARGET_MOST_IMAGES]; /* owned by the swapchain, or by `offscreen` */
    VkImageView views[TARGET_MOST_IMAGES];
    VkFramebuffer framebuffers[TARGET_MOST_IMAGES];
    VkSemaphore finished[TARGET_MOST_IMAGES]; /* that an image may be presented */
    gpu_image offscreen;
    gpu_buffer pixels; /* of `offscreen`, RGBA, rows without gaps */
} target;

typedef enum target_state { TARGET_READY, TARGET_NOT_NOW, TARGET_FAILED } target_state;

/* Chooses the format; target_build makes images and framebuffers for a render pass of that format. */
bool target_open_window(target *target, gpu *gpu, struct GLFWwindow *window);
bool target_open_offscreen(target *target, gpu *gpu, VkExtent2D size);
bool target_build(target *target, VkRenderPass pass);
void target_close(target *target);

/* The next image to draw to; `ready` is signalled when it may be written (with a window; else at once). NOT_NOW:
 * there is none at present, so leave this frame out. */
target_state target_acquire(target *target, VkSemaphore ready, uint32_t *image);

/* Hands an image that was drawn to the window system. */
bool target_present(target *target, uint32_t image);

#endif
