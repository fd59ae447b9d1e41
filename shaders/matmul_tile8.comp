#version 460
// matmul_tile8.comp - y = W x with int8 activations: tiles of both in shared memory, packed dot products.
//
// Arguments: lib/product.glsl. Each step takes one unit of 32 of the tile's rows and columns into shared memory, dword
// by dword ([8][TILE_ROWS]), so that an invocation reads four neighbouring rows in one load; it makes ROWS x COLS.
// grid: workgroup x = TILE_ROWS rows, y = TILE_COLS columns.
// constants: 0 local size = TILE_ROWS / ROWS * TILE_COLS / COLS, 1 TILE_ROWS, 2 TILE_COLS, 3 ROWS, 4 COLS (both
// multiples of 4)
// Sums of a block of 32 (16 with TWO_SCALES) in int32, exact; of blocks in f32. CPU twin: ref_matmul.
#extension GL_GOOGLE_include_directive : require
#define INT8_ACTIVATIONS
#include "lib/product.glsl"
#include "lib/dot.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TILE_ROWS = 128;
layout(constant_id = 2) const uint TILE_COLS = 64;
layout(constant_id = 3) const uint ROWS = 8;
layout(constant_id = 4) const uint COLS = 4;

shared uint w_tile[8 * TILE_ROWS], x_tile[8 * TILE_COLS];
shared vec2 w_scales[TILE_ROWS], x_scales[TILE_COLS];

// Fours of an invocation's rows (columns) lie `all / own` fours apart: neighbours read neighbours.
uint spread(uint i, uint id, uint own, uint all) { return (i / 4 * (all / own) + id) * 4 + i % 4; }
uint tile_row(uint r) { return spread(r, gl_LocalInvocationID.x % (TILE_ROWS / ROWS), ROWS, TILE_ROWS); }
uint tile_col(uint c) { return spread(c, gl_LocalInvocationID.x / (TILE_ROWS / ROWS), COLS, TILE_COLS); }

void stage_row(uint first_row, uint i, uint unit)
{
    uvec4 a, b;
    vec3 scale;
    load_quants(weights_row(first_row + i), unit, a, b, scale);
    w_scales[i] = two_of_scale(scale);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        w_tile[k * TILE_ROWS + i] = a[k];
        w_tile[(4 + k) * TILE_ROWS + i] = b[k];
    }
}

void stage_col(uint first_col, uint i, uint unit)
{
    uvec4 a, b;
    load_block(first_col + i, unit, a, b, x_scales[i]);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        x_tile[k * TILE_COLS + i] = a[k];
        x_tile[(4 + k) * TILE_COLS + i] = b[k];
    }
}

float sums[ROWS * COLS];
int products[ROWS * COLS];

// products = of `count` dwords of the unit.
void multiply(uint first, uint count)
{
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) products[i] = 0;
    [[unroll]] for (uint n = 0; n < count; n++) {
        const uint k = first + n;
        uint w[ROWS], x[COLS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) w[r] = w_tile[k * TILE_ROWS + tile_row(r)];
        [[unroll]] for (uint c = 0; c < COLS; c++) x[c] = x_tile[k * TILE_COLS + tile_col(c)];
        [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) products[i] += op_sdot(w[i / COLS], x[i % COLS], 0);
    }
}

void add_unit()
{
    vec2 x_scale[COLS];
    [[unroll]] for (uint c = 0; c < COLS; c++) x_scale[c] = x_scales[tile_col(c)];
#ifdef TWO_SCALES
    [[dont_unroll]] for (uint part = 0; part < 2; part++) {
        multiply(part * 4, 4);
        [[unroll]] for (uint i = 0; i < ROWS * COLS; i++)
            sums[i] = fma(float(products[i]), w_scales[tile_row(i / COLS)][part] * x_scale[i % COLS].x, sums[i]);
    }
#else
    multiply(0, 8);
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) {
        const vec2 w_scale = w_scales[tile_row(i / COLS)], x = x_scale[i % COLS];
        sums[i] = fma(float(products[i]), w_scale.x * x.x, sums[i]);
#ifndef SIGNED_QUANTS
        sums[i] = fma(w_scale.y, x.y, sums[i]);
#endif
    }
#endif
}

void main()
{
    open_product();
    const uint first_row = gl_WorkGroupID.x * TILE_ROWS, first_col = gl_WorkGroupID.y * TILE_COLS;
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) sums[i] = 0.0;
    for (uint unit = 0; unit < pc.units; unit++) {
        [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < TILE_ROWS + TILE_COLS; i += gl_WorkGroupSize.x) {
            if (i < TILE_ROWS) stage_row(first_row, i, unit);
            else stage_col(first_col, i - TILE_ROWS, unit);
        }
        barrier();
        add_unit();
        barrier();
    }
    // Rolled over the columns, which keeps the epilogue short; a sum picked by a variable would have to lie in memory.
    [[dont_unroll]] for (uint c = 0; c < COLS; c++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float sum = sums[r * COLS];
            [[unroll]] for (uint k = 1; k < COLS; k++) sum = k == c ? sums[r * COLS + k] : sum;
            store(first_row + tile_row(r), first_col + tile_col(c), sum);
        }
    }
}
