#version 460
// attention.comp - streaming softmax attention of a tile of queries over the KV cache.
//
// in:  q [rows][H][HEAD_PAD] f32 (scaled), state [rows], KV pages as rope.comp writes them; read
// out: out [rows][out_stride] f32, head h at h * HEAD (splits 1), or partial [rows][H][splits]
//      [HEAD + 2]: the sum of v weighted by exp(s - max), then max, then the sum of weights.
//      OUT_INT8 (splits 1, HEAD a multiple of 32): in place of H * HEAD floats as many bytes, their scales behind them
// A workgroup takes HEADS query heads that share one kv head, and ROWS rows of one sequence, so that
// each K and V is read once for HEADS * ROWS queries. Keys go by in blocks of the local size: first
// a lane is a key (scores), then a lane is DIMS values of the head (weighted sum). The running maximum
// and the rescaling are those of online softmax (Milakov and Gimelshein 2018; FlashAttention).
// grid: workgroup x = group of HEADS heads, y = tile of ROWS rows, z = split of the keys.
// constants: 0 local size, 1 ONE_SUBGROUP, 2 HEAD, 3 HEAD_PAD, 4 KV_F32, 5 HEADS, 6 ROWS,
// 7 DIMS (even, local size * DIMS >= HEAD), 8 OUT_INT8. The local size divides KV_PAGE_KEYS.
// Sums in f32. CPU twin: ref_attention.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/quantize.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ONE_SUBGROUP = false;
layout(constant_id = 2) const uint HEAD = 64;
layout(constant_id = 3) const uint HEAD_PAD = 64;
layout(constant_id = 4) const bool KV_F32 = false;
layout(constant_id = 5) const uint HEADS = 1;
layout(constant_id = 6) const uint ROWS = 1;
layout(constant_id = 7) const uint DIMS = 2;
layout(constant_id = 8) const bool OUT_INT8 = false;
layout(push_constant, std430) uniform Push { attention_push pc; };

const uint QUERIES = HEADS * ROWS;
const uint KEYS = gl_WorkGroupSize.x;  // of a block
const uint MAX_SUBGROUPS = 16;         // 64 invocations at the narrowest subgroup of 4
shared float weights[QUERIES * KEYS];
shared float parts[QUERIES * MAX_SUBGROUPS];
shared float finished[OUT_INT8 ? QUERIES * HEAD : 1];

// Byte offset of value `at` of a key: k heads first, then v heads.
uint kv_offset(uint head, uint key, uint at)
{
    return ((head * KV_PAGE_KEYS + key) * HEAD_PAD + at) * (KV_F32 ? 4u : 2u);
}

void load_key8(uint64_t page, uint offset, out vec4 low, out vec4 high)
{
    if (KV_F32) {
        low = load_vec4(page, offset);
        high = load_vec4(page, offset + 16u);
    } else {
        unpack_half8(load_uvec4(page, offset), low, high);
    }
}

vec2 load_value2(uint64_t page, uint offset)
{
    return KV_F32 ? load_vec2(page, offset) : load_half2(page, offset);
}

// Each query's maximum or sum over the workgroup. The loop over subgroups is the outer one: a loop that holds
// another is not unrolled, and then the array would live in memory.
void reduce(inout float value[QUERIES], bool add)
{
    [[unroll]] for (uint i = 0; i < QUERIES; i++) value[i] = add ? subgroupAdd(value[i]) : subgroupMax(value[i]);
    if (ONE_SUBGROUP) return;
    if (subgroupElect())
        [[unroll]] for (uint i = 0; i < QUERIES; i++) parts[i * MAX_SUBGROUPS + gl_SubgroupID] = value[i];
    barrier();
    [[unroll]] for (uint i = 0; i < QUERIES; i++) value[i] = parts[i * MAX_SUBGROUPS];
    for (uint g = 1; g < gl_NumSubgroups; g++)
        [[unroll]] for (uint i = 0; i < QUERIES; i++) {
            const float part = parts[i * MAX_SUBGROUPS + g];
            value[i] = add ? value[i] + part : max(value[i], part);
        }
}

void main()
{
    const uint lane = gl_LocalInvocationID.x;
    const uint first_head = gl_WorkGroupID.x * HEADS, first_row = gl_WorkGroupID.y * ROWS;
    const uint kv_head = first_head / (pc.n_head / pc.n_head_kv);
    const uint last_row = min(first_row + ROWS, pc.rows) - 1;
    const uint first_position = load_row(pc.state, first_row).position;
    const row_state newest = load_row(pc.state, last_row);

    // The block range of this split, over all keys that any of the tile's rows sees.
    const uint oldest_key = pc.window == 0 || first_position < pc.window ? 0u : first_position + 1 - pc.window;
    const uint first_block = oldest_key / KEYS, blocks = newest.position / KEYS + 1 - first_block;
    const uint per_split = (blocks + pc.splits - 1) / pc.splits;
    const uint begin = first_block + min(gl_WorkGroupID.z * per_split, blocks);
    const uint end = min(begin + per_split, first_block + blocks);

    uint q_at[QUERIES], position[QUERIES];
    float highest[QUERIES], total[QUERIES];
    vec2 sums[QUERIES * DIMS / 2];
    [[unroll]] for (uint i = 0; i < QUERIES; i++) {
        const uint row = min(first_row + i / HEADS, last_row);
        q_at[i] = (row * pc.q_stride + (first_head + i % HEADS) * HEAD_PAD) * 4u;
        position[i] = ROWS == 1 ? newest.position : load_row(pc.state, row).position;
        highest[i] = LOWEST;
        total[i] = 0.0;
    }
    [[unroll]] for (uint i = 0; i < QUERIES * DIMS / 2; i++) sums[i] = vec2(0.0);

    for (uint block = begin; block < end; block++) {
        const uint block_key = block * KEYS, key = block_key + lane;
        const uint in_page = block_key % KV_PAGE_KEYS;
        const uint64_t page = InAddress(newest.pages + (block_key / KV_PAGE_KEYS) * 8u).v + pc.page_layer;

        float score[QUERIES], block_highest[QUERIES];
        [[unroll]] for (uint i = 0; i < QUERIES; i++) score[i] = 0.0;
        const uint key_at = kv_offset(kv_head, in_page + lane, 0);
        for (uint at = 0; at < HEAD_PAD; at += 8) {
            vec4 low, high;
            load_key8(page, key_at + at * (KV_F32 ? 4u : 2u), low, high);
            [[unroll]] for (uint i = 0; i < QUERIES; i++)
                score[i] += dot(low, load_vec4(pc.q, q_at[i] + at * 4u)) + dot(high, load_vec4(pc.q, q_at[i] + at * 4u + 16u));
        }
        [[unroll]] for (uint i = 0; i < QUERIES; i++) {
            const bool visible = key <= position[i] && (pc.window == 0 || position[i] - key < pc.window);
            score[i] = visible ? score[i] : LOWEST;
            block_highest[i] = score[i];
        }
        reduce(block_highest, false);
        [[unroll]] for (uint i = 0; i < QUERIES; i++) {
            const float now = max(highest[i], block_highest[i]);
            // A row that has seen no key yet keeps weight 0 and must not make inf - inf.
            const float shift = now == LOWEST ? 0.0 : now;
            const float scale = exp(highest[i] - shift), weight = exp(score[i] - shift);
            highest[i] = now;
            total[i] = total[i] * scale + weight;
            weights[i * KEYS + lane] = weight;
            [[unroll]] for (uint d = 0; d < DIMS / 2; d++) sums[i * (DIMS / 2) + d] *= scale;
        }
        barrier();
        // Keys behind the newest position were never written: they are not read.
        const uint keys = min(KEYS, newest.position + 1 - block_key);
        const uint dim = lane * DIMS;
        if (dim < HEAD) {
            for (uint j = 0; j < keys; j++) {
                const uint value_at = kv_offset(pc.n_head_kv + kv_head, in_page + j, dim);
                [[unroll]] for (uint d = 0; d < DIMS / 2; d++) {
                    const vec2 value = load_value2(page, value_at + d * (KV_F32 ? 8u : 4u));
                    [[unroll]] for (uint i = 0; i < QUERIES; i++)
                        sums[i * (DIMS / 2) + d] += weights[i * KEYS + j] * value;
                }
            }
        }
        barrier();
    }

    reduce(total, true); // the loop's last barrier stands between the two uses of `parts`
    const bool whole = pc.splits == 1;
    const uint64_t target = whole ? pc.out_ : pc.partial;
    [[unroll]] for (uint i = 0; i < QUERIES; i++) {
        const uint row = first_row + i / HEADS, head = first_head + i % HEADS;
        const uint target_at = whole ? row * pc.out_stride + head * HEAD
                                     : ((row * pc.n_head + head) * pc.splits + gl_WorkGroupID.z) * (HEAD + 2);
        const float scale = whole ? 1.0 / total[i] : 1.0;
        if (row <= last_row) {
            [[unroll]] for (uint d = 0; d < DIMS; d++) {
                const uint dim = lane * DIMS + d;
                const float value = scale * sums[i * (DIMS / 2) + d / 2][d % 2];
                if (dim >= HEAD) continue;
                if (OUT_INT8 && whole) finished[i * HEAD + dim] = value;
                else store_float(target, (target_at + dim) * 4u, value);
            }
            if (!whole && lane == 0) {
                store_float(target, (target_at + HEAD) * 4u, highest[i]);
                store_float(target, (target_at + HEAD + 1) * 4u, total[i]);
            }
        }
    }
    if (!OUT_INT8 || !whole) return;
    barrier();
    for (uint block = lane; block < QUERIES * HEAD / 32u; block += gl_WorkGroupSize.x) {
        vec4 x[8];
        [[unroll]] for (uint i = 0; i < 32; i++) x[i / 4][i % 4] = finished[block * 32u + i];
        const uint i = block * 32u / HEAD, row = first_row + i / HEADS;
        const uint64_t out_row = pc.out_ + row * pc.out_stride * 4u;
        if (row <= last_row)
            store_block(out_row, out_row + pc.n_head * HEAD, (first_head + i % HEADS) * HEAD + block * 32u % HEAD, x);
    }
}
