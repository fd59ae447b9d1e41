/* Weight formats: the decoders against known blocks, half floats against arithmetic, and planes
 * against the decoders and against the layout that format.h promises to the shaders. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/format.h"
#include "file/little.h"
#include "ref/formats_ref.h"
#include "support/quantize.h"
#include "support/suite.h"

enum { MAX_VECTOR_BYTES = 1024, MAX_VECTOR_WEIGHTS = 512 };

static void fill_random(uint8_t *bytes, size_t size, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(state >> 24);
    }
}

/* Random blocks whose scales are finite numbers. */
static void fill_blocks(vki_format format, uint8_t *blocks, size_t n_weights, uint32_t seed)
{
    static const struct {
        size_t at[2];
        int count;
    } scales[VKI_FORMAT_COUNT] = {
        [VKI_Q8_0] = {{0}, 1},   [VKI_Q4_0] = {{0}, 1},    [VKI_Q4_1] = {{0, 2}, 2},
        [VKI_Q5_0] = {{0}, 1},   [VKI_Q5_1] = {{0, 2}, 2}, [VKI_Q4_K] = {{0, 2}, 2},
        [VKI_Q6_K] = {{208}, 1}, [VKI_F16] = {{0}, 1},     [VKI_BF16] = {{0}, 1},
        [VKI_F32] = {{2}, 1},
    };
    const vki_format_info *info = vki_format_get(format);
    fill_random(blocks, quantized_size(format, n_weights), seed);
    for (size_t i = 0; i < n_weights / info->block_weights; i++)
        for (int s = 0; s < scales[format].count; s++)
            blocks[i * info->block_bytes + scales[format].at[s] + 1] &= 0xbf;
}

static size_t read_hex(const char *text, uint8_t *bytes)
{
    size_t n = 0;
    unsigned byte;
    for (; sscanf(text + 2 * n, "%2x", &byte) == 1; n++) bytes[n] = (uint8_t)byte;
    return n;
}

static void check_vector(uint32_t ggml_id, const uint8_t *blocks, size_t size, char *expected,
                         const char *name)
{
    vki_format format;
    ck_assert(vki_format_from_ggml(ggml_id, &format));
    const vki_format_info *info = vki_format_get(format);
    const size_t n = size / info->block_bytes * info->block_weights;
    float weights[MAX_VECTOR_WEIGHTS];
    ck_assert_uint_le(n, MAX_VECTOR_WEIGHTS);
    ref_decode(format, blocks, n, weights);
    for (size_t i = 0; i < n; i++) {
        const uint32_t wanted = (uint32_t)strtoul(expected, &expected, 16);
        ck_assert_msg(vki_bits_of_float(weights[i]) == wanted, "%s: weight %zu is %08x, not %08x",
                      name, i, vki_bits_of_float(weights[i]), wanted);
    }
}

START_TEST(decoders_give_the_known_bits)
{
    FILE *file = fopen(VKLM_SOURCE_DIR "/tests/data/quant-vectors.txt", "r");
    ck_assert_ptr_nonnull(file);
    static char line[16384];
    char name[64] = "";
    uint8_t blocks[MAX_VECTOR_BYTES];
    size_t size = 0;
    int n_vectors = 0;
    unsigned ggml_id = 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "vector ", 7) == 0)
            ck_assert_int_eq(sscanf(line, "vector %63s type=%u", name, &ggml_id), 2);
        else if (strncmp(line, "in ", 3) == 0)
            size = read_hex(line + 3, blocks);
        else if (strncmp(line, "out ", 4) == 0) {
            check_vector(ggml_id, blocks, size, line + 4, name);
            n_vectors++;
        }
    }
    fclose(file);
    ck_assert_int_eq(n_vectors, 17);
}
END_TEST

/* Half floats by arithmetic: sign * mantissa * 2^exponent. */
static double half_value(uint32_t bits)
{
    const int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

START_TEST(every_half_float_widens_exactly)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = vki_f16_to_f32((uint16_t)bits);
        const double wanted = half_value(bits);
        if (isnan(wanted)) {
            ck_assert(isnan(value));
        } else {
            ck_assert_msg((double)value == wanted, "%04x", bits);
            ck_assert_int_eq(signbit(value) != 0, signbit(wanted) != 0);
        }
    }
}
END_TEST

START_TEST(every_half_float_narrows_to_itself)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const uint16_t back = ref_f32_to_f16(vki_f16_to_f32((uint16_t)bits));
        if (isnan(half_value(bits)))
            ck_assert_uint_eq(back, bits | 0x0200);
        else
            ck_assert_uint_eq(back, bits);
    }
}
END_TEST

START_TEST(narrowing_rounds_to_nearest_and_ties_to_even)
{
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        const float low = vki_f16_to_f32((uint16_t)bits);
        const float high = bits == 0x7bff ? 65536 : vki_f16_to_f32((uint16_t)(bits + 1));
        const float middle = (low + high) / 2; /* exact */
        const uint16_t even = (uint16_t)(bits + (bits & 1));
        ck_assert_uint_eq(ref_f32_to_f16(middle), even);
        ck_assert_uint_eq(ref_f32_to_f16(nextafterf(middle, 0)), bits);
        ck_assert_uint_eq(ref_f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
        ck_assert_uint_eq(ref_f32_to_f16(-middle), even | 0x8000);
    }
    ck_assert_uint_eq(ref_f32_to_f16(1e30f), 0x7c00);
    ck_assert_uint_eq(ref_f32_to_f16(-INFINITY), 0xfc00);
    ck_assert_uint_eq(ref_f32_to_f16(1e-40f), 0);
}
END_TEST

START_TEST(types_have_names_and_sizes)
{
    static const struct {
        uint32_t id;
        const char *name;
        uint32_t weights, bytes;
    } types[] = {
        {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
        {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
        {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
        {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
        {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
        {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
        {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
        {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
        {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
        {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
        {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
        {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
    };
    uint32_t next = 0;
    for (uint32_t id = 0; id < 100; id++) {
        const char *name = NULL;
        uint32_t weights, bytes;
        const bool known = vki_ggml_type(id, &name, &weights, &bytes);
        ck_assert_int_eq(known, next < sizeof types / sizeof *types && types[next].id == id);
        if (!known) continue;
        ck_assert_str_eq(name, types[next].name);
        ck_assert_uint_eq(weights, types[next].weights);
        ck_assert_uint_eq(bytes, types[next].bytes);
        next++;
    }
    ck_assert_uint_eq(next, sizeof types / sizeof *types);
}
END_TEST

START_TEST(planes_decode_to_the_same_bits_as_the_file)
{
    static const uint64_t all_rows[] = {1, 3, 7}, all_blocks[] = {1, 2, 3, 5, 33};
    for (int f = 0; f < VKI_FORMAT_COUNT; f++) {
        const vki_format_info *info = vki_format_get((vki_format)f);
        for (size_t i = 0; i < 15; i++) {
            const uint64_t rows = all_rows[i % 3], cols = all_blocks[i / 3] * info->block_weights;
            const size_t row_bytes = quantized_size((vki_format)f, cols);
            vki_planes planes;
            ck_assert(vki_planes_init(&planes, (vki_format)f, rows, cols));
            const size_t padded = (size_t)planes.units * VKI_UNIT_WEIGHTS;
            uint8_t *file = malloc(rows * row_bytes), *base = malloc(planes.size_bytes);
            float *wanted = malloc(cols * sizeof *wanted), *got = malloc(padded * sizeof *got);
            fill_blocks((vki_format)f, file, rows * cols, (uint32_t)i + 1);
            memset(base, 0xff, planes.size_bytes);
            for (uint32_t row = (uint32_t)rows; row-- > 0;)
                vki_planes_pack_row(&planes, file + row * row_bytes, cols, row, base);
            for (uint32_t row = 0; row < rows; row++) {
                ref_decode((vki_format)f, file + row * row_bytes, cols, wanted);
                ref_decode_planes(&planes, base, row, got);
                ck_assert_msg(memcmp(wanted, got, cols * sizeof *got) == 0, "%s row %u of %u x %u",
                              info->name, row, (unsigned)rows, (unsigned)cols);
                for (size_t w = cols; w < padded; w++)
                    ck_assert_uint_eq(vki_bits_of_float(got[w]), 0);
            }
            free(file);
            free(base);
            free(wanted);
            free(got);
        }
    }
}
END_TEST

/* One block of zeros with one bit set, packed: the dword of plane 1 where it must have gone. */
static uint32_t packed_high_bit(vki_format format, size_t bit_in_block, size_t dword)
{
    const vki_format_info *info = vki_format_get(format);
    uint8_t block[256] = {0}, base[1024];
    vki_planes planes;
    ck_assert(vki_planes_init(&planes, format, 1, info->block_weights));
    ck_assert_uint_le(planes.size_bytes, sizeof base);
    block[bit_in_block / 8] = (uint8_t)(1u << bit_in_block % 8);
    vki_planes_pack_row(&planes, block, info->block_weights, 0, base);
    return vki_load32(base + planes.offset[1] + 4 * dword);
}

START_TEST(fifth_bits_lie_where_the_shaders_look)
{
    for (unsigned w = 0; w < 32; w++) {
        const unsigned c = w % 4, i = w / 4; /* i from 4 on: the high nibbles */
        ck_assert_uint_eq(packed_high_bit(VKI_Q5_0, 2 * 8 + w, 0), 1u << (8 * c + i));
        ck_assert_uint_eq(packed_high_bit(VKI_Q5_1, 4 * 8 + w, 0), 1u << (8 * c + i));
    }
}
END_TEST

START_TEST(q6_k_high_bits_lie_where_the_shaders_look)
{
    for (unsigned w = 0; w < 256; w++) {
        const unsigned half = w / 128, unit = w / 32 % 4, l = w % 32;
        const unsigned c = l % 4, i = l % 16 / 4;
        for (unsigned b = 0; b < 2; b++)
            ck_assert_uint_eq(packed_high_bit(VKI_Q6_K, (128 + 32 * half + l) * 8 + 2 * unit + b,
                                              w / 32 * 2 + l / 16),
                              1u << (8 * c + 2 * i + b));
    }
}
END_TEST

START_TEST(q4_k_scales_lie_where_the_shaders_look)
{
    uint8_t block[144], base[512];
    vki_planes planes;
    fill_random(block, sizeof block, 5);
    ck_assert(vki_planes_init(&planes, VKI_Q4_K, 1, 256));
    ck_assert_uint_le(planes.size_bytes, sizeof base);
    vki_planes_pack_row(&planes, block, 256, 0, base);
    const uint8_t *super = base + planes.offset[1], *s = block + 4;
    ck_assert_mem_eq(super, block, 4);
    for (unsigned k = 0; k < 8; k++) {
        const unsigned high = vki_load32(super + 12);
        const unsigned scale = (vki_load32(super + 4) >> 4 * k & 15) | (high >> 2 * k & 3) << 4;
        const unsigned min = (vki_load32(super + 8) >> 4 * k & 15) | (high >> (16 + 2 * k) & 3)
                                                                         << 4;
        ck_assert_uint_eq(scale, k < 4 ? s[k] & 63u : (s[k + 4] & 15u) | (unsigned)(s[k - 4] >> 6) << 4);
        ck_assert_uint_eq(min, k < 4 ? s[k + 4] & 63u : s[k + 4] >> 4 | (unsigned)(s[k] >> 6) << 4);
    }
}
END_TEST

START_TEST(planes_are_aligned_and_no_larger_than_the_file)
{
    for (int f = 0; f < VKI_FORMAT_COUNT; f++) {
        vki_planes planes;
        ck_assert(vki_planes_init(&planes, (vki_format)f, 512, 2048));
        ck_assert_uint_eq(planes.size_bytes, quantized_size((vki_format)f, 512 * 2048));
        for (uint32_t p = 0; p < vki_format_get((vki_format)f)->n_planes; p++)
            ck_assert_uint_eq(planes.offset[p] % VKI_PLANE_ALIGNMENT, 0);
    }
}
END_TEST

START_TEST(planes_beyond_32_bits_are_refused)
{
    vki_planes planes;
    ck_assert(vki_planes_init(&planes, VKI_F32, 1u << 15, 1u << 15));
    ck_assert(!vki_planes_init(&planes, VKI_F32, (1u << 15) + 1, 1u << 15));
    ck_assert(!vki_planes_init(&planes, VKI_Q8_0, 1u << 16, 1u << 16));
    ck_assert(!vki_planes_init(&planes, VKI_F32, UINT32_MAX, UINT32_MAX));
    ck_assert(!vki_planes_init(&planes, VKI_F32, UINT64_MAX, 32));
    ck_assert(!vki_planes_init(&planes, VKI_F32, 1, UINT64_MAX));
    ck_assert(vki_planes_init(&planes, VKI_Q6_K, 0, 256));
    ck_assert_uint_eq(planes.size_bytes, 0);
}
END_TEST

/* Root mean square error over the root mean square of weights between -1 and 1: what so many bits
 * can do. */
START_TEST(the_test_quantiser_is_near)
{
    static const double bound[VKI_FORMAT_COUNT] = {
        [VKI_F32] = 0,     [VKI_F16] = 3e-4,   [VKI_BF16] = 3e-3,  [VKI_Q8_0] = 6e-3,
        [VKI_Q4_0] = 0.09, [VKI_Q4_1] = 0.075, [VKI_Q5_0] = 0.045, [VKI_Q5_1] = 0.036,
        [VKI_Q4_K] = 0.08, [VKI_Q6_K] = 0.025,
    };
    enum { N = 4096 };
    static float weights[N], decoded[N];
    static uint8_t blocks[4 * N], noise[4 * N];
    fill_random(noise, sizeof noise, 9);
    for (int i = 0; i < N; i++) weights[i] = (float)(int32_t)vki_load32(noise + 4 * i) * 0x1p-31f;
    for (int f = 0; f < VKI_FORMAT_COUNT; f++) {
        double difference = 0, energy = 0;
        quantize((vki_format)f, weights, N, blocks);
        ref_decode((vki_format)f, blocks, N, decoded);
        for (int i = 0; i < N; i++) {
            difference += pow((double)decoded[i] - (double)weights[i], 2);
            energy += pow((double)weights[i], 2);
        }
        const double error = sqrt(difference / energy);
        ck_assert_msg(error <= bound[f], "%s: %g", vki_format_get((vki_format)f)->name, error);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        decoders_give_the_known_bits,
        every_half_float_widens_exactly,
        every_half_float_narrows_to_itself,
        narrowing_rounds_to_nearest_and_ties_to_even,
        types_have_names_and_sizes,
        planes_decode_to_the_same_bits_as_the_file,
        fifth_bits_lie_where_the_shaders_look,
        q6_k_high_bits_lie_where_the_shaders_look,
        q4_k_scales_lie_where_the_shaders_look,
        planes_are_aligned_and_no_larger_than_the_file,
        planes_beyond_32_bits_are_refused,
        the_test_quantiser_is_near,
    };
    return run_tests("format", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
