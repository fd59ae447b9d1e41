// matvec.glsl - y = W x for one column, with what comes before and after: the decode step in five dispatches a layer.
//
// x is gain * (residual stream), so that RMSNorm needs no dispatch of its own: the sums are multiplied with
// 1 / rms, made from the sums of squares that x's maker left. One subgroup makes one block of 32 rows:
// LANES lanes share ROWS rows and stride over the units, so LANES = subgroup * ROWS / 32. PARTS subgroups
// of a workgroup share a block where a device has more subgroups than blocks: they cut the units and sum up
// through shared memory; PARTS 1 has neither shared memory nor barrier.
//
// EPILOGUE  QKV     rows are q, k and v heads, rotary pairs neighbours: q rotated, scaled, to y; k and v to the cache
//           ADD     y (the residual stream) += sums; next = gain * y, next_squares = its squares by block
//           GATE    next = act(sums of weights) * sums of weights2
//           LOGITS  y = sums; next = (largest, its id) of each block, lowest id on ties
// in:  weights [rows] planes, x and state and table and bias and gain, read
// out: as above; what the next matvec reads is int8 where NEXT_INT8, else f32 (next of LOGITS: uvec2)
// grid: workgroup x = subgroups of a workgroup / PARTS blocks.
// constants: 0 local size, 1 ROWS, 2 LANES, 3 PARTS, 4 EPILOGUE, 5 NEXT_INT8, 6 GELU, 7 HEAD, 8 HEAD_PAD, 9 N_HEAD,
// 10 N_HEAD_KV, 11 N_ROT, 12 KV_F32. The subgroup's size is required of the pipeline.
// Sums in f32. CPU twin: ref_matmul, ref_norm, ref_rope, ref_quantize in turn.
#include "lib/common.glsl"
#include "lib/activate.glsl"
#include "lib/kv.glsl"
#ifdef INT8_ACTIVATIONS
#include "lib/dot.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint LANES = 1;
layout(constant_id = 3) const uint PARTS = 1;
layout(constant_id = 4) const uint EPILOGUE = 0;
layout(constant_id = 5) const bool NEXT_INT8 = false;
layout(constant_id = 6) const bool GELU = false;
layout(constant_id = 7) const uint HEAD = 64;
layout(constant_id = 8) const uint HEAD_PAD = 64;
layout(constant_id = 9) const uint N_HEAD = 1;
layout(constant_id = 10) const uint N_HEAD_KV = 1;
layout(constant_id = 11) const uint N_ROT = 64;
layout(constant_id = 12) const bool KV_F32 = false;
layout(push_constant, std430) uniform Push { matvec_push pc; };
#include "lib/weights.glsl"

const uint QKV = 0, ADD = 1, GATE = 2, LOGITS = 3;
const uint BLOCK = 32;
shared float parts[PARTS * BLOCK];

#ifdef INT8_ACTIVATIONS
// Adds the products of one unit, its rows ROWS from `row` on.
void add_unit(uint row, uint unit, inout float sums[ROWS])
{
    const uvec4 xa = load_uvec4(pc.x, unit * 32u), xb = load_uvec4(pc.x, unit * 32u + 16u);
    const vec2 x_scale = load_vec2(pc.x, pc.units * 32u + unit * 8u);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uvec4 a, b;
        vec3 scale;
        load_quants(pc.row0 + min(row + r, pc.rows - 1), unit, a, b, scale);
#ifdef TWO_SCALES
        const float products = scale.x * float(dot16(a, xa)) + scale.y * float(dot16(b, xb));
#else
        const float products = scale.x * float(dot16(a, xa) + dot16(b, xb));
#endif
        sums[r] += fma(products, x_scale.x, scale.z * x_scale.y);
    }
}
#else
void add_unit(uint row, uint unit, inout float sums[ROWS])
{
    vec4 x[8];
    [[unroll]] for (uint i = 0; i < 8; i++) x[i] = load_vec4(pc.x, unit * 128u + i * 16u);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        vec4 w[8];
        load_unit(pc.row0 + min(row + r, pc.rows - 1), unit, w);
        [[unroll]] for (uint i = 0; i < 8; i++) sums[r] += dot(w[i], x[i]);
    }
}
#endif

// The sums over all units, the same in all lanes of a cluster (PARTS 1) or in the first part's.
void sum_rows(uint64_t weights, uint row, uint lane, uint part, uint cluster, out float sums[ROWS])
{
    open_weights(weights);
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = 0.0;
    for (uint unit = part * LANES + lane; unit < pc.units; unit += LANES * PARTS) add_unit(row, unit, sums);
    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1)
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] += subgroupShuffleXor(sums[r], mask);
    if (PARTS == 1) return;
    barrier(); // of an earlier use
    if (lane == 0)
        [[unroll]] for (uint r = 0; r < ROWS; r++) parts[part * BLOCK + cluster * ROWS + r] = sums[r];
    barrier();
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = 0.0;
    for (uint p = 0; p < PARTS; p++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] += parts[p * BLOCK + cluster * ROWS + r];
}

// 1 / rms of the residual stream.
float inverse_rms()
{
    if (pc.squares == 0) return 1.0;
    float sum = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < pc.units; i += gl_SubgroupSize) sum += load_float(pc.squares, i * 4u);
    return 1.0 / sqrt(subgroupAdd(sum) / float(pc.units * 32u) + pc.epsilon);
}

// The block as the next matvec reads it. One lane of each cluster writes.
void leave(uint row, bool writes, float values[ROWS])
{
    if (!NEXT_INT8) {
        if (writes)
            [[unroll]] for (uint r = 0; r < ROWS; r++) store_float(pc.next, (row + r) * 4u, values[r]);
        return;
    }
    float largest = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) largest = max(largest, abs(values[r]));
    largest = subgroupMax(largest);
    const float inverse = largest > 0.0 ? 127.0 / largest : 0.0;
    int sum = 0;
    [[unroll]] for (uint i = 0; i < ROWS / 4; i++) {
        const ivec4 q = ivec4(roundEven(vec4(values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]) * inverse));
        sum += q.x + q.y + q.z + q.w;
        const uint packed = uint(q.x & 0xff) | uint(q.y & 0xff) << 8 | uint(q.z & 0xff) << 16 | uint(q.w & 0xff) << 24;
        if (writes) OutUint(pc.next + row + 4u * i).v = packed;
    }
    sum = subgroupAdd(writes ? sum : 0);
    const float d = largest / 127.0;
    if (subgroupElect()) OutVec2(pc.next + pc.place + (row / BLOCK) * 8u).v = vec2(d, d * float(sum));
}

void finish_qkv(uint row, bool writes, float sums[ROWS])
{
    const uint head = row / HEAD, at = row % HEAD; // ROWS divides HEAD: all rows are of one head
    const row_state state = load_row(pc.state, 0);
    [[unroll]] for (uint r = 0; r < ROWS; r += 2) {
        vec2 x = vec2(sums[r], sums[r + 1]);
        if (head < N_HEAD + N_HEAD_KV && at + r < N_ROT)
            x = rotate(x, rotation(pc.table, N_ROT, state.position, (at + r) / 2));
        if (!writes) continue;
        if (head < N_HEAD) OutVec2(pc.y + (head * HEAD_PAD + at + r) * 4u).v = x * pc.q_scale;
        else store_kv(kv_page(state, pc.place), KV_F32, HEAD_PAD, head - N_HEAD, state.position % KV_PAGE_KEYS, at + r, x);
    }
}

void finish_add(uint row, bool writes, float sums[ROWS])
{
    float squares = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const float x = load_float(pc.y, (row + r) * 4u) + sums[r];
        if (writes) store_float(pc.y, (row + r) * 4u, x);
        squares = fma(x, x, squares);
        sums[r] = x * load_float(pc.gain, (row + r) * 4u);
    }
    squares = subgroupAdd(writes ? squares : 0.0);
    if (subgroupElect()) store_float(pc.next_squares, (row / BLOCK) * 4u, squares);
    leave(row, writes, sums);
}

void finish_logits(uint row, bool writes, float sums[ROWS])
{
    float best = LOWEST;
    uint id = ~0u;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (row + r >= pc.first + pc.rows) continue;
        if (writes) store_float(pc.y, (row + r) * 4u, sums[r]);
        if (sums[r] > best) {
            best = sums[r];
            id = row + r;
        }
    }
    const float highest = subgroupMax(best);
    const uint lowest = subgroupMin(best == highest ? id : ~0u);
    if (pc.next != 0 && subgroupElect()) OutUvec2(pc.next + (row / BLOCK) * 8u).v = uvec2(floatBitsToUint(highest), lowest);
}

void main()
{
    const uint cluster = gl_SubgroupInvocationID / LANES, lane = gl_SubgroupInvocationID % LANES;
    const uint part = PARTS == 1 ? 0u : gl_SubgroupID;
    const uint block = PARTS == 1 ? gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID : gl_WorkGroupID.x;
    if (block * BLOCK >= pc.rows) return;
    const uint in_planes = block * BLOCK + cluster * ROWS, row = pc.first + in_planes;
    const float inverse = inverse_rms();
    float sums[ROWS], up[ROWS];
    sum_rows(pc.weights, in_planes, lane, part, cluster, sums);
    if (EPILOGUE == GATE) sum_rows(pc.weights2, in_planes, lane, part, cluster, up);
    if (part != 0) return;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        sums[r] *= inverse;
        if (pc.bias != 0) sums[r] += load_float(pc.bias, min(row + r, pc.first + pc.rows - 1) * 4u);
        if (EPILOGUE == GATE) sums[r] = activate(sums[r], GELU) * up[r] * inverse;
    }
    const bool writes = lane == 0;
    if (EPILOGUE == QKV) finish_qkv(row, writes, sums);
    if (EPILOGUE == ADD) finish_add(row, writes, sums);
    if (EPILOGUE == GATE) leave(row, writes, sums);
    if (EPILOGUE == LOGITS) finish_logits(row, writes, sums);
}
