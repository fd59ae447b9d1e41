// quantize.glsl - 32 activations as bytes with a scale.
#ifndef QUANTIZE_GLSL
#define QUANTIZE_GLSL

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
    vec4 top = abs(x[0]);
    [[unroll]] for (uint i = 1; i < 8; i++) top = max(top, abs(x[i]));
    const float largest = max(max(top.x, top.y), max(top.z, top.w));
    const float inverse = largest > 0.0 ? 127.0 / largest : 0.0;
    uint packed[8];
    int sum = 0;
    [[unroll]] for (uint i = 0; i < 8; i++) packed[i] = pack_bytes(x[i], inverse, sum);
    OutUvec4(bytes + at).v = uvec4(packed[0], packed[1], packed[2], packed[3]);
    OutUvec4(bytes + at + 16u).v = uvec4(packed[4], packed[5], packed[6], packed[7]);
    const float d = largest / 127.0;
    OutVec2(scales + at / 4u).v = vec2(d, d * float(sum));
}
#endif
