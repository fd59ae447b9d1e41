/* sample.c - the end of a step: one workgroup a row draws a token and moves the row on. */
#include "kernel/kernels_internal.h"

#include <assert.h>

#include "base/checked.h"

static vklm_status make_parts(vki_kernels *kernels, const vki_sample_args *args, vki_range partial, vklm_error *error)
{
    const uint32_t local = kernels->tuning.argmax_local, parts = vki_sample_parts(args->n_vocab);
    vki_dispatch dispatch = {
        .name = "argmax",
        .grid = {(uint32_t)vki_div_up(parts, local), args->logits.rows, 1},
        .n_reads = 1, .reads = {vki_span_range(args->logits)},
        .n_writes = 1, .writes = {partial},
        .cost_bytes = (uint64_t)args->logits.rows * args->n_vocab * 4,
    };
    const struct argmax_push push = {
        .logits = args->logits.address, .partial = args->partial, .n_vocab = args->n_vocab,
        .stride = args->logits.stride, .parts = parts,
    };
    TRY(vki_find_pipeline(kernels, "argmax", &local, 1, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}

/* Older software Vulkan (Mesa 22.3) ends an invocation's loops after 65535 rounds of all of them together. Three stages
 * of 26 passes, each of five rounds a part and one for each sum, stay below that. */
static uint32_t choose_local(const vki_tuning *tuning, uint32_t parts)
{
    enum { PARTS_EACH = 128, MOST = 256 };
    uint32_t local = tuning->argmax_local;
    while (parts > local * PARTS_EACH && local * 2 <= vki_min(MOST, tuning->workgroup_most)) local *= 2;
    return local;
}

vklm_status vki_sample(vki_kernels *kernels, const vki_sample_args *args, vklm_error *error)
{
    const uint32_t rows = args->logits.rows, parts = vki_sample_parts(args->n_vocab);
    const uint32_t local = choose_local(&kernels->tuning, parts);
    const vki_range partial = vki_range_of(args->partial, (uint64_t)rows * parts * 8);
    assert(rows <= VKI_MAX_BATCH && args->n_vocab > 0 && local <= 256);
    if (!args->has_parts) TRY(make_parts(kernels, args, partial, error));
    const uint32_t spec[] = {local, vki_one_subgroup(kernels, local)};
    const vki_range logits = vki_span_range(args->logits);
    vki_dispatch dispatch = {
        .name = "sample",
        .grid = {rows, 1, 1},
        .n_reads = 2, .reads = {partial, logits},
        .n_writes = 4,
        .writes = {vki_range_of(args->state, (uint64_t)rows * VKI_ROW_STATE_BYTES),
                   vki_range_of(args->ring, VKI_RING_STEPS * VKI_MAX_BATCH * 4), partial, logits},
        .cost_bytes = (uint64_t)rows * parts * 16,
    };
    const struct sample_push push = {
        .state = args->state, .logits = args->logits.address, .partial = args->partial, .ring = args->ring,
        .n_vocab = args->n_vocab, .stride = args->logits.stride, .parts = parts, .ring_steps = VKI_RING_STEPS,
        .ring_rows = VKI_MAX_BATCH,
    };
    TRY(vki_find_pipeline(kernels, "sample", spec, 2, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}
