#version 460
// argmax.comp - the largest logit of each part of a row, the lowest id on ties; first half of greedy.
//
// in:  logits [rows][stride] f32, read
// out: partial [rows][groups] (f32 logit, u32 id); a part without a number gives LOWEST and ~0
// grid: workgroup x = part, y = row. constants: 0 local size, 1 ONE_SUBGROUP. CPU twin: ref_argmax.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/argmax.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ONE_SUBGROUP = false;
layout(push_constant, std430) uniform Push { argmax_push pc; };
void main()
{
    const uint row = gl_WorkGroupID.y, per_group = (pc.n_vocab + pc.groups - 1) / pc.groups;
    const uint first = gl_WorkGroupID.x * per_group, last = min(first + per_group, pc.n_vocab);
    float best = LOWEST;
    uint id = ~0u;
    for (uint i = first + gl_LocalInvocationID.x; i < last; i += gl_WorkGroupSize.x) {
        const float logit = load_float(pc.logits, (row * pc.stride + i) * 4u);
        if (logit > best) {
            best = logit;
            id = i;
        }
    }
    reduce_best(best, id, ONE_SUBGROUP);
    if (gl_LocalInvocationID.x == 0)
        OutUvec2(pc.partial + (row * pc.groups + gl_WorkGroupID.x) * 8u).v = uvec2(floatBitsToUint(best), id);
}
