// bf16.glsl - 32 upper halves of floats a unit. Layout: src/file/format.h.
#define WIDE_RANGE

void load_octet(uint row, uint unit, uint i, out vec4 low, out vec4 high)
{
    const uvec4 q = load_uvec4(weights_at, (row * weight_units + unit) * 64u + i * 16u);
    low = uintBitsToFloat(uvec4(q.x << 16, q.x & 0xffff0000u, q.y << 16, q.y & 0xffff0000u));
    high = uintBitsToFloat(uvec4(q.z << 16, q.z & 0xffff0000u, q.w << 16, q.w & 0xffff0000u));
}
