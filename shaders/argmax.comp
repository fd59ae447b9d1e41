#version 460
// argmax.comp - of each 32 logits the largest and its id, the lowest on ties; where no head left them (matvec.glsl).
//
// in:  logits [rows][stride] f32, read
// out: partial [rows][parts] (f32 logit, u32 id): LOWEST and ~0 where none is above LOWEST; infinity where one is no
//      finite number
// grid: workgroup x = local size parts, y = row. constants: 0 local size. CPU twin: ref_argmax.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/argmax.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, std430) uniform Push { argmax_push pc; };

void main()
{
    const uint part = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (part >= pc.parts) return;
    const uint64_t logits = pc.logits + row * pc.stride * 4u;
    Part(pc.partial + (row * pc.parts + part) * 8u).v = best_of_part(logits, part, pc.n_vocab);
}
