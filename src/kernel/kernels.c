/* kernels.c - embedding and norms: shapes in, dispatches out; and what all kernels share.
 *
 * Each function fills the push struct that its shader declares (shaders/lib/push.h), names what it
 * reads and writes for the barriers, and states bytes and operations for slicing and profiles.
 * Weights are never written, so they are not named.
 */
#include "kernel/kernels_internal.h"

#include <assert.h>
#include <string.h>

/* How products with many columns are made: "direct", "matrices 128x64 in 64x32 of 16x16x16". */
static void describe_block(const vki_block *b, char text[96])
{
    static const char *const names[] = {[VKI_DIRECT] = "direct", [VKI_TILE] = "tile", [VKI_COOP] = "matrices"};
    int n = snprintf(text, 96, "%s", names[b->structure]);
    if (b->structure != VKI_DIRECT)
        n += snprintf(text + n, 96 - (size_t)n, " %ux%u in %ux%u", b->rows, b->cols, b->part_rows, b->part_cols);
    if (b->structure == VKI_COOP) snprintf(text + n, 96 - (size_t)n, " of %ux%ux%u", b->size.m, b->size.n, b->size.k);
}

static void log_choice(const vki_kernels *kernels)
{
    const vki_tuning *t = &kernels->tuning;
    char block[96], block8[96];
    describe_block(&t->block, block);
    describe_block(&t->block8, block8);
    vki_log(&kernels->pipelines->device->host, VKLM_LOG_INFO,
            "kernels: class \"%s\", subgroup %u, %s activations; products of prompts: float %s, quantised %s",
            t->device_class, t->subgroup, kernels->int8 ? "int8" : "f32", block,
            kernels->int8 && !t->prompt_floats ? block8 : block);
}

void vki_kernels_init(vki_kernels *kernels, vki_pipelines *pipelines, const vki_limits *limits,
                      bool high_precision)
{
    *kernels = (vki_kernels){.pipelines = pipelines, .tuning = vki_tuning_for(limits),
                             .layer = UINT32_MAX, .int8 = limits->fast_packed_dot && !high_precision,
                             .high_precision = high_precision};
    if (high_precision) kernels->tuning.block = (vki_block){VKI_DIRECT};
    log_choice(kernels);
}

vki_range vki_span_range(vki_span span)
{
    return vki_range_of(span.address, (uint64_t)span.rows * span.stride * 4);
}

uint64_t vki_operand_row_bytes(vki_form form, uint32_t width)
{
    return (form == VKI_FORM_SPREAD ? 5ull : 4ull) * width;
}

vki_range vki_operand_range(vki_operand operand)
{
    const uint64_t pitch = vki_operand_row_bytes(operand.form, operand.width), width = operand.width;
    const uint64_t values = operand.form == VKI_FORM_INT8 ? width : width * 4;
    const uint64_t last = values + (operand.form == VKI_FORM_F32 ? 0 : width / 4);
    return vki_range_of(operand.address, (operand.rows - 1) * pitch + last);
}

bool vki_one_subgroup(const vki_kernels *kernels, uint32_t local)
{
    return kernels->tuning.subgroup != 0 && local == kernels->tuning.subgroup;
}

vklm_status vki_find_pipeline(vki_kernels *kernels, const char *shader, const uint32_t *spec,
                              uint32_t n_spec, vklm_error *error, const vki_pipeline **pipeline)
{
    vki_pipeline_key key = {.n_spec = n_spec, .subgroup_size = kernels->tuning.subgroup};
    assert(strlen(shader) < sizeof key.shader && n_spec <= VKI_MAX_SPEC);
    strcpy(key.shader, shader);
    memcpy(key.spec, spec, n_spec * sizeof *spec);
    return vki_pipeline_get(kernels->pipelines, &key, error, pipeline);
}

vklm_status vki_append(vki_kernels *kernels, vki_dispatch *dispatch, const void *push, size_t push_bytes,
                       vklm_error *error)
{
    assert(push_bytes <= VKI_PUSH_BYTES && push_bytes % 4 == 0);
    memcpy(dispatch->push, push, push_bytes);
    dispatch->push_bytes = (uint32_t)push_bytes;
    dispatch->layer = kernels->layer;
    return vki_plan_add(kernels->plan, dispatch, error);
}

vklm_status vki_format_pipeline(vki_kernels *kernels, const char *operation, vki_format format,
                                   const uint32_t *spec, uint32_t n_spec, vklm_error *error,
                                   const vki_pipeline **pipeline)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%s", operation, vki_format_get(format)->shader_name);
    return vki_find_pipeline(kernels, name, spec, n_spec, error, pipeline);
}

uint64_t vki_weight_bytes(const vki_segment *segment, uint32_t rows)
{
    return segment->planes.size_bytes / segment->planes.rows * rows;
}

vklm_status vki_embed(vki_kernels *kernels, const vki_embed_args *args, vklm_error *error)
{
    const vki_matrix *w = args->embedding;
    const uint32_t spec[] = {kernels->tuning.unit_local};
    for (uint32_t i = 0; i < w->n_segments; i++) {
        const vki_segment *segment = &w->segments[i];
        const uint32_t units = segment->planes.units;
        assert(args->x.stride >= units * 32);
        vki_dispatch dispatch = {
            .name = "embed",
            .grid = {(uint32_t)vki_div_up(units, spec[0]), args->x.rows, 1},
            .n_reads = 1, .reads = {vki_range_of(args->state, args->x.rows * VKI_ROW_STATE_BYTES)},
            .n_writes = 1, .writes = {vki_span_range(args->x)},
            .cost_bytes = (uint64_t)args->x.rows * (vki_weight_bytes(segment, 1) + w->cols * 4u),
        };
        if (args->next.address) {
            assert(args->next.rows == args->x.rows && args->next.width == w->cols);
            dispatch.writes[dispatch.n_writes++] = vki_operand_range(args->next);
            dispatch.writes[dispatch.n_writes++] = vki_range_of(args->squares, (uint64_t)args->x.rows * units * 4);
        }
        const struct embed_push push = {
            .weights = segment->address, .state = args->state, .x = args->x.address,
            .plane1 = segment->planes.offset[1], .plane2 = segment->planes.offset[2],
            .plane3 = segment->planes.offset[3],
            .first_row = segment->first_row, .rows = segment->planes.rows, .units = units,
            .d_model = w->cols, .x_stride = args->x.stride, .n_vocab = w->rows, .scale = args->scale,
            .gain = args->gain, .next = args->next.address, .squares = args->squares,
            .next_form = args->next.form,
        };
        TRY(vki_format_pipeline(kernels, "embed", segment->planes.format, spec, 1, error, &dispatch.pipeline));
        TRY(vki_append(kernels, &dispatch, &push, sizeof push, error));
    }
    return VKLM_OK;
}

vklm_status vki_norm(vki_kernels *kernels, const vki_norm_args *args, vklm_error *error)
{
    assert(args->x.rows == args->y.rows);
    const uint32_t local = kernels->tuning.row_local;
    const uint32_t spec[] = {local, vki_one_subgroup(kernels, local)};
    vki_dispatch dispatch = {
        .name = args->name,
        .grid = {args->x.rows, 1, 1},
        .n_reads = 1, .reads = {vki_span_range(args->x)},
        .n_writes = 1, .writes = {vki_span_range(args->y)},
        .cost_bytes = (uint64_t)args->x.rows * args->width * (args->residual ? 12 : 8),
    };
    if (args->residual)
        dispatch.reads[dispatch.n_reads++] =
            vki_range_of(args->residual, (uint64_t)args->y.rows * args->y.stride * 4);
    const struct norm_push push = {
        .x = args->x.address, .weight = args->weight, .residual = args->residual, .y = args->y.address,
        .d_model = args->width, .x_stride = args->x.stride, .y_stride = args->y.stride,
        .epsilon = args->epsilon,
    };
    TRY(vki_find_pipeline(kernels, "norm", spec, 2, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}
