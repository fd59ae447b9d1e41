// f16.glsl - 32 halves a unit. Layout: src/file/format.h.

// Weights 8 i .. 8 i + 7 as they are.
uvec4 load_f16(uint row, uint unit, uint i)
{
    return load_uvec4(weights_at, (row * weight_units + unit) * 64u + i * 16u);
}

void load_octet(uint row, uint unit, uint i, out vec4 low, out vec4 high)
{
    unpack_half8(load_f16(row, unit, i), low, high);
}
