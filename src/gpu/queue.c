/* queue.c - submits units, waits on one timeline, and learns how long the device takes.
 *
 * The timeline is only ever waited on, with a timeout of 0 to poll: drivers are less than agreed on
 * reading its counter. What a submit cost the device is the time from when it could start (submitted,
 * and the one before it seen finished) to when it was seen finished. A wait that blocked until the end
 * saw that moment; one that found the work already done came later and knows only an upper bound.
 */
#include "gpu/record.h"

#include "base/checked.h"
#include "base/os.h"

enum {
    IN_FLIGHT = sizeof((vki_queue *)0)->in_flight / sizeof((vki_queue *)0)->in_flight[0],
    /* A wait that returned sooner found the work done: a wake-up alone takes longer. */
    BLOCKED_NS = 20000,
};
static const double SMOOTHING = 0.25; /* weight of a new measurement: one odd submit moves little */

vklm_status vki_queue_init(vki_queue *queue, vklm_device *device, vklm_error *error)
{
    *queue = (vki_queue){.device = device};
    TRY(vki_device_usable(device, error));
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo create = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    const VkResult result = device->fn.vkCreateSemaphore(device->device, &create, NULL, &queue->timeline);
    return vki_check(device, result, "vkCreateSemaphore", error);
}

void vki_queue_free(vki_queue *queue)
{
    vklm_device *device = queue->device;
    if (!device) return;
    bool done;
    if (!device->lost) (void)vki_queue_wait(queue, queue->submitted, UINT64_MAX, NULL, &done);
    device->fn.vkDestroySemaphore(device->device, queue->timeline, NULL);
    vki_release(&device->host, &queue->commands);
    *queue = (vki_queue){0};
}

vklm_status vki_queue_submit(vki_queue *queue, const vki_unit *units, size_t count, vklm_error *error,
                             uint64_t *value_out)
{
    vklm_device *device = queue->device;
    *value_out = 0;
    TRY(vki_device_usable(device, error));
    if (queue->submitted - queue->finished == IN_FLIGHT) {
        bool done;
        TRY(vki_queue_wait(queue, queue->finished + 1, UINT64_MAX, error, &done));
    }
    TRY(vki_grow(&device->host, count, sizeof *queue->commands, error, &queue->commands,
                 &queue->commands_capacity));
    uint64_t cost = 0;
    for (size_t i = 0; i < count; i++) {
        queue->commands[i] = units[i].command;
        cost += units[i].cost;
    }
    const uint64_t value = queue->submitted + 1;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .commandBufferCount = (uint32_t)count,
        .pCommandBuffers = queue->commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &queue->timeline,
    };
    const uint64_t now = vki_now_ns();
    const VkResult result = device->fn.vkQueueSubmit(device->queue, 1, &submit, VK_NULL_HANDLE);
    TRY(vki_check(device, result, "vkQueueSubmit", error));
    queue->submitted = value;
    queue->in_flight[value % IN_FLIGHT].value = value;
    queue->in_flight[value % IN_FLIGHT].cost = cost;
    queue->in_flight[value % IN_FLIGHT].submitted_ns = now;
    *value_out = value;
    return VKLM_OK;
}

/* Takes note that everything up to `value` was seen finished at now_ns. */
static void learn(vki_queue *queue, uint64_t value, uint64_t now_ns, bool blocked)
{
    const uint64_t submitted_ns = queue->in_flight[(queue->finished + 1) % IN_FLIGHT].submitted_ns;
    const uint64_t begin = vki_max(submitted_ns, queue->finished_ns);
    uint64_t cost = 0;
    while (queue->finished < value) cost += queue->in_flight[++queue->finished % IN_FLIGHT].cost;
    queue->finished_ns = now_ns;
    if (cost == 0) return;
    const double measured = (double)(now_ns - begin) / (double)cost;
    if (queue->ns_per_cost <= 0) queue->ns_per_cost = measured;
    else if (blocked || measured > queue->ns_per_cost)
        queue->ns_per_cost += SMOOTHING * (measured - queue->ns_per_cost);
}

vklm_status vki_queue_wait(vki_queue *queue, uint64_t value, uint64_t timeout_ns, vklm_error *error,
                           bool *done_out)
{
    vklm_device *device = queue->device;
    *done_out = value <= queue->finished;
    if (*done_out) return VKLM_OK;
    TRY(vki_device_usable(device, error));
    const VkSemaphoreWaitInfo wait = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &queue->timeline,
        .pValues = &value,
    };
    const uint64_t before = vki_now_ns();
    const VkResult result = device->fn.vkWaitSemaphores(device->device, &wait, timeout_ns);
    const uint64_t now = vki_now_ns();
    TRY(vki_check(device, result, "vkWaitSemaphores", error));
    *done_out = result == VK_SUCCESS;
    if (*done_out) learn(queue, value, now, now - before >= BLOCKED_NS);
    return VKLM_OK;
}

size_t vki_queue_fit(const vki_queue *queue, const vki_unit *units, size_t count, uint64_t limit_ns)
{
    if (queue->ns_per_cost <= 0) return count ? 1 : 0;
    double ns = 0;
    for (size_t i = 0; i < count; i++) {
        ns += queue->ns_per_cost * (double)units[i].cost;
        if (ns > (double)limit_ns) return i ? i : 1;
    }
    return count;
}
