/* driver_calls.h - the driver's functions wrapped: what is alive is counted, and the n-th call fails.
 *
 * Wrapped are the device functions that the library uses and that make, destroy, submit or wait. They get between
 * by driver_wrap, for a device that there is, or by driver_get_proc, for one that is adopted.
 */
#ifndef DRIVER_CALLS_H
#define DRIVER_CALLS_H

#include <stdatomic.h>

#include "gpu/device.h"

/* Kinds of calls, each a bit. */
enum {
    DRIVER_MAKE = 1,    /* vkCreate*, vkAllocate*, and what else takes memory: mapping, binding, recording */
    DRIVER_MEMORY = 2,  /* vkAllocateMemory */
    DRIVER_SUBMIT = 4,
    DRIVER_WAIT = 8,    /* for semaphores and fences */
};

typedef struct driver_calls {
    unsigned failing;           /* kinds that fail at call number `fail_at` of them, */
    bool fail_for_ever;         /* and at all later ones */
    int fail_at;                /* 0: never */
    VkResult failure;
    atomic_int counted;         /* calls of the failing kinds */
    const char *names[4096];    /* of the calls counted, from 1 on */
    atomic_int alive;           /* objects and allocations */
    atomic_int submits, unlocked_submits; /* of the latter, those while driver_locked is not 1 */
    atomic_int idle_waits;      /* for queues or devices, and the device's destruction */
    atomic_int without_callbacks; /* calls that got other VkAllocationCallbacks than those of driver_callbacks */
    atomic_int locked, locks;   /* driver_lock less driver_unlock now, and driver_lock ever */
    atomic_int host_alive;      /* allocations through driver_callbacks */
    bool expect_callbacks;
} driver_calls;

extern driver_calls driver;

/* All counters to zero, nothing fails. Nothing of a wrapped device is alive. */
void driver_reset(void);
/* Calls of these kinds fail from now on: the n-th, or with for_ever all from the n-th on. 0: none. */
void driver_fail(unsigned kinds, int n, bool for_ever, VkResult failure);

/* Until unwrap or the device's destruction, which may go without. */
void driver_wrap(vklm_device *device);
void driver_unwrap(vklm_device *device);

/* For vklm_adopt_params: functions of the loader, those of the list wrapped. */
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL driver_get_proc(VkInstance instance, const char *name);
void driver_lock(void *user, VkQueue queue);
void driver_unlock(void *user, VkQueue queue);
extern const VkAllocationCallbacks driver_callbacks;

#endif
