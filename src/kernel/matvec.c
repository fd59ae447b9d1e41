/* matvec.c - products of a few columns with their prologues and epilogues: five dispatches make a decode layer.
 *
 * A subgroup makes one block of 32 rows, so its size must be known. Where a GPU has more subgroups than the
 * matrix has blocks, several share a block.
 */
#include "kernel/kernels_internal.h"

#include <assert.h>

enum {
    BLOCK_ROWS = 32,
    MOST_SUBGROUPS = 16, /* of a workgroup that exchanges sums: 16 KB of them for eight columns */
};

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

bool vki_matvec_norms_heads(const vki_kernels *kernels, const vki_matrix *w, uint32_t d_head)
{
    const uint32_t blocks = d_head / BLOCK_ROWS;
    if (!kernels->tuning.subgroup || d_head % BLOCK_ROWS != 0 || blocks > MOST_SUBGROUPS) return false;
    for (uint32_t i = 0; i < w->n_segments; i++)
        if (w->segments[i].first_row % d_head != 0 || w->segments[i].planes.rows % d_head != 0) return false;
    return blocks * kernels->tuning.subgroup <= kernels->tuning.workgroup_most;
}

vki_form vki_matvec_form(const vki_kernels *kernels, const vki_matrix *w, uint32_t columns)
{
    const uint32_t spread = kernels->tuning.spread_rows;
    if (!vki_matrix_reads_int8(kernels, w)) return VKI_FORM_F32;
    return spread && columns >= spread ? VKI_FORM_SPREAD : VKI_FORM_INT8;
}

/* How a product is cut, which is the same for any number of columns: a column's sums are the same, too. */
typedef struct matvec_shape {
    uint32_t blocks;      /* of 32 rows */
    uint32_t head_blocks; /* that a workgroup norms together, or 0 */
    uint32_t rows, lanes; /* of a lane; that share them */
    uint32_t parts;       /* subgroups that share a block */
    uint32_t local;       /* invocations of a workgroup */
} matvec_shape;

/* Parts: as many as fill the device, at most one for each unit of a lane. */
static matvec_shape choose_shape(const vki_tuning *tuning, const vki_matvec_args *args, const vki_segment *segment)
{
    const uint32_t subgroup = tuning->subgroup, units = segment->planes.units;
    matvec_shape s = {.blocks = (uint32_t)vki_div_up(segment->planes.rows, BLOCK_ROWS), .parts = 1};
    if (args->q_norm && segment->first_row < (args->heads.n_head + args->heads.n_head_kv) * args->heads.d_head)
        s.head_blocks = args->heads.d_head / BLOCK_ROWS;
    s.rows = subgroup < 8 ? BLOCK_ROWS / subgroup : 4;
    s.lanes = subgroup * s.rows / BLOCK_ROWS;
    const uint32_t blocks = s.head_blocks ? s.head_blocks : 1, tables = args->up ? 2 : 1;
    uint32_t most = tuning->matvec_most;
    if (s.head_blocks && most) most = (uint32_t)vki_min(2 * most, tuning->workgroup_most);
    while (s.blocks * s.parts * 2 <= tuning->matvec_subgroups && blocks * s.parts * 2 * subgroup <= most &&
           tables * blocks * s.parts * 2 <= MOST_SUBGROUPS && s.parts * 2 * s.lanes <= units)
        s.parts *= 2;
    s.local = subgroup * blocks * s.parts;
    return s;
}

/* Of a workgroup: a power of two. A product of two matrices holds twice the sums, and the invocations of a large
 * workgroup have fewer registers each. */
static uint32_t choose_cols(const vki_tuning *tuning, const vki_matvec_args *args, bool int8, uint32_t local)
{
    uint32_t cols = tuning->few_cols, most = int8 ? tuning->row_cols8 : tuning->row_cols;
    if (args->x.rows == 1) return 1;
    if (args->up) most /= 2;
    while (most > 1 && most * local > 2048) most /= 2;
    while (cols < args->x.rows) cols *= 2;
    return (uint32_t)vki_min(cols, most);
}

/* Values of a row of y. */
static uint32_t y_width(const vki_matvec_args *args)
{
    if (args->epilogue == VKI_EPILOGUE_QKV) return args->heads.n_head * args->heads.pad;
    return (uint32_t)vki_round_up(args->w->rows, BLOCK_ROWS);
}

static void declare_ranges(const vki_kernels *kernels, const vki_matvec_args *args, uint32_t first, uint32_t rows,
                           vki_dispatch *dispatch)
{
    vki_range *reads = dispatch->reads, *writes = dispatch->writes;
    uint32_t r = 0, w = 0;
    const uint64_t n = args->x.rows, width = y_width(args);
    reads[r++] = vki_operand_range(args->x);
    if (args->squares) reads[r++] = vki_range_of(args->squares, n * args->x.width / 8);
    const vki_range y = vki_range_of(args->y + first * 4ull, ((n - 1) * width + rows) * 4);
    const vki_range squares = vki_range_of(args->next_squares, n * width / 8);
    switch (args->epilogue) {
    case VKI_EPILOGUE_QKV:
        reads[r++] = vki_range_of(args->state, n * VKI_ROW_STATE_BYTES);
        if (first < args->heads.n_head * args->heads.d_head) writes[w++] = vki_range_of(args->y, n * width * 4);
        writes[w++] = vki_cache_rows_range(kernels->layer, first, rows);
        break;
    case VKI_EPILOGUE_ADD:
        reads[r++] = y;
        writes[w++] = y;
        writes[w++] = vki_operand_range(args->next);
        writes[w++] = squares;
        break;
    case VKI_EPILOGUE_GATE: writes[w++] = vki_operand_range(args->next); break;
    case VKI_EPILOGUE_LOGITS:
        writes[w++] = y;
        if (args->next.address) writes[w++] = vki_range_of(args->next.address, n * width / 4);
        break;
    case VKI_EPILOGUE_BRANCH:
        writes[w++] = y;
        writes[w++] = squares;
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
    const bool int8 = vki_segment_reads_int8(kernels, segment), qkv = args->epilogue == VKI_EPILOGUE_QKV;
    const matvec_shape s = choose_shape(tuning, args, segment);
    const uint32_t cols = choose_cols(tuning, args, int8, s.local), blocks = s.head_blocks ? s.head_blocks : 1;
    const uint32_t first = segment->first_row, rows = segment->planes.rows, n = args->x.rows;
    const uint32_t spec[] = {s.local, s.rows, s.lanes, s.parts, args->epilogue,
                             args->next.form, args->gelu, qkv ? h->d_head : BLOCK_ROWS, h->pad, h->n_head,
                             h->n_head_kv, args->n_rot, h->kv_f32, cols, s.head_blocks, tuning->software, args->x.form};
    vki_dispatch dispatch = {
        .name = args->name,
        .grid = {(uint32_t)vki_div_up(n, cols), s.blocks / blocks, 1},
        .cost_bytes = vki_weight_bytes(segment, rows) * (up ? 2 : 1),
        .cost_flops = 2ull * rows * args->w->cols * n * (up ? 2 : 1),
    };
    declare_ranges(kernels, args, first, rows, &dispatch);
    const struct matvec_push push = {
        .weights = segment->address, .second = up ? up->address : args->k_norm, .x = args->x.address,
        .squares = args->squares, .bias = args->bias, .y = args->y, .next = args->next.address,
        .next_squares = args->next_squares, .gain = qkv ? args->q_norm : up ? args->up_bias : args->gain,
        .state = args->state, .table = args->table, .plane1 = segment->planes.offset[1],
        .plane2 = segment->planes.offset[2], .plane3 = segment->planes.offset[3], .cols = n, .rows = rows,
        .units = segment->planes.units, .first = first,
        .place = qkv ? kernels->layer * h->layer_bytes : y_width(args),
        .epsilon = args->epsilon, .q_scale = args->q_scale,
    };
    TRY(vki_format_pipeline(kernels, int8 ? "matvec8" : "matvec", segment->planes.format, spec, 17, error,
                            &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}

vklm_status vki_matvec(vki_kernels *kernels, const vki_matvec_args *args, vklm_error *error)
{
    assert(args->x.width == args->w->cols && args->x.rows > 0 && args->x.rows <= VKI_MAX_BATCH);
    assert(!args->q_norm == !args->k_norm);
    for (uint32_t i = 0; i < args->w->n_segments; i++)
        TRY(matvec_segment(kernels, args, &args->w->segments[i], args->up ? &args->up->segments[i] : NULL, error));
    return VKLM_OK;
}

vklm_status vki_join(vki_kernels *kernels, const vki_join_args *args, vklm_error *error)
{
    const vki_tuning *tuning = &kernels->tuning;
    const uint32_t units = args->next.width / BLOCK_ROWS, n = args->next.rows;
    const uint32_t local = tuning->unit_local, lanes = (uint32_t)vki_min(tuning->join_lanes, tuning->subgroup);
    const uint32_t spec[] = {local, lanes, args->next.form};
    const vki_range x = vki_range_of(args->x, (uint64_t)n * args->next.width * 4);
    const uint64_t squares_bytes = (uint64_t)n * units * 4;
    vki_dispatch dispatch = {
        .name = args->name,
        .grid = {(uint32_t)vki_div_up((uint64_t)units * lanes, local), n, 1},
        .n_reads = 3,
        .reads = {x, vki_range_of(args->branch, x.end - x.begin), vki_range_of(args->branch_squares, squares_bytes)},
        .n_writes = 3,
        .writes = {x, vki_operand_range(args->next), vki_range_of(args->next_squares, squares_bytes)},
        .cost_bytes = (uint64_t)n * args->next.width * 16,
    };
    const struct join_push push = {
        .branch = args->branch, .branch_squares = args->branch_squares, .weight = args->weight, .x = args->x,
        .next = args->next.address, .next_squares = args->next_squares, .gain = args->gain, .units = units,
        .epsilon = args->epsilon,
    };
    TRY(vki_find_pipeline(kernels, "join", spec, 3, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}
