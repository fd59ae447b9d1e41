// common.glsl - extensions, and memory access by device address.
//
// A base address is uniform; a byte offset of 32 bits is added to it, which costs no more than a
// storage buffer. All inputs are readonly, so that loads may be moved and merged.
#ifndef COMMON_GLSL
#define COMMON_GLSL
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/push.h"

const uint KV_PAGE_KEYS = 256;
const float LOWEST = -3.402823466e38; // stands for "none yet": no infinities, no inf - inf
const float INFINITY = 1.0 / 0.0;

// By the bits: compilers may take it that numbers are finite.
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer InUvec4 { uvec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer InUvec2 { uvec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer InUint { uint v; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer InVec4 { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer InVec2 { vec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer InFloat { float v; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer InAddress { uint64_t v; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer InRow { row_state v; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer OutUvec4 { uvec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer OutVec4 { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer OutVec2 { vec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer OutUvec2 { uvec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer OutUint { uint v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer OutFloat { float v; };

uvec4 load_uvec4(uint64_t base, uint offset) { return InUvec4(base + offset).v; }
uvec2 load_uvec2(uint64_t base, uint offset) { return InUvec2(base + offset).v; }
uint load_uint(uint64_t base, uint offset) { return InUint(base + offset).v; }
// By way of its dword, which is inside the buffer too: software Vulkan reads 16 bits lane by lane, 32 bits all at once.
uint load_ushort(uint64_t base, uint offset) { return (InUint(base + (offset & ~3u)).v >> (8u * (offset & 2u))) & 0xffffu; }
vec4 load_vec4(uint64_t base, uint offset) { return InVec4(base + offset).v; }
vec2 load_vec2(uint64_t base, uint offset) { return InVec2(base + offset).v; }
float load_float(uint64_t base, uint offset) { return InFloat(base + offset).v; }
float load_half(uint64_t base, uint offset) { return unpackHalf2x16(load_ushort(base, offset)).x; }
vec2 load_half2(uint64_t base, uint offset) { return unpackHalf2x16(load_uint(base, offset)); }
row_state load_row(uint64_t state, uint row) { return InRow(state + row * 32u).v; }
void store_float(uint64_t base, uint offset, float value) { OutFloat(base + offset).v = value; }

// Eight halves of 16 bytes.
void unpack_half8(uvec4 bits, out vec4 low, out vec4 high)
{
    low = vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
    high = vec4(unpackHalf2x16(bits.z), unpackHalf2x16(bits.w));
}
#endif
