// quantize.glsl - 32 activations as bytes, or as int16, with a scale.
#ifndef QUANTIZE_GLSL
#define QUANTIZE_GLSL

float largest_of(vec4 x[8])
{
    vec4 top = abs(x[0]);
    [[unroll]] for (uint i = 1; i < 8; i++) top = max(top, abs(x[i]));
    return max(max(top.x, top.y), max(top.z, top.w));
}

// Four values as bytes of a dword; adds the bytes to the sum.
uint pack_bytes(vec4 x, float inverse, inout int sum)
{
    const ivec4 q = ivec4(roundEven(x * inverse));
    sum += q.x + q.y + q.z + q.w;
    return uint(q.x & 0xff) | uint(q.y & 0xff) << 8 | uint(q.z & 0xff) << 16 | uint(q.w & 0xff) << 24;
}

// Values at .. at + 31 (at: a multiple of 32, counted over all rows) to int8 and (d, d * sum).
void store_block(uint64_t bytes, uint64_t scales, uint at, vec4 x[8])
{
    const float largest = largest_of(x);
    const float inverse = largest > 0.0 ? 127.0 / largest : 0.0;
    uint packed[8];
    int sum = 0;
    [[unroll]] for (uint i = 0; i < 8; i++) packed[i] = pack_bytes(x[i], inverse, sum);
    OutUvec4(bytes + at).v = uvec4(packed[0], packed[1], packed[2], packed[3]);
    OutUvec4(bytes + at + 16u).v = uvec4(packed[4], packed[5], packed[6], packed[7]);
    const float d = largest / 127.0;
    OutVec2(scales + at / 4u).v = vec2(d, d * float(sum));
}

// The same to int16 and (d, d * sum, d * sum of the last 16, 0).
void store_wide_block(uint64_t values, uint64_t scales, uint at, vec4 x[8])
{
    const float largest = largest_of(x);
    const float inverse = largest > 0.0 ? 32767.0 / largest : 0.0;
    uint packed[16];
    int sums[2] = {0, 0};
    [[unroll]] for (uint i = 0; i < 8; i++) {
        const ivec4 q = ivec4(roundEven(x[i] * inverse));
        sums[i / 4] += q.x + q.y + q.z + q.w;
        packed[2 * i] = uint(q.x & 0xffff) | uint(q.y) << 16;
        packed[2 * i + 1] = uint(q.z & 0xffff) | uint(q.w) << 16;
    }
    [[unroll]] for (uint i = 0; i < 4; i++)
        OutUvec4(values + at * 2u + i * 16u).v = uvec4(packed[4 * i], packed[4 * i + 1], packed[4 * i + 2], packed[4 * i + 3]);
    const float d = largest / 32767.0;
    OutVec4(scales + at / 2u).v = vec4(d, d * float(sums[0] + sums[1]), d * float(sums[1]), 0.0);
}
#endif
