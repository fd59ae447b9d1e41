// matvec.glsl - y = W x for one to eight columns, with what comes before and after: decode in five dispatches a layer.
//
// x is gain * (residual stream), so that RMSNorm needs no dispatch of its own: the sums are multiplied with
// 1 / rms, made from the sums of squares that x's maker left. One subgroup makes one block of 32 rows:
// LANES lanes share ROWS rows and stride over the units, so LANES = subgroup * ROWS / 32. PARTS subgroups
// of a workgroup share a block where a device has more subgroups than blocks: they cut the units, sum up
// through shared memory, and share the columns of the epilogue. Where heads are normed a workgroup makes the
// HEAD_BLOCKS blocks of one head. With PARTS 1 and no such norm there is neither shared memory nor barrier.
// Weights are read once for COLS columns; each column's sums are added in the same order as alone.
//
// EPILOGUE  QKV     rows are q, k and v heads, rotary pairs neighbours: q and k normed where HEAD_BLOCKS is not 0,
//                   q rotated, scaled, to y; k and v to the cache
//           ADD     y (the residual stream) += sums; next = gain * y, next_squares = its squares by block
//           GATE    next = act(sums of weights) * sums of the second matrix
//           LOGITS  y = sums; next = (largest, its id) of each block, lowest id on ties; a sum that is no finite
//                   number counts as infinite
//           BRANCH  y = sums, next_squares = its squares by block: for join.comp
// in:  weights [rows] planes, x and state and table and bias and gain, read
// out: as above; what the next matvec reads in the form NEXT (lib/quantize.glsl; next of LOGITS: uvec2 [blocks])
// grid: workgroup x = COLS columns, y = max(1, HEAD_BLOCKS) blocks: neighbours read the same weights.
// constants: 0 local size, 1 ROWS, 2 LANES, 3 PARTS, 4 EPILOGUE, 5 NEXT, 6 GELU, 7 HEAD, 8 HEAD_PAD, 9 N_HEAD,
// 10 N_HEAD_KV, 11 N_ROT, 12 KV_F32, 13 COLS, 14 HEAD_BLOCKS, 15 SOFTWARE, 16 FORM of x. The subgroup's size is required.
// Sums in f32. CPU twin: ref_matmul, ref_norm, ref_rope, ref_quantize in turn.
#include "lib/common.glsl"
#include "lib/activate.glsl"
#include "lib/kv.glsl"
#include "lib/quantize.glsl"
#ifdef INT8_ACTIVATIONS
#include "lib/dot.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint LANES = 1;
layout(constant_id = 3) const uint PARTS = 1;
layout(constant_id = 4) const uint EPILOGUE = 0;
layout(constant_id = 5) const uint NEXT = FORM_F32;
layout(constant_id = 6) const bool GELU = false;
layout(constant_id = 7) const uint HEAD = 64;
layout(constant_id = 8) const uint HEAD_PAD = 64;
layout(constant_id = 9) const uint N_HEAD = 1;
layout(constant_id = 10) const uint N_HEAD_KV = 1;
layout(constant_id = 11) const uint N_ROT = 64;
layout(constant_id = 12) const bool KV_F32 = false;
layout(constant_id = 13) const uint COLS = 1;
layout(constant_id = 14) const uint HEAD_BLOCKS = 0;
layout(constant_id = 15) const bool SOFTWARE = false;
layout(constant_id = 16) const uint FORM = FORM_F32;
layout(push_constant, std430) uniform Push { matvec_push pc; };
#include "lib/weights.glsl"

const uint QKV = 0, ADD = 1, GATE = 2, LOGITS = 3, BRANCH = 4;
const uint BLOCK = 32;
const uint SUBGROUP = LANES * BLOCK / ROWS; // invocations
const uint SUMS = COLS * ROWS; // of a lane, column by column
const uint ROUNDS = (COLS + PARTS - 1) / PARTS; // of the columns, PARTS at a time
const uint SUBGROUPS = (HEAD_BLOCKS == 0 ? 1 : HEAD_BLOCKS) * PARTS;
const uint PARTS_SIZE = SUBGROUPS * COLS * BLOCK;
shared float parts[PARTS == 1 ? 1 : EPILOGUE == GATE ? 2 * PARTS_SIZE : PARTS_SIZE];
shared float head_squares[HEAD_BLOCKS == 0 ? 1 : HEAD_BLOCKS * COLS];

// Where the workgroup's columns lie; those past the last are the last once more. Copies, as in weights.glsl.
uint64_t x_base;
uint x_at[COLS], last_row;

void open_columns()
{
    x_base = pc.x;
    last_row = pc.rows - 1;
    [[unroll]] for (uint c = 0; c < COLS; c++)
        x_at[c] = min(gl_WorkGroupID.x * COLS + c, pc.cols - 1) * pc.units * 32u * pitch_of(FORM);
}

// Adds the products of one unit, its rows ROWS from `row` on.
#ifdef INT8_ACTIVATIONS
struct column_unit {
    uvec4 a, b;
    vec2 scale;
};

column_unit load_column(uint c, uint unit)
{
    const uint at = x_at[c] + unit * 32u;
    return column_unit(load_uvec4(x_base, at), load_uvec4(x_base, at + 16u),
                       load_vec2(x_base, x_at[c] + weight_units * 32u + unit * 8u));
}

int dot_of(uvec4 weights, uvec4 x)
{
#ifdef SIGNED_QUANTS
    if (SOFTWARE) return dot16_unsigned(x, weights);
#endif
    return dot16(weights, x);
}

float scaled(float products, vec3 scale, vec2 x_scale)
{
    return fma(products, x_scale.x, scale.z * x_scale.y);
}

float product(uvec4 a, uvec4 b, vec3 scale, column_unit x)
{
#ifdef TWO_SCALES
    const float products = fma(scale.x, float(dot_of(a, x.a)), scale.y * float(dot_of(b, x.b)));
#else
    const float products = scale.x * float(dot_of(a, x.a) + dot_of(b, x.b));
#endif
    return scaled(products, scale, x.scale);
}

// The same of FORM_SPREAD: sums of 32 products of bytes, exact in f32 as well. A compiler for CPUs multiplies a value
// that it broadcasts from memory, and has no byte to unpack.
void add_spread(uint unit, uvec4 a[ROWS], uvec4 b[ROWS], vec3 scale[ROWS], inout float sums[SUMS])
{
    float products[SUMS], of_a[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; i++) products[i] = 0.0;
    [[unroll]] for (uint i = 0; i < 8; i++) {
#ifdef TWO_SCALES
        if (i == 4)
            [[unroll]] for (uint s = 0; s < SUMS; s++) {
                of_a[s] = products[s];
                products[s] = 0.0;
            }
#endif
        vec4 w[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) w[r] = quants_to_vec4(i < 4 ? a[r][i] : b[r][i - 4]);
        [[unroll]] for (uint c = 0; c < COLS; c++) {
            const vec4 x = load_vec4(x_base, x_at[c] + unit * 128u + i * 16u);
            [[unroll]] for (uint r = 0; r < ROWS; r++) products[c * ROWS + r] += dot(w[r], x);
        }
    }
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        const vec2 x_scale = load_vec2(x_base, x_at[c] + scales_of(FORM, weight_units * 32u) + unit * 8u);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint s = c * ROWS + r;
#ifdef TWO_SCALES
            sums[s] += scaled(fma(scale[r].x, of_a[s], scale[r].y * products[s]), scale[r], x_scale);
#else
            sums[s] += scaled(scale[r].x * products[s], scale[r], x_scale);
#endif
        }
    }
}

void add_unit(uint row, uint unit, inout float sums[SUMS])
{
    uvec4 a[ROWS], b[ROWS];
    vec3 scale[ROWS];
    // One column of bytes: the rows' weights are not held, as registers are few. A CPU waits less for them all at once.
    if (COLS == 1 && FORM == FORM_INT8 && !SOFTWARE) {
        const column_unit x = load_column(0, unit);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            load_quants(min(row + r, last_row), unit, a[0], b[0], scale[0]);
            sums[r] += product(a[0], b[0], scale[0], x);
        }
        return;
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) load_quants(min(row + r, last_row), unit, a[r], b[r], scale[r]);
    if (FORM == FORM_SPREAD) {
        add_spread(unit, a, b, scale, sums);
        return;
    }
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        const column_unit x = load_column(c, unit);
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[c * ROWS + r] += product(a[r], b[r], scale[r], x);
    }
}
#else
void add_unit(uint row, uint unit, inout float sums[SUMS])
{
#ifdef QUANTS
    uvec4 a[ROWS], b[ROWS];
    vec3 scale[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) load_quants(min(row + r, last_row), unit, a[r], b[r], scale[r]);
#endif
    [[unroll]] for (uint i = 0; i < 4; i++) { // eight weights of a row at a time
        vec4 x[2 * COLS];
        [[unroll]] for (uint c = 0; c < 2 * COLS; c++)
            x[c] = load_vec4(x_base, x_at[c / 2] + unit * 128u + i * 32u + c % 2 * 16u);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            vec4 low, high;
#ifdef QUANTS
            octet_of(a[r], b[r], scale[r], i, low, high);
#else
            load_octet(min(row + r, last_row), unit, i, low, high);
#endif
            [[unroll]] for (uint c = 0; c < COLS; c++)
                sums[c * ROWS + r] = sums[c * ROWS + r] + dot(low, x[2 * c]) + dot(high, x[2 * c + 1]);
        }
    }
}
#endif

// The sums over all units of a part, the same in all lanes of a cluster.
void sum_rows(uint64_t weights, uint row, uint lane, uint part, out float sums[SUMS])
{
    open_weights(weights);
    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = 0.0;
    // The last unit at most: see lib/matmul.glsl.
    for (uint unit = part * LANES + lane; unit < weight_units; unit += LANES * PARTS)
        add_unit(row, min(unit, weight_units - 1), sums);
    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1)
        [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] += subgroupShuffleXor(sums[i], mask);
}

// Where the sums of a subgroup's column lie in `parts`.
uint part_at(uint subgroup, uint c, uint cluster)
{
    return (subgroup * COLS + c) * BLOCK + cluster * ROWS;
}

void share(uint table, uint subgroup, uint cluster, float sums[SUMS])
{
    [[unroll]] for (uint i = 0; i < SUMS; i++)
        parts[table * PARTS_SIZE + part_at(subgroup, i / ROWS, cluster) + i % ROWS] = sums[i];
}

// The sums of the next column of a subgroup: of the workgroup's parts, or those at the front of `sums`, which
// go to the back, so that no register is found by a number that varies.
void take(uint table, uint subgroup, uint c, uint cluster, inout float sums[SUMS], out float taken[ROWS])
{
    if (PARTS == 1) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) taken[r] = sums[r];
        [[unroll]] for (uint i = 0; i < SUMS - ROWS; i++) sums[i] = sums[i + ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[SUMS - ROWS + r] = taken[r];
        return;
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) taken[r] = 0.0;
    const uint first = subgroup / PARTS * PARTS;
    for (uint p = 0; p < PARTS; p++)
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            taken[r] += parts[table * PARTS_SIZE + part_at(first + p, c, cluster) + r];
}

// Over the subgroup, the same in all its lanes. Software Vulkan makes the built-in ones lane by lane.
float add_all(float value)
{
    if (!SOFTWARE) return subgroupAdd(value);
    [[unroll]] for (uint mask = 1; mask < SUBGROUP; mask <<= 1) value += subgroupShuffleXor(value, mask);
    return value;
}

int add_all(int value)
{
    if (!SOFTWARE) return subgroupAdd(value);
    [[unroll]] for (uint mask = 1; mask < SUBGROUP; mask <<= 1) value += subgroupShuffleXor(value, mask);
    return value;
}

float max_all(float value)
{
    if (!SOFTWARE) return subgroupMax(value);
    [[unroll]] for (uint mask = 1; mask < SUBGROUP; mask <<= 1) value = max(value, subgroupShuffleXor(value, mask));
    return value;
}

// 1 / rms of a column of the residual stream.
float inverse_rms(uint column)
{
    if (pc.squares == 0) return 1.0;
    float sum = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < pc.units; i += gl_SubgroupSize)
        sum += load_float(pc.squares, (column * pc.units + i) * 4u);
    return 1.0 / sqrt(add_all(sum) / float(pc.units * 32u) + pc.epsilon);
}

void scale_and_bias(uint row, float inverse, uint64_t bias, inout float sums[ROWS])
{
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        sums[r] *= inverse;
        if (bias != 0) sums[r] += load_float(bias, min(row + r, pc.first + pc.rows - 1) * 4u);
    }
}

float squares_of(bool writes, float values[ROWS])
{
    float squares = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) squares = fma(values[r], values[r], squares);
    return add_all(writes ? squares : 0.0);
}

// The block as the next matvec reads it. One lane of each cluster writes.
void leave(uint column, uint row, bool writes, float values[ROWS])
{
    const uint64_t next = pc.next + column * pc.place * pitch_of(NEXT);
    if (NEXT == FORM_F32) {
        if (writes)
            [[unroll]] for (uint r = 0; r < ROWS; r++) store_float(next, (row + r) * 4u, values[r]);
        return;
    }
    float largest = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) largest = max(largest, abs(values[r]));
    largest = max_all(largest);
    const float inverse = largest > 0.0 ? 127.0 / largest : 0.0;
    int sum = 0;
    [[unroll]] for (uint i = 0; i < ROWS / 4; i++) {
        const vec4 four = vec4(values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]);
        const ivec4 q = quants_of(four, inverse, sum);
        if (writes) store_quants(next, row + 4u * i, NEXT, q);
    }
    sum = add_all(writes ? sum : 0);
    const float d = largest / 127.0;
    if (subgroupElect()) OutVec2(next + scales_of(NEXT, pc.place) + (row / BLOCK) * 8u).v = vec2(d, d * float(sum));
}

// inverse_head: 1 / rms of the head.
void finish_qkv(uint column, uint row, bool writes, float inverse_head, float sums[ROWS])
{
    const uint head = row / HEAD, at = row % HEAD; // ROWS divides HEAD: all rows are of one head
    const row_state state = load_row(pc.state, column);
    const uint64_t norm = head < N_HEAD ? pc.gain : pc.second;
    [[unroll]] for (uint r = 0; r < ROWS; r += 2) {
        vec2 x = vec2(sums[r], sums[r + 1]);
        if (head < N_HEAD + N_HEAD_KV) {
            if (HEAD_BLOCKS != 0) x *= inverse_head * load_vec2(norm, (at + r) * 4u);
            if (at + r < N_ROT) x = rotate(x, rotation(pc.table, N_ROT, state.position, (at + r) / 2));
        }
        if (!writes) continue;
        if (head < N_HEAD) OutVec2(pc.y + ((column * N_HEAD + head) * HEAD_PAD + at + r) * 4u).v = x * pc.q_scale;
        else
            store_kv(kv_page(state, pc.place), KV_F32, HEAD_PAD, head - N_HEAD, state.position % KV_PAGE_KEYS, at + r, x);
    }
}

void finish_branch(uint column, uint row, bool writes, inout float sums[ROWS])
{
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint at = (column * pc.place + row + r) * 4u;
        if (EPILOGUE == ADD) sums[r] += load_float(pc.y, at);
        if (writes) store_float(pc.y, at, sums[r]);
    }
    const float squares = squares_of(writes, sums);
    if (subgroupElect()) store_float(pc.next_squares, (column * pc.place + row) / BLOCK * 4u, squares);
}

void finish_add(uint column, uint row, bool writes, float sums[ROWS])
{
    finish_branch(column, row, writes, sums);
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] *= load_float(pc.gain, (row + r) * 4u);
    leave(column, row, writes, sums);
}

void finish_logits(uint column, uint row, bool writes, float sums[ROWS])
{
    float best = LOWEST;
    uint id = ~0u;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (row + r >= pc.first + pc.rows) continue;
        if (writes) store_float(pc.y, (column * pc.place + row + r) * 4u, sums[r]);
        const float value = is_finite(sums[r]) ? sums[r] : INFINITY;
        if (value > best) {
            best = value;
            id = row + r;
        }
    }
    const float highest = max_all(best);
    const uint lowest = subgroupMin(best == highest ? id : ~0u);
    if (pc.next != 0 && subgroupElect())
        OutUvec2(pc.next + (column * pc.place + row) / BLOCK * 8u).v = uvec2(floatBitsToUint(highest), lowest);
}

void main()
{
    const uint subgroup = SUBGROUPS == 1 ? 0u : gl_SubgroupID, part = subgroup % PARTS;
    const uint cluster = gl_SubgroupInvocationID / LANES, lane = gl_SubgroupInvocationID % LANES;
    const uint block = gl_WorkGroupID.y * (SUBGROUPS / PARTS) + subgroup / PARTS;
    const uint in_planes = block * BLOCK + cluster * ROWS, row = pc.first + in_planes;
    const uint first = gl_WorkGroupID.x * COLS, cols = min(COLS, pc.cols - first);
    const bool writes = lane == 0;
    float sums[SUMS], up[SUMS], taken[ROWS], taken_up[ROWS];
    open_columns();
    sum_rows(pc.weights, in_planes, lane, part, sums);
    if (PARTS > 1 && writes) share(0, subgroup, cluster, sums);
    if (EPILOGUE == GATE) {
        sum_rows(pc.second, in_planes, lane, part, up);
        if (PARTS > 1 && writes) share(1, subgroup, cluster, up);
    }
    if (PARTS > 1) barrier();
    if (HEAD_BLOCKS != 0) {
        for (uint i = 0; i < ROUNDS; i++) {
            const uint c = part + i * PARTS;
            if (c >= COLS) break;
            take(0, subgroup, c, cluster, sums, taken);
            scale_and_bias(row, inverse_rms(min(first + c, pc.cols - 1)), pc.bias, taken);
            const float squares = squares_of(writes, taken);
            if (subgroupElect()) head_squares[subgroup / PARTS * COLS + c] = squares;
        }
        barrier();
    }
    for (uint i = 0; i < ROUNDS; i++) {
        const uint c = part + i * PARTS, column = first + c;
        if (c >= cols) break;
        const float inverse = inverse_rms(column);
        take(0, subgroup, c, cluster, sums, taken);
        scale_and_bias(row, inverse, pc.bias, taken);
        if (EPILOGUE == QKV) {
            float squares = 0.0;
            for (uint b = 0; b < HEAD_BLOCKS; b++) squares += head_squares[b * COLS + c];
            finish_qkv(column, row, writes, 1.0 / sqrt(squares / float(HEAD) + pc.epsilon), taken);
        }
        if (EPILOGUE == ADD) finish_add(column, row, writes, taken);
        if (EPILOGUE == GATE) {
            take(1, subgroup, c, cluster, up, taken_up);
            scale_and_bias(row, inverse, pc.gain, taken_up);
            [[unroll]] for (uint r = 0; r < ROWS; r++) taken[r] = activate(taken[r], GELU) * taken_up[r];
            leave(column, row, writes, taken);
        }
        if (EPILOGUE == LOGITS) finish_logits(column, row, writes, taken);
        if (EPILOGUE == BRANCH) finish_branch(column, row, writes, taken);
    }
}
