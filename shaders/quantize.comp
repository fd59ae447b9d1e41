#version 460
// quantize.comp - activations as int8 in blocks of 32, for the packed dot product.
//
// in:  x      [rows][stride] f32, read: the blocks that hold the first `width` values
// out: y      [rows][stride] int8, scales [rows][stride / 32] (d, d * sum of the bytes):
//      d = max |x| / 127, byte = round(x / d)
// grid: workgroup x = local size blocks, y = row. constants: 0 local size. CPU twin: ref_quantize.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/quantize.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, std430) uniform Push { quantize_push pc; };

void main()
{
    const uint block = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (block * 32u >= pc.width) return;
    const uint at = row * pc.stride + block * 32u;
    vec4 x[8];
    [[unroll]] for (uint i = 0; i < 8; i++) x[i] = load_vec4(pc.x, at * 4u + i * 16u);
    store_block(pc.y, pc.scales, at, FORM_INT8, x);
}
