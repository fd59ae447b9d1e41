/* game_gpu.h - the game's own Vulkan: instance, device, queues, and the few makers that the rest needs.
 *
 * Vulkan comes through volk under its usual names; vklm has a copy of its own under names of its own. The device is
 * made with what vklm asks for, and a queue for it beside the frames' where there is one. Where there is none, both
 * submit to one queue: whoever does, or presents, holds `lock`.
 *
 * A function that returns false has said why on stderr.
 */
#ifndef GAME_GPU_H
#define GAME_GPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <volk.h>

#include "vklm/vklm_vulkan.h"

typedef struct gpu_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    void *mapped; /* of host-visible memory, coherent */
} gpu_buffer;

typedef struct gpu_image {
    VkImage image;
    VkDeviceMemory memory;
    VkImageView view;
} gpu_image;

typedef struct gpu {
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    VkDevice device;
    uint32_t family; /* of graphics and, with a window, of presenting */
    VkQueue queue;
    pthread_mutex_t lock;
    vklm_vulkan_requirements requirements; /* verdict OK: the device was made with them; zeroed: no model */
    const char *extensions[VKLM_VULKAN_MAX_EXTENSIONS + 2]; /* enabled ones */
    uint32_t n_extensions;
    vklm_vulkan_queue model_queue;
    VkPipelineCache cache; /* of game_cache.h; null: none */
    size_t cache_bytes;    /* that it began with */
    uint64_t timestamp_mask; /* 0: the queue has no timestamps */
    atomic_uint n_messages;  /* of the validation layer */
} gpu;

typedef struct gpu_options {
    const char *select; /* a number or a part of a name; NULL: discrete before integrated before software */
    bool window;        /* it shall present */
    bool model;         /* vklm shall share it */
    bool validate;      /* under the validation layer where that is installed */
} gpu_options;

/* False also where no device is fit. A gpu that was not made, or only half, may be destroyed. */
bool gpu_create(gpu *gpu, const gpu_options *options);
void gpu_destroy(gpu *gpu);

/* Whether a call succeeded; else says that `what` failed, and how. */
bool gpu_ok(VkResult result, const char *what);

/* Says a sentence on stderr, "vklm-game: ..."; always false. */
bool gpu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

bool gpu_make_buffer(gpu *gpu, VkDeviceSize size, VkBufferUsageFlags usage, gpu_buffer *buffer);
bool gpu_make_image(gpu *gpu, VkExtent2D size, VkFormat format, VkImageUsageFlags usage, gpu_image *image);
bool gpu_make_view(gpu *gpu, VkImage image, VkFormat format, VkImageView *view);
bool gpu_make_semaphore(gpu *gpu, VkSemaphore *semaphore);
void gpu_free_buffer(gpu *gpu, gpu_buffer *buffer);
void gpu_free_image(gpu *gpu, gpu_image *image);

/* Waits until the queue of the frames is idle. */
bool gpu_wait(gpu *gpu);

#endif
