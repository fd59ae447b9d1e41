// q4_0.glsl - 16 bytes of nibbles and f16 d a unit; w = d * (n - 8). Layout: src/file/format.h.
void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = row * pc.units + unit;
    const uvec4 q = load_uvec4(pc.weights, at * 16u);
    const float d = load_half(pc.weights, pc.plane1 + at * 2u);
    unpack_nibbles(q, uvec4(0), uvec4(0), d, -8.0 * d, w);
}
