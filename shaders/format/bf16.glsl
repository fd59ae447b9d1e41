// bf16.glsl - 32 upper halves of floats a unit. Layout: src/file/format.h.
#define WIDE_RANGE

void load_unit(uint row, uint unit, out vec4 w[8])
{
    const uint at = (row * weight_units + unit) * 64u;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uvec4 q = load_uvec4(weights_at, at + i * 16u);
        w[2 * i] = uintBitsToFloat(uvec4(q.x << 16, q.x & 0xffff0000u, q.y << 16, q.y & 0xffff0000u));
        w[2 * i + 1] = uintBitsToFloat(uvec4(q.z << 16, q.z & 0xffff0000u, q.w << 16, q.w & 0xffff0000u));
    }
}
