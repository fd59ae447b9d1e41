#version 460
// attention_coop.comp - streaming softmax attention of many rows of one sequence by cooperative matrices.
//
// in, out: as attention.comp, splits 1, out f32, the cache f16
// A workgroup takes ROWS rows of one query head. Keys go by in blocks: the subgroups share out the scores, q k^T, which
// pass through shared memory, since which element a lane holds is the driver's secret; LANES lanes share a row of them
// and put its weights in their place, as f16; each subgroup adds weights times values to its part of the head. The
// running maximum and the rescaling are those of online softmax (Milakov and Gimelshein 2018; FlashAttention).
// Keys and values are matrices in the pages as they lie. Those behind the newest position were never written: their
// scores are replaced, and the last step of values comes from shared memory, with zeros there, where q was before.
// A row of q is brought into f16's range by a power of two, which its scores then undo; weights are at most 1.
// grid: workgroup x = head, y = tile of ROWS rows.
// constants: 0 local size (1 to 8 ROWS, of whole subgroups), 1 HEAD (even), 2 HEAD_PAD (a multiple of N and K), 3 ROWS
// (a power of two, a multiple of M, at least K), 4 SUBGROUPS (a power of two, at most ROWS / M * KEYS / N), 5 M, 6 N,
// 7 K (they divide KEYS)
// Products of f16, sums in f32. CPU twin: ref_attention.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#include "lib/common.glsl"
#include "lib/half.glsl"
#include "lib/kv.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD = 64;
layout(constant_id = 2) const uint HEAD_PAD = 64;
layout(constant_id = 3) const uint ROWS = 64;
layout(constant_id = 4) const uint SUBGROUPS = 4;
layout(constant_id = 5) const uint M = 16;
layout(constant_id = 6) const uint N = 16;
layout(constant_id = 7) const uint K = 16;
layout(push_constant, std430) uniform Push { attention_push pc; };

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer InMatrix { uvec4 v[]; };

const uint KEYS = 32;                                // of a block; they lie in one page
const uint LANES = gl_WorkGroupSize.x / ROWS;        // of a row
const uint QUADS = KEYS / 4 / LANES;                 // keys of a lane, by four
const uint Q_STRIDE = HEAD_PAD / 8 + 1;              // in 16 bytes, one of them to keep neighbours off its banks
const uint S_STRIDE = KEYS / 2 + 2;                  // in 8 bytes
const uint TILES_M = ROWS / M;
const uint S_TILES = TILES_M * (KEYS / N) / SUBGROUPS; // of a subgroup
const uint HEAD_TILES = HEAD_PAD / N, O_TILES = (HEAD_TILES + SUBGROUPS - 1) / SUBGROUPS;

shared uvec4 q_tile[ROWS * Q_STRIDE];
shared uvec2 tile[ROWS * S_STRIDE]; // scores, f32, then weights, f16
shared float scales[ROWS];
shared uint risen; // the last block, counted from 1, with a new maximum

#define SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
#define LEFT coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
SUMS sums[O_TILES * TILES_M]; // tile gl_SubgroupID + i * SUBGROUPS of the head, all rows

// Over the lanes of a row.
float row_max(float value)
{
    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1) value = max(value, subgroupShuffleXor(value, mask));
    return value;
}

// Takes the lane's part of its row of q, 8 at a time; what undoes its scale.
float stage_q(uint row, uint part, uint q_at)
{
    vec4 top = vec4(0.0);
    [[dont_unroll]] for (uint i = part; i < HEAD_PAD / 4; i += LANES)
        top = max(top, abs(load_vec4(pc.q, q_at + i * 16u)));
    float undo;
    const float scale = half_scale(row_max(max(max(top.x, top.y), max(top.z, top.w))), undo);
    [[dont_unroll]] for (uint i = part; i < HEAD_PAD / 8; i += LANES)
        q_tile[row * Q_STRIDE + i] = uvec4(to_f16(scale * load_vec4(pc.q, q_at + i * 32u)),
                                           to_f16(scale * load_vec4(pc.q, q_at + i * 32u + 16u)));
    return undo;
}

// The subgroup's scores of a block. Neighbouring tiles have the same keys.
void make_scores(InMatrix keys)
{
    const uint first = gl_SubgroupID * S_TILES;
    SUMS scores[S_TILES];
    [[unroll]] for (uint i = 0; i < S_TILES; i++) scores[i] = SUMS(0.0);
    [[dont_unroll]] for (uint k = 0; k < HEAD_PAD; k += K) {
        RIGHT key;
        [[unroll]] for (uint i = 0; i < S_TILES; i++) {
            const uint row = (first + i) % TILES_M * M, col = (first + i) / TILES_M * N;
            if (i % TILES_M == 0)
                coopMatLoad(key, keys.v, (col * HEAD_PAD + k) / 8, HEAD_PAD / 8, gl_CooperativeMatrixLayoutColumnMajor);
            LEFT q;
            coopMatLoad(q, q_tile, row * Q_STRIDE + k / 8, Q_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            scores[i] = coopMatMulAdd(q, key, scores[i]);
        }
    }
    barrier(); // the weights of the block before are read
    [[unroll]] for (uint i = 0; i < S_TILES; i++) {
        const uint row = (first + i) % TILES_M * M, col = (first + i) / TILES_M * N;
        coopMatStore(scores[i], tile, row * S_STRIDE + col / 2, S_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    }
}

// What a lane knows of its row; `total` is of the lane's keys alone.
struct row_sums {
    uint position;
    float undo, highest, total;
};

// The lane's part of its row's scores becomes weights.
void make_weights(uint row, uint part, uint block, inout row_sums r)
{
    const uint at = row * S_STRIDE, first = part * QUADS, window = pc.window;
    vec4 score[QUADS];
    float highest = LOWEST;
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        const uvec2 low = tile[at + (first + i) * 2], high = tile[at + (first + i) * 2 + 1];
        score[i] = uintBitsToFloat(uvec4(low, high));
        [[unroll]] for (uint j = 0; j < 4; j++) {
            const uint key = block * KEYS + (first + i) * 4 + j;
            const bool visible = key <= r.position && (window == 0 || r.position - key < window);
            score[i][j] = visible ? score[i][j] * r.undo : LOWEST;
            highest = max(highest, score[i][j]);
        }
    }
    highest = max(r.highest, row_max(highest));
    const float scale = exp(r.highest - highest);
    if (scale != 1.0) atomicMax(risen, block + 1);
    if (part == 0) scales[row] = scale;
    r.highest = highest;
    r.total *= scale;
    subgroupBarrier(); // all lanes of the row have read it
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        const vec4 weight = exp(score[i] - (highest == LOWEST ? 0.0 : highest)); // 0 in a row that has seen no key yet
        r.total += dot(weight, vec4(1.0));
        tile[at + first + i] = to_f16(weight);
    }
}

// K values of the step where keys end, and zeros behind.
void stage_last_values(uint lane, uint64_t page, uint value_head, uint newest)
{
    const uint step = newest % KV_PAGE_KEYS / K * K;
    [[dont_unroll]] for (uint i = lane; i < K * HEAD_PAD / 8; i += gl_WorkGroupSize.x) {
        const uint key = i / (HEAD_PAD / 8), at = i % (HEAD_PAD / 8);
        q_tile[key * Q_STRIDE + at] = key > newest % K ? uvec4(0)
            : load_uvec4(page, (kv_element(value_head, step + key, HEAD_PAD) + at * 8) * 2u);
    }
}

void scale_sums()
{
    [[unroll]] for (uint m = 0; m < TILES_M; m++) {
        SUMS scale;
        coopMatLoad(scale, scales, m * M, 0, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < O_TILES; i++) sums[i * TILES_M + m] *= scale;
    }
}

// Adds the values of the block's first `keys` keys; an unfinished step of K comes from stage_last_values.
void add_values(InMatrix values, uint keys)
{
    [[dont_unroll]] for (uint key = 0; key < keys; key += K) {
        RIGHT value[O_TILES];
        [[unroll]] for (uint i = 0; i < O_TILES; i++) {
            const uint n = min(gl_SubgroupID + i * SUBGROUPS, HEAD_TILES - 1) * N; // behind the head: not stored
            if (key + K > keys) coopMatLoad(value[i], q_tile, n / 8, Q_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            else coopMatLoad(value[i], values.v, (key * HEAD_PAD + n) / 8, HEAD_PAD / 8,
                             gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint m = 0; m < TILES_M; m++) {
            LEFT weight;
            coopMatLoad(weight, tile, m * M * S_STRIDE + key / 4, S_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0; i < O_TILES; i++)
                sums[i * TILES_M + m] = coopMatMulAdd(weight, value[i], sums[i * TILES_M + m]);
        }
    }
}

// M x N results at a time, rolled, which keeps it short; the matrices are named one by one, since one picked by a
// variable would have to lie in memory.
void store_sums(uint head, uint first_row, uint last_row)
{
    const uint at = gl_SubgroupID * M * N / 2;
    [[dont_unroll]] for (uint i = 0; i < O_TILES * TILES_M; i++) {
        [[unroll]] for (uint k = 0; k < O_TILES * TILES_M; k++)
            if (k == i) coopMatStore(sums[k], tile, at, N / 2, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        const uint row = first_row + i % TILES_M * M, dim = (gl_SubgroupID + i / TILES_M * SUBGROUPS) * N;
        [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N / 2; e += gl_SubgroupSize) {
            const uint r = row + e / (N / 2), d = dim + e % (N / 2) * 2;
            if (r <= last_row && d < HEAD)
                OutVec2(pc.out_ + (r * pc.out_stride + head * HEAD + d) * 4u).v = uintBitsToFloat(tile[at + e]);
        }
        subgroupBarrier();
    }
}

void main()
{
    const uint lane = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint row = lane / LANES, part = lane % LANES; // of the tile, of the row
    const uint head = gl_WorkGroupID.x, kv_head = head / (pc.n_head / pc.n_head_kv);
    const uint value_head = pc.n_head_kv + kv_head;
    const uint first_row = gl_WorkGroupID.y * ROWS, last_row = min(first_row + ROWS, pc.rows) - 1;
    const uint first_position = load_row(pc.state, first_row).position;
    const row_state newest = load_row(pc.state, last_row);
    const uint oldest = pc.window == 0 || first_position < pc.window ? 0u : first_position + 1 - pc.window;

    const uint my_row = min(first_row + row, last_row);
    row_sums r = row_sums(load_row(pc.state, my_row).position, 0.0, LOWEST, 0.0);
    r.undo = stage_q(row, part, (my_row * pc.q_stride + head * HEAD_PAD) * 4u);
    if (lane == 0) risen = 0;
    [[unroll]] for (uint i = 0; i < O_TILES * TILES_M; i++) sums[i] = SUMS(0.0);
    barrier();

    for (uint block = oldest / KEYS; block <= newest.position / KEYS; block++) {
        const uint in_page = block * KEYS % KV_PAGE_KEYS, keys = min(KEYS, newest.position + 1 - block * KEYS);
        const uint64_t page = InAddress(newest.pages + (block * KEYS / KV_PAGE_KEYS) * 8u).v + pc.page_layer;
        make_scores(InMatrix(page + kv_element(kv_head, in_page, HEAD_PAD) * 2u));
        barrier();
        make_weights(row, part, block, r);
        if (keys % K != 0) stage_last_values(lane, page, value_head, newest.position);
        barrier();
        if (risen == block + 1) scale_sums();
        add_values(InMatrix(page + kv_element(value_head, in_page, HEAD_PAD) * 2u), keys);
    }

    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1) r.total += subgroupShuffleXor(r.total, mask);
    barrier();
    if (part == 0) scales[row] = 1.0 / r.total;
    barrier();
    scale_sums();
    store_sums(head, first_row, last_row);
}
