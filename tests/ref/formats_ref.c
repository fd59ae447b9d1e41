/* formats_ref.c - what the bytes of each weight format mean, weight by weight: blocks of a file, and planes.
 *
 * Shaders and repacking are held to it: f32 arithmetic in the order of the formats' definition (scale product, times
 * quant, then the offset). Each product is stored before anything is added to it, so that no compiler fuses
 * the two into another rounding.
 */
#include "ref/formats_ref.h"

#include <assert.h>

#include "file/little.h"

enum { F16_INFINITY = 0x7c00, F32_INFINITY = 0x7f800000 };

/* value / 2^shift to the nearest integer, ties to even; shift from 1 to 31. */
static uint32_t shift_round(uint32_t value, uint32_t shift)
{
    const uint32_t odd = value >> shift & 1;
    return (value + (1u << (shift - 1)) - 1 + odd) >> shift;
}

uint16_t ref_f32_to_f16(float value)
{
    const uint32_t bits = vki_bits_of_float(value), magnitude = bits & 0x7fffffff;
    const uint32_t exponent = magnitude >> 23;
    uint32_t half;
    if (magnitude > F32_INFINITY) /* a NaN stays one, made quiet */
        half = F16_INFINITY | 0x0200 | (magnitude >> 13 & 0x03ff);
    else if (exponent >= 127 + 16) half = F16_INFINITY;
    else if (exponent > 127 - 15) half = shift_round(magnitude - ((127u - 15) << 23), 13);
    else if (exponent >= 127 - 25) /* in units of 2^-24, with the leading one made visible */
        half = shift_round((magnitude & 0x7fffff) | 0x800000, 127 - 1 - exponent);
    else half = 0;
    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)half;
}

static float f16_at(const uint8_t *bytes)
{
    return vki_f16_to_f32(vki_load16(bytes));
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void decode_q8_0(const uint8_t *block, float *weights)
{
    const float d = f16_at(block);
    for (int j = 0; j < 32; j++) weights[j] = d * (float)(int8_t)block[2 + j];
}

/* The common part of the 4- and 5-bit formats: d * (quant - zero) of 32 weights; bit j of `high` is
 * the fifth bit of weight j. */
static void decode_nibbles(const uint8_t *quants, uint32_t high, int zero, float d, float *weights)
{
    for (int j = 0; j < 16; j++) {
        const int low_quant = (quants[j] & 15) | (int)(high >> j & 1) << 4;
        const int high_quant = quants[j] >> 4 | (int)(high >> (j + 16) & 1) << 4;
        weights[j] = d * (float)(low_quant - zero);
        weights[j + 16] = d * (float)(high_quant - zero);
    }
}

static void add_min(float m, float *weights)
{
    for (int j = 0; j < 32; j++) weights[j] += m;
}

static void decode_q4_0(const uint8_t *block, float *weights)
{
    decode_nibbles(block + 2, 0, 8, f16_at(block), weights);
}

static void decode_q4_1(const uint8_t *block, float *weights)
{
    decode_nibbles(block + 4, 0, 0, f16_at(block), weights);
    add_min(f16_at(block + 2), weights);
}

static void decode_q5_0(const uint8_t *block, float *weights)
{
    decode_nibbles(block + 6, vki_load32(block + 2), 16, f16_at(block), weights);
}

static void decode_q5_1(const uint8_t *block, float *weights)
{
    decode_nibbles(block + 8, vki_load32(block + 4), 0, f16_at(block), weights);
    add_min(f16_at(block + 2), weights);
}

/* Scale and min k (0..7), 6 bits each; scales: the 12 bytes that pack them. */
static void q4_k_scale(const uint8_t *scales, int k, uint32_t *scale, uint32_t *min)
{
    if (k < 4) {
        *scale = scales[k] & 63;
        *min = scales[k + 4] & 63;
    } else {
        *scale = (scales[k + 4] & 15u) | (scales[k - 4] >> 6 & 3u) << 4;
        *min = (uint32_t)scales[k + 4] >> 4 | (scales[k] >> 6 & 3u) << 4;
    }
}

static void decode_q4_k(const uint8_t *block, float *weights)
{
    const float d = f16_at(block), dmin = f16_at(block + 2);
    for (int k = 0; k < 8; k++) {
        uint32_t scale, min;
        q4_k_scale(block + 4, k, &scale, &min);
        const float step = d * (float)scale, offset = dmin * (float)min;
        const uint8_t *quants = block + 16 + 32 * (k / 2);
        const int shift = k % 2 * 4;
        for (int l = 0; l < 32; l++) {
            const float product = step * (float)(quants[l] >> shift & 15);
            weights[32 * k + l] = product - offset;
        }
    }
}

static void decode_q6_k(const uint8_t *block, float *weights)
{
    const float d = f16_at(block + 208);
    for (int unit = 0; unit < 8; unit++) {
        const int half = unit / 4, part = unit % 4; /* a half's four units share 64 + 32 bytes */
        const uint8_t *low = block + 64 * half + 32 * (part % 2);
        const uint8_t *high = block + 128 + 32 * half;
        for (int l = 0; l < 32; l++) {
            const float scale = d * (float)(int8_t)block[192 + 2 * unit + l / 16];
            const int quant = (low[l] >> part / 2 * 4 & 15) | (high[l] >> 2 * part & 3) << 4;
            weights[32 * unit + l] = scale * (float)(quant - 32);
        }
    }
}

static void (*const decoders[VKI_FORMAT_COUNT])(const uint8_t *block, float *weights) = {
    [VKI_Q8_0] = decode_q8_0, [VKI_Q4_0] = decode_q4_0, [VKI_Q4_1] = decode_q4_1, [VKI_Q5_0] = decode_q5_0,
    [VKI_Q5_1] = decode_q5_1, [VKI_Q4_K] = decode_q4_k, [VKI_Q6_K] = decode_q6_k,
};

void ref_decode(vki_format format, const uint8_t *blocks, uint64_t n, float *weights)
{
    const vki_format_info *info = vki_format_get(format);
    assert(n % info->block_weights == 0);
    if (format <= VKI_BF16) {
        vki_floats_decode(format, blocks, n, weights);
        return;
    }
    for (uint64_t i = 0; i < n / info->block_weights; i++)
        decoders[format](blocks + i * info->block_bytes, weights + i * info->block_weights);
}

/* ---- Planes ---------------------------------------------------------------------------------- */

/* Quant w (0..31) of a unit, before its zero point is taken off. quants, high: the unit's parts of
 * planes 0 and 1. */
static int unit_quant(vki_format format, const uint8_t *quants, const uint8_t *high, int w)
{
    const int nibble = w < 16 ? quants[w] & 15 : quants[w - 16] >> 4;
    const int i = w % 16 / 4, c = w % 4;
    if (format == VKI_Q5_0 || format == VKI_Q5_1)
        return nibble | (int)(vki_load32(high) >> (8 * c + w / 16 * 4 + i) & 1) << 4;
    if (format == VKI_Q6_K)
        return nibble | (int)(vki_load32(high + w / 16 * 4) >> (8 * c + 2 * i) & 3) << 4;
    return nibble;
}

static void unit_q8_0(const uint8_t **part, uint32_t unit, float *weights)
{
    const float d = f16_at(part[1] + 2 * unit);
    for (int w = 0; w < VKI_UNIT_WEIGHTS; w++)
        weights[w] = d * (float)(int8_t)part[0][VKI_UNIT_WEIGHTS * unit + (uint32_t)w];
}

static void unit_legacy(vki_format format, const uint8_t **part, uint32_t unit, float *weights)
{
    const bool five_bits = format == VKI_Q5_0 || format == VKI_Q5_1;
    const bool has_min = format == VKI_Q4_1 || format == VKI_Q5_1;
    const int zero = has_min ? 0 : five_bits ? 16 : 8;
    const uint8_t *scales = part[five_bits ? 2 : 1] + (has_min ? 4 : 2) * unit;
    for (int w = 0; w < VKI_UNIT_WEIGHTS; w++) {
        const int quant = unit_quant(format, part[0] + 16 * unit, part[1] + 4 * unit, w);
        weights[w] = f16_at(scales) * (float)(quant - zero);
    }
    for (int w = 0; has_min && w < VKI_UNIT_WEIGHTS; w++) weights[w] += f16_at(scales + 2);
}

static void unit_q4_k(const uint8_t **part, uint32_t unit, float *weights)
{
    const uint8_t *super = part[1] + 16 * (unit / VKI_SUPER_UNITS);
    const uint32_t k = unit % VKI_SUPER_UNITS, high = vki_load32(super + 12);
    const uint32_t scale = (vki_load32(super + 4) >> 4 * k & 15) | (high >> 2 * k & 3) << 4;
    const uint32_t min = (vki_load32(super + 8) >> 4 * k & 15) | (high >> (16 + 2 * k) & 3) << 4;
    const float step = f16_at(super) * (float)scale, offset = f16_at(super + 2) * (float)min;
    for (int w = 0; w < VKI_UNIT_WEIGHTS; w++) {
        const float product = step * (float)unit_quant(VKI_Q4_K, part[0] + 16 * unit, NULL, w);
        weights[w] = product - offset;
    }
}

static void unit_q6_k(const uint8_t **part, uint32_t unit, float *weights)
{
    const float d = f16_at(part[3] + 2 * (unit / VKI_SUPER_UNITS));
    for (int w = 0; w < VKI_UNIT_WEIGHTS; w++) {
        const int quant = unit_quant(VKI_Q6_K, part[0] + 16 * unit, part[1] + 8 * unit, w);
        const float scale = d * (float)(int8_t)part[2][2 * unit + (uint32_t)w / 16];
        weights[w] = scale * (float)(quant - 32);
    }
}

void ref_decode_planes(const vki_planes *planes, const uint8_t *base, uint32_t row, float *weights)
{
    const vki_format format = planes->format;
    const vki_format_info *info = vki_format_get(format);
    const uint8_t *part[VKI_MAX_PLANES] = {0};
    assert(row < planes->rows);
    for (uint32_t p = 0; p < info->n_planes; p++)
        part[p] = base + planes->offset[p] + vki_planes_row_bytes(planes, p) * row;
    for (uint32_t unit = 0; unit < planes->units; unit++, weights += VKI_UNIT_WEIGHTS) {
        switch (format) {
        case VKI_F32:
        case VKI_F16:
        case VKI_BF16:
            vki_floats_decode(format, part[0] + unit * info->planes[0].bytes, VKI_UNIT_WEIGHTS, weights);
            break;
        case VKI_Q8_0: unit_q8_0(part, unit, weights); break;
        case VKI_Q4_K: unit_q4_k(part, unit, weights); break;
        case VKI_Q6_K: unit_q6_k(part, unit, weights); break;
        default: unit_legacy(format, part, unit, weights);
        }
    }
}
