// weights.glsl - reads weights of the format that the build defines (FORMAT_Q4_0 ...; see format.glsl).
//
// A float format's file defines load_octet(row, unit, i, low, high): weights 8 i .. 8 i + 7 of one unit; and WIDE_RANGE
// where f16 could not hold them all.
// A quantised one defines load_quants(row, unit, a, b, scale): a and b hold the quants of weights 0..15
// and 16..31 as bytes (dword i: 4i .. 4i + 3), unsigned or, with SIGNED_QUANTS, signed; a weight of a
// is scale.x * byte + scale.z, of b scale.y * byte + scale.z; without TWO_SCALES x and y are equal;
// with SIGNED_QUANTS z is 0.
// Of both this file makes load_unit(row, unit, w): the 32 weights of one unit as w[8], in order.
// A kernel calls open_weights first; its push constants have units and plane1 .. plane3.
// CPU twin: vki_planes_decode_row.
#ifndef WEIGHTS_GLSL
#define WEIGHTS_GLSL

// Where the planes lie. Copies, since software Vulkan checks a push constant wherever it is read.
uint64_t weights_at;
uint weight_units, plane1, plane2, plane3;

void open_weights(uint64_t at)
{
    weights_at = at;
    weight_units = pc.units;
    plane1 = pc.plane1;
    plane2 = pc.plane2;
    plane3 = pc.plane3;
}

// Dword i of the result: the fifth bits of weights 4i .. 4i + 3, in place.
uvec4 fifth_bits(uint h)
{
    return (uvec4(h, h >> 1, h >> 2, h >> 3) & 0x01010101u) << 4;
}

#include "lib/format.glsl"

#if defined(FORMAT_F32) || defined(FORMAT_F16) || defined(FORMAT_BF16)
void load_unit(uint row, uint unit, out vec4 w[8])
{
    [[unroll]] for (uint i = 0; i < 4; i++) load_octet(row, unit, i, w[2 * i], w[2 * i + 1]);
}
#else
#define QUANTS
vec4 quants_to_vec4(uint bits)
{
#ifdef SIGNED_QUANTS
    const int b = int(bits);
    return vec4(bitfieldExtract(b, 0, 8), bitfieldExtract(b, 8, 8), bitfieldExtract(b, 16, 8), b >> 24);
#else
    return vec4(bits & 0xffu, (bits >> 8) & 0xffu, (bits >> 16) & 0xffu, bits >> 24);
#endif
}

// Weights 8 i .. 8 i + 7 of what load_quants returned.
void octet_of(uvec4 a, uvec4 b, vec3 scale, uint i, out vec4 low, out vec4 high)
{
    const uint at = 2u * i % 4u;
    const uvec4 q = i < 2u ? a : b;
    const float factor = i < 2u ? scale.x : scale.y;
    low = fma(quants_to_vec4(q[at]), vec4(factor), scale.zzzz);
    high = fma(quants_to_vec4(q[at + 1u]), vec4(factor), scale.zzzz);
}

void load_unit(uint row, uint unit, out vec4 w[8])
{
    uvec4 a, b;
    vec3 scale;
    load_quants(row, unit, a, b, scale);
    [[unroll]] for (uint i = 0; i < 4; i++) octet_of(a, b, scale, i, w[2 * i], w[2 * i + 1]);
}
#endif
#endif
