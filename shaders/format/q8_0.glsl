// q8_0.glsl - 32 signed bytes and f16 d a unit; w = d * q. Layout: src/file/format.h.
#define SIGNED_QUANTS

void load_quants(uint row, uint unit, out uvec4 a, out uvec4 b, out vec3 scale)
{
    const uint at = row * weight_units + unit;
    a = load_uvec4(weights_at, at * 32u);
    b = load_uvec4(weights_at, at * 32u + 16u);
    scale = vec3(vec2(load_half(weights_at, plane1 + at * 2u)), 0.0);
}
