// product.glsl - what all structures of y = W x share: the arguments, the weights and the epilogue.
//
// in:  weights  [row0 + rows][units * 32] planes, read; x [cols][x_stride] f32, read, finite up to units * 32;
//      or, with INT8_ACTIVATIONS, x [cols][x_stride] int8 and x_scales [cols][x_stride / 32]
//      (d, d * sum of the block's bytes) as quantize.comp makes them;
//      bias [rows], gate and residual [cols][y_stride] f32, read, or 0
// out: y        [cols][y_stride] f32; residual and y may be the same
// Of W only the first `width` columns are not zero.
#ifndef PRODUCT_GLSL
#define PRODUCT_GLSL
#include "lib/common.glsl"
#include "lib/activate.glsl"
layout(push_constant, std430) uniform Push { matmul_push pc; };
#include "lib/weights.glsl"

uint first_weight, last_weight; // rows of the planes; copies, as in weights.glsl

// Before the loop.
void open_product()
{
    open_weights(pc.weights);
    first_weight = pc.row0;
    last_weight = pc.row0 + pc.rows - 1;
}

// The row of the planes that makes row `row` of y; one past the last is read as the last, and not stored.
uint weights_row(uint row) { return min(first_weight + row, last_weight); }

void store(uint row, uint col, float value)
{
    if (row >= pc.rows || col >= pc.cols) return;
    const uint at = (col * pc.y_stride + row) * 4u;
    if (pc.bias != 0) value += load_float(pc.bias, row * 4u);
    if (pc.gate != 0) value *= activate(load_float(pc.gate, at), pc.activation != 0u);
    if (pc.residual != 0) value += load_float(pc.residual, at);
    store_float(pc.y, at, value);
}

#ifdef INT8_ACTIVATIONS
// One block of 32 of a column: its bytes in order, and (d, d * sum).
void load_block(uint col, uint unit, out uvec4 a, out uvec4 b, out vec2 scale)
{
    const uint at = min(col, pc.cols - 1) * pc.x_stride + unit * 32u;
    a = load_uvec4(pc.x, at);
    b = load_uvec4(pc.x, at + 16u);
    scale = load_vec2(pc.x_scales, at / 4u);
}

// What a format has of a scale: of both halves, or of all and the minimum, which is 0 where bytes are signed.
vec2 two_of_scale(vec3 scale)
{
#ifdef TWO_SCALES
    return scale.xy;
#else
    return scale.xz;
#endif
}
#endif
#endif
