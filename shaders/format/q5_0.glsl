// q5_0.glsl - 16 bytes of nibbles, a dword of fifth bits, f16 d a unit; w = d * (n - 16).
// Layout: src/file/format.h.
void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = row * pc.units + unit;
    const uvec4 q = load_uvec4(pc.weights, at * 16u);
    const uint h = load_uint(pc.weights, pc.plane1 + at * 4u);
    const float d = load_half(pc.weights, pc.plane2 + at * 2u);
    unpack_nibbles(q, fifth_bits(h), fifth_bits(h >> 4), d, -16.0 * d, w);
}
