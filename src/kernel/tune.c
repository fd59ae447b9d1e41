/* tune.c - the tuning table, and the choice of a row by what the device is.
 *
 * Software Vulkan has wide registers and no memory latency to hide: a row a lane, no exchange between
 * lanes, small workgroups that balance two or four cores. For a prompt it multiplies f32 as fast as integers, once a
 * weight is unpacked for many columns; for one row, unpacked bytes are cheaper. A GPU wants neighbouring lanes on
 * neighbouring memory: several lanes a row in decode.
 */
#include "kernel/tune.h"

#include "gpu/pipeline.h"

static const vki_tuning software = {
    .device_class = "software", .software = true,
    .matvec = {16, 4, 1, 1}, .matvec8 = {16, 4, 1, 1},
    .matmul = {32, 1, 1, 64}, .matmul8 = {32, 2, 1, 8}, .prompt_floats = true,
    .block_columns = 17,
    .matvec_subgroups = 1, .matvec_most = 0,
    .row_cols = 16, .row_cols8 = 16, .few_cols = 2, .spread_rows = 3, .join_lanes = 1, .prompt_rows = 1,
    .unit_local = 16,
    .row_local = 0, /* one subgroup: no shared memory, no barrier */
    .attention_local = 0, .attention_queries = 24, .attention_values = 128, .attention_step = 4,
    .attention_rows = 5, .attention_row_values = 384,
    .split_keys = 1024,
    .argmax_local = 0,
};

static const vki_tuning gpu = {
    .device_class = "gpu",
    .matvec = {64, 4, 8, 1}, .matvec8 = {64, 4, 8, 1},
    .matmul = {64, 1, 1, 8}, .matmul8 = {64, 1, 1, 8},
    .block_columns = 17,
    .matvec_subgroups = 256, .matvec_most = 256,
    .row_cols = 4, .row_cols8 = 8, .few_cols = 8, .join_lanes = 8, .prompt_rows = 1,
    .unit_local = 64,
    .row_local = 128,
    .attention_local = 64, .attention_queries = 8, .attention_values = 32, .attention_step = 2,
    .split_keys = 256,
    .argmax_local = 256,
};

/* What GPUs differ in: how a prompt's products and attention are made. The first row counts of which all is true: the
 * vendor and the subgroup's size where they are named, and that device and build have what the structures need. A
 * subgroup's part is as large as its registers hold without a spill (on Intel attention of heads to 64), and so is what
 * an invocation holds of attention: attention_values, where it is less than for all GPUs. */
enum { AMD = 0x1002, NVIDIA = 0x10de, INTEL = 0x8086 };

typedef struct gpu_class {
    const char *name;
    uint32_t vendor, subgroup;
    bool discrete; /* only */
    vki_block block, block8;
    uint32_t attention_coop, attention_subgroups, attention_sums, attention_values;
} gpu_class;

static const gpu_class gpu_classes[] = {
    {.name = "amd with matrix cores", .vendor = AMD,
     .block = {VKI_COOP, 128, 64, 64, 32, {0}}, .block8 = {VKI_COOP, 128, 64, 64, 32, {0}},
     .attention_coop = 17, .attention_subgroups = 4, .attention_sums = 2560},
    {.name = "nvidia with matrix cores", .vendor = NVIDIA,
     .block = {VKI_COOP, 128, 64, 64, 32, {0}}, .block8 = {VKI_COOP, 128, 64, 64, 32, {0}},
     .attention_coop = 17, .attention_subgroups = 4, .attention_sums = 2560},
    {.name = "intel xe2", .vendor = INTEL, .subgroup = 16,
     .block = {VKI_COOP, 64, 64, 32, 16, {0}}, .block8 = {VKI_COOP, 64, 64, 32, 16, {0}},
     .attention_coop = 17, .attention_subgroups = 4, .attention_sums = 384, .attention_values = 28},
    {.name = "intel xe-hpg", .vendor = INTEL, .subgroup = 8, .discrete = true,
     .block = {VKI_COOP, 64, 64, 32, 8, {0}}, .block8 = {VKI_COOP, 64, 64, 16, 16, {0}},
     .attention_coop = 17, .attention_subgroups = 8, .attention_sums = 192},
    {.name = "intel xe2 with packed dot", .vendor = INTEL, .subgroup = 16,
     .block8 = {VKI_TILE, 128, 64, 8, 4, {0}}, .attention_values = 28},
    {.name = "gpu with packed dot", .block8 = {VKI_TILE, 128, 64, 8, 4, {0}}},
    {.name = "gpu"},
};

bool vki_block_fits(vki_block *block, bool int8, uint32_t subgroup, const vki_limits *limits)
{
    if (block->structure == VKI_DIRECT) return true;
    const uint32_t parts = block->rows / block->part_rows * (block->cols / block->part_cols);
    const uint32_t bytes = (block->rows + block->cols) * (int8 ? 56 : 88); /* the tiles and their scales */
    if (block->structure == VKI_TILE)
        return int8 && limits->fast_packed_dot && parts <= limits->max_workgroup_invocations &&
               bytes <= limits->shared_bytes;
    const vki_matrix_size size = int8 ? limits->coop_s8 : limits->coop_f16;
    block->size = size;
    const bool divides = size.m && block->part_rows % size.m == 0 && block->part_cols % size.n == 0;
    const bool full = limits->subgroup_control ? parts <= limits->max_workgroup_subgroups : limits->full_subgroups;
    const bool has_lanes = subgroup && full && (limits->vendor != INTEL || subgroup == limits->subgroup_min);
    return divides && has_lanes && parts * subgroup <= limits->max_workgroup_invocations &&
           bytes + parts * size.m * size.n * 4 <= limits->shared_bytes &&
           vki_shader_find(int8 ? "matmul_coop8_q8_0" : "matmul_coop_f16") != NULL;
}

static void choose_blocks(vki_tuning *tuning, const vki_limits *limits)
{
    for (size_t i = 0; i < sizeof gpu_classes / sizeof *gpu_classes; i++) {
        gpu_class class = gpu_classes[i];
        if ((class.vendor && class.vendor != limits->vendor) ||
            (class.subgroup && class.subgroup != tuning->subgroup) ||
            (class.discrete && !limits->is_discrete) ||
            !vki_block_fits(&class.block, false, tuning->subgroup, limits) ||
            !vki_block_fits(&class.block8, true, tuning->subgroup, limits))
            continue;
        tuning->device_class = class.name;
        tuning->block = class.block;
        tuning->block8 = class.block8;
        tuning->attention_coop = class.attention_coop;
        tuning->attention_subgroups = class.attention_subgroups;
        tuning->attention_sums = class.attention_sums;
        if (class.attention_values) tuning->attention_values = class.attention_values;
        return;
    }
}

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
    if (!limits->is_cpu) choose_blocks(&tuning, limits);
    const uint32_t subgroup = tuning.subgroup ? tuning.subgroup : limits->subgroup_size;
    tuning.workgroup_most = limits->max_workgroup_invocations;
    if (limits->max_workgroup_subgroups < tuning.workgroup_most / subgroup)
        tuning.workgroup_most = limits->max_workgroup_subgroups * subgroup;
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
