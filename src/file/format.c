/* format.c - the table of weight formats and their scalar decoders.
 *
 * The decoders are the reference that shaders and tests are held to: f32 arithmetic in the order
 * of the formats' definition (scale product, times quant, then the offset). Each product is stored
 * before anything is added to it, so that no compiler fuses the two into another rounding.
 * Formats that vklm cannot run have only a name and a size here: the reader must step over them.
 */
#include "file/format.h"

#include <assert.h>

#include "file/little.h"

enum { F16_INFINITY = 0x7c00, F32_INFINITY = 0x7f800000 };

float vki_f16_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t magnitude = bits & 0x7fff;
    if (magnitude >= F16_INFINITY) return vki_float_of_bits(sign | F32_INFINITY | magnitude << 13);
    if (magnitude >= 0x0400) /* normal: the exponent's bias goes from 15 to 127 */
        return vki_float_of_bits(sign | ((magnitude << 13) + ((127u - 15) << 23)));
    /* Subnormals by integer conversion: right also where the host flushes f32 subnormals. */
    const float value = (float)magnitude * 0x1p-24f;
    return sign ? -value : value;
}

/* value / 2^shift to the nearest integer, ties to even; shift from 1 to 31. */
static uint32_t shift_round(uint32_t value, uint32_t shift)
{
    const uint32_t odd = value >> shift & 1;
    return (value + (1u << (shift - 1)) - 1 + odd) >> shift;
}

uint16_t vki_f32_to_f16(float value)
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

static float load_f16(const uint8_t *bytes)
{
    return vki_f16_to_f32(vki_load16(bytes));
}

static void decode_f32(const uint8_t *block, float *weights)
{
    *weights = vki_float_of_bits(vki_load32(block));
}

static void decode_f16(const uint8_t *block, float *weights)
{
    *weights = load_f16(block);
}

static void decode_bf16(const uint8_t *block, float *weights)
{
    *weights = vki_float_of_bits((uint32_t)vki_load16(block) << 16);
}

static void decode_q8_0(const uint8_t *block, float *weights)
{
    const float d = load_f16(block);
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
    decode_nibbles(block + 2, 0, 8, load_f16(block), weights);
}

static void decode_q4_1(const uint8_t *block, float *weights)
{
    decode_nibbles(block + 4, 0, 0, load_f16(block), weights);
    add_min(load_f16(block + 2), weights);
}

static void decode_q5_0(const uint8_t *block, float *weights)
{
    decode_nibbles(block + 6, vki_load32(block + 2), 16, load_f16(block), weights);
}

static void decode_q5_1(const uint8_t *block, float *weights)
{
    decode_nibbles(block + 8, vki_load32(block + 4), 0, load_f16(block), weights);
    add_min(load_f16(block + 2), weights);
}

void vki_q4_k_scale(const uint8_t *scales, int k, uint32_t *scale, uint32_t *min)
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
    const float d = load_f16(block), dmin = load_f16(block + 2);
    for (int k = 0; k < 8; k++) {
        uint32_t scale, min;
        vki_q4_k_scale(block + 4, k, &scale, &min);
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
    const float d = load_f16(block + 208);
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

#define UNIT(bytes) {bytes, false}
#define SUPER(bytes) {bytes, true}

static const vki_format_info formats[VKI_FORMAT_COUNT] = {
    [VKI_F32] = {"F32", "f32", 0, 1, 4, 1, {UNIT(128)}, decode_f32},
    [VKI_F16] = {"F16", "f16", 1, 1, 2, 1, {UNIT(64)}, decode_f16},
    [VKI_BF16] = {"BF16", "bf16", 30, 1, 2, 1, {UNIT(64)}, decode_bf16},
    [VKI_Q8_0] = {"Q8_0", "q8_0", 8, 32, 34, 2, {UNIT(32), UNIT(2)}, decode_q8_0},
    [VKI_Q4_0] = {"Q4_0", "q4_0", 2, 32, 18, 2, {UNIT(16), UNIT(2)}, decode_q4_0},
    [VKI_Q4_1] = {"Q4_1", "q4_1", 3, 32, 20, 2, {UNIT(16), UNIT(4)}, decode_q4_1},
    [VKI_Q5_0] = {"Q5_0", "q5_0", 6, 32, 22, 3, {UNIT(16), UNIT(4), UNIT(2)}, decode_q5_0},
    [VKI_Q5_1] = {"Q5_1", "q5_1", 7, 32, 24, 3, {UNIT(16), UNIT(4), UNIT(4)}, decode_q5_1},
    [VKI_Q4_K] = {"Q4_K", "q4_k", 12, 256, 144, 2, {UNIT(16), SUPER(16)}, decode_q4_k},
    [VKI_Q6_K] = {"Q6_K", "q6_k", 14, 256, 210, 4, {UNIT(16), UNIT(8), SUPER(16), SUPER(2)},
                  decode_q6_k},
};

/* The types of a GGUF file that vklm knows only by name and size. */
static const struct {
    const char *name;
    uint32_t ggml_id, block_weights, block_bytes;
} other_types[] = {
    {"Q8_1", 9, 32, 36},      {"Q2_K", 10, 256, 84},    {"Q3_K", 11, 256, 110},
    {"Q5_K", 13, 256, 176},   {"Q8_K", 15, 256, 292},   {"IQ2_XXS", 16, 256, 66},
    {"IQ2_XS", 17, 256, 74},  {"IQ3_XXS", 18, 256, 98}, {"IQ1_S", 19, 256, 50},
    {"IQ4_NL", 20, 32, 18},   {"IQ3_S", 21, 256, 110},  {"IQ2_S", 22, 256, 82},
    {"IQ4_XS", 23, 256, 136}, {"I8", 24, 1, 1},         {"I16", 25, 1, 2},
    {"I32", 26, 1, 4},        {"I64", 27, 1, 8},        {"F64", 28, 1, 8},
    {"IQ1_M", 29, 256, 56},   {"TQ1_0", 34, 256, 54},   {"TQ2_0", 35, 256, 66},
    {"MXFP4", 39, 32, 17},    {"NVFP4", 40, 64, 36},    {"Q1_0", 41, 128, 18},
    {"Q2_0", 42, 64, 18},
};

const vki_format_info *vki_format_get(vki_format format)
{
    assert(format < VKI_FORMAT_COUNT);
    return &formats[format];
}

bool vki_format_from_ggml(uint32_t ggml_id, vki_format *format_out)
{
    for (uint32_t i = 0; i < VKI_FORMAT_COUNT; i++) {
        if (formats[i].ggml_id != ggml_id) continue;
        *format_out = (vki_format)i;
        return true;
    }
    return false;
}

bool vki_ggml_type(uint32_t ggml_id, const char **name, uint32_t *block_weights, uint32_t *block_bytes)
{
    vki_format format;
    if (vki_format_from_ggml(ggml_id, &format)) {
        *name = formats[format].name;
        *block_weights = formats[format].block_weights;
        *block_bytes = formats[format].block_bytes;
        return true;
    }
    for (size_t i = 0; i < sizeof other_types / sizeof *other_types; i++) {
        if (other_types[i].ggml_id != ggml_id) continue;
        *name = other_types[i].name;
        *block_weights = other_types[i].block_weights;
        *block_bytes = other_types[i].block_bytes;
        return true;
    }
    return false;
}

void vki_format_decode(vki_format format, const uint8_t *blocks, uint64_t n, float *weights)
{
    const vki_format_info *info = vki_format_get(format);
    assert(n % info->block_weights == 0);
    for (uint64_t i = 0; i < n / info->block_weights; i++)
        info->decode(blocks + i * info->block_bytes, weights + i * info->block_weights);
}
