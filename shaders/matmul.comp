#version 460
// matmul.comp - y = W x for one column (decode) or many (prefill), weights of any format.
//
// in:  weights  [row0 + rows][units * 32] planes, read; x [cols][x_stride] f32, read, zero or finite up to
//      units * 32; bias [rows], gate and residual [cols][y_stride] f32, read, or 0
// out: y        [cols][y_stride] f32; residual and y may be the same
// A group of LANES neighbouring invocations shares ROWS rows and COLS columns: its lanes stride over
// the units and sum up at the end. LANES 1 is a row a lane: no exchange at all.
// grid: workgroup x = local size / LANES * ROWS rows, y = COLS columns.
// constants: 0 local size, 1 ROWS, 2 LANES (power of two, at most the subgroup), 3 COLS
// Sums in f32. CPU twin: ref_matmul.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint LANES = 1;
layout(constant_id = 3) const uint COLS = 1;
layout(push_constant, std430) uniform Push { matmul_push pc; };
#include "lib/weights.glsl"

float activate(float z)
{
    if (pc.activation == 0u) return z / (1.0 + exp(-z));
    const float t = 0.7978845608 * (z + 0.044715 * z * z * z); // sqrt(2 / pi)
    return z / (1.0 + exp(-2.0 * t));                          // 0.5 z (1 + tanh t)
}

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
    if (pc.gate != 0) value *= activate(load_float(pc.gate, at));
    if (pc.residual != 0) value += load_float(pc.residual, at);
    store_float(pc.y, at, value);
}

void main()
{
    // Where lanes exchange, they must be neighbours in a subgroup, whatever the driver's numbering.
    const uint invocation = LANES == 1 ? gl_LocalInvocationID.x : gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint group = (gl_WorkGroupID.x * gl_WorkGroupSize.x + invocation) / LANES;
    const uint lane = LANES == 1 ? 0u : invocation % LANES;
    const uint first_row = group * ROWS, first_col = gl_WorkGroupID.y * COLS;
    float sums[ROWS * COLS];
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) sums[i] = 0.0;
    uint x_at[COLS];
    [[unroll]] for (uint c = 0; c < COLS; c++) x_at[c] = min(first_col + c, pc.cols - 1) * pc.x_stride * 4u;

    for (uint unit = lane; unit < pc.units; unit += LANES) {
        if (COLS == 1) { // x is read once for all rows
            vec4 x[8];
            [[unroll]] for (uint i = 0; i < 8; i++) x[i] = load_vec4(pc.x, x_at[0] + unit * 128u + i * 16u);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                vec4 w[8];
                load_unit(pc.row0 + min(first_row + r, pc.rows - 1), unit, w);
                [[unroll]] for (uint i = 0; i < 8; i++) sums[r] += dot(w[i], x[i]);
            }
        } else { // weights are unpacked once for all columns
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                vec4 w[8];
                load_unit(pc.row0 + min(first_row + r, pc.rows - 1), unit, w);
                [[unroll]] for (uint c = 0; c < COLS; c++)
                    [[unroll]] for (uint i = 0; i < 8; i++)
                        sums[r * COLS + c] += dot(w[i], load_vec4(pc.x, x_at[c] + unit * 128u + i * 16u));
            }
        }
    }
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        const float sum = sum_over_lanes(sums[i]);
        if (lane == 0) store(first_row + i / COLS, first_col + i % COLS, sum);
    }
}
