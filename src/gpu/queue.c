/* queue.c - submits units, waits on one timeline, and learns how long the device takes.
 *
 * The timeline is only ever waited on, with a timeout of 0 to poll: drivers are less than agreed on
 * reading its counter. What a submit took is read from the device's own timestamps, because a
 * program that polls once a frame sees everything finish a frame later. Without them it is the time
 * until the work was seen finished: too much, unless somebody waited for it. So it is on software Vulkan as well
 * while anything is in flight: Mesa's waits for that before it gives a timestamp.
 */
#include "gpu/record.h"

#include "base/checked.h"
#include "base/os.h"

static const double SMOOTHING = 0.25; /* weight of a new measurement: one odd submit moves little */
static const double GUESSED_NS = 1;   /* of a cost: 1 GB/s or 8 GFLOP/s, which every device exceeds */

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
        note.work = units[i].work;
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

/* The time of a submit that was seen finished at now_ns: by the device's clock from its begin, or from the end of the
 * one before where that came later. By the host's where there is no device clock, or one that claims more than the
 * host saw, or that makes software Vulkan wait for what else is in flight; then it is *exact only where
 * somebody waited for just that, else too much. */
static uint64_t submit_time(vki_queue *queue, uint64_t value, uint64_t now_ns, bool *exact)
{
    const vki_limits *limits = &queue->device->limits;
    const vki_submit *submit = submit_of(queue, value);
    const uint64_t since = vki_max(submit->submitted_ns, queue->seen_ns), seen_ns = now_ns - since;
    const bool waits = limits->is_cpu && value != queue->submitted;
    uint64_t begin, end;
    *exact = queue->awaited == value;
    if (!submit->queries || waits ||
        !read_ticks(queue->device, submit->queries, submit->begin_query, &begin) ||
        !read_ticks(queue->device, submit->queries, submit->end_query, &end))
        return seen_ns;
    const uint64_t ticks = vki_min((end - begin) & limits->timestamp_mask,
                                   (end - queue->end_ticks) & limits->timestamp_mask);
    queue->end_ticks = end;
    const uint64_t ns = (uint64_t)((double)ticks * limits->timestamp_ns);
    *exact = true;
    return ns > 0 && ns < now_ns - submit->submitted_ns ? ns : seen_ns;
}

/* A time that is too much may only lower what is known. */
static void learn(vki_queue *queue, uint64_t value, uint64_t now_ns)
{
    bool exact;
    const vki_submit *submit = submit_of(queue, value);
    const uint64_t ns = submit_time(queue, value, now_ns, &exact);
    double *known = &queue->ns_per_cost[submit->work];
    queue->seen_ns = now_ns;
    if (submit->cost == 0 || ns == 0) return;
    const double measured = (double)ns / (double)submit->cost;
    if (*known > 0 && measured > *known && !exact) return;
    *known += (*known > 0 ? SMOOTHING : 1) * (measured - *known);
}

VkResult vki_queue_sleep(const vki_queue *queue, uint64_t value, uint64_t timeout_ns)
{
    const VkSemaphoreWaitInfo wait = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &queue->timeline,
        .pValues = &value,
    };
    return queue->device->fn.vkWaitSemaphores(queue->device->device, &wait, timeout_ns);
}

vklm_status vki_queue_wait(vki_queue *queue, uint64_t value, uint64_t timeout_ns, vklm_error *error,
                           bool *done_out)
{
    vklm_device *device = queue->device;
    *done_out = value <= queue->finished;
    if (*done_out) return VKLM_OK;
    TRY(vki_device_usable(device, error));
    const VkResult result = vki_queue_sleep(queue, value, timeout_ns);
    if (timeout_ns) queue->awaited = value;
    TRY(vki_check(device, result, "vkWaitSemaphores", error));
    *done_out = result == VK_SUCCESS;
    const uint64_t now_ns = vki_now_ns();
    while (*done_out && queue->finished < value)
        learn(queue, ++queue->finished, now_ns);
    return VKLM_OK;
}

double vki_queue_ns(const vki_queue *queue, vki_work work, uint64_t cost)
{
    const double known = queue->ns_per_cost[work];
    return (known > 0 ? known : GUESSED_NS) * (double)cost;
}

size_t vki_queue_fit(const vki_queue *queue, const vki_unit *units, size_t count, uint64_t limit_ns)
{
    double ns = 0;
    for (size_t i = 0; i < count; i++) {
        ns += vki_queue_ns(queue, units[i].work, units[i].cost);
        const bool unknown = queue->ns_per_cost[units[i].work] <= 0;
        if (ns > (double)limit_ns || (unknown && i > 0)) return i ? i : 1;
    }
    return count;
}
