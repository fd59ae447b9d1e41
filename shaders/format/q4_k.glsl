// q4_k.glsl - 16 bytes of nibbles a unit; 8 units share d, dmin and 6-bit scales and minima in 16 bytes.
// w = d * scale * n - dmin * min. Layout: src/file/format.h.
void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = row * pc.units + unit;
    const uvec4 q = load_uvec4(pc.weights, at * 16u);
    const uvec4 s = load_uvec4(pc.weights, pc.plane1 + (at >> 3) * 16u);
    const uint k = unit & 7u;
    const float scale = float(((s.y >> (4u * k)) & 15u) | (((s.w >> (2u * k)) & 3u) << 4));
    const float low = float(((s.z >> (4u * k)) & 15u) | (((s.w >> (16u + 2u * k)) & 3u) << 4));
    const vec2 d = unpackHalf2x16(s.x);
    unpack_nibbles(q, uvec4(0), uvec4(0), d.x * scale, -(d.y * low), w);
}
