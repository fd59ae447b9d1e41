// dot.glsl - the packed dot product of signed bytes, which most GPUs do in one instruction.
//
// OpSDot of SPV_KHR_integer_dot_product, by GL_EXT_spirv_intrinsics, which glslang knows from version 11 on (its
// own extension for this came with 13). 6018 and 6019: capabilities DotProductInput4x8BitPacked and DotProduct.
#ifndef DOT_GLSL
#define DOT_GLSL
#extension GL_EXT_spirv_intrinsics : require

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int op_sdot(uint a, uint b, spirv_literal int packing); // packing 0: four bytes in a dword

int dot16(uvec4 a, uvec4 b)
{
    int sum = op_sdot(a.x, b.x, 0);
    sum += op_sdot(a.y, b.y, 0);
    sum += op_sdot(a.z, b.z, 0);
    sum += op_sdot(a.w, b.w, 0);
    return sum;
}

// The same for software Vulkan, whose compiler multiplies in 16 bits only where one factor has no sign: b is taken
// with 128 added to each byte, and what that adds is subtracted. OpSUDot: signed by unsigned.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4452)
int op_sudot(uint a, uint b, spirv_literal int packing);

int dot16_unsigned(uvec4 a, uvec4 b)
{
    int sum = 0, added = 0;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        sum += op_sudot(a[i], b[i] ^ 0x80808080u, 0);
        added += op_sudot(a[i], 0x01010101u, 0);
    }
    return sum - 128 * added;
}
#endif
