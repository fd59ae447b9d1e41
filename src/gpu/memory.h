/* memory.h - device memory: buffers with an address, and pools that cut few large blocks.
 *
 * Everything shaders touch is reached by device address. Device-local memory is mapped only where it
 * is the machine's main memory (unified memory, software Vulkan); else uploads go through staging.
 */
#ifndef VKI_MEMORY_H
#define VKI_MEMORY_H

#include "gpu/device.h"

typedef enum vki_memory_kind {
    VKI_MEMORY_DEVICE,   /* device-local; mapped where unified */
    VKI_MEMORY_SHARED,   /* host-visible and coherent, device-local where the device has such: small
                            state that both sides write */
    VKI_MEMORY_READBACK, /* host-visible, coherent, cached where possible: large results for the host */
    VKI_MEMORY_STAGING,  /* host-visible, coherent: uploads */
} vki_memory_kind;

/* One VkBuffer with its own allocation. */
typedef struct vki_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address;
    uint64_t size_bytes;
    uint8_t *mapped;      /* NULL where the host cannot see it */
} vki_buffer;

/* `what` names it in errors ("the activations"). OUT_OF_DEVICE_MEMORY says how much was asked. */
vklm_status vki_buffer_create(vklm_device *device, vki_memory_kind kind, uint64_t size_bytes,
                              const char *what, vklm_error *error, vki_buffer *buffer);
/* Safe on a zeroed buffer. The caller knows that the device has finished with it. */
void vki_buffer_destroy(vklm_device *device, vki_buffer *buffer);

/* A part of a pool's block. */
typedef struct vki_slice {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t offset;      /* in its block */
    uint32_t block;
    uint8_t *mapped;      /* or NULL */
} vki_slice;

/* Cuts device-local blocks. Slices are 256-byte aligned; freed ones are reused by size (first fit). */
typedef struct vki_pool {
    vklm_device *device;       /* borrowed */
    const char *what;          /* for errors: "the KV cache" */
    uint64_t block_bytes;      /* of the blocks to come; a larger slice gets a block of its own size */
    vki_buffer *blocks;        /* owned */
    uint64_t *used;            /* bytes cut off each block */
    size_t n_blocks, blocks_capacity, used_capacity;
    vki_slice *free_slices;
    size_t n_free, free_capacity;
} vki_pool;

/* block_bytes is lowered to the device's limit (and to device params' block_limit_bytes). */
void vki_pool_init(vki_pool *pool, vklm_device *device, const char *what, uint64_t block_bytes);
void vki_pool_free(vki_pool *pool);
/* INVALID for a size over limits.max_block_bytes: OUT_OF_DEVICE_MEMORY with the limit in the text. */
vklm_status vki_pool_take(vki_pool *pool, uint64_t size_bytes, vklm_error *error, vki_slice *slice);
vklm_status vki_pool_give(vki_pool *pool, const vki_slice *slice, vklm_error *error);

/* Uploads into slices. On mapped memory writes are direct; else through a ring of two staging halves,
 * each submitted when full. Usage: begin; for each piece: get a pointer to up to `max` bytes, fill it,
 * commit; finish waits for the last copy. */
typedef struct vki_upload {
    vklm_device *device;
    vki_buffer staging;        /* created on first use */
    VkCommandPool command_pool;
    VkCommandBuffer command[2];
    VkFence fence[2];
    bool pending[2];
    uint64_t used;             /* bytes of the current half */
    uint32_t half;
    bool recording;
} vki_upload;

enum { VKI_UPLOAD_HALF_BYTES = 16 << 20 };

vklm_status vki_upload_begin(vki_upload *upload, vklm_device *device, vklm_error *error);
/* *bytes: size_bytes (at most VKI_UPLOAD_HALF_BYTES) of host memory that vki_upload_commit will have
 * copied to `offset` bytes behind the slice's start. Contents undefined until filled. */
vklm_status vki_upload_map(vki_upload *upload, const vki_pool *pool, const vki_slice *slice, uint64_t offset,
                           uint64_t size_bytes, vklm_error *error, uint8_t **bytes);
vklm_status vki_upload_finish(vki_upload *upload, vklm_error *error);
void vki_upload_free(vki_upload *upload);

#endif
