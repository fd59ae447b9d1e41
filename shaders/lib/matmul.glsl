// matmul.glsl - y = W x for one column (decode) or many (prefill), weights of any format.
//
// in:  weights  [row0 + rows][units * 32] planes, read; x [cols][x_stride] f32, read, zero or finite up to
//      units * 32; or, with INT8_ACTIVATIONS, x [cols][x_stride] int8 and x_scales [cols][x_stride / 32]
//      (d, d * sum of the block's bytes) as quantize.comp makes them;
//      bias [rows], gate and residual [cols][y_stride] f32, read, or 0
// out: y        [cols][y_stride] f32; residual and y may be the same
// A group of LANES neighbouring invocations shares ROWS rows and COLS columns: its lanes stride over
// the units and sum up at the end. LANES 1 is a row a lane: no exchange at all.
// grid: workgroup x = local size / LANES * ROWS rows, y = COLS columns.
// constants: 0 local size, 1 ROWS, 2 LANES (power of two, at most the subgroup), 3 COLS
// Sums in f32 (of a block of 32 products of bytes: int32, exact). CPU twin: ref_matmul.
#include "lib/common.glsl"
#include "lib/activate.glsl"
#ifdef INT8_ACTIVATIONS
#include "lib/dot.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint LANES = 1;
layout(constant_id = 3) const uint COLS = 1;
layout(push_constant, std430) uniform Push { matmul_push pc; };
#include "lib/weights.glsl"

float sum_over_lanes(float value)
{
    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1) value += subgroupShuffleXor(value, mask);
    return value;
}

void store(uint row, uint col, float value)
{
    if (row >= pc.rows || col >= pc.cols) return;
    const uint at = (col * pc.y_stride + row) * 4u;
    if (pc.bias != 0) value += load_float(pc.bias, row * 4u);
    if (pc.gate != 0) value *= activate(load_float(pc.gate, at), pc.activation != 0u);
    if (pc.residual != 0) value += load_float(pc.residual, at);
    store_float(pc.y, at, value);
}

float sums[ROWS * COLS];

#ifdef INT8_ACTIVATIONS
// The products of one unit: bytes of all rows stay in registers while the columns go by.
void add_unit(uint first_row, uint first_col, uint unit)
{
    uvec4 a[ROWS], b[ROWS];
    vec3 scale[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        load_quants(pc.row0 + min(first_row + r, pc.rows - 1), unit, a[r], b[r], scale[r]);
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        const uint x_at = min(first_col + c, pc.cols - 1) * pc.x_stride + unit * 32u;
        const uvec4 xa = load_uvec4(pc.x, x_at), xb = load_uvec4(pc.x, x_at + 16u);
        const vec2 x_scale = load_vec2(pc.x_scales, x_at / 4u);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
#ifdef TWO_SCALES
            const float products = scale[r].x * float(dot16(a[r], xa)) + scale[r].y * float(dot16(b[r], xb));
#else
            const float products = scale[r].x * float(dot16(a[r], xa) + dot16(b[r], xb));
#endif
            sums[r * COLS + c] += fma(products, x_scale.x, scale[r].z * x_scale.y);
        }
    }
}
#else
void add_unit(uint first_row, uint first_col, uint unit)
{
    uint x_at[COLS];
    [[unroll]] for (uint c = 0; c < COLS; c++)
        x_at[c] = (min(first_col + c, pc.cols - 1) * pc.x_stride + unit * 32u) * 4u;
    vec4 x[8]; // of the only column: read once for all rows
    if (COLS == 1)
        [[unroll]] for (uint i = 0; i < 8; i++) x[i] = load_vec4(pc.x, x_at[0] + i * 16u);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        vec4 w[8];
        load_unit(pc.row0 + min(first_row + r, pc.rows - 1), unit, w);
        [[unroll]] for (uint c = 0; c < COLS; c++)
            [[unroll]] for (uint i = 0; i < 8; i++)
                sums[r * COLS + c] += dot(w[i], COLS == 1 ? x[i] : load_vec4(pc.x, x_at[c] + i * 16u));
    }
}
#endif

void main()
{
    weights_at = pc.weights;
    // Where lanes exchange, they must be neighbours in a subgroup, whatever the driver's numbering.
    const uint invocation = LANES == 1 ? gl_LocalInvocationID.x : gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint group = (gl_WorkGroupID.x * gl_WorkGroupSize.x + invocation) / LANES;
    const uint lane = LANES == 1 ? 0u : invocation % LANES;
    const uint first_row = group * ROWS, first_col = gl_WorkGroupID.y * COLS;
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) sums[i] = 0.0;
    for (uint unit = lane; unit < pc.units; unit += LANES) add_unit(first_row, first_col, unit);
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        const float sum = sum_over_lanes(sums[i]);
        if (lane == 0) store(first_row + i / COLS, first_col + i % COLS, sum);
    }
}
