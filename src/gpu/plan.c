/* plan.c - the list of dispatches, and the barriers that its declared ranges call for.
 *
 * Barriers are placed greedily: a dispatch gets one only where it conflicts with something since
 * the last barrier. For a list in fixed order and barriers that order everything, these are fewest.
 */
#include "gpu/plan.h"

#include <assert.h>

void vki_plan_init(vki_plan *plan, const vki_host *host)
{
    *plan = (vki_plan){.host = host};
}

void vki_plan_free(vki_plan *plan)
{
    if (plan->host) vki_release(plan->host, &plan->items);
    *plan = (vki_plan){0};
}

void vki_plan_clear(vki_plan *plan)
{
    plan->n = 0;
}

vklm_status vki_plan_add(vki_plan *plan, const vki_dispatch *dispatch, vklm_error *error)
{
    assert(dispatch->n_reads <= VKI_MAX_READS && dispatch->n_writes <= VKI_MAX_WRITES);
    assert(dispatch->push_bytes <= VKI_PUSH_BYTES && dispatch->push_bytes % 4 == 0);
    if (dispatch->grid[0] == 0 || dispatch->grid[1] == 0 || dispatch->grid[2] == 0) return VKLM_OK;
    TRY(vki_grow(plan->host, plan->n + 1, sizeof *plan->items, error, &plan->items, &plan->capacity));
    plan->items[plan->n++] = *dispatch;
    return VKLM_OK;
}

static bool any_overlap(const vki_range *a, uint32_t n_a, const vki_range *b, uint32_t n_b)
{
    for (uint32_t i = 0; i < n_a; i++)
        for (uint32_t k = 0; k < n_b; k++)
            if (a[i].begin < b[k].end && b[k].begin < a[i].end) return true;
    return false;
}

/* Whether the order of the two matters: one writes what the other reads or writes. */
static bool conflict(const vki_dispatch *a, const vki_dispatch *b)
{
    return any_overlap(a->writes, a->n_writes, b->reads, b->n_reads) ||
           any_overlap(a->reads, a->n_reads, b->writes, b->n_writes) ||
           any_overlap(a->writes, a->n_writes, b->writes, b->n_writes);
}

void vki_plan_barriers(const vki_plan *plan, bool *barrier_before)
{
    size_t first = 0; /* behind the last barrier */
    for (size_t i = 0; i < plan->n; i++) {
        barrier_before[i] = false;
        for (size_t k = first; k < i && !barrier_before[i]; k++)
            barrier_before[i] = conflict(&plan->items[k], &plan->items[i]);
        if (barrier_before[i]) first = i;
    }
}
