// f16.glsl - 32 halves a unit. Layout: src/file/format.h.
void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = (row * weight_units + unit) * 64u;
    [[unroll]] for (uint i = 0; i < 4; i++)
        unpack_half8(load_uvec4(weights_at, at + i * 16u), w[2 * i], w[2 * i + 1]);
}
