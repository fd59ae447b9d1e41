// matmul.glsl - y = W x for one column (decode) or many (prefill), weights of any format.
//
// Arguments: lib/product.glsl.
// A group of LANES neighbouring invocations shares ROWS rows and COLS columns: its lanes stride over
// the units and sum up at the end. LANES 1 is a row a lane: no exchange at all.
// grid: workgroup x = local size / LANES * ROWS rows, y = COLS columns.
// constants: 0 local size, 1 ROWS, 2 LANES (power of two, at most the subgroup), 3 COLS
// Sums in f32 (of a block of 32 products of bytes: int32, exact). CPU twin: ref_matmul.
#include "lib/product.glsl"
#ifdef INT8_ACTIVATIONS
#include "lib/dot.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint LANES = 1;
layout(constant_id = 3) const uint COLS = 1;

float sum_over_lanes(float value)
{
    [[unroll]] for (uint mask = 1; mask < LANES; mask <<= 1) value += subgroupShuffleXor(value, mask);
    return value;
}

float sums[ROWS * COLS];
// What the loop needs of the push constants. Copies, as in weights.glsl.
uint64_t x_base;
uint x_at[COLS];

#ifdef INT8_ACTIVATIONS
// The products of one unit: bytes of all rows stay in registers while the columns go by.
void add_unit(uint first_row, uint first_col, uint unit)
{
    uvec4 a[ROWS], b[ROWS];
    vec3 scale[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        load_quants(weights_row(first_row + r), unit, a[r], b[r], scale[r]);
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        uvec4 xa, xb;
        vec2 x_scale;
        load_block(first_col + c, unit, xa, xb, x_scale);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
#ifdef TWO_SCALES
            const float products = scale[r].x * float(dot16(a[r], xa)) + scale[r].y * float(dot16(b[r], xb));
#else
            const float products = scale[r].x * float(dot16(a[r], xa) + dot16(b[r], xb));
#endif
            sums[r * COLS + c] += fma(products, x_scale.x, scale[r].z * x_scale.y);
        }
    }
}
#else
// The products of one unit, eight weights of a row at a time: they stay in registers while the columns go by.
void add_unit(uint first_row, uint first_col, uint unit)
{
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint row = weights_row(first_row + r);
#ifdef QUANTS
        uvec4 a, b;
        vec3 scale;
        load_quants(row, unit, a, b, scale);
#endif
        [[unroll]] for (uint i = 0; i < 4; i++) {
            vec4 low, high;
#ifdef QUANTS
            octet_of(a, b, scale, i, low, high);
#else
            load_octet(row, unit, i, low, high);
#endif
            [[unroll]] for (uint c = 0; c < COLS; c++) {
                const uint at = x_at[c] + unit * 128u + i * 32u;
                sums[r * COLS + c] += dot(low, load_vec4(x_base, at)) + dot(high, load_vec4(x_base, at + 16u));
            }
        }
    }
}
#endif

void main()
{
    open_product();
    // Where lanes exchange, they must be neighbours in a subgroup, whatever the driver's numbering.
    const uint invocation = LANES == 1 ? gl_LocalInvocationID.x : gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint group = (gl_WorkGroupID.x * gl_WorkGroupSize.x + invocation) / LANES;
    const uint lane = LANES == 1 ? 0u : invocation % LANES;
    const uint first_row = group * ROWS, first_col = gl_WorkGroupID.y * COLS;
    x_base = pc.x;
    [[unroll]] for (uint c = 0; c < COLS; c++) x_at[c] = min(first_col + c, pc.cols - 1) * pc.x_stride * 4u;
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) sums[i] = 0.0;
    // Software Vulkan runs through a loop's end with no lane left, and reads what is the same for all lanes all the same.
    for (uint unit = lane; unit < weight_units; unit += LANES) add_unit(first_row, first_col, min(unit, weight_units - 1));
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        const float sum = sum_over_lanes(sums[i]);
        if (lane == 0) store(first_row + i / COLS, first_col + i % COLS, sum);
    }
}
