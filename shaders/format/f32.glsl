// f32.glsl - 32 floats a unit. Layout: src/file/format.h.
#define WIDE_RANGE

void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = (row * weight_units + unit) * 128u;
    [[unroll]] for (uint i = 0; i < 8; i++) w[i] = load_vec4(weights_at, at + i * 16u);
}
