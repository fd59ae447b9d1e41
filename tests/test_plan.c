/* test_plan.c - the hazards of random plans, replayed by brute force. */
#include <check.h>
#include <string.h>

#include "base/host.h"
#include "gpu/plan.h"
#include "support/suite.h"
#include "support/test_memory.h"

enum { N_DISPATCHES = 60, N_PLANS = 400 };

static vki_host host;

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

static vki_range draw_range(uint32_t *state, uint32_t space)
{
    const uint64_t base = draw(state, 4) == 0 ? VKI_VIRTUAL_RANGE : 4096;
    return vki_range_of(base + draw(state, space), 1 + draw(state, 12));
}

static void draw_plan(vki_plan *plan, uint32_t seed)
{
    const uint32_t space = 20 + 20 * (seed % 20); /* from crowded to sparse */
    vki_plan_clear(plan);
    for (int i = 0; i < N_DISPATCHES; i++) {
        vki_dispatch dispatch = {.name = "random", .grid = {1, 1, 1}};
        dispatch.n_reads = draw(&seed, VKI_MAX_READS + 1);
        dispatch.n_writes = draw(&seed, 3);
        for (uint32_t k = 0; k < dispatch.n_reads; k++)
            dispatch.reads[k] = draw_range(&seed, space);
        for (uint32_t k = 0; k < dispatch.n_writes; k++)
            dispatch.writes[k] = draw_range(&seed, space);
        ck_assert_int_eq(vki_plan_add(plan, &dispatch, NULL), VKLM_OK);
    }
}

/* Byte by byte, unlike the code under test. */
static bool touch(const vki_range *a, uint32_t n_a, const vki_range *b, uint32_t n_b)
{
    for (uint32_t i = 0; i < n_a; i++)
        for (uint64_t byte = a[i].begin; byte < a[i].end; byte++)
            for (uint32_t k = 0; k < n_b; k++)
                if (byte >= b[k].begin && byte < b[k].end) return true;
    return false;
}

static bool in_conflict(const vki_dispatch *a, const vki_dispatch *b)
{
    return touch(a->writes, a->n_writes, b->reads, b->n_reads) ||
           touch(a->reads, a->n_reads, b->writes, b->n_writes) ||
           touch(a->writes, a->n_writes, b->writes, b->n_writes);
}

START_TEST(every_conflicting_pair_is_parted_by_as_few_barriers_as_can_be)
{
    vki_plan plan;
    vki_plan_init(&plan, &host);
    for (uint32_t seed = 1; seed <= N_PLANS; seed++) {
        draw_plan(&plan, seed);
        bool barrier[N_DISPATCHES];
        vki_plan_barriers(&plan, barrier);

        /* first[i]: the earliest begin of a run of dispatches up to i without a conflict inside. */
        size_t first[N_DISPATCHES] = {0};
        for (size_t i = 1; i < plan.n; i++) {
            first[i] = first[i - 1];
            for (size_t k = i; k-- > first[i];)
                if (in_conflict(&plan.items[k], &plan.items[i])) first[i] = k + 1;
        }
        size_t begin = 0, n_barriers = 0, fewest[N_DISPATCHES];
        for (size_t i = 0; i < plan.n; i++) {
            if (barrier[i]) begin = i;
            n_barriers += barrier[i];
            ck_assert_msg(begin >= first[i], "plan %u: a conflict before dispatch %zu is open",
                          seed, i);
            fewest[i] = first[i] == 0 ? 0 : fewest[first[i] - 1] + 1;
        }
        ck_assert_msg(n_barriers == fewest[plan.n - 1], "plan %u: %zu barriers, %zu would do", seed,
                      n_barriers, fewest[plan.n - 1]);
    }
    vki_plan_free(&plan);
}
END_TEST

START_TEST(readers_of_one_range_and_neighbours_run_together)
{
    vki_plan plan;
    vki_plan_init(&plan, &host);
    const vki_dispatch items[] = {
        {.grid = {1, 1, 1}, .n_reads = 1, .reads = {{0, 64}}, .n_writes = 1, .writes = {{64, 128}}},
        {.grid = {1, 1, 1},
         .n_reads = 1,
         .reads = {{0, 64}},
         .n_writes = 1,
         .writes = {{128, 192}}},
        {.grid = {1, 1, 1},
         .n_reads = 2,
         .reads = {{64, 128}, {128, 192}}},                         /* reads both: barrier */
        {.grid = {1, 1, 1}, .n_writes = 1, .writes = {{0, 64}}},    /* already parted */
        {.grid = {1, 1, 1}, .n_writes = 1, .writes = {{127, 128}}}, /* write after read */
    };
    const bool wanted[] = {false, false, true, false, true};
    for (size_t i = 0; i < 5; i++) ck_assert_int_eq(vki_plan_add(&plan, &items[i], NULL), VKLM_OK);
    bool barrier[5];
    vki_plan_barriers(&plan, barrier);
    ck_assert_mem_eq(barrier, wanted, sizeof wanted);
    vki_plan_free(&plan);
}
END_TEST

START_TEST(an_empty_grid_is_dropped)
{
    vki_plan plan;
    vki_plan_init(&plan, &host);
    for (int i = 0; i < 3; i++) {
        vki_dispatch dispatch = {.grid = {1, 1, 1}};
        dispatch.grid[i] = 0;
        ck_assert_int_eq(vki_plan_add(&plan, &dispatch, NULL), VKLM_OK);
    }
    ck_assert_uint_eq(plan.n, 0);
    vki_plan_barriers(&plan, NULL);
    vki_plan_free(&plan);
}
END_TEST

START_TEST(a_plan_without_memory_says_so)
{
    vki_host poor;
    test_memory heap = {.fail_from = 1};
    const vklm_allocator allocator = test_allocator(&heap);
    vki_host_init(&poor, &allocator, NULL);
    vki_plan plan;
    vki_plan_init(&plan, &poor);
    vklm_error error;
    ck_assert_int_eq(vki_plan_add(&plan, &(vki_dispatch){.grid = {1, 1, 1}}, &error),
                     VKLM_OUT_OF_MEMORY);
    ck_assert_uint_eq(plan.n, 0);
    vki_plan_free(&plan);
}
END_TEST

int main(void)
{
    vki_host_init(&host, NULL, NULL);
    const TTest *const tests[] = {
        every_conflicting_pair_is_parted_by_as_few_barriers_as_can_be,
        readers_of_one_range_and_neighbours_run_together,
        an_empty_grid_is_dropped,
        a_plan_without_memory_says_so,
    };
    return run_tests("plan", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
