#version 460
// rope.comp - makes q, k and v of a row ready: per-head norm where the model has one, rotary position,
// q times the attention scale, k and v into the KV cache.
//
// in:  qkv   [rows][H + 2K][E] f32, read; state [rows], read; table: see src/model/model.h;
//      q_norm, k_norm [E] f32 or 0. Rotary pairs are neighbours (the loader permutes rows).
// out: q     [rows][H][HEAD_PAD] f32; KV pages, layer at page_layer bytes:
//      k [K][KV_PAGE_KEYS][HEAD_PAD], then v alike, f16 or f32. Heads are padded with zeros.
// grid: workgroup x = head of H + 2K, y = row. constants: 0 local size, 1 ONE_SUBGROUP, 2 HEAD (E),
// 3 HEAD_PAD (E rounded up to 8), 4 KV_F32. CPU twin: ref_rope.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/kv.glsl"
#include "lib/reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ONE_SUBGROUP = false;
layout(constant_id = 2) const uint HEAD = 64;
layout(constant_id = 3) const uint HEAD_PAD = 64;
layout(constant_id = 4) const bool KV_F32 = false;
layout(push_constant, std430) uniform Push { rope_push pc; };

void main()
{
    const uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x;
    const bool is_q = head < pc.n_head, is_k = !is_q && head < pc.n_head + pc.n_head_kv;
    if (is_q && row < pc.first_q_row) return;
    const uint in_at = (row * pc.qkv_stride + head * HEAD) * 4u;
    const row_state state = load_row(pc.state, row);
    const uint64_t weight = is_q ? pc.q_norm : pc.k_norm;

    float inverse = 1.0;
    if ((is_q || is_k) && weight != 0) {
        float squares = 0.0;
        for (uint i = lane; i < HEAD; i += gl_WorkGroupSize.x) {
            const float x = load_float(pc.qkv, in_at + i * 4u);
            squares = fma(x, x, squares);
        }
        inverse = 1.0 / sqrt(workgroup_add(squares, ONE_SUBGROUP) / float(HEAD) + pc.epsilon);
    }

    const uint key = state.position % KV_PAGE_KEYS;
    const uint64_t page = is_q ? uint64_t(0) : kv_page(state, pc.page_layer);
    for (uint pair = lane; pair < HEAD_PAD / 2; pair += gl_WorkGroupSize.x) {
        const uint at = pair * 2;
        vec2 x = vec2(0.0);
        if (at < HEAD) x = vec2(load_float(pc.qkv, in_at + at * 4u), load_float(pc.qkv, in_at + at * 4u + 4u));
        if ((is_q || is_k) && at < HEAD) {
            if (weight != 0) x *= inverse * vec2(load_float(weight, at * 4u), load_float(weight, at * 4u + 4u));
            if (at < pc.n_rot) x = rotate(x, rotation(pc.table, pc.n_rot, state.position, pair));
        }
        // v heads follow the k heads, in the qkv rows as in the page
        if (is_q) OutVec2(pc.q + ((row - pc.first_q_row) * pc.q_stride + head * HEAD_PAD + at) * 4u).v = x * pc.q_scale;
        else store_kv(page, KV_F32, HEAD_PAD, head - pc.n_head, key, at, x);
    }
}
