// q4_0.glsl - 16 bytes of nibbles and f16 d a unit; w = d * (n - 8). Layout: src/file/format.h.
void load_quants(uint row, uint unit, out uvec4 a, out uvec4 b, out vec3 scale)
{
    const uint at = row * weight_units + unit;
    const uvec4 q = load_uvec4(weights_at, at * 16u);
    const float d = load_half(weights_at, plane1 + at * 2u);
    a = q & 0x0f0f0f0fu;
    b = (q >> 4) & 0x0f0f0f0fu;
    scale = vec3(d, d, -8.0 * d);
}
