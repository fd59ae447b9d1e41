// matmul_coop.glsl - y = W x by cooperative matrices of M x K times K x N, which a subgroup multiplies as one.
//
// Arguments: lib/product.glsl. Each step takes one unit of 32 of the tile's rows and columns into shared memory, as
// int8 or as f16, multiplies, and adds to the sums what came out times the scales of its row and its column. f16 has
// no infinities here: a column's 32 activations are brought to below 2^15 by a power of two, which is then their scale
// (of formats with f32's range a row's weights, too).
// A subgroup makes ROWS x COLS. Which element a lane holds is the driver's secret: scales are spread over a matrix by
// loads with a stride of 0, and results pass through shared memory to the epilogue.
// grid: workgroup x = TILE_ROWS rows, y = TILE_COLS columns.
// constants: 0 local size = subgroup * TILE_ROWS / ROWS * TILE_COLS / COLS, 1 TILE_ROWS, 2 TILE_COLS, 3 ROWS, 4 COLS,
// 5 M, 6 N, 7 K (they divide 32)
// Sums of a unit in int32, exact, or f32; of units in f32. CPU twin: ref_matmul.
#extension GL_KHR_memory_scope_semantics : require
#include "lib/product.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TILE_ROWS = 64;
layout(constant_id = 2) const uint TILE_COLS = 64;
layout(constant_id = 3) const uint ROWS = 32;
layout(constant_id = 4) const uint COLS = 32;
layout(constant_id = 5) const uint M = 16;
layout(constant_id = 6) const uint N = 16;
layout(constant_id = 7) const uint K = 16;

// A row or column of a tile is STRIDE times 8 bytes: the unit, and as much as keeps its neighbours off its banks.
#ifdef INT8_ACTIVATIONS
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define OPERAND int8_t
#define PRODUCT int
const uint STRIDE = 6, OPERANDS = 8; // in 8 bytes
#else
#include "lib/half.glsl"
#define OPERAND float16_t
#define PRODUCT float
const uint STRIDE = 10, OPERANDS = 4;
#endif
#if defined(INT8_ACTIVATIONS) && defined(TWO_SCALES)
#define HALVES 2 // a row is 16 weights, 16 zeros, 16 weights: half a unit is a product of either 16 or 32
#else
#define HALVES 1
#endif
const uint TILES_M = ROWS / M, TILES_N = COLS / N;

shared uvec2 w_tile[TILE_ROWS * STRIDE], x_tile[TILE_COLS * STRIDE];
shared float w_scales[TILE_ROWS * 2], x_scales[TILE_COLS * 2]; // [2][...]: see two_of_scale
shared float results[(TILE_ROWS / ROWS) * (TILE_COLS / COLS) * M * N];

#define SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
SUMS sums[TILES_M * TILES_N];

#ifdef INT8_ACTIVATIONS
void stage_row(uint first_row, uint i, uint unit)
{
    uvec4 a, b;
    vec3 scale;
    load_quants(weights_row(first_row + i), unit, a, b, scale);
    const vec2 two = two_of_scale(scale);
    w_scales[i] = two.x;
    w_scales[TILE_ROWS + i] = two.y;
    const uint at = i * STRIDE, b_at = at + 2 * HALVES;
    w_tile[at] = a.xy;
    w_tile[at + 1] = a.zw;
#if HALVES == 2
    w_tile[at + 2] = w_tile[at + 3] = uvec2(0);
#endif
    w_tile[b_at] = b.xy;
    w_tile[b_at + 1] = b.zw;
}

void stage_col(uint first_col, uint i, uint unit)
{
    uvec4 a, b;
    vec2 scale;
    load_block(first_col + i, unit, a, b, scale);
    x_scales[i] = scale.x;
    x_scales[TILE_COLS + i] = scale.y;
    const uint at = i * STRIDE;
    x_tile[at] = a.xy;
    x_tile[at + 1] = a.zw;
    x_tile[at + 2] = b.xy;
    x_tile[at + 3] = b.zw;
}
#else
// Scales all by a power of two to below 2^15; what undoes it.
float normalise(inout vec4 v[8])
{
    vec4 top = abs(v[0]);
    [[unroll]] for (uint i = 1; i < 8; i++) top = max(top, abs(v[i]));
    float undo;
    const float scale = half_scale(max(max(top.x, top.y), max(top.z, top.w)), undo);
    [[unroll]] for (uint i = 0; i < 8; i++) v[i] *= scale;
    return undo;
}

void stage_row(uint first_row, uint i, uint unit)
{
#ifdef FORMAT_F16
    [[unroll]] for (uint k = 0; k < 4; k++) {
        const uvec4 w = load_f16(weights_row(first_row + i), unit, k);
        w_tile[i * STRIDE + 2 * k] = w.xy;
        w_tile[i * STRIDE + 2 * k + 1] = w.zw;
    }
#else
    vec4 w[8];
    load_unit(weights_row(first_row + i), unit, w);
#ifdef WIDE_RANGE
    w_scales[i] = normalise(w);
#endif
    [[unroll]] for (uint k = 0; k < 8; k++) w_tile[i * STRIDE + k] = to_f16(w[k]);
#endif
}

void stage_col(uint first_col, uint i, uint unit)
{
    const uint at = (min(first_col + i, pc.cols - 1) * pc.x_stride + unit * 32u) * 4u;
    vec4 x[8];
    [[unroll]] for (uint k = 0; k < 8; k++) x[k] = load_vec4(pc.x, at + k * 16u);
    if (unit * 32u + 32u > pc.width) // what is there meets zeros, and must not set the scale
        [[unroll]] for (uint k = 0; k < 8; k++)
            x[k] = mix(vec4(0.0), x[k], lessThan(unit * 32u + k * 4u + uvec4(0, 1, 2, 3), uvec4(pc.width)));
    x_scales[i] = normalise(x);
    [[unroll]] for (uint k = 0; k < 8; k++) x_tile[i * STRIDE + k] = to_f16(x[k]);
}
#endif

// Each row's or each column's number, in all of its row or column.
void load_row_scales(out SUMS scales, uint row)
{
    coopMatLoad(scales, w_scales, row, 0, gl_CooperativeMatrixLayoutColumnMajor);
}

void load_col_scales(out SUMS scales, uint col)
{
    coopMatLoad(scales, x_scales, col, 0, gl_CooperativeMatrixLayoutRowMajor);
}

// sums += of one half of the unit, or all of it.
void add_products(uint row, uint col, uint part)
{
    const uint STEPS = HALVES == 1 || K == 32 ? 32 / K : 16 / K;
    const uint w_at = K == 32 ? part * 2 : part * 4, x_at = K == 32 ? 0 : part * 2; // in 8 bytes
    coopmat<OPERAND, gl_ScopeSubgroup, K, N, gl_MatrixUseB> x[TILES_N * STEPS];
    [[unroll]] for (uint i = 0; i < TILES_N * STEPS; i++)
        coopMatLoad(x[i], x_tile, (col + i / STEPS * N) * STRIDE + x_at + i % STEPS * K / OPERANDS, STRIDE,
                    gl_CooperativeMatrixLayoutColumnMajor);
    SUMS x_scale[TILES_N], w_scale;
    [[unroll]] for (uint j = 0; j < TILES_N; j++) load_col_scales(x_scale[j], col + j * N);
    [[unroll]] for (uint i = 0; i < TILES_M; i++) {
        coopmat<OPERAND, gl_ScopeSubgroup, M, K, gl_MatrixUseA> w[STEPS];
        [[unroll]] for (uint k = 0; k < STEPS; k++)
            coopMatLoad(w[k], w_tile, (row + i * M) * STRIDE + w_at + k * K / OPERANDS, STRIDE,
                        gl_CooperativeMatrixLayoutRowMajor);
#if defined(INT8_ACTIVATIONS) || defined(WIDE_RANGE)
        load_row_scales(w_scale, part * TILE_ROWS + row + i * M);
#else
        w_scale = SUMS(1.0);
#endif
        [[unroll]] for (uint j = 0; j < TILES_N; j++) {
            coopmat<PRODUCT, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> products =
                coopmat<PRODUCT, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0);
            [[unroll]] for (uint k = 0; k < STEPS; k++)
                products = coopMatMulAdd(w[k], x[j * STEPS + k], products);
            sums[i * TILES_N + j] += SUMS(products) * (w_scale * x_scale[j]);
        }
    }
}

#if defined(INT8_ACTIVATIONS) && !defined(SIGNED_QUANTS)
// What the minimum of a row's unit adds: times the sum of the column's unit.
void add_minima(uint row, uint col)
{
    SUMS x_sum[TILES_N], minimum;
    [[unroll]] for (uint j = 0; j < TILES_N; j++) load_col_scales(x_sum[j], TILE_COLS + col + j * N);
    [[unroll]] for (uint i = 0; i < TILES_M; i++) {
        load_row_scales(minimum, TILE_ROWS + row + i * M);
        [[unroll]] for (uint j = 0; j < TILES_N; j++) sums[i * TILES_N + j] += minimum * x_sum[j];
    }
}
#endif

// The lanes of a subgroup share out M x N results at a time. Rolled, which keeps the epilogue short; the matrices are
// named one by one, since one picked by a variable would have to lie in memory.
void store_tile(uint first_row, uint first_col)
{
    const uint at = gl_SubgroupID * M * N;
    [[dont_unroll]] for (uint tile = 0; tile < TILES_M * TILES_N; tile++) {
        [[unroll]] for (uint i = 0; i < TILES_M * TILES_N; i++)
            if (i == tile) coopMatStore(sums[i], results, at, M, gl_CooperativeMatrixLayoutColumnMajor);
        subgroupBarrier();
        [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N; e += gl_SubgroupSize)
            store(first_row + tile / TILES_N * M + e % M, first_col + tile % TILES_N * N + e / M, results[at + e]);
        subgroupBarrier();
    }
}

void main()
{
    open_product();
    const uint first_row = gl_WorkGroupID.x * TILE_ROWS, first_col = gl_WorkGroupID.y * TILE_COLS;
    const uint row = gl_SubgroupID % (TILE_ROWS / ROWS) * ROWS, col = gl_SubgroupID / (TILE_ROWS / ROWS) * COLS;
    [[unroll]] for (uint i = 0; i < TILES_M * TILES_N; i++) sums[i] = SUMS(0.0);
    for (uint unit = 0; unit < pc.units; unit++) {
        [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < TILE_ROWS + TILE_COLS; i += gl_WorkGroupSize.x) {
            if (i < TILE_ROWS) stage_row(first_row, i, unit);
            else stage_col(first_col, i - TILE_ROWS, unit);
        }
        barrier();
#if HALVES == 2
        [[dont_unroll]] for (uint part = 0; part < 2; part++) add_products(row, col, part);
#else
        add_products(row, col, 0);
#endif
#if defined(INT8_ACTIVATIONS) && !defined(SIGNED_QUANTS)
        add_minima(row, col);
#endif
        barrier();
    }
    store_tile(first_row + row, first_col + col);
}
