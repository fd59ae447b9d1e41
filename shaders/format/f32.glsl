// f32.glsl - 32 floats a unit. Layout: src/file/format.h.
#define WIDE_RANGE

void load_octet(uint row, uint unit, uint i, out vec4 low, out vec4 high)
{
    const uint at = (row * weight_units + unit) * 128u + i * 32u;
    low = load_vec4(weights_at, at);
    high = load_vec4(weights_at, at + 16u);
}
