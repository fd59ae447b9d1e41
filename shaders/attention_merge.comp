#version 460
// attention_merge.comp - joins the splits of attention.comp: each weighs by exp(its max - the max).
//
// in:  partial [rows][H][splits][HEAD + 2] f32, read
// out: out [rows][out_stride] f32, head h at h * HEAD
// grid: workgroup x = head, y = row. constants: 0 local size, 1 HEAD. CPU twin: ref_attention.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD = 64;
layout(push_constant, std430) uniform Push { attention_merge_push pc; };

void main()
{
    const uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    const uint base = (row * pc.n_head + head) * pc.splits * (HEAD + 2);
    float highest = LOWEST;
    for (uint s = 0; s < pc.splits; s++)
        highest = max(highest, load_float(pc.partial, (base + s * (HEAD + 2) + HEAD) * 4u));
    for (uint dim = gl_LocalInvocationID.x; dim < HEAD; dim += gl_WorkGroupSize.x) {
        float sum = 0.0, total = 0.0;
        for (uint s = 0; s < pc.splits; s++) {
            const uint at = base + s * (HEAD + 2);
            const float weight = exp(load_float(pc.partial, (at + HEAD) * 4u) - highest);
            sum += weight * load_float(pc.partial, (at + dim) * 4u);
            total += weight * load_float(pc.partial, (at + HEAD + 1) * 4u);
        }
        store_float(pc.out_, (row * pc.out_stride + head * HEAD + dim) * 4u, sum / total);
    }
}
