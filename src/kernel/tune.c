/* tune.c - the tuning table, and the choice of a row by what the device is.
 *
 * Software Vulkan has wide registers and no memory latency to hide: a row a lane, no exchange between
 * lanes, small workgroups that balance two or four cores. A GPU wants neighbouring lanes on
 * neighbouring memory: several lanes a row in decode.
 */
#include "kernel/tune.h"

static const vki_tuning software = {
    .device_class = "software",
    .matvec = {16, 4, 1, 1}, .matvec8 = {16, 4, 1, 1},
    .matmul = {32, 1, 1, 8}, .matmul8 = {32, 2, 1, 8},
    .matvec_subgroups = 1, .matvec_most = 0,
    .unit_local = 16,
    .row_local = 0, /* one subgroup: no shared memory, no barrier */
    .attention_local = 16, .attention_queries = 24, .attention_values = 128,
    .split_keys = 1024,
    .argmax_local = 0,
};

static const vki_tuning gpu = {
    .device_class = "gpu",
    .matvec = {64, 4, 8, 1}, .matvec8 = {64, 4, 8, 1},
    .matmul = {64, 1, 1, 8}, .matmul8 = {64, 1, 1, 8},
    .matvec_subgroups = 256, .matvec_most = 256,
    .unit_local = 64,
    .row_local = 128,
    .attention_local = 64, .attention_queries = 8, .attention_values = 32,
    .split_keys = 256,
    .argmax_local = 256,
};

/* The size that every pipeline asks for. Intel's compiler picks up to 32 lanes by itself; a lane then has
 * too few registers for a unit of 32 weights beside 32 activations, so the narrowest there. */
static uint32_t choose_subgroup(const vki_limits *limits)
{
    if (!limits->subgroup_control) return limits->subgroup_fixed ? limits->subgroup_size : 0;
    if (limits->subgroup_min <= 16 && limits->subgroup_max == 32) return limits->subgroup_min;
    return limits->subgroup_size;
}

vki_tuning vki_tuning_for(const vki_limits *limits)
{
    vki_tuning tuning = limits->is_cpu ? software : gpu;
    tuning.subgroup = choose_subgroup(limits);
    const uint32_t subgroup = tuning.subgroup ? tuning.subgroup : limits->subgroup_size;
    /* Full subgroups: every local size is a multiple of the subgroup. */
    uint32_t *const locals[] = {&tuning.matvec.local, &tuning.matvec8.local, &tuning.matmul.local,
                                &tuning.matmul8.local, &tuning.unit_local, &tuning.row_local,
                                &tuning.attention_local, &tuning.argmax_local};
    for (size_t i = 0; i < sizeof locals / sizeof *locals; i++)
        if (*locals[i] < subgroup) *locals[i] = subgroup;
    /* Lanes of a row exchange within a subgroup; where its size is unknown it may be as small as this. */
    const uint32_t narrowest = tuning.subgroup ? tuning.subgroup : limits->subgroup_min;
    if (narrowest && tuning.matvec.lanes > narrowest) tuning.matvec.lanes = tuning.matvec8.lanes = narrowest;
    return tuning;
}
