/* record.c - a plan as command buffers.
 *
 * One barrier kind serves all: everything a compute shader wrote before is visible to every compute
 * shader after. Units follow each other on one queue in order, so a barrier at the head of one unit
 * orders it against the units before it, whether or not they share a submit. Command buffers are
 * kept and recorded again: the pool is reset as a whole.
 */
#include "gpu/record.h"

#include <string.h>

#include "base/checked.h"

enum {
    /* What an otherwise empty dispatch takes, as bytes of traffic: 3-5 us at 50-100 GB/s. */
    DISPATCH_COST = 256 << 10,
    FLOPS_PER_BYTE = 8, /* of GPUs at f32: 5-10 TFLOP/s beside 500-1000 GB/s */
};

uint64_t vki_dispatch_cost(const vki_dispatch *dispatch)
{
    return vki_max(dispatch->cost_bytes, dispatch->cost_flops / FLOPS_PER_BYTE) + DISPATCH_COST;
}

uint64_t vki_plan_cost(const vki_plan *plan)
{
    uint64_t cost = 0;
    for (size_t i = 0; i < plan->n; i++) cost += vki_dispatch_cost(&plan->items[i]);
    return cost;
}

vklm_status vki_recording_init(vki_recording *recording, vklm_device *device, vklm_error *error)
{
    *recording = (vki_recording){.device = device};
    TRY(vki_device_usable(device, error));
    return vki_command_pool(device, 0, error, &recording->pool);
}

void vki_recording_free(vki_recording *recording)
{
    vklm_device *device = recording->device;
    if (!device) return;
    device->fn.vkDestroyCommandPool(device->device, recording->pool, device->callbacks);
    device->fn.vkDestroyQueryPool(device->device, recording->queries, device->callbacks);
    vki_release(&device->host, &recording->units);
    vki_release(&device->host, &recording->commands);
    vki_release(&device->host, &recording->barriers);
    *recording = (vki_recording){0};
}

/* Cuts the plan into units; only their bounds and costs are set. */
static vklm_status cut_units(vki_recording *recording, const vki_plan *plan, uint64_t unit_cost,
                             vklm_error *error)
{
    recording->n_units = 0;
    vki_unit *unit = NULL;
    for (size_t i = 0; i < plan->n; i++) {
        const uint64_t cost = vki_dispatch_cost(&plan->items[i]);
        if (!unit || (unit_cost && unit->cost + cost > unit_cost)) {
            TRY(vki_grow(&recording->device->host, recording->n_units + 1, sizeof *unit, error,
                         &recording->units, &recording->units_capacity));
            unit = &recording->units[recording->n_units++];
            *unit = (vki_unit){.first = (uint32_t)i, .work = recording->work};
        }
        unit->count++;
        unit->cost += cost;
    }
    return VKLM_OK;
}

static vklm_status allocate_commands(vki_recording *recording, vklm_error *error)
{
    vklm_device *device = recording->device;
    if (recording->n_commands >= recording->n_units) return VKLM_OK;
    TRY(vki_grow(&device->host, recording->n_units, sizeof *recording->commands, error,
                 &recording->commands, &recording->commands_capacity));
    TRY(vki_command_buffers(device, recording->pool, recording->n_units - recording->n_commands, error,
                            &recording->commands[recording->n_commands]));
    recording->n_commands = recording->n_units;
    return VKLM_OK;
}

/* Room for two timestamps a unit; with `each`, for one and another for each dispatch. */
static vklm_status allocate_queries(vki_recording *recording, size_t n_dispatches, vklm_error *error)
{
    vklm_device *device = recording->device;
    const size_t needed = recording->n_units + (recording->each ? n_dispatches : recording->n_units);
    if (device->limits.timestamp_ns <= 0 || recording->n_queries >= needed) return VKLM_OK;
    device->fn.vkDestroyQueryPool(device->device, recording->queries, device->callbacks);
    recording->queries = VK_NULL_HANDLE;
    recording->n_queries = 0;
    const VkQueryPoolCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = (uint32_t)needed,
    };
    const VkResult result =
        device->fn.vkCreateQueryPool(device->device, &create, device->callbacks, &recording->queries);
    TRY(vki_check(device, result, "vkCreateQueryPool", error));
    recording->n_queries = create.queryCount;
    return VKLM_OK;
}

static void barrier(const vklm_device *device, VkCommandBuffer command, VkPipelineStageFlags from,
                    VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags used)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = used,
    };
    device->fn.vkCmdPipelineBarrier(command, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static void stamp(const vklm_device *device, const vki_unit *unit, VkPipelineStageFlagBits stage, uint32_t query)
{
    if (unit->queries) device->fn.vkCmdWriteTimestamp(unit->command, stage, unit->queries, query);
}

static void record_dispatches(const vki_recording *recording, const vki_plan *plan,
                              const vki_unit *unit)
{
    const vklm_device *device = recording->device;
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkAccessFlags shader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    const vki_pipeline *bound = NULL; /* bindings end with the command buffer */
    /* All bytes have a value from the start: kernels set only those that they have. */
    const uint32_t zeros[VKI_PUSH_BYTES / 4] = {0};
    device->fn.vkCmdPushConstants(unit->command, device->pipeline_layout,
                                  VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof zeros, zeros);
    for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
        const vki_dispatch *dispatch = &plan->items[i];
        if (recording->barriers[i] || recording->each)
            barrier(device, unit->command, compute, VK_ACCESS_SHADER_WRITE_BIT, compute, shader);
        if (dispatch->pipeline != bound) {
            bound = dispatch->pipeline;
            device->fn.vkCmdBindPipeline(unit->command, VK_PIPELINE_BIND_POINT_COMPUTE,
                                         bound->pipeline);
        }
        if (dispatch->push_bytes)
            device->fn.vkCmdPushConstants(unit->command, device->pipeline_layout,
                                          VK_SHADER_STAGE_COMPUTE_BIT, 0, dispatch->push_bytes,
                                          dispatch->push);
        device->fn.vkCmdDispatch(unit->command, dispatch->grid[0], dispatch->grid[1],
                                 dispatch->grid[2]);
        if (recording->each)
            stamp(device, unit, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, unit->query + 1 + i - unit->first);
    }
}

static vklm_status record_unit(vki_recording *recording, const vki_plan *plan, size_t index,
                               vklm_error *error)
{
    vklm_device *device = recording->device;
    vki_unit *unit = &recording->units[index];
    unit->command = recording->commands[index];
    unit->queries = recording->queries;
    unit->query = (uint32_t)index + (recording->each ? unit->first : (uint32_t)index);
    unit->end_query = unit->query + (recording->each ? unit->count : 1);
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkResult result = device->fn.vkBeginCommandBuffer(unit->command, &begin);
    TRY(vki_check(device, result, "vkBeginCommandBuffer", error));
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkAccessFlags shader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    stamp(device, unit, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, unit->query);
    record_dispatches(recording, plan, unit);
    if (index + 1 == recording->n_units)
        barrier(device, unit->command, compute, VK_ACCESS_SHADER_WRITE_BIT,
                compute | VK_PIPELINE_STAGE_HOST_BIT, shader | VK_ACCESS_HOST_READ_BIT);
    if (!recording->each) stamp(device, unit, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, unit->end_query);
    result = device->fn.vkEndCommandBuffer(unit->command);
    return vki_check(device, result, "vkEndCommandBuffer", error);
}

vklm_status vki_record(vki_recording *recording, const vki_plan *plan, uint64_t unit_cost,
                       vklm_error *error)
{
    vklm_device *device = recording->device;
    TRY(vki_device_usable(device, error));
    vklm_status status;
    VkResult result;
    TRY_OR_FAIL(vki_grow(&device->host, plan->n, sizeof *recording->barriers, error,
                         &recording->barriers, &recording->barriers_capacity));
    vki_plan_barriers(plan, recording->barriers);
    TRY_OR_FAIL(cut_units(recording, plan, unit_cost, error));
    TRY_OR_FAIL(allocate_commands(recording, error));
    TRY_OR_FAIL(allocate_queries(recording, plan->n, error));
    result = device->fn.vkResetCommandPool(device->device, recording->pool, 0);
    TRY_OR_FAIL(vki_check(device, result, "vkResetCommandPool", error));
    for (size_t i = 0; i < recording->n_units; i++)
        TRY_OR_FAIL(record_unit(recording, plan, i, error));
    return VKLM_OK;
fail:
    recording->n_units = 0;
    return status;
}

vklm_status vki_unit_ticks(vklm_device *device, const vki_unit *unit, vklm_error *error, uint64_t *ticks)
{
    const size_t size = sizeof *ticks;
    memset(ticks, 0, size * (unit->count + 1)); /* where the device wrote none */
    TRY(vki_device_usable(device, error));
    const VkResult result = device->fn.vkGetQueryPoolResults(device->device, unit->queries, unit->query,
                                                             unit->count + 1, size * (unit->count + 1), ticks,
                                                             size, VK_QUERY_RESULT_64_BIT);
    return vki_check(device, result, "vkGetQueryPoolResults", error);
}
