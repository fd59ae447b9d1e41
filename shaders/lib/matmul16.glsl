// matmul16.glsl - y = W x for many columns on software Vulkan, weights of a quantised format, activations as int16.
//
// Arguments: lib/product.glsl, but x is [cols][x_stride] int16, as quantize.comp makes them with WIDE. A CPU
// multiplies 16 bits as fast as 8, and there is no packed dot product to gain from: the finer steps cost nothing.
// An invocation makes ROWS rows of COLS columns. Every value of x is read by itself, which is one load that extends
// its sign, and serves all rows at once; what an instruction multiplies is known to fit 16 bits.
// grid: workgroup x = local size * ROWS rows, y = COLS columns.
// constants: 0 local size, 1 ROWS, 2 COLS
// Sums of half a block of 32 in int32, exact (255 * 32767 * 16 < 2^31), then f32. CPU twin: ref_matmul.
#include "lib/product.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 2;
layout(constant_id = 2) const uint COLS = 8;

float sums[ROWS * COLS];

int byte_of(uvec4 bytes, uint i) { return int(bitfieldExtract(bytes[i / 4], int(i % 4 * 8), 8)); }

// The products of one unit: its bytes stay in registers while the columns go by.
void add_unit(uint rows[ROWS], uint cols[COLS], uint unit, uint64_t x, uint64_t x_scales)
{
    uvec4 a[ROWS], b[ROWS];
    vec3 scale[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        load_quants(rows[r], unit, a[r], b[r], scale[r]);
#ifdef SIGNED_QUANTS
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        a[r] ^= 0x80808080u; // b + 128, without a sign
        b[r] ^= 0x80808080u;
    }
#endif
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        const uint at = cols[c] + unit * 32u;
        const uint64_t block = x + at * 2u;
        const vec4 x_scale = load_vec4(x_scales, at / 2u);
        int low[ROWS], high[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) low[r] = high[r] = 0;
        [[unroll]] for (uint i = 0; i < 16; i++) {
            const int xa = load_short(block, i * 2), xb = load_short(block, 32 + i * 2);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                low[r] += byte_of(a[r], i) * xa;
                high[r] += byte_of(b[r], i) * xb;
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
#ifdef TWO_SCALES
            const float products = scale[r].x * float(low[r]) + scale[r].y * float(high[r]);
#else
            const float products = scale[r].x * float(low[r] + high[r]);
#endif
#if defined(SIGNED_QUANTS) && defined(TWO_SCALES)
            const float rest = -128.0 * (scale[r].x * (x_scale.y - x_scale.z) + scale[r].y * x_scale.z);
#elif defined(SIGNED_QUANTS)
            const float rest = -128.0 * x_scale.y * scale[r].x;
#else
            const float rest = scale[r].z * x_scale.y;
#endif
            sums[r * COLS + c] += fma(products, x_scale.x, rest);
        }
    }
}

void main()
{
    open_weights(pc.weights);
    const uint first_row = gl_GlobalInvocationID.x * ROWS, first_col = gl_WorkGroupID.y * COLS;
    // Push constants are read before the loop: software Vulkan checks them wherever they are read.
    uint rows[ROWS], cols[COLS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) rows[r] = weights_row(first_row + r);
    [[unroll]] for (uint c = 0; c < COLS; c++) cols[c] = min(first_col + c, pc.cols - 1) * pc.x_stride;
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) sums[i] = 0.0;
    const uint64_t x = pc.x, x_scales = pc.x_scales;
    for (uint unit = 0; unit < weight_units; unit++) add_unit(rows, cols, unit, x, x_scales);
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) store(first_row + i / COLS, first_col + i % COLS, sums[i]);
}
