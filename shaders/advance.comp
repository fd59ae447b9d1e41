#version 460
// advance.comp - the last kernel of a decode step: the greedy token, and every row one position on.
//
// in:  partial [rows][groups] of argmax.comp, read (groups 0: the host draws the token)
// out: state [rows]: token, position + 1, step + 1; ring [ring_steps][ring_rows] u32: the token
// grid: workgroup x = row. constants: 0 local size, 1 ONE_SUBGROUP. CPU twin: ref_argmax.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/argmax.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ONE_SUBGROUP = false;
layout(push_constant, std430) uniform Push { advance_push pc; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer InOutRow { row_state v; };

void main()
{
    const uint row = gl_WorkGroupID.x;
    InOutRow state = InOutRow(pc.state + row * 32u);
    float best = LOWEST;
    uint id = ~0u;
    for (uint g = gl_LocalInvocationID.x; g < pc.groups; g += gl_WorkGroupSize.x) {
        const uvec2 part = load_uvec2(pc.partial, (row * pc.groups + g) * 8u);
        take_better(best, id, uintBitsToFloat(part.x), part.y);
    }
    reduce_best(best, id, ONE_SUBGROUP);
    if (gl_LocalInvocationID.x != 0) return;
    if (pc.groups != 0) {
        state.v.token = id;
        OutUint(pc.ring + ((state.v.step % pc.ring_steps) * pc.ring_rows + row) * 4u).v = id;
    }
    state.v.position += 1;
    state.v.step += 1;
}
