/* record.h - a plan as command buffers, and their submission.
 *
 * A recording is cut into units of consecutive dispatches, each a command buffer of its own, so
 * that a submit can take as many units as fit its GPU time. The last unit ends with a
 * barrier against the host and all later submits, so the first needs none: what is uploaded ends with
 * one, too, and what the host writes is visible to a submit.
 */
#ifndef VKI_RECORD_H
#define VKI_RECORD_H

#include "gpu/plan.h"

/* Kinds of work whose cost the device's time follows differently: it is learnt for each. */
typedef enum vki_work { VKI_WORK_PROMPT, VKI_WORK_STEP, VKI_WORK_KINDS } vki_work;

typedef struct vki_unit {
    VkCommandBuffer command;
    VkQueryPool queries;      /* the recording's; of this unit: its begin, and its end last */
    uint32_t query, end_query;
    uint64_t cost;            /* in the cost model's units, see vki_dispatch_cost */
    vki_work work;
    uint32_t first, count;    /* dispatches of the plan */
} vki_unit;

typedef struct vki_recording {
    vklm_device *device;      /* borrowed */
    VkCommandPool pool;       /* owned; reset by each record */
    vki_work work;            /* set before vki_record, as is: */
    bool each;                /* dispatches run one by one, with a timestamp behind each */
    VkQueryPool queries;      /* owned: timestamps, two a unit or more; none where the device has none */
    uint32_t n_queries;       /* that the query pool has room for */
    vki_unit *units;          /* owned */
    size_t n_units, units_capacity;
    size_t n_commands;        /* command buffers allocated so far, reused */
    VkCommandBuffer *commands;
    size_t commands_capacity;
    bool *barriers;           /* owned: of the plan, before which dispatch */
    size_t barriers_capacity;
} vki_recording;

/* A relative measure of a dispatch's GPU time: max of bytes and flops / 8, plus a constant. */
uint64_t vki_dispatch_cost(const vki_dispatch *dispatch);
uint64_t vki_plan_cost(const vki_plan *plan);

vklm_status vki_recording_init(vki_recording *recording, vklm_device *device, vklm_error *error);
/* The device has finished with it. Safe on a zeroed recording. */
void vki_recording_free(vki_recording *recording);

/* Records the plan anew. unit_cost: cut a unit before a dispatch that would take it over this cost;
 * 0: one unit. The recording must not be in flight. */
vklm_status vki_record(vki_recording *recording, const vki_plan *plan, uint64_t unit_cost,
                       vklm_error *error);

/* The timestamps of a unit that has finished: ticks[0] its begin, ticks[1 + i] the end of its dispatch i, for
 * i < unit->count. Of a recording with `each` on a device with timestamps. */
vklm_status vki_unit_ticks(vklm_device *device, const vki_unit *unit, vklm_error *error, uint64_t *ticks);

/* One queue with a timeline; each submit gets the next value. */
typedef struct vki_submit {
    uint64_t cost, submitted_ns;
    vki_work work;
    VkQueryPool queries;
    uint32_t begin_query, end_query;
} vki_submit;

enum { VKI_IN_FLIGHT = 16 };

typedef struct vki_queue {
    vklm_device *device;      /* borrowed */
    VkSemaphore timeline;     /* owned */
    uint64_t submitted, finished;
    uint64_t awaited;         /* that somebody waited for, so that its end was seen at once */
    uint64_t end_ticks;       /* the device's clock at the last submit's end, where it has one */
    uint64_t seen_ns;         /* when the last submit was seen finished */
    VkCommandBuffer *commands; /* owned scratch of one submit */
    size_t commands_capacity;
    double ns_per_cost[VKI_WORK_KINDS]; /* measured, smoothed; 0: not yet */
    vki_submit in_flight[VKI_IN_FLIGHT]; /* ring by value */
} vki_queue;

vklm_status vki_queue_init(vki_queue *queue, vklm_device *device, vklm_error *error);
/* Waits for what is in flight, unless the device is lost. */
void vki_queue_free(vki_queue *queue);

/* One vkQueueSubmit of `count` consecutive units of one recording; *value_out is what to wait for.
 * With VKI_IN_FLIGHT submits under way it first waits for the oldest. */
vklm_status vki_queue_submit(vki_queue *queue, const vki_unit *units, size_t count,
                             vklm_error *error, uint64_t *value_out);

/* Waits up to timeout_ns (0: polls, with vkWaitSemaphores, which works on every driver) for value;
 * *done_out says whether it has finished. Learns ns_per_cost from what finished: from the device's
 * timestamps where it has them, else from when the work was seen finished (see queue.c). */
vklm_status vki_queue_wait(vki_queue *queue, uint64_t value, uint64_t timeout_ns, vklm_error *error,
                           bool *done_out);

/* The wait alone, for any thread: nothing is learnt, and who calls it checks the result. */
VkResult vki_queue_sleep(const vki_queue *queue, uint64_t value, uint64_t timeout_ns);

/* What so much work takes, as measured so far; before that a guess that is too much for any device. */
double vki_queue_ns(const vki_queue *queue, vki_work work, uint64_t cost);

/* How many of the units from `units` on fit `limit_ns` of GPU time: at least 1. Starts small where
 * nothing is measured yet. */
size_t vki_queue_fit(const vki_queue *queue, const vki_unit *units, size_t count,
                     uint64_t limit_ns);

#endif
