#version 460
// join.comp - the end of a branch with a norm of its own: x += branch / rms * weight, then what the next matvec reads.
//
// in:  branch [rows][D] f32 with its squares [rows][D / 32] by block (lib/matvec.glsl: BRANCH), weight and gain [D] f32
// out: x [rows][D] f32; next: gain * x of each row in the form NEXT (lib/quantize.glsl); next_squares [rows][D / 32]:
//      the squares of x by block
// LANES lanes of a subgroup share a unit of 32 values.
// grid: workgroup x = local size / LANES units, y = row. constants: 0 local size, 1 LANES (divides 8 and the
// subgroup, whose size is required of the pipeline), 2 NEXT. Sums in f32. CPU twin: ref_norm, ref_quantize.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/quantize.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 1;
layout(constant_id = 2) const uint NEXT = FORM_F32;
layout(push_constant, std430) uniform Push { join_push pc; };

const uint QUADS = 8 / LANES; // of a lane

float inverse_rms(uint row)
{
    float sum = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < pc.units; i += gl_SubgroupSize)
        sum += load_float(pc.branch_squares, (row * pc.units + i) * 4u);
    return 1.0 / sqrt(subgroupAdd(sum) / float(pc.units * 32u) + pc.epsilon);
}

void main()
{
    const uint row = gl_WorkGroupID.y, lane = gl_SubgroupInvocationID % LANES;
    const uint subgroup = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    const uint unit = (subgroup * gl_SubgroupSize + gl_SubgroupInvocationID) / LANES;
    const float inverse = inverse_rms(row);
    if (unit >= pc.units) return; // all lanes of a unit together
    const uint64_t next = pc.next + row * pc.units * 32u * pitch_of(NEXT);
    vec4 x[QUADS];
    float squares = 0.0, largest = 0.0;
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        const uint at = (unit * 8u + i * LANES + lane) * 16u, in_rows = row * pc.units * 128u + at;
        x[i] = fma(load_vec4(pc.branch, in_rows) * inverse, load_vec4(pc.weight, at), load_vec4(pc.x, in_rows));
        OutVec4(pc.x + in_rows).v = x[i];
        squares += dot(x[i], x[i]);
        x[i] *= load_vec4(pc.gain, at);
        if (NEXT == FORM_F32) OutVec4(next + at).v = x[i];
        const vec4 size = abs(x[i]);
        largest = max(largest, max(max(size.x, size.y), max(size.z, size.w)));
    }
    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1) {
        squares += subgroupShuffleXor(squares, mask);
        largest = max(largest, subgroupShuffleXor(largest, mask));
    }
    if (lane == 0) store_float(pc.next_squares, (row * pc.units + unit) * 4u, squares);
    if (NEXT == FORM_F32) return;
    const float scale = largest > 0.0 ? 127.0 / largest : 0.0, d = largest / 127.0;
    int sum = 0;
    [[unroll]] for (uint i = 0; i < QUADS; i++)
        store_quants(next, (unit * 8u + i * LANES + lane) * 4u, NEXT, quants_of(x[i], scale, sum));
    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1) sum += subgroupShuffleXor(sum, mask);
    if (lane == 0) OutVec2(next + scales_of(NEXT, pc.units * 32u) + unit * 8u).v = vec2(d, d * float(sum));
}
