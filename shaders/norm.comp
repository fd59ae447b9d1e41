#version 460
// norm.comp - RMSNorm of rows, with an optional residual: y = (residual +) x / rms(x) * weight.
//
// in:  x [rows][x_stride], weight [D], residual [rows][y_stride] or 0: f32, read
// out: y [rows][y_stride] f32; residual and y may be the same
// grid: workgroup x = row. constants: 0 local size, 1 ONE_SUBGROUP. D is a multiple of 4 or not.
// Sums in f32. CPU twin: ref_norm.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ONE_SUBGROUP = false;
layout(push_constant, std430) uniform Push { norm_push pc; };

void main()
{
    const uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x, step = gl_WorkGroupSize.x;
    const uint x_at = row * pc.x_stride * 4u, y_at = row * pc.y_stride * 4u;
    float squares = 0.0;
    for (uint i = lane; i < pc.d_model; i += step) {
        const float x = load_float(pc.x, x_at + i * 4u);
        squares = fma(x, x, squares);
    }
    squares = workgroup_add(squares, ONE_SUBGROUP);
    const float inverse = 1.0 / sqrt(squares / float(pc.d_model) + pc.epsilon);
    for (uint i = lane; i < pc.d_model; i += step) {
        float y = load_float(pc.x, x_at + i * 4u) * inverse * load_float(pc.weight, i * 4u);
        if (pc.residual != 0) y += load_float(pc.residual, y_at + i * 4u);
        store_float(pc.y, y_at + i * 4u, y);
    }
}
