/* matmul.c - products with many columns, and the int8 form of what they read.
 *
 * A matrix is segments of one format each; each segment is a dispatch of the variant that the tuning row
 * names for it.
 */
#include "kernel/kernels_internal.h"

#include <assert.h>

bool vki_segment_reads_int8(const vki_kernels *kernels, const vki_segment *segment)
{
    return kernels->int8 && segment->planes.format > VKI_BF16;
}

bool vki_matrix_reads_int8(const vki_kernels *kernels, const vki_matrix *w)
{
    for (uint32_t i = 0; i < w->n_segments; i++)
        if (vki_segment_reads_int8(kernels, &w->segments[i])) return true;
    return false;
}

static bool reads_int8(const vki_kernels *kernels, const vki_segment *segment)
{
    return vki_segment_reads_int8(kernels, segment) && !kernels->tuning.prompt_floats;
}

bool vki_matmul_reads_int8(const vki_kernels *kernels, const vki_matrix *w)
{
    for (uint32_t i = 0; i < w->n_segments; i++)
        if (reads_int8(kernels, &w->segments[i])) return true;
    return false;
}

bool vki_matrix_reads_f32(const vki_kernels *kernels, const vki_matrix *w)
{
    for (uint32_t i = 0; i < w->n_segments; i++)
        if (!vki_segment_reads_int8(kernels, &w->segments[i])) return true;
    return false;
}

vklm_status vki_quantize(vki_kernels *kernels, vki_span x, uint32_t width, vki_span8 y, vklm_error *error)
{
    assert(x.rows == y.rows && x.stride == y.stride);
    const uint32_t spec[] = {kernels->tuning.unit_local};
    const uint64_t bytes = (uint64_t)y.rows * y.stride;
    vki_dispatch dispatch = {
        .name = "quantize",
        .grid = {(uint32_t)vki_div_up(vki_div_up(width, 32), spec[0]), y.rows, 1},
        .n_reads = 1, .reads = {vki_span_range(x)},
        .n_writes = 2, .writes = {vki_range_of(y.bytes, bytes), vki_range_of(y.scales, bytes / 4)},
        .cost_bytes = bytes * 5,
    };
    const struct quantize_push push = {
        .x = x.address, .y = y.bytes, .scales = y.scales, .stride = x.stride, .width = width};
    TRY(vki_find_pipeline(kernels, "quantize", spec, 1, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}

/* On a GPU one kernel more to compile costs more than columns made in vain, since the weights' way is what takes time.
 * For a CPU, of the powers of two up to the table's, what costs least: a group of columns costs about WEIGHTS_COST of
 * them more, for the weights that it unpacks. */
static vki_tile choose_tile(const vki_tuning *tuning, uint32_t cols, bool int8)
{
    enum { WEIGHTS_COST = 5 };
    if (cols == 1) return int8 ? tuning->matvec8 : tuning->matvec;
    const vki_tile most = int8 ? tuning->matmul8 : tuning->matmul;
    if (!tuning->software) return most;
    vki_tile best = most;
    uint64_t least = UINT64_MAX;
    for (uint32_t n = most.cols; n >= 1; n /= 2) {
        const uint64_t cost = vki_div_up(cols, n) * (n + WEIGHTS_COST);
        if (cost >= least) continue;
        least = cost;
        best.cols = n;
    }
    return best;
}

/* A shader, its constants, and what one workgroup makes. */
typedef struct variant {
    const char *shader;
    uint32_t spec[8], n_spec;
    uint32_t rows, cols;
} variant;

static variant direct_variant(vki_tile t, bool int8)
{
    return (variant){.shader = int8 ? "matmul8" : "matmul",
                     .spec = {t.local, t.rows, t.lanes, t.cols}, .n_spec = 4,
                     .rows = t.local / t.lanes * t.rows, .cols = t.cols};
}

static variant choose_variant(const vki_tuning *tuning, uint32_t cols, bool int8)
{
    const vki_block *b = int8 ? &tuning->block8 : &tuning->block;
    if (b->structure == VKI_DIRECT || cols < tuning->block_columns)
        return direct_variant(choose_tile(tuning, cols, int8), int8);
    const bool coop = b->structure == VKI_COOP;
    const uint32_t parts = b->rows / b->part_rows * (b->cols / b->part_cols);
    return (variant){.shader = !coop ? "matmul_tile8" : int8 ? "matmul_coop8" : "matmul_coop",
                     .spec = {coop ? parts * tuning->subgroup : parts, b->rows, b->cols, b->part_rows, b->part_cols,
                              b->size.m, b->size.n, b->size.k},
                     .n_spec = coop ? 8 : 5,
                     .rows = b->rows, .cols = b->cols};
}

/* The part of a product that one segment of the matrix makes. */
static vklm_status matmul_segment(vki_kernels *kernels, const vki_matmul_args *args,
                                  const vki_segment *segment, uint32_t first, uint32_t last,
                                  vklm_error *error)
{
    const uint32_t rows = last - first, cols = args->x.rows;
    const uint64_t shift = (uint64_t)(first - args->first_row) * 4; /* into y and everything like it */
    const bool int8 = reads_int8(kernels, segment);
    const variant v = choose_variant(&kernels->tuning, cols, int8);
    vki_dispatch dispatch = {
        .name = args->name,
        .grid = {(uint32_t)vki_div_up(rows, v.rows), (uint32_t)vki_div_up(cols, v.cols), 1},
        .n_reads = int8 ? 2 : 1,
        .reads = {int8 ? vki_range_of(args->x8.bytes, (uint64_t)cols * args->x8.stride)
                       : vki_span_range(args->x),
                  vki_range_of(args->x8.scales, (uint64_t)cols * args->x8.stride / 4)},
        .n_writes = 1,
        .writes = {vki_range_of(args->y.address + shift, ((uint64_t)(cols - 1) * args->y.stride + rows) * 4)},
        .cost_bytes = vki_weight_bytes(segment, rows) + (uint64_t)cols * (args->w->cols + rows) * 4,
        .cost_flops = 2ull * rows * cols * args->w->cols,
    };
    const uint64_t alike[] = {args->gate, args->residual};
    for (uint32_t i = 0; i < 2; i++)
        if (alike[i])
            dispatch.reads[dispatch.n_reads++] = vki_range_of(
                alike[i] + shift, ((uint64_t)(cols - 1) * args->y.stride + rows) * 4);
    const struct matmul_push push = {
        .weights = segment->address, .x = int8 ? args->x8.bytes : args->x.address,
        .x_scales = args->x8.scales, .y = args->y.address + shift,
        .bias = args->bias ? args->bias + shift : 0,
        .gate = args->gate ? args->gate + shift : 0,
        .residual = args->residual ? args->residual + shift : 0,
        .plane1 = segment->planes.offset[1], .plane2 = segment->planes.offset[2],
        .plane3 = segment->planes.offset[3],
        .row0 = first - segment->first_row, .rows = rows, .units = segment->planes.units, .cols = cols,
        .x_stride = args->x.stride, .y_stride = args->y.stride, .activation = args->gelu,
        .width = args->w->cols,
    };
    TRY(vki_format_pipeline(kernels, v.shader, segment->planes.format, v.spec, v.n_spec, error, &dispatch.pipeline));
    return vki_append(kernels, &dispatch, &push, sizeof push, error);
}

vklm_status vki_matmul(vki_kernels *kernels, const vki_matmul_args *args, vklm_error *error)
{
    const vki_matrix *w = args->w;
    const uint32_t begin = args->first_row, end = begin + (args->n_rows ? args->n_rows : w->rows);
    assert(end <= w->rows && args->x.stride >= w->cols && args->x.stride % 32 == 0);
    for (uint32_t i = 0; i < w->n_segments; i++) {
        const vki_segment *segment = &w->segments[i];
        const uint32_t first = (uint32_t)vki_max(begin, segment->first_row);
        const uint32_t last = (uint32_t)vki_min(end, segment->first_row + segment->planes.rows);
        if (first < last) TRY(matmul_segment(kernels, args, segment, first, last, error));
    }
    return VKLM_OK;
}
