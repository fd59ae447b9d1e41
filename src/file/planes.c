/* planes.c - repacks rows of GGUF blocks into the planes of format.h.
 *
 * Packing runs over every byte of a model while it loads, so it moves words, not weights: nibbles
 * that the file already pairs as a unit does are copied, others are regrouped eight at a time.
 * A plane row never shares a byte with another row: rows may be packed in any order.
 */
#include "file/format.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "file/little.h"

static uint32_t part_count(const vki_planes *planes, uint32_t plane)
{
    const bool per_super = vki_format_get(planes->format)->planes[plane].per_super;
    return per_super ? planes->units / VKI_SUPER_UNITS : planes->units;
}

uint64_t vki_planes_row_bytes(const vki_planes *planes, uint32_t plane)
{
    const uint64_t part_bytes = vki_format_get(planes->format)->planes[plane].bytes;
    return part_count(planes, plane) * part_bytes;
}

static uint64_t row_offset(const vki_planes *planes, uint32_t plane, uint32_t row)
{
    return planes->offset[plane] + vki_planes_row_bytes(planes, plane) * row;
}

bool vki_planes_init(vki_planes *planes, vki_format format, uint64_t rows, uint64_t cols)
{
    const uint64_t limit = (uint64_t)1 << 32;
    const vki_format_info *info = vki_format_get(format);
    assert(cols % info->block_weights == 0);
    *planes = (vki_planes){.format = format};
    if (rows >= limit || cols >= limit) return false;
    planes->rows = (uint32_t)rows;
    planes->units = (uint32_t)vki_div_up(cols, VKI_UNIT_WEIGHTS);
    for (uint32_t p = 0; p < info->n_planes; p++) {
        uint64_t plane_bytes;
        if (!vki_mul(rows, vki_planes_row_bytes(planes, p), &plane_bytes)) return false;
        if (plane_bytes > limit - planes->size_bytes) return false;
        planes->offset[p] = (uint32_t)planes->size_bytes;
        planes->size_bytes += vki_round_up(plane_bytes, VKI_PLANE_ALIGNMENT);
    }
    return true;
}

/* Formats of one scale part and one quant part a block, both as a unit wants them. */
static inline void split_blocks(const uint8_t *block, size_t n, size_t scale_bytes,
                                size_t quant_bytes, uint8_t *const part[])
{
    for (size_t i = 0; i < n; i++, block += scale_bytes + quant_bytes) {
        memcpy(part[1] + i * scale_bytes, block, scale_bytes);
        memcpy(part[0] + i * quant_bytes, block + scale_bytes, quant_bytes);
    }
}

/* Swaps bit i with bit i + distance, for every i in mask. */
static uint32_t swap_bits(uint32_t bits, uint32_t mask, int distance)
{
    const uint32_t differ = (bits >> distance ^ bits) & mask;
    return bits ^ differ ^ differ << distance;
}

/* The fifth bits, weight w's from bit w to bit 8 * (w % 4) + w / 4: an 8 x 4 bit matrix transposed,
 * which rotates the five bits of the index; four exchanges of two of them make that rotation. */
static uint32_t transpose_high_bits(uint32_t bits)
{
    bits = swap_bits(bits, 0x0a0a0a0a, 3);
    bits = swap_bits(bits, 0x00cc00cc, 6);
    bits = swap_bits(bits, 0x00f000f0, 4);
    return swap_bits(bits, 0x0000f0f0, 12);
}

static inline void split_blocks_q5(const uint8_t *block, size_t n, size_t scale_bytes, uint8_t *const part[])
{
    for (size_t i = 0; i < n; i++, block += scale_bytes + 20) {
        memcpy(part[2] + i * scale_bytes, block, scale_bytes);
        vki_store32(part[1] + i * 4, transpose_high_bits(vki_load32(block + scale_bytes)));
        memcpy(part[0] + i * 16, block + scale_bytes + 4, 16);
    }
}

/* Where the file pairs weight l with one of another unit, a unit pairs l with l + 16: of 32 bytes,
 * the unit of all low nibbles and the unit of all high ones. */
static inline void regroup_nibbles(const uint8_t *quants, uint8_t *low_unit, uint8_t *high_unit)
{
    const uint64_t low = 0x0f0f0f0f0f0f0f0f;
    for (int i = 0; i < 16; i += 8) {
        const uint64_t first = vki_load64(quants + i), second = vki_load64(quants + 16 + i);
        vki_store64(low_unit + i, (first & low) | (second & low) << 4);
        vki_store64(high_unit + i, (first >> 4 & low) | (second & ~low));
    }
}

/* The low four or two bits of each byte, side by side: byte 0's lowest. */
static inline uint32_t gather4(uint32_t bytes)
{
    bytes &= 0x0f0f0f0f;
    bytes = (bytes | bytes >> 4) & 0x00ff00ff;
    return (bytes | bytes >> 8) & 0xffff;
}

static inline uint32_t gather2(uint32_t bytes)
{
    bytes &= 0x03030303;
    bytes = (bytes | bytes >> 6) & 0x000f000f;
    return (bytes | bytes >> 12) & 0xff;
}

/* The file's 12 bytes of scales and minima: six bits of the first four of each in bytes 0-3 and
 * 4-7, the low four bits of the others in bytes 8-11 and their high two above those six. */
static inline void regroup_scales(const uint8_t *scales, uint8_t *super)
{
    const uint32_t first = vki_load32(scales), mins = vki_load32(scales + 4), rest = vki_load32(scales + 8);
    vki_store32(super + 4, gather4(first) | gather4(rest) << 16);
    vki_store32(super + 8, gather4(mins) | gather4(rest >> 4) << 16);
    vki_store32(super + 12, gather2(first >> 4) | gather2(first >> 6) << 8 | gather2(mins >> 4) << 16 |
                                gather2(mins >> 6) << 24);
}

static void pack_q4_k(const uint8_t *block, size_t n, uint8_t *const part[])
{
    for (size_t i = 0; i < n; i++, block += 144) {
        uint8_t *units = part[0] + i * 128, *super = part[1] + i * 16;
        for (size_t pair = 0; pair < 4; pair++)
            regroup_nibbles(block + 16 + 32 * pair, units + 32 * pair, units + 32 * pair + 16);
        memcpy(super, block, 4); /* d and dmin */
        regroup_scales(block + 4, super);
    }
}

/* The file keeps the high bits of four units in one byte, for weight l of each; a dword of a unit
 * wants those of 16 weights: one pair of bits from each of 16 bytes, four bytes at a time. */
static uint32_t gather_high_bits(const uint8_t *high, int unit)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (vki_load32(high + 4 * i) >> 2 * unit & 0x03030303) << 2 * i;
    return bits;
}

static void pack_q6_k(const uint8_t *block, size_t n, uint8_t *const part[])
{
    for (size_t i = 0; i < n; i++, block += 210) {
        for (size_t half = 0; half < 2; half++) {
            const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
            uint8_t *units = part[0] + i * 128 + half * 64, *bits = part[1] + i * 64 + half * 32;
            regroup_nibbles(low, units, units + 32);
            regroup_nibbles(low + 32, units + 16, units + 48);
            for (int unit = 0; unit < 4; unit++) {
                vki_store32(bits + 8 * unit, gather_high_bits(high, unit));
                vki_store32(bits + 8 * unit + 4, gather_high_bits(high + 16, unit));
            }
        }
        memcpy(part[2] + i * 16, block + 192, 16);
        memcpy(part[3] + i * 2, block + 208, 2);
    }
}

void vki_planes_pack_row(const vki_planes *planes, const uint8_t *file_row, uint64_t cols,
                         uint32_t row, uint8_t *base)
{
    const vki_format_info *info = vki_format_get(planes->format);
    assert(row < planes->rows && planes->units == vki_div_up(cols, VKI_UNIT_WEIGHTS));
    const size_t n = (size_t)(cols / info->block_weights), file_bytes = n * info->block_bytes;
    uint8_t *part[VKI_MAX_PLANES] = {0};
    for (uint32_t p = 0; p < info->n_planes; p++) part[p] = base + row_offset(planes, p, row);
    switch (planes->format) {
    case VKI_Q8_0: split_blocks(file_row, n, 2, 32, part); break;
    case VKI_Q4_0: split_blocks(file_row, n, 2, 16, part); break;
    case VKI_Q4_1: split_blocks(file_row, n, 4, 16, part); break;
    case VKI_Q5_0: split_blocks_q5(file_row, n, 2, part); break;
    case VKI_Q5_1: split_blocks_q5(file_row, n, 4, part); break;
    case VKI_Q4_K: pack_q4_k(file_row, n, part); break;
    case VKI_Q6_K: pack_q6_k(file_row, n, part); break;
    default: /* plain weights, padded to whole units */
        memcpy(part[0], file_row, file_bytes);
        memset(part[0] + file_bytes, 0, (size_t)vki_planes_row_bytes(planes, 0) - file_bytes);
    }
}

void vki_planes_pack_scaled(const vki_planes *planes, const uint8_t *file_row, uint64_t cols, float scale,
                            uint32_t row, uint8_t *base)
{
    assert(planes->format == VKI_F32 && row < planes->rows);
    uint8_t *to = base + row_offset(planes, 0, row);
    for (uint64_t begin = 0; begin < cols; begin += VKI_UNIT_WEIGHTS, to += VKI_UNIT_WEIGHTS * sizeof(float)) {
        float unit[VKI_UNIT_WEIGHTS] = {0};
        const uint32_t n = (uint32_t)vki_min(VKI_UNIT_WEIGHTS, cols - begin);
        vki_floats_decode(VKI_F32, file_row + begin * sizeof(float), n, unit);
        for (uint32_t i = 0; i < n; i++) unit[i] *= scale;
        memcpy(to, unit, sizeof unit);
    }
}
