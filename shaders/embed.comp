#version 460
// embed.comp - gathers rows of the embedding matrix by token.
//
// in:  weights   [V][D] planes of one segment, read; state [rows] row_state, read
// out: x         [rows][x_stride] f32, whole units; with next (of whole units): gain * x in next_form (lib/quantize.glsl)
//      and squares [rows][units], the sums of x^2
// grid: workgroup x = local size units of 32 values, y = row. A token outside this segment writes
// nothing; an id past the vocabulary reads the last row.
// constants: 0 local size. Exact. CPU twin: ref_embed.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/quantize.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, std430) uniform Push { embed_push pc; };
#include "lib/weights.glsl"

void main()
{
    const uint unit = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    const uint token = min(load_row(pc.state, row).token, pc.n_vocab - 1);
    if (unit >= pc.units || token < pc.first_row || token >= pc.first_row + pc.rows) return;
    open_weights(pc.weights);
    vec4 w[8];
    load_unit(token - pc.first_row, unit, w);
    const uint64_t x = pc.x + (row * pc.x_stride + unit * 32u) * 4u;
    const uint64_t next = pc.next + row * pc.units * 32u * pitch_of(pc.next_form);
    vec4 squares = vec4(0.0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        w[i] *= pc.scale;
        OutVec4(x + i * 16u).v = w[i];
        squares = fma(w[i], w[i], squares);
    }
    if (pc.next == 0) return;
    store_float(pc.squares, (row * pc.units + unit) * 4u, squares.x + squares.y + squares.z + squares.w);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        w[i] *= load_vec4(pc.gain, unit * 128u + i * 16u);
        if (pc.next_form == FORM_F32) OutVec4(next + unit * 128u + i * 16u).v = w[i];
    }
    if (pc.next_form != FORM_F32)
        store_block(next, next + scales_of(pc.next_form, pc.d_model), unit * 32u, pc.next_form, w);
}
