// q6_k.glsl - 16 bytes of nibbles and two dwords of high bits a unit; 8 units share 16 signed scales,
// one for each 16 weights, and f16 d. w = d * scale * (n - 32). Layout: src/file/format.h.
uvec4 sixth_bits(uint h)
{
    return (uvec4(h, h >> 2, h >> 4, h >> 6) & 0x03030303u) << 4;
}

void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = row * pc.units + unit, super = at >> 3, k = unit & 7u;
    const uvec4 q = load_uvec4(pc.weights, at * 16u);
    const uvec2 h = load_uvec2(pc.weights, pc.plane1 + at * 8u);
    const int scales = int(load_ushort(pc.weights, pc.plane2 + super * 16u + k * 2u));
    const float d = load_half(pc.weights, pc.plane3 + super * 2u);
    const float low = d * float(bitfieldExtract(scales, 0, 8)), high = d * float(bitfieldExtract(scales, 8, 8));
    const uvec4 a = (q & 0x0f0f0f0fu) | sixth_bits(h.x), b = ((q >> 4) & 0x0f0f0f0fu) | sixth_bits(h.y);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        w[i] = fma(bytes_to_vec4(a[i]), vec4(low), vec4(-32.0 * low));
        w[4 + i] = fma(bytes_to_vec4(b[i]), vec4(high), vec4(-32.0 * high));
    }
}
