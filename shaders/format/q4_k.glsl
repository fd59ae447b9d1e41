// q4_k.glsl - 16 bytes of nibbles a unit; 8 units share d, dmin and 6-bit scales and minima in 16 bytes.
// w = d * scale * n - dmin * min. Layout: src/file/format.h.
void load_quants(uint row, uint unit, out uvec4 a, out uvec4 b, out vec3 scale)
{
    const uint at = row * weight_units + unit;
    const uvec4 q = load_uvec4(weights_at, at * 16u);
    const uvec4 s = load_uvec4(weights_at, plane1 + (at >> 3) * 16u);
    const uint k = unit & 7u;
    const uint high = ((s.y >> (4u * k)) & 15u) | (((s.w >> (2u * k)) & 3u) << 4);
    const uint low = ((s.z >> (4u * k)) & 15u) | (((s.w >> (16u + 2u * k)) & 3u) << 4);
    const vec2 d = unpackHalf2x16(s.x);
    a = q & 0x0f0f0f0fu;
    b = (q >> 4) & 0x0f0f0f0fu;
    scale = vec3(d.xx * float(high), -(d.y * float(low)));
}
