/* test_rope_table.c - the rotary tables against cosines and sines of the formulas. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "model/rope_table.h"
#include "ref/formats_ref.h"
#include "support/suite.h"
#include "support/tiny_model.h"

enum { N_ROT = 64, PAIRS = N_ROT / 2 };

static vki_hparams h;
static float *table;
static float divisors[PAIRS];

/* The table of a model; `base` names the tensor whose values go to `divisors`, or is NULL. */
static void make(const tiny_model *m, uint32_t which, const char *base)
{
    vklm_error error = {0};
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    gguf_writer *w = tiny_model_write(m);
    vki_gguf gguf;
    ck_assert_int_eq(gguf_writer_open(w, &host, &error, &gguf), VKLM_OK);
    ck_assert_msg(vki_hparams_read(&gguf, &error, &h) == VKLM_OK, "%s", error.text);
    ck_assert_uint_eq(h.n_rot, N_ROT);
    free(table);
    table = malloc((size_t)vki_rope_table_bytes(&h)); /* exact, so that a sanitiser sees any overrun */
    ck_assert_int_eq(vki_rope_table_make(&h, &gguf, which, &host, &error, table), VKLM_OK);
    if (base) {
        const vki_gguf_tensor *tensor = vki_gguf_find_tensor(&gguf, base);
        ck_assert_ptr_nonnull(tensor);
        ref_decode(VKI_F32, tensor->data, PAIRS, divisors);
    }
    vki_gguf_close(&gguf);
    gguf_writer_free(w);
}

/* The rotation of a pair at some positions, low and high part put together as kernels do. */
static void check_pair(uint32_t pair, double frequency, double factor)
{
    static const uint32_t positions[] = {0, 1, 255, 256, 300, 1023, 130000};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        const uint32_t p = positions[i];
        if (p >= h.context_length) break;
        const float *low = table + p % VKI_ROPE_LOW * N_ROT + 2 * pair;
        const float *high = table + (VKI_ROPE_LOW + p / VKI_ROPE_LOW) * N_ROT + 2 * pair;
        const double c = (double)low[0] * high[0] - (double)low[1] * high[1];
        const double s = (double)low[1] * high[0] + (double)low[0] * high[1];
        ck_assert_double_le(fabs(c - factor * cos(p * frequency)), 2e-7 * factor);
        ck_assert_double_le(fabs(s - factor * sin(p * frequency)), 2e-7 * factor);
    }
}

static double plain(double base, uint32_t pair)
{
    return pow(base, -2.0 * pair / N_ROT);
}

START_TEST(every_angle_is_there_up_to_long_contexts)
{
    tiny_model m = tiny_model_of("llama");
    m.context_length = 131072;
    make(&m, VKI_ROPE_FULL, NULL);
    for (uint32_t i = 0; i < PAIRS; i++) check_pair(i, plain(10000, i), 1);
}
END_TEST

START_TEST(windowed_layers_turn_with_their_own_base_unscaled)
{
    tiny_model m = tiny_model_of("gemma3");
    m.rope_scaling = "linear";
    m.rope_factor = 8;
    make(&m, VKI_ROPE_FULL, NULL);
    for (uint32_t i = 0; i < PAIRS; i++) check_pair(i, plain(1000000, i) / 8, 1);
    make(&m, VKI_ROPE_WINDOWED, NULL);
    for (uint32_t i = 0; i < PAIRS; i++) check_pair(i, plain(10000, i), 1);
}
END_TEST

START_TEST(divisors_come_from_the_file)
{
    tiny_model m = tiny_model_of("llama");
    m.rope_divisors = true;
    make(&m, VKI_ROPE_FULL, "rope_freqs.weight");
    for (uint32_t i = 0; i < PAIRS; i++) check_pair(i, plain(10000, i) / divisors[i], 1);
}
END_TEST

START_TEST(longrope_chooses_by_the_context_of_the_model)
{
    tiny_model m = tiny_model_of("llama");
    m.rope_divisors = true;
    m.rope_scaling = "longrope";
    m.rope_original_context = 512; /* of 1024 */
    m.rope_attn_factor = 1.25f;
    make(&m, VKI_ROPE_FULL, "rope_factors_long.weight");
    for (uint32_t i = 0; i < PAIRS; i++) check_pair(i, plain(10000, i) / divisors[i], 1.25);
    m.rope_original_context = 1024;
    make(&m, VKI_ROPE_FULL, "rope_factors_short.weight");
    for (uint32_t i = 0; i < PAIRS; i++) check_pair(i, plain(10000, i) / divisors[i], 1.25);
}
END_TEST

/* The published figures of gpt-oss: base 150000, 32 pairs, factor 32, original context 4096: pairs
 * up to 8 stay, from 18 on they are divided. */
START_TEST(yarn_keeps_fast_pairs_and_divides_slow_ones)
{
    tiny_model m = tiny_model_of("llama");
    m.rope_base = 150000;
    m.rope_scaling = "yarn";
    m.rope_factor = 32;
    m.rope_original_context = 4096;
    make(&m, VKI_ROPE_FULL, NULL);
    for (uint32_t i = 0; i < PAIRS; i++) {
        const double kept = fmin(1, fmax(0, (18.0 - i) / 10));
        check_pair(i, plain(150000, i) * (kept + (1 - kept) / 32), 1 + 0.1 * log(32));
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        every_angle_is_there_up_to_long_contexts,
        windowed_layers_turn_with_their_own_base_unscaled,
        divisors_come_from_the_file,
        longrope_chooses_by_the_context_of_the_model,
        yarn_keeps_fast_pairs_and_divides_slow_ones,
    };
    return run_tests("rope_table", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
