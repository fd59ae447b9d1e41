#version 460
// attention_merge.comp - joins the splits of attention.comp: each weighs by exp(its max - the max).
//
// in:  partial [rows][H][splits][HEAD + 2] f32, state [rows], read; a row with one split has its result already
// out: out [rows][out_stride] f32, head h at h * HEAD; in the form OUT as attention.comp has it
// grid: workgroup x = head, y = row. constants: 0 local size, 1 HEAD, 2 OUT. CPU twin: ref_attention.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/kv.glsl"
#include "lib/quantize.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD = 64;
layout(constant_id = 2) const uint OUT = FORM_F32;
layout(push_constant, std430) uniform Push { attention_merge_push pc; };
shared float finished[OUT != FORM_F32 ? HEAD : 1];

void main()
{
    const uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    const uint base = (row * pc.n_head + head) * pc.splits * (HEAD + 2);
    const uint splits = row_splits(pc.splits, pc.split_keys, load_row(pc.state, row).position + 1);
    if (splits == 1) return;
    float highest = LOWEST;
    for (uint s = 0; s < splits; s++)
        highest = max(highest, load_float(pc.partial, (base + s * (HEAD + 2) + HEAD) * 4u));
    for (uint dim = gl_LocalInvocationID.x; dim < HEAD; dim += gl_WorkGroupSize.x) {
        float sum = 0.0, total = 0.0;
        for (uint s = 0; s < splits; s++) {
            const uint at = base + s * (HEAD + 2);
            const float weight = exp(load_float(pc.partial, (at + HEAD) * 4u) - highest);
            sum += weight * load_float(pc.partial, (at + dim) * 4u);
            total += weight * load_float(pc.partial, (at + HEAD + 1) * 4u);
        }
        if (OUT != FORM_F32) finished[dim] = sum / total;
        else store_float(pc.out_, (row * pc.out_stride + head * HEAD + dim) * 4u, sum / total);
    }
    if (OUT == FORM_F32) return;
    barrier();
    for (uint block = gl_LocalInvocationID.x; block < HEAD / 32u; block += gl_WorkGroupSize.x) {
        vec4 x[8];
        [[unroll]] for (uint i = 0; i < 32; i++) x[i / 4][i % 4] = finished[block * 32u + i];
        const uint64_t out_row = pc.out_ + row * pc.out_stride * pitch_of(OUT);
        store_block(out_row, out_row + scales_of(OUT, pc.n_head * HEAD), head * HEAD + block * 32u, OUT, x);
    }
}
