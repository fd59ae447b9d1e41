// quantize.glsl - 32 activations as whole numbers of -127 .. 127 with a scale: what a product of few rows reads (vki_form).
#ifndef QUANTIZE_GLSL
#define QUANTIZE_GLSL

// Rows of a matvec, 4 bytes a value apart: f32, or bytes with the blocks' scales behind them. SPREAD, 5 bytes a value
// apart: each byte as an f32, the scales behind them.
const uint FORM_F32 = 0, FORM_INT8 = 1, FORM_SPREAD = 2;

uint pitch_of(uint form)
{
    return form == FORM_SPREAD ? 5u : 4u;
}

// Where a row's scales begin.
uint scales_of(uint form, uint width)
{
    return form == FORM_SPREAD ? width * 4u : width;
}

// x * inverse to the nearest whole number; adds the numbers to the sum.
ivec4 quants_of(vec4 x, float inverse, inout int sum)
{
    const ivec4 q = ivec4(roundEven(x * inverse));
    sum += q.x + q.y + q.z + q.w;
    return q;
}

uint bytes_of(ivec4 q)
{
    return uint(q.x & 0xff) | uint(q.y & 0xff) << 8 | uint(q.z & 0xff) << 16 | uint(q.w & 0xff) << 24;
}

// Values at .. at + 3 of a row.
void store_quants(uint64_t row, uint at, uint form, ivec4 q)
{
    if (form == FORM_SPREAD) OutVec4(row + at * 4u).v = vec4(q);
    else OutUint(row + at).v = bytes_of(q);
}

// Values at .. at + 31 of a row (at: a multiple of 32) as whole numbers and (d, d * sum).
void store_block(uint64_t row, uint64_t scales, uint at, uint form, vec4 x[8])
{
    vec4 top = abs(x[0]);
    [[unroll]] for (uint i = 1; i < 8; i++) top = max(top, abs(x[i]));
    const float largest = max(max(top.x, top.y), max(top.z, top.w));
    const float inverse = largest > 0.0 ? 127.0 / largest : 0.0;
    ivec4 q[8];
    int sum = 0;
    [[unroll]] for (uint i = 0; i < 8; i++) q[i] = quants_of(x[i], inverse, sum);
    if (form == FORM_SPREAD)
        [[unroll]] for (uint i = 0; i < 8; i++) store_quants(row, at + i * 4u, form, q[i]);
    else
        [[unroll]] for (uint i = 0; i < 8; i += 4)
            OutUvec4(row + at + i * 4u).v = uvec4(bytes_of(q[i]), bytes_of(q[i + 1]), bytes_of(q[i + 2]), bytes_of(q[i + 3]));
    const float d = largest / 127.0;
    OutVec2(scales + at / 4u).v = vec2(d, d * float(sum));
}
#endif
