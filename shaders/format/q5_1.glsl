// q5_1.glsl - 16 bytes of nibbles, a dword of fifth bits, f16 d and m a unit;
// w = d * n + m. Layout: src/file/format.h.
void load_quants(uint row, uint unit, out uvec4 a, out uvec4 b, out vec3 scale)
{
    const uint at = row * weight_units + unit;
    const uvec4 q = load_uvec4(weights_at, at * 16u);
    const uint h = load_uint(weights_at, plane1 + at * 4u);
    const vec2 dm = load_half2(weights_at, plane2 + at * 4u);
    a = (q & 0x0f0f0f0fu) | fifth_bits(h);
    b = ((q >> 4) & 0x0f0f0f0fu) | fifth_bits(h >> 4);
    scale = dm.xxy;
}
