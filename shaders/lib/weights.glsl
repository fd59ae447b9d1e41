// weights.glsl - reads weights of the format that the build defines (FORMAT_Q4_0 ...; see format.glsl).
//
// Every format file defines load_unit(row, unit, w): the 32 weights of one unit as w[8], in order.
// It reads the push constants pc.weights, pc.units, pc.plane1 .. plane3; the including kernel
// declares them. CPU twin: vki_planes_decode_row.
#ifndef WEIGHTS_GLSL
#define WEIGHTS_GLSL

// Dword i of the result: the fifth bits of weights 4i .. 4i + 3, in place.
uvec4 fifth_bits(uint h)
{
    return (uvec4(h, h >> 1, h >> 2, h >> 3) & 0x01010101u) << 4;
}

// w = scale * n + offset; n: nibbles of q with the bits of high_a (weights 0..15) and high_b or-ed in.
void unpack_nibbles(uvec4 q, uvec4 high_a, uvec4 high_b, float scale, float offset, out vec4 w[8])
{
    const uvec4 a = (q & 0x0f0f0f0fu) | high_a, b = ((q >> 4) & 0x0f0f0f0fu) | high_b;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        w[i] = fma(bytes_to_vec4(a[i]), vec4(scale), vec4(offset));
        w[4 + i] = fma(bytes_to_vec4(b[i]), vec4(scale), vec4(offset));
    }
}

#include "lib/format.glsl"
#endif
