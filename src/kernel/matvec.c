/* matvec.c - the product of one column with its prologue and epilogue: five dispatches make a decode layer.
 *
 * A subgroup makes one block of 32 rows, so its size must be known. Where a GPU has more subgroups than the
 * matrix has blocks, several share a block.
 */
#include "kernel/kernels_internal.h"

#include <assert.h>

enum { BLOCK_ROWS = 32 };

bool vki_matvec_fits(const vki_kernels *kernels, const vki_matrix *w, bool whole)
{
    if (!kernels->tuning.subgroup || w->cols % BLOCK_ROWS != 0) return false;
    if (vki_matrix_reads_int8(kernels, w) && vki_matrix_reads_f32(kernels, w)) return false;
    for (uint32_t i = 0; i < w->n_segments; i++) {
        const bool last = i + 1 == w->n_segments;
        if (w->segments[i].first_row % BLOCK_ROWS != 0) return false;
        if ((!last || whole) && w->segments[i].planes.rows % BLOCK_ROWS != 0) return false;
    }
    return true;
}

/* The subgroups that share a block: as many as fill the device, at most one for each unit of a lane. */
static uint32_t choose_parts(const vki_tuning *tuning, uint32_t blocks, uint32_t units, uint32_t lanes)
{
    uint32_t parts = 1;
    while (blocks * parts * 2 <= tuning->matvec_subgroups && parts * 2 * tuning->subgroup <= tuning->matvec_most &&
           parts * 2 * lanes <= units)
        parts *= 2;
    return parts;
}

static void declare_ranges(const vki_kernels *kernels, const vki_matvec_args *args, uint32_t first, uint32_t rows,
                           vki_dispatch *dispatch)
{
    vki_range *reads = dispatch->reads, *writes = dispatch->writes;
    uint32_t r = 0, w = 0;
    reads[r++] = vki_row_range(args->x);
    if (args->squares) reads[r++] = vki_range_of(args->squares, args->x.width / 8);
    const vki_range y = vki_range_of(args->y + first * 4ull, rows * 4ull);
    switch (args->epilogue) {
    case VKI_EPILOGUE_QKV:
        reads[r++] = vki_range_of(args->state, VKI_ROW_STATE_BYTES);
        writes[w++] = vki_range_of(args->y, (uint64_t)args->heads.n_head * args->heads.pad * 4);
        writes[w++] = vki_cache_range(kernels->layer);
        break;
    case VKI_EPILOGUE_ADD:
        reads[r++] = y;
        writes[w++] = y;
        writes[w++] = vki_row_range(args->next);
        writes[w++] = vki_range_of(args->next_squares, args->next.width / 8);
        break;
    case VKI_EPILOGUE_GATE: writes[w++] = vki_row_range(args->next); break;
    case VKI_EPILOGUE_LOGITS:
        writes[w++] = y;
        if (args->next.address)
            writes[w++] = vki_range_of(args->next.address, vki_div_up(args->w->rows, BLOCK_ROWS) * 8);
        break;
    }
    dispatch->n_reads = r;
    dispatch->n_writes = w;
}

static vklm_status matvec_segment(vki_kernels *kernels, const vki_matvec_args *args, const vki_segment *segment,
                                  const vki_segment *up, vklm_error *error)
{
    const vki_tuning *tuning = &kernels->tuning;
    const vki_heads *h = &args->heads;
    const uint32_t units = segment->planes.units, first = segment->first_row, rows = segment->planes.rows;
    const uint32_t blocks = (uint32_t)vki_div_up(rows, BLOCK_ROWS);
    const uint32_t rows_of_lane = tuning->subgroup < 8 ? BLOCK_ROWS / tuning->subgroup : 4;
    const uint32_t lanes = tuning->subgroup * rows_of_lane / BLOCK_ROWS;
    const uint32_t parts = choose_parts(tuning, blocks, units, lanes);
    const bool qkv = args->epilogue == VKI_EPILOGUE_QKV;
    const uint32_t spec[] = {tuning->subgroup * parts, rows_of_lane, lanes, parts, args->epilogue, args->next.int8,
                             args->gelu, qkv ? h->d_head : BLOCK_ROWS, h->pad, h->n_head, h->n_head_kv,
                             args->n_rot, h->kv_f32};
    vki_dispatch dispatch = {
        .name = args->name,
        .grid = {blocks, 1, 1},
        .cost_bytes = vki_weight_bytes(segment, rows) * (up ? 2 : 1),
        .cost_flops = 2ull * rows * args->w->cols * (up ? 2 : 1),
    };
    declare_ranges(kernels, args, first, rows, &dispatch);
    const struct matvec_push push = {
        .weights = segment->address, .weights2 = up ? up->address : 0, .x = args->x.address,
        .squares = args->squares, .bias = args->bias, .y = args->y, .next = args->next.address,
        .next_squares = args->next_squares, .gain = args->gain, .state = args->state, .table = args->table,
        .plane1 = segment->planes.offset[1], .plane2 = segment->planes.offset[2],
        .plane3 = segment->planes.offset[3], .row0 = 0, .rows = rows, .units = units, .first = first,
        .place = qkv ? kernels->layer * h->layer_bytes : args->next.width,
        .epsilon = args->epsilon, .q_scale = args->q_scale,
    };
    const char *operation = vki_segment_reads_int8(kernels, segment) ? "matvec8" : "matvec";
    TRY(vki_format_pipeline(kernels, operation, segment->planes.format, spec, 13, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}

vklm_status vki_matvec(vki_kernels *kernels, const vki_matvec_args *args, vklm_error *error)
{
    assert(args->x.width == args->w->cols);
    for (uint32_t i = 0; i < args->w->n_segments; i++)
        TRY(matvec_segment(kernels, args, &args->w->segments[i], args->up ? &args->up->segments[i] : NULL, error));
    return VKLM_OK;
}
