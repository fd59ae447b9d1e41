/* queue.c - submits units, waits on one timeline, and learns how long the device takes.
 *
 * The timeline is only ever waited on, with a timeout of 0 to poll: drivers are less than agreed on
 * reading its counter. What a submit took is read from the device's own timestamps, because a
 * program that polls once a frame sees everything finish a frame later. Without them it is the time
 * until the work was seen finished: too much, which makes slices small but never late. So it is on software
 * Vulkan as well, where Mesa's waits for all that is in flight before it gives a timestamp.
 */
#include "gpu/record.h"

#include "base/checked.h"
#include "base/os.h"

static const double SMOOTHING = 0.25; /* weight of a new measurement: one odd submit moves little */

vklm_status vki_queue_init(vki_queue *queue, vklm_device *device, vklm_error *error)
{
    *queue = (vki_queue){.device = device};
    TRY(vki_device_usable(device, error));
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo create = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                          .pNext = &type};
    const VkResult result =
        device->fn.vkCreateSemaphore(device->device, &create, device->callbacks, &queue->timeline);
    return vki_check(device, result, "vkCreateSemaphore", error);
}

void vki_queue_free(vki_queue *queue)
{
    vklm_device *device = queue->device;
    if (!device) return;
    bool done;
    if (!device->lost) (void)vki_queue_wait(queue, queue->submitted, UINT64_MAX, NULL, &done);
    device->fn.vkDestroySemaphore(device->device, queue->timeline, device->callbacks);
    vki_release(&device->host, &queue->commands);
    *queue = (vki_queue){0};
}

static vki_submit *submit_of(vki_queue *queue, uint64_t value)
{
    return &queue->in_flight[value % VKI_IN_FLIGHT];
}

vklm_status vki_queue_submit(vki_queue *queue, const vki_unit *units, size_t count,
                             vklm_error *error, uint64_t *value_out)
{
    vklm_device *device = queue->device;
    *value_out = 0;
    TRY(vki_device_usable(device, error));
    if (queue->submitted - queue->finished == VKI_IN_FLIGHT) {
        bool done;
        TRY(vki_queue_wait(queue, queue->finished + 1, UINT64_MAX, error, &done));
    }
    TRY(vki_grow(&device->host, count, sizeof *queue->commands, error, &queue->commands,
                 &queue->commands_capacity));
    vki_submit note = {.submitted_ns = vki_now_ns()};
    for (size_t i = 0; i < count; i++) {
        queue->commands[i] = units[i].command;
        note.cost += units[i].cost;
        note.queries = units[i].queries;
        note.end_query = units[i].end_query;
    }
    if (note.queries) {
        note.begin_query = units[0].query;
        device->fn.vkResetQueryPool(device->device, note.queries, note.begin_query,
                                    note.end_query + 1 - note.begin_query);
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
    TRY(vki_device_submit(device, &submit, VK_NULL_HANDLE, error));
    queue->submitted = value;
    *submit_of(queue, value) = note;
    *value_out = value;
    return VKLM_OK;
}

static bool read_ticks(const vklm_device *device, VkQueryPool queries, uint32_t query,
                       uint64_t *ticks)
{
    return device->fn.vkGetQueryPoolResults(device->device, queries, query, 1, sizeof *ticks, ticks,
                                            sizeof *ticks, VK_QUERY_RESULT_64_BIT) == VK_SUCCESS;
}

/* The time of a submit that was seen finished at now_ns: by the device's clock from its begin, or
 * from the end of the one before where that came later; by the host's where there is no device
 * clock that answers at once, or one that claims more than the host saw. 0: unknown. */
static uint64_t submit_time(vki_queue *queue, const vki_submit *submit, uint64_t now_ns)
{
    const vki_limits *limits = &queue->device->limits;
    const uint64_t seen_ns = now_ns - submit->submitted_ns;
    uint64_t begin, end;
    if (limits->is_cpu) return vki_min(seen_ns, now_ns - queue->seen_ns);
    if (!submit->queries ||
        !read_ticks(queue->device, submit->queries, submit->begin_query, &begin) ||
        !read_ticks(queue->device, submit->queries, submit->end_query, &end))
        return seen_ns;
    const uint64_t ticks = vki_min((end - begin) & limits->timestamp_mask,
                                   (end - queue->end_ticks) & limits->timestamp_mask);
    queue->end_ticks = end;
    const uint64_t ns = (uint64_t)((double)ticks * limits->timestamp_ns);
    return ns > 0 && ns < seen_ns ? ns : seen_ns;
}

static void learn(vki_queue *queue, const vki_submit *submit, uint64_t now_ns)
{
    const uint64_t ns = submit_time(queue, submit, now_ns);
    queue->seen_ns = now_ns;
    if (submit->cost == 0 || ns == 0) return;
    const double measured = (double)ns / (double)submit->cost;
    const double weight = queue->ns_per_cost > 0 ? SMOOTHING : 1;
    queue->ns_per_cost += weight * (measured - queue->ns_per_cost);
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
    const VkResult result = device->fn.vkWaitSemaphores(device->device, &wait, timeout_ns);
    TRY(vki_check(device, result, "vkWaitSemaphores", error));
    *done_out = result == VK_SUCCESS;
    const uint64_t now_ns = vki_now_ns();
    while (*done_out && queue->finished < value)
        learn(queue, submit_of(queue, ++queue->finished), now_ns);
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
