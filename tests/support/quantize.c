/* quantize.c - scales from the extremes of a block, rounded as stored; quants to the nearest. */
#include "quantize.h"

#include <math.h>
#include <string.h>

#include "file/little.h"
#include "ref/formats_ref.h"

static void store_f16(uint8_t *bytes, float value)
{
    const uint16_t bits = ref_f32_to_f16(value);
    bytes[0] = (uint8_t)bits;
    bytes[1] = (uint8_t)(bits >> 8);
}

/* The value as f16 keeps it. */
static float as_f16(float value)
{
    return vki_f16_to_f32(ref_f32_to_f16(value));
}

/* x / step to the nearest of lowest..highest; a step of 0 gives what stands for 0. */
static int nearest(float x, float step, int lowest, int highest)
{
    const float quant = step != 0 ? roundf(x / step) : 0;
    return (int)fminf(fmaxf(quant, (float)lowest), (float)highest);
}

/* The value of greatest magnitude, with its sign. */
static float extreme(const float *x, int n)
{
    float found = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(found)) found = x[i];
    return found;
}

static void range(const float *x, int n, float *lowest, float *highest)
{
    *lowest = *highest = x[0];
    for (int i = 1; i < n; i++) {
        *lowest = fminf(*lowest, x[i]);
        *highest = fmaxf(*highest, x[i]);
    }
}

static void quantize_bf16(const float *x, uint8_t *block)
{
    const uint32_t bits = vki_bits_of_float(*x);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    block[0] = (uint8_t)rounded;
    block[1] = (uint8_t)(rounded >> 8);
}

static void quantize_q8_0(const float *x, uint8_t *block)
{
    const float d = as_f16(fabsf(extreme(x, 32)) / 127);
    store_f16(block, d);
    for (int j = 0; j < 32; j++) block[2 + j] = (uint8_t)(int8_t)nearest(x[j], d, -127, 127);
}

/* The four legacy formats of 4 or 5 bits, with (has_min) or without an offset. */
static void quantize_legacy(const float *x, int bits, bool has_min, uint8_t *block)
{
    const int top = (1 << bits) - 1, zero = has_min ? 0 : 1 << (bits - 1);
    float lowest = 0, highest, d;
    if (has_min) {
        range(x, 32, &lowest, &highest);
        lowest = as_f16(lowest);
        d = as_f16((highest - lowest) / (float)top);
    } else {
        d = as_f16(extreme(x, 32) / (float)-zero);
    }
    uint8_t *at = block;
    store_f16(at, d);
    at += 2;
    if (has_min) {
        store_f16(at, lowest);
        at += 2;
    }
    uint8_t *quants = bits == 5 ? at + 4 : at;
    uint32_t high = 0;
    memset(quants, 0, 16);
    for (int j = 0; j < 32; j++) {
        const int quant = nearest(x[j] - lowest, d, -zero, top - zero) + zero;
        quants[j % 16] |= (uint8_t)((quant & 15) << (j < 16 ? 0 : 4));
        high |= (uint32_t)quant >> 4 << j;
    }
    if (bits == 5) vki_store32(at, high);
}

static void pack_q4_k_scales(const int scale[8], const int min[8], uint8_t packed[12])
{
    for (int k = 0; k < 4; k++) {
        packed[k] = (uint8_t)(scale[k] | scale[k + 4] >> 4 << 6);
        packed[k + 4] = (uint8_t)(min[k] | min[k + 4] >> 4 << 6);
        packed[k + 8] = (uint8_t)((scale[k + 4] & 15) | (min[k + 4] & 15) << 4);
    }
}

static void quantize_q4_k(const float *x, uint8_t *block)
{
    float step[8], depth[8], largest_step = 0, largest_depth = 0;
    for (int k = 0; k < 8; k++) {
        float lowest, highest;
        range(x + 32 * k, 32, &lowest, &highest);
        depth[k] = fmaxf(-lowest, 0); /* stored without a sign: an offset above 0 is lost */
        step[k] = (highest + depth[k]) / 15;
        largest_step = fmaxf(largest_step, step[k]);
        largest_depth = fmaxf(largest_depth, depth[k]);
    }
    const float d = as_f16(largest_step / 63), dmin = as_f16(largest_depth / 63);
    int scale[8], min[8];
    store_f16(block, d);
    store_f16(block + 2, dmin);
    memset(block + 16, 0, 128);
    for (int k = 0; k < 8; k++) {
        scale[k] = nearest(step[k], d, 0, 63);
        min[k] = nearest(depth[k], dmin, 0, 63);
        for (int l = 0; l < 32; l++) {
            const float above = x[32 * k + l] + dmin * (float)min[k];
            const int quant = nearest(above, d * (float)scale[k], 0, 15);
            block[16 + 32 * (k / 2) + l] |= (uint8_t)(quant << k % 2 * 4);
        }
    }
    pack_q4_k_scales(scale, min, block + 4);
}

static void quantize_q6_k(const float *x, uint8_t *block)
{
    float step[16];
    for (int k = 0; k < 16; k++) step[k] = extreme(x + 16 * k, 16) / -32;
    const float d = as_f16(extreme(step, 16) / -127);
    memset(block, 0, 192);
    for (int k = 0; k < 16; k++) {
        const int scale = nearest(step[k], d, -127, 127);
        block[192 + k] = (uint8_t)(int8_t)scale;
        for (int l = 0; l < 16; l++) {
            const int quant = nearest(x[16 * k + l], d * (float)scale, -32, 31) + 32;
            const int half = k / 8, part = k % 8 / 2, at = k % 2 * 16 + l;
            block[64 * half + 32 * (part % 2) + at] |= (uint8_t)((quant & 15) << part / 2 * 4);
            block[128 + 32 * half + at] |= (uint8_t)(quant >> 4 << 2 * part);
        }
    }
    store_f16(block + 208, d);
}

static void quantize_block(vki_format format, const float *x, uint8_t *block)
{
    switch (format) {
    case VKI_F32: vki_store32(block, vki_bits_of_float(*x)); break;
    case VKI_F16: store_f16(block, *x); break;
    case VKI_BF16: quantize_bf16(x, block); break;
    case VKI_Q8_0: quantize_q8_0(x, block); break;
    case VKI_Q4_0: quantize_legacy(x, 4, false, block); break;
    case VKI_Q4_1: quantize_legacy(x, 4, true, block); break;
    case VKI_Q5_0: quantize_legacy(x, 5, false, block); break;
    case VKI_Q5_1: quantize_legacy(x, 5, true, block); break;
    case VKI_Q4_K: quantize_q4_k(x, block); break;
    case VKI_Q6_K: quantize_q6_k(x, block); break;
    case VKI_FORMAT_COUNT: break;
    }
}

size_t quantized_size(vki_format format, size_t n)
{
    const vki_format_info *info = vki_format_get(format);
    return n / info->block_weights * info->block_bytes;
}

void quantize(vki_format format, const float *weights, size_t n, uint8_t *blocks)
{
    const vki_format_info *info = vki_format_get(format);
    for (size_t i = 0; i < n / info->block_weights; i++)
        quantize_block(format, weights + i * info->block_weights, blocks + i * info->block_bytes);
}
