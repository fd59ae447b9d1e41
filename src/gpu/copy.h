/* copy.h - copies on the device, in the order of a queue's other work: what was submitted before is done with
 * source and target, what is submitted after sees the copy. Needs no shader.
 */
#ifndef VKI_COPY_H
#define VKI_COPY_H

#include "gpu/memory.h"
#include "gpu/record.h"

enum { VKI_COPIES = 4 }; /* command buffers: so many copies are under way without waiting for one */

typedef struct vki_copier {
    vklm_device *device;       /* borrowed, as is the queue */
    vki_queue *queue;
    VkCommandPool pool;        /* owned, like all below; made on first use */
    VkCommandBuffer commands[VKI_COPIES];
    uint64_t values[VKI_COPIES]; /* of the queue, when each was last submitted */
    uint32_t next;
    vki_buffer staging;        /* what is read back passes through it */
} vki_copier;

/* Costs nothing until something is copied. */
void vki_copier_init(vki_copier *copier, vklm_device *device, vki_queue *queue);
/* The device has finished with it. Safe on a zeroed copier. */
void vki_copier_free(vki_copier *copier);

/* Copies a slice to one of the same pool and size. Does not wait, unless VKI_COPIES are under way. */
vklm_status vki_copy_slice(vki_copier *copier, const vki_pool *pool, const vki_slice *from, const vki_slice *to,
                           vklm_error *error);

/* Waits for the queue and reads size_bytes, `offset` bytes behind the slice's start; at most VKI_READ_BYTES where
 * the slice is not mapped. *bytes holds until the next call. */
enum { VKI_READ_BYTES = 8 << 20 };
vklm_status vki_copy_read(vki_copier *copier, const vki_pool *pool, const vki_slice *slice, uint64_t offset,
                          uint64_t size_bytes, vklm_error *error, const uint8_t **bytes);

#endif
