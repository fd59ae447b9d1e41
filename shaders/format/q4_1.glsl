// q4_1.glsl - 16 bytes of nibbles, f16 d and m a unit; w = d * n + m. Layout: src/file/format.h.
void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = row * pc.units + unit;
    const uvec4 q = load_uvec4(pc.weights, at * 16u);
    const vec2 dm = load_half2(pc.weights, pc.plane1 + at * 4u);
    unpack_nibbles(q, uvec4(0), uvec4(0), dm.x, dm.y, w);
}
