/* test_record.c - pipelines, recordings and the queue, with a shader that counts: sample.comp
 * without a token to draw adds 1 to a row's position and step. Lost barriers or dispatches show. */
#include "support/gpu.h"
#include "support/suite.h"

#include <string.h>

#include "gpu/memory.h"
#define VKI_C
#include "lib/push.h"

static vklm_error error;

typedef struct counter {
    vklm_device *device;
    vki_pipelines pipelines;
    vki_plan plan;
    vki_recording recording;
    vki_queue queue;
    vki_buffer state;
} counter;

enum { N_ROWS = 3 };

static void add_count(counter *c, uint32_t local_size)
{
    const vki_pipeline_key key = {.shader = "sample", .spec = {local_size}, .n_spec = 1};
    const struct sample_push push = {
        .state = c->state.address, .ring_steps = 1, .ring_rows = 1};
    vki_dispatch dispatch = {
        .name = "count",
        .grid = {N_ROWS, 1, 1},
        .push_bytes = sizeof push,
        .n_writes = 1,
        .writes = {vki_range_of(c->state.address, c->state.size_bytes)},
    };
    memcpy(dispatch.push, &push, sizeof push);
    CHECK_OK(vki_pipeline_get(&c->pipelines, &key, &error, &dispatch.pipeline));
    CHECK_OK(vki_plan_add(&c->plan, &dispatch, &error));
}

static void open_counter(counter *c)
{
    *c = (counter){.device = test_device(NULL)};
    vki_pipelines_init(&c->pipelines, c->device);
    vki_plan_init(&c->plan, &c->device->host);
    CHECK_OK(vki_recording_init(&c->recording, c->device, &error));
    CHECK_OK(vki_queue_init(&c->queue, c->device, &error));
    CHECK_OK(vki_buffer_create(c->device, VKI_MEMORY_SHARED, N_ROWS * sizeof(struct row_state),
                               "the state", &error, &c->state));
    memset(c->state.mapped, 0, c->state.size_bytes);
}

static void check_count(const counter *c, uint32_t wanted)
{
    const struct row_state *rows = (const void *)c->state.mapped;
    for (int i = 0; i < N_ROWS && test_results_count(); i++) {
        ck_assert_uint_eq(rows[i].position, wanted);
        ck_assert_uint_eq(rows[i].step, wanted);
    }
}

static void close_counter(counter *c)
{
    vki_queue_free(&c->queue);
    vki_recording_free(&c->recording);
    vki_plan_free(&c->plan);
    vki_pipelines_free(&c->pipelines);
    vki_buffer_destroy(c->device, &c->state);
    ck_assert_uint_eq(vklm_device_memory_used(c->device), 0);
    vklm_device_destroy(&c->device);
}

static void wait_for(counter *c, uint64_t value)
{
    bool done;
    CHECK_OK(vki_queue_wait(&c->queue, value, UINT64_MAX, &error, &done));
    ck_assert(done);
}

START_TEST(a_recording_is_replayed_in_order)
{
    counter c;
    open_counter(&c);
    for (uint32_t i = 0; i < 50; i++) add_count(&c, 32u << i % 2);
    CHECK_OK(vki_record(&c.recording, &c.plan, 0, &error));
    ck_assert_uint_eq(c.recording.n_units, 1);
    uint64_t value;
    for (uint32_t replay = 1; replay <= 4; replay++) {
        CHECK_OK(vki_queue_submit(&c.queue, c.recording.units, 1, &error, &value));
        ck_assert_uint_eq(value, replay);
        wait_for(&c, value);
        check_count(&c, 50 * replay);
    }
    close_counter(&c);
}
END_TEST

START_TEST(units_keep_their_order_across_submits)
{
    counter c;
    open_counter(&c);
    for (int i = 0; i < 40; i++) add_count(&c, 32);
    const uint64_t one = vki_dispatch_cost(&c.plan.items[0]);
    uint64_t value = 0, total = 0;
    for (uint32_t per_unit = 1; per_unit <= 64; per_unit *= 4) { /* also over 16 in flight */
        wait_for(&c, value);
        CHECK_OK(vki_record(&c.recording, &c.plan, one * per_unit, &error));
        ck_assert_uint_eq(c.recording.n_units, (40 + per_unit - 1) / per_unit);
        for (size_t i = 0, next; i < c.recording.n_units; i = next) {
            /* One unit or two at once. */
            next = i + 1 + (i % 3 == 0 && i + 1 < c.recording.n_units);
            CHECK_OK(vki_queue_submit(&c.queue, &c.recording.units[i], next - i, &error, &value));
        }
        total += 40;
    }
    wait_for(&c, value);
    check_count(&c, (uint32_t)total);
    close_counter(&c);
}
END_TEST

START_TEST(units_cover_the_plan_and_respect_their_cost)
{
    counter c;
    open_counter(&c);
    for (int i = 0; i < 30; i++) {
        add_count(&c, 32);
        c.plan.items[i].cost_bytes = (uint64_t)(i % 7) << 20;
        c.plan.items[i].cost_flops = (uint64_t)(i % 5) << 24;
    }
    const uint64_t limit = 9 << 20;
    CHECK_OK(vki_record(&c.recording, &c.plan, limit, &error));
    uint32_t next = 0;
    for (size_t i = 0; i < c.recording.n_units; i++) {
        const vki_unit *unit = &c.recording.units[i];
        ck_assert_uint_eq(unit->first, next);
        uint64_t cost = 0;
        for (uint32_t k = 0; k < unit->count; k++)
            cost += vki_dispatch_cost(&c.plan.items[next + k]);
        ck_assert_uint_eq(unit->cost, cost);
        next += unit->count;
        ck_assert(cost <= limit || unit->count == 1);
        if (next < 30) ck_assert_uint_gt(cost + vki_dispatch_cost(&c.plan.items[next]), limit);
    }
    ck_assert_uint_eq(next, 30);
    vki_plan_clear(&c.plan);
    CHECK_OK(vki_record(&c.recording, &c.plan, limit, &error));
    ck_assert_uint_eq(c.recording.n_units, 0);
    close_counter(&c);
}
END_TEST

START_TEST(a_wait_may_poll)
{
    counter c;
    open_counter(&c);
    add_count(&c, 32);
    CHECK_OK(vki_record(&c.recording, &c.plan, 0, &error));
    uint64_t value;
    bool done = false;
    CHECK_OK(vki_queue_wait(&c.queue, 0, 0, &error, &done));
    ck_assert(done);
    CHECK_OK(vki_queue_submit(&c.queue, c.recording.units, 1, &error, &value));
    do CHECK_OK(vki_queue_wait(&c.queue, value, 0, &error, &done));
    while (!done);
    ck_assert_uint_eq(c.queue.finished, value);
    ck_assert(c.queue.ns_per_cost[VKI_WORK_PROMPT] > 0);
    if (test_results_count()) ck_assert((c.queue.end_ticks != 0) == (c.device->limits.timestamp_ns > 0));
    check_count(&c, 1);
    close_counter(&c);
}
END_TEST

START_TEST(what_fits_a_limit_follows_from_what_was_measured)
{
    vki_queue queue = {0};
    const vki_unit units[] = {{.cost = 10}, {.cost = 20}, {.cost = 30}, {.cost = 5}};
    ck_assert_uint_eq(vki_queue_fit(&queue, units, 4, 1000000), 1);
    ck_assert_uint_eq(vki_queue_fit(&queue, units, 0, 1000000), 0);
    queue.ns_per_cost[VKI_WORK_PROMPT] = 2;
    ck_assert_uint_eq(vki_queue_fit(&queue, units, 4, 1), 1);
    ck_assert_uint_eq(vki_queue_fit(&queue, units, 4, 60), 2);
    ck_assert_uint_eq(vki_queue_fit(&queue, units, 4, 119), 2);
    ck_assert_uint_eq(vki_queue_fit(&queue, units, 4, 120), 3);
    ck_assert_uint_eq(vki_queue_fit(&queue, units, 4, UINT64_MAX), 4);
}
END_TEST

START_TEST(pipelines_are_made_once_for_a_key)
{
    vklm_device *device = test_device(NULL);
    vki_pipelines pipelines;
    vki_pipelines_init(&pipelines, device);
    const vki_pipeline *first, *other;
    vki_pipeline_key key = {.shader = "sample", .spec = {64, 5}, .n_spec = 1};
    CHECK_OK(vki_pipeline_get(&pipelines, &key, &error, &first));
    key.spec[1] = 6; /* not in use */
    CHECK_OK(vki_pipeline_get(&pipelines, &key, &error, &other));
    ck_assert_ptr_eq(first, other);
    /* Ignored where the device has no such size. */
    for (uint32_t size = 4; size <= 128; size *= 2) {
        key.subgroup_size = size;
        CHECK_OK(vki_pipeline_get(&pipelines, &key, &error, &other));
        ck_assert_ptr_ne(first, other);
    }
    ck_assert_uint_eq(pipelines.n_modules, 1);
    strcpy(key.shader, "no_such_shader");
    CHECK_FAILS(vki_pipeline_get(&pipelines, &key, &error, &other), VKLM_SHADER_ERROR,
                "no_such_shader");
    ck_assert_ptr_null(other);
    vki_pipelines_free(&pipelines);
    vki_pipelines_free(&pipelines);
    vklm_device_destroy(&device);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_recording_is_replayed_in_order,
        units_keep_their_order_across_submits,
        units_cover_the_plan_and_respect_their_cost,
        a_wait_may_poll,
        what_fits_a_limit_follows_from_what_was_measured,
        pipelines_are_made_once_for_a_key,
    };
    return run_tests("record", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
