// half.glsl - f32 brought into the range of f16, which has no infinities here, and its bits.
#ifndef HALF_GLSL
#define HALF_GLSL
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// The power of two that brings numbers of at most `top` to below 2^15, and what undoes it.
float half_scale(float top, out float undo)
{
    const uint exponent = clamp(floatBitsToUint(top) >> 23, 15u, 254u);
    undo = uintBitsToFloat((exponent - 14u) << 23);
    return uintBitsToFloat((268u - exponent) << 23);
}

// To nearest, which packHalf2x16 does not promise.
uvec2 to_f16(vec4 v)
{
    const f16vec4 h = f16vec4(v);
    return uvec2(packFloat2x16(h.xy), packFloat2x16(h.zw));
}
#endif
