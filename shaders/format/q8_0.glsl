// q8_0.glsl - 32 signed bytes and f16 d a unit; w = d * q. Layout: src/file/format.h.
vec4 signed_bytes(uint bits)
{
    const int b = int(bits);
    return vec4(bitfieldExtract(b, 0, 8), bitfieldExtract(b, 8, 8), bitfieldExtract(b, 16, 8), b >> 24);
}

void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = row * pc.units + unit;
    const uvec4 a = load_uvec4(pc.weights, at * 32u), b = load_uvec4(pc.weights, at * 32u + 16u);
    const float d = load_half(pc.weights, pc.plane1 + at * 2u);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        w[i] = d * signed_bytes(a[i]);
        w[4 + i] = d * signed_bytes(b[i]);
    }
}
