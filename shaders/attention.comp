#version 460
// attention.comp - streaming softmax attention of a tile of queries over the KV cache.
//
// in:  q [rows][H][HEAD_PAD] f32 (scaled), state [rows], KV pages as rope.comp writes them; read
// out: out [rows][out_stride] f32, head h at h * HEAD (rows with one split), or partial [rows][H][splits]
//      [HEAD + 2]: the sum of v weighted by exp(s - max), then max, then the sum of weights.
//      OUT (lib/quantize.glsl; HEAD a multiple of 32): out in that form, of H * HEAD values
// A workgroup takes HEADS query heads that share one kv head, and ROWS rows of one sequence, so that
// each K and V is read once for HEADS * ROWS queries. Keys go by in blocks of the local size: first
// a lane is a key (scores), then a lane is DIMS values of the head (weighted sum). The running maximum
// and the rescaling are those of online softmax (Milakov and Gimelshein 2018; FlashAttention).
// grid: workgroup x = group of HEADS heads, y = tile of ROWS rows, z = split of the keys (a row may have fewer).
// constants: 0 local size, 1 ONE_SUBGROUP, 2 HEAD, 3 HEAD_PAD, 4 KV_F32, 5 HEADS, 6 ROWS,
// 7 DIMS (even, local size * DIMS >= HEAD), 8 OUT, 9 KEY_STEP (even, divides the local size, which divides KV_PAGE_KEYS).
// Sums in f32. CPU twin: ref_attention.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/kv.glsl"
#include "lib/quantize.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ONE_SUBGROUP = false;
layout(constant_id = 2) const uint HEAD = 64;
layout(constant_id = 3) const uint HEAD_PAD = 64;
layout(constant_id = 4) const bool KV_F32 = false;
layout(constant_id = 5) const uint HEADS = 1;
layout(constant_id = 6) const uint ROWS = 1;
layout(constant_id = 7) const uint DIMS = 2;
layout(constant_id = 8) const uint OUT = FORM_F32;
layout(constant_id = 9) const uint KEY_STEP = 2;
layout(push_constant, std430) uniform Push { attention_push pc; };

const uint QUERIES = HEADS * ROWS;
const uint SUMS = QUERIES * DIMS / 2;  // of an invocation, by two; named, since glslang 12 may find an expression another type
const uint KEYS = gl_WorkGroupSize.x;  // of a block
const uint DIM_STEP = HEAD_PAD % (4 * KEY_STEP) == 0 ? 4 * KEY_STEP : 8; // unrolled, as KEY_STEP is
const uint MAX_SUBGROUPS = 16;         // 64 invocations at the narrowest subgroup of 4
shared float weights[ONE_SUBGROUP ? 1 : QUERIES * KEYS];
shared float parts[QUERIES * MAX_SUBGROUPS];
shared float finished[OUT != FORM_F32 ? QUERIES * HEAD : 1];

// Each query's maximum or sum over the workgroup. The loop over subgroups is the outer one: a loop that holds
// another is not unrolled, and then the array would live in memory.
void reduce(inout float value[QUERIES], bool add)
{
    if (ONE_SUBGROUP) { // all of it is known to take part; subgroupMax is a loop over lanes in software Vulkan
        [[unroll]] for (uint mask = 1; mask < KEYS; mask <<= 1)
            [[unroll]] for (uint i = 0; i < QUERIES; i++) {
                const float other = subgroupShuffleXor(value[i], mask);
                value[i] = add ? value[i] + other : max(value[i], other);
            }
        return;
    }
    [[unroll]] for (uint i = 0; i < QUERIES; i++) value[i] = add ? subgroupAdd(value[i]) : subgroupMax(value[i]);
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

// Writes the sums of this split, or, where it is the only one, the result.
void store_results(uint lane, uint first_head, uint first_row, uint last_row, float highest[QUERIES],
                   float total[QUERIES], vec2 sums[SUMS], bool whole)
{
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
                if (OUT != FORM_F32 && whole) finished[i * HEAD + dim] = value;
                else store_float(target, (target_at + dim) * 4u, value);
            }
            if (!whole && lane == 0) {
                store_float(target, (target_at + HEAD) * 4u, highest[i]);
                store_float(target, (target_at + HEAD + 1) * 4u, total[i]);
            }
        }
    }
    if (OUT == FORM_F32 || !whole) return;
    barrier();
    for (uint block = lane; block < QUERIES * HEAD / 32u; block += gl_WorkGroupSize.x) {
        vec4 x[8];
        [[unroll]] for (uint i = 0; i < 32; i++) x[i / 4][i % 4] = finished[block * 32u + i];
        const uint i = block * 32u / HEAD, row = first_row + i / HEADS;
        const uint64_t out_row = pc.out_ + row * pc.out_stride * pitch_of(OUT);
        if (row <= last_row)
            store_block(out_row, out_row + scales_of(OUT, pc.n_head * HEAD),
                        (first_head + i % HEADS) * HEAD + block * 32u % HEAD, OUT, x);
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
    const uint splits = row_splits(pc.splits, pc.split_keys, newest.position + 1);
    if (gl_WorkGroupID.z >= splits) return;

    // The block range of this split, over all keys that any of the tile's rows sees.
    const uint oldest_key = pc.window == 0 || first_position < pc.window ? 0u : first_position + 1 - pc.window;
    const uint first_block = oldest_key / KEYS, blocks = newest.position / KEYS + 1 - first_block;
    const uint per_split = (blocks + splits - 1) / splits;
    const uint begin = first_block + min(gl_WorkGroupID.z * per_split, blocks);
    const uint end = min(begin + per_split, first_block + blocks);

    uint q_at[QUERIES], position[QUERIES];
    float highest[QUERIES], total[QUERIES];
    vec2 sums[SUMS];
    [[unroll]] for (uint i = 0; i < QUERIES; i++) {
        const uint row = min(first_row + i / HEADS, last_row);
        q_at[i] = (row * pc.q_stride + (first_head + i % HEADS) * HEAD_PAD) * 4u;
        position[i] = ROWS == 1 ? newest.position : load_row(pc.state, row).position;
        highest[i] = LOWEST;
        total[i] = 0.0;
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = vec2(0.0);

    const uint64_t q = pc.q;
    const uint window = pc.window, page_layer = pc.page_layer, value_head = pc.n_head_kv + kv_head;
    for (uint block = begin; block < end; block++) {
        const uint block_key = block * KEYS, key = block_key + lane;
        const uint in_page = block_key % KV_PAGE_KEYS;
        // Software Vulkan runs through a loop's end with no lane left: the page is one that is there all the same.
        const uint64_t page = InAddress(newest.pages + (min(block_key, newest.position) / KV_PAGE_KEYS) * 8u).v + page_layer;

        float score[QUERIES], block_highest[QUERIES];
        [[unroll]] for (uint i = 0; i < QUERIES; i++) score[i] = 0.0;
        const uint key_at = kv_element(kv_head, in_page + lane, HEAD_PAD);
        for (uint first = 0; first < HEAD_PAD; first += DIM_STEP) {
            [[unroll]] for (uint step = 0; step < DIM_STEP; step += 8) {
                const uint at = first + step;
                vec4 low, high;
                load_kv8(page, KV_F32, key_at + at, low, high);
                [[unroll]] for (uint i = 0; i < QUERIES; i++)
                    score[i] += dot(low, load_vec4(q, q_at[i] + at * 4u)) + dot(high, load_vec4(q, q_at[i] + at * 4u + 16u));
            }
        }
        [[unroll]] for (uint i = 0; i < QUERIES; i++) {
            const bool visible = key <= position[i] && (window == 0 || position[i] - key < window);
            score[i] = visible ? score[i] : LOWEST;
            block_highest[i] = score[i];
        }
        reduce(block_highest, false);
        bool rises = false;
        [[unroll]] for (uint i = 0; i < QUERIES; i++) rises = rises || block_highest[i] > highest[i];
        if (rises) { // seldom, after the first blocks; the same in all lanes
            [[unroll]] for (uint i = 0; i < QUERIES; i++) {
                const float now = max(highest[i], block_highest[i]);
                const float scale = exp(highest[i] - now);
                highest[i] = now;
                total[i] *= scale;
                [[unroll]] for (uint d = 0; d < DIMS / 2; d++) sums[i * (DIMS / 2) + d] *= scale;
            }
        }
        [[unroll]] for (uint i = 0; i < QUERIES; i++) {
            // A row that has seen no key yet keeps weight 0.
            score[i] = exp(score[i] - (highest[i] == LOWEST ? 0.0 : highest[i]));
            total[i] += score[i];
            if (!ONE_SUBGROUP) weights[i * KEYS + lane] = score[i];
        }
        if (!ONE_SUBGROUP) barrier();
        // Keys behind the newest position were never written: the newest is read for them, with a weight of 0.
        const uint last_key = min(KEYS - 1, newest.position - block_key);
        // A lane behind the head takes part, since others read its weights; what it sums is not stored.
        const uint dim = lane * DIMS;
        for (uint first = 0; first <= last_key; first += KEY_STEP) {
            [[unroll]] for (uint step = 0; step < KEY_STEP; step++) {
                const uint j = first + step;
                const uint value_at = kv_element(value_head, in_page + min(j, last_key), HEAD_PAD);
                [[unroll]] for (uint d = 0; d < DIMS / 2; d++) {
                    const uint at = value_at + (HEAD_PAD == KEYS * DIMS ? dim + 2 * d : min(dim + 2 * d, HEAD_PAD - 2));
                    const vec2 value = KV_F32 ? load_vec2(page, at * 4u) : load_half2(page, at * 2u);
                    [[unroll]] for (uint i = 0; i < QUERIES; i++)
                        sums[i * (DIMS / 2) + d] += (ONE_SUBGROUP ? subgroupShuffle(score[i], j) : weights[i * KEYS + j]) * value;
                }
            }
        }
        if (!ONE_SUBGROUP) barrier();
    }

    reduce(total, true); // the loop's last barrier stands between the two uses of `parts`
    store_results(lane, first_head, first_row, last_row, highest, total, sums, splits == 1);
}
