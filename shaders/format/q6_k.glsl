// q6_k.glsl - 16 bytes of nibbles and two dwords of high bits a unit; 8 units share 16 signed scales,
// one for each 16 weights, and f16 d. w = d * scale * (n - 32). Layout: src/file/format.h.
// Bytes are 4 * (n - 32), which fits a signed byte, so that there is no offset.
#define SIGNED_QUANTS
#define TWO_SCALES

uvec4 sixth_bits(uint h)
{
    return (uvec4(h, h >> 2, h >> 4, h >> 6) & 0x03030303u) << 4;
}

void load_quants(uint row, uint unit, out uvec4 a, out uvec4 b, out vec3 scale)
{
    const uint at = row * weight_units + unit, super = at >> 3, k = unit & 7u;
    const uvec4 q = load_uvec4(weights_at, at * 16u);
    const uvec2 h = load_uvec2(weights_at, plane1 + at * 8u);
    const int scales = int(load_ushort(weights_at, plane2 + super * 16u + k * 2u));
    const float d = 0.25 * load_half(weights_at, plane3 + super * 2u);
    a = (((q & 0x0f0f0f0fu) | sixth_bits(h.x)) ^ 0x20202020u) << 2;
    b = ((((q >> 4) & 0x0f0f0f0fu) | sixth_bits(h.y)) ^ 0x20202020u) << 2;
    scale = vec3(d * float(bitfieldExtract(scales, 0, 8)), d * float(bitfieldExtract(scales, 8, 8)), 0.0);
}
