/* format.c - the table of weight formats, and the values of those that are plain floats.
 *
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

#define UNIT(bytes) {bytes, false}
#define SUPER(bytes) {bytes, true}

static const vki_format_info formats[VKI_FORMAT_COUNT] = {
    [VKI_F32] = {"F32", "f32", 0, 1, 4, 1, {UNIT(128)}},
    [VKI_F16] = {"F16", "f16", 1, 1, 2, 1, {UNIT(64)}},
    [VKI_BF16] = {"BF16", "bf16", 30, 1, 2, 1, {UNIT(64)}},
    [VKI_Q8_0] = {"Q8_0", "q8_0", 8, 32, 34, 2, {UNIT(32), UNIT(2)}},
    [VKI_Q4_0] = {"Q4_0", "q4_0", 2, 32, 18, 2, {UNIT(16), UNIT(2)}},
    [VKI_Q4_1] = {"Q4_1", "q4_1", 3, 32, 20, 2, {UNIT(16), UNIT(4)}},
    [VKI_Q5_0] = {"Q5_0", "q5_0", 6, 32, 22, 3, {UNIT(16), UNIT(4), UNIT(2)}},
    [VKI_Q5_1] = {"Q5_1", "q5_1", 7, 32, 24, 3, {UNIT(16), UNIT(4), UNIT(4)}},
    [VKI_Q4_K] = {"Q4_K", "q4_k", 12, 256, 144, 2, {UNIT(16), SUPER(16)}},
    [VKI_Q6_K] = {"Q6_K", "q6_k", 14, 256, 210, 4, {UNIT(16), UNIT(8), SUPER(16), SUPER(2)}},
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

void vki_floats_decode(vki_format format, const uint8_t *from, uint64_t n, float *values)
{
    assert(format <= VKI_BF16);
    for (uint64_t i = 0; i < n; i++)
        values[i] = format == VKI_F32 ? vki_float_of_bits(vki_load32(from + 4 * i))
                  : format == VKI_F16 ? vki_f16_to_f32(vki_load16(from + 2 * i))
                                      : vki_float_of_bits((uint32_t)vki_load16(from + 2 * i) << 16);
}
