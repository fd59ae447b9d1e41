/* memory.h - device memory: buffers with an address, and pools that cut few large blocks.
 *
 * Everything shaders touch is reached by device address. Device-local memory is mapped only where
 * it is the machine's main memory (unified, software Vulkan); else uploads go through staging.
 */
#ifndef VKI_MEMORY_H
#define VKI_MEMORY_H

#include "gpu/device.h"

typedef enum vki_memory_kind {
    VKI_MEMORY_DEVICE,   /* device-local; mapped where unified */
    VKI_MEMORY_SHARED,   /* host-visible and coherent, device-local where the device has such: small
                            state that both sides write */
    VKI_MEMORY_READBACK, /* host-visible, coherent, cached where possible: large results */
    VKI_MEMORY_STAGING,  /* host-visible, coherent: uploads */
} vki_memory_kind;

/* One VkBuffer with its own allocation. */
typedef struct vki_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t allocated_bytes; /* of device memory */
    uint32_t heap;            /* that they are of */
    uint8_t *mapped;      /* NULL where the host cannot see it */
} vki_buffer;

/* `what` names it in errors ("the activations"). OUT_OF_DEVICE_MEMORY says how much was asked. */
vklm_status vki_buffer_create(vklm_device *device, vki_memory_kind kind, uint64_t size_bytes,
                              const char *what, vklm_error *error, vki_buffer *buffer);
/* Safe on a zeroed buffer. The caller knows that the device has finished with it. */
void vki_buffer_destroy(vklm_device *device, vki_buffer *buffer);

/* A device that only counts what buffers would take, in memory_used and heap_used, and allocates nothing: running the
 * code that takes memory on it says how much that is, to the byte. The host sees what it would see of shared and
 * read-back buffers; uploads other than of zeroes are not for it. `device` NULL: one that nothing is known of, with
 * no limits, of which sizes are right but for the driver's rounding. Neither logs. */
void vki_measure_init(vklm_device *measuring, const vklm_device *device);

/* Whether what goes into VKI_MEMORY_DEVICE passes through a staging buffer. */
bool vki_uploads_are_staged(const vklm_device *device);

/* Whether memory of this heap may hold VKI_MEMORY_DEVICE. */
bool vki_heap_is_local(const vklm_device *device, uint32_t heap);

/* Of memory_used, what lies in such heaps. */
uint64_t vki_local_used(const vklm_device *device);

/* A part of a pool's block. */
typedef struct vki_slice {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t offset;      /* in its block */
    uint32_t block;
    uint8_t *mapped;      /* or NULL */
} vki_slice;

/* Cuts device-local blocks. Slices begin at multiples of 256 bytes of their block; freed ones are
 * joined with free neighbours and reused, first fit. */
typedef struct vki_pool {
    vklm_device *device;       /* borrowed */
    const char *what;          /* for errors: "the KV cache" */
    uint64_t block_bytes;      /* of blocks to come; a larger slice gets one of its own size */
    vki_buffer *blocks;        /* owned; zeroed where one went back to the device */
    size_t n_blocks, blocks_capacity;
    vki_slice *free_slices;    /* owned: what is not taken, sizes rounded up to 256 */
    size_t n_free, free_capacity;
} vki_pool;

/* block_bytes is lowered to the device's limit (and to device params' block_limit_bytes). */
void vki_pool_init(vki_pool *pool, vklm_device *device, const char *what, uint64_t block_bytes);
void vki_pool_free(vki_pool *pool);
/* OUT_OF_DEVICE_MEMORY for a size over limits.max_block_bytes too, with the limit in the text. A
 * size of 0 takes the least there is. */
vklm_status vki_pool_take(vki_pool *pool, uint64_t size_bytes, vklm_error *error, vki_slice *slice);
vklm_status vki_pool_give(vki_pool *pool, const vki_slice *slice, vklm_error *error);
/* Gives blocks of which nothing is taken back to the device, which has finished with them. */
void vki_pool_shrink(vki_pool *pool);

/* Uploads into slices. On mapped memory writes are direct; else through a staging buffer of two
 * halves, each submitted when full. Usage: begin; for each piece: map, fill what map gave; finish
 * submits and waits for the last copies. Recordings submitted after that see what was uploaded. */
typedef struct vki_upload {
    vklm_device *device;       /* borrowed */
    vki_buffer staging;        /* owned, like the halves: made on first use */
    struct {
        VkCommandPool pool;
        VkCommandBuffer command;
        VkFence fence;
        bool pending;          /* submitted, fence not yet waited for */
    } halves[2];
    uint64_t used;             /* bytes of the current half */
    uint32_t current;
    bool recording;            /* into the current half */
} vki_upload;

enum {
    VKI_UPLOAD_HALF_BYTES = 16 << 20,
    VKI_UPLOAD_BYTES = 2 * VKI_UPLOAD_HALF_BYTES, /* of a staging buffer */
    VKI_UPLOAD_ALIGNMENT = 16, /* whole vectors for the caller's stores */
};

/* Costs nothing until something needs staging. */
vklm_status vki_upload_begin(vki_upload *upload, vklm_device *device, vklm_error *error);
/* Bytes left of the half in use; pieces take multiples of VKI_UPLOAD_ALIGNMENT. */
uint64_t vki_upload_room(const vki_upload *upload);
/* Submits the half in use, if anything of it is taken, and turns to the other. */
vklm_status vki_upload_turn(vki_upload *upload, vklm_error *error);
/* Fills a slice with zeroes. */
vklm_status vki_upload_zeroes(vki_upload *upload, const vki_pool *pool, const vki_slice *slice, vklm_error *error);
/* *bytes: size_bytes (at most VKI_UPLOAD_HALF_BYTES) of host memory for what belongs `offset` bytes
 * behind the slice's start. Undefined until filled; fill it before a call for more than vki_upload_room, which
 * turns, and before finish. Only write, in rising order where it can be: the memory may not be cached. */
vklm_status vki_upload_map(vki_upload *upload, const vki_pool *pool, const vki_slice *slice,
                           uint64_t offset, uint64_t size_bytes, vklm_error *error,
                           uint8_t **bytes);
vklm_status vki_upload_finish(vki_upload *upload, vklm_error *error);
/* Safe on a zeroed upload and after a failure; waits for copies under way on a working device. */
void vki_upload_free(vki_upload *upload);

#endif
