/* test_hparams.c - metadata of all architectures: what is read, and every way in which it can be
 * wrong. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"
#include "support/suite.h"
#include "support/tiny_model.h"

static vklm_error error;
static vki_hparams h;
static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};

static vklm_status read_hparams(const tiny_model *m)
{
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    gguf_writer *w = tiny_model_write(m);
    vki_gguf gguf;
    vklm_status status = gguf_writer_open(w, &host, &error, &gguf);
    ck_assert_msg(status == VKLM_OK, "%s", error.text);
    status = vki_hparams_read(&gguf, &error, &h);
    vki_gguf_close(&gguf);
    gguf_writer_free(w);
    return status;
}

#define EXPECT_OK(m) ck_assert_msg(read_hparams(m) == VKLM_OK, "%s", error.text)
#define EXPECT(m, status, part)                                                                    \
    do {                                                                                           \
        ck_assert_int_eq(read_hparams(m), status);                                                 \
        ck_assert_msg(strstr(error.text, part) != NULL, "no \"%s\" in: %s", part, error.text);     \
    } while (0)

/* One more key, put in place of what the model would have written. */
typedef struct another_key {
    char key[96];
    enum { U32, F32, I32S, STRING, BOOLS } type;
    uint32_t number;
    float real;
    const char *text;
    const int32_t *numbers;
    const bool *bools;
    size_t n;
} another_key;

static void put_key(gguf_writer *w, void *user)
{
    const another_key *k = user;
    switch (k->type) {
    case U32: gguf_put_u32(w, k->key, k->number); break;
    case F32: gguf_put_f32(w, k->key, k->real); break;
    case I32S: gguf_put_i32s(w, k->key, k->n, k->numbers); break;
    case STRING: gguf_put_string(w, k->key, k->text); break;
    case BOOLS: gguf_put_bools(w, k->key, k->n, k->bools); break;
    }
}

/* The architecture's model with ARCH.suffix as given; *k must outlive the model. */
static tiny_model model_with(const char *arch, const char *suffix, another_key *k)
{
    tiny_model m = tiny_model_of(arch);
    snprintf(k->key, sizeof k->key, "%s.%s", arch, suffix);
    m.omitted[0] = k->key;
    m.extra = put_key;
    m.extra_user = k;
    return m;
}

/* ---- What is read ---- */

START_TEST(all_numbers_of_llama_are_read)
{
    tiny_model m = tiny_model_of("llama");
    m.n_layer = 3;
    EXPECT_OK(&m);
    ck_assert_str_eq(h.arch->name, "llama");
    ck_assert_uint_eq(h.n_layer, 3);
    ck_assert_uint_eq(h.d_model, 256);
    ck_assert_uint_eq(h.n_head, 4);
    ck_assert_uint_eq(h.n_head_kv, 2);
    ck_assert_uint_eq(h.d_head, 64);
    ck_assert_uint_eq(h.d_ff, 512);
    ck_assert_uint_eq(h.n_vocab, 272);
    ck_assert_uint_eq(h.context_length, 1024);
    ck_assert_uint_eq(h.n_rot, 64);
    ck_assert(h.norm_epsilon == 1e-5f);
    ck_assert(h.attention_scale == 0.125f);
    ck_assert(h.embedding_scale == 1);
    ck_assert_int_eq(h.activation, VKI_SILU);
    ck_assert_uint_eq(h.window, 0);
    ck_assert(h.rope_base == 10000);
    ck_assert_int_eq(h.rope_scaling, VKI_ROPE_PLAIN);
}
END_TEST

START_TEST(heads_may_be_wider_than_the_model)
{
    tiny_model m = tiny_model_of("qwen3");
    EXPECT_OK(&m);
    ck_assert_uint_eq(h.d_head, 128);
    ck_assert_uint_eq(h.n_rot, 128);
    ck_assert(h.attention_scale == 1 / sqrtf(128));
}
END_TEST

START_TEST(gemma3_brings_windows_gelu_and_scales)
{
    tiny_model m = tiny_model_of("gemma3");
    m.n_layer = 13;
    m.window_period = 0; /* no key: every sixth layer sees all */
    EXPECT_OK(&m);
    ck_assert_int_eq(h.activation, VKI_GELU);
    ck_assert(h.embedding_scale == 16);
    ck_assert(h.rope_base == 1000000 && h.rope_base_windowed == 10000);
    ck_assert_uint_eq(h.window, 8);
    for (uint32_t l = 0; l < 13; l++) ck_assert(h.windowed[l] == (l != 5 && l != 11));
}
END_TEST

START_TEST(windows_follow_a_period_or_a_list)
{
    tiny_model m = tiny_model_of("gemma3");
    m.n_layer = 4;
    EXPECT_OK(&m);
    ck_assert(h.windowed[0] && !h.windowed[1] && h.windowed[2] && !h.windowed[3]);
    m.window_period = 1;
    EXPECT_OK(&m);
    for (uint32_t l = 0; l < 4; l++) ck_assert(!h.windowed[l]);
    m.window_pattern = (const bool[]){false, true, true, false};
    EXPECT_OK(&m);
    ck_assert(!h.windowed[0] && h.windowed[1] && h.windowed[2] && !h.windowed[3]);
    m.window = 0;
    EXPECT_OK(&m);
    ck_assert(!h.windowed[1]);

    another_key k = {.type = BOOLS, .n = 2, .bools = (const bool[]){false, true}};
    m = model_with("gemma3", "attention.sliding_window_pattern", &k);
    m.window_period = 0;
    m.n_layer = 3;
    EXPECT(&m, VKLM_BAD_FILE, "one entry for each layer");
}
END_TEST

START_TEST(other_architectures_ignore_windows)
{
    tiny_model m = tiny_model_of("qwen2");
    m.window = 4;
    EXPECT_OK(&m);
    ck_assert_uint_eq(h.window, 0);
    ck_assert(!h.windowed[0]);
}
END_TEST

START_TEST(gemma3_of_62_layers_scales_by_its_width)
{
    tiny_model m = tiny_model_of("gemma3");
    m.n_layer = 62;
    m.d_model = m.d_ff = 64;
    m.n_head = 2;
    m.n_head_kv = 1;
    m.d_head = 16;
    EXPECT_OK(&m);
    ck_assert(h.attention_scale == 1 / sqrtf(32));
}
END_TEST

START_TEST(rope_scaling_is_read_as_the_reference_reads_it)
{
    tiny_model m = tiny_model_of("llama");
    m.rope_factor = 4;
    EXPECT_OK(&m); /* a factor alone is linear */
    ck_assert_int_eq(h.rope_scaling, VKI_ROPE_LINEAR);
    ck_assert(h.rope_factor == 4);
    m.rope_scaling = "none";
    EXPECT_OK(&m);
    ck_assert_int_eq(h.rope_scaling, VKI_ROPE_PLAIN);
    ck_assert(h.rope_factor == 1);
    m.rope_scaling = "yarn";
    m.rope_original_context = 256;
    m.rope_attn_factor = 1.5f;
    EXPECT_OK(&m);
    ck_assert_int_eq(h.rope_scaling, VKI_ROPE_YARN);
    ck_assert_uint_eq(h.rope_original_context, 256);
    ck_assert(h.rope_attention_factor == 1.5f);
    m.rope_scaling = "longrope";
    EXPECT_OK(&m);
    ck_assert_int_eq(h.rope_scaling, VKI_ROPE_LONG);
    another_key k = {.type = F32, .real = 0};
    m = model_with("llama", "rope.scaling.factor", &k);
    m.rope_scaling = "linear";
    EXPECT_OK(&m);
    ck_assert_int_eq(h.rope_scaling, VKI_ROPE_PLAIN);
    k = (another_key){.type = F32, .real = 2};
    m = model_with("llama", "rope.scale_linear", &k);
    EXPECT_OK(&m);
    ck_assert(h.rope_factor == 2);
}
END_TEST

START_TEST(counts_may_come_as_one_for_each_layer)
{
    static const char *const suffixes[] = {
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
    };
    for (size_t i = 0; i < 3; i++) {
        const int32_t count = i == 0 ? 512 : i == 1 ? 4 : 2;
        another_key k = {.type = I32S, .n = 2, .numbers = (const int32_t[]){count, count}};
        tiny_model m = model_with("llama", suffixes[i], &k);
        EXPECT_OK(&m);
        ck_assert_uint_eq(i == 0 ? h.d_ff : i == 1 ? h.n_head : h.n_head_kv, (uint32_t)count);
        k.numbers = (const int32_t[]){count, count * 2};
        EXPECT(&m, VKLM_UNSUPPORTED, suffixes[i]);
        k.numbers = (const int32_t[]){-1, -1};
        EXPECT(&m, VKLM_BAD_FILE, suffixes[i]);
        k.n = 1;
        EXPECT(&m, VKLM_BAD_FILE, "one entry for each layer");
        k.n = 0;
        EXPECT(&m, VKLM_BAD_FILE, suffixes[i]);
    }
}
END_TEST

/* ---- What is wrong ---- */

static const char *const required[] = {
    "context_length",      "embedding_length",     "block_count",
    "feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon",
};

START_TEST(a_required_key_is_missing)
{
    for (size_t a = 0; a < 4; a++)
        for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
            another_key k;
            tiny_model m = model_with(archs[a], required[i], &k);
            m.extra = NULL;
            EXPECT(&m, VKLM_BAD_FILE, "is missing");
            ck_assert_msg(strstr(error.text, k.key) != NULL, "%s", error.text);
        }
}
END_TEST

START_TEST(a_count_is_zero_or_of_another_type_or_absurd)
{
    static const char *const counts[] = {
        "context_length",       "embedding_length",
        "block_count",          "feed_forward_length",
        "attention.head_count", "attention.head_count_kv",
        "attention.key_length", "attention.value_length",
        "rope.dimension_count", "rope.scaling.original_context_length",
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        another_key k = {.type = U32, .number = 0};
        tiny_model m = model_with("llama", counts[i], &k);
        EXPECT(&m, VKLM_BAD_FILE, k.key);
        k.type = STRING;
        k.text = "16";
        EXPECT(&m, VKLM_BAD_FILE, k.key);
        k.type = U32;
        k.number = UINT32_MAX;
        EXPECT(&m, VKLM_BAD_FILE, k.key);
    }
}
END_TEST

START_TEST(a_number_is_not_positive_or_not_finite)
{
    static const char *const numbers[] = {
        "attention.layer_norm_rms_epsilon",
        "rope.freq_base",
        "rope.freq_base_swa",
        "rope.scaling.attn_factor",
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const float bad[] = {0, -1, NAN, INFINITY};
        for (size_t b = 0; b < 4; b++) {
            another_key k = {.type = F32, .real = bad[b]};
            tiny_model m = model_with("gemma3", numbers[i], &k);
            EXPECT(&m, VKLM_BAD_FILE, k.key);
        }
    }
    another_key k = {.type = F32, .real = -2};
    tiny_model m = model_with("llama", "rope.scaling.factor", &k);
    EXPECT(&m, VKLM_BAD_FILE, "llama.rope.scaling.factor");
}
END_TEST

START_TEST(counts_contradict_each_other)
{
    another_key k = {.type = U32, .number = 3};
    tiny_model m = model_with("llama", "attention.head_count_kv", &k);
    EXPECT(&m, VKLM_BAD_FILE, "does not divide attention.head_count");
    k.number = 32;
    m = model_with("llama", "attention.value_length", &k);
    EXPECT(&m, VKLM_UNSUPPORTED,
           "llama.attention.value_length is 32 but attention.key_length is 64");
    m = model_with("llama", "rope.dimension_count", &k);
    EXPECT(&m, VKLM_BAD_FILE, "is not the size of a head");
    m = model_with("gemma3", "rope.dimension_count", &k);
    EXPECT_OK(&m);
    ck_assert_uint_eq(h.n_rot, 32);
    k.number = 66;
    EXPECT(&m, VKLM_BAD_FILE, "over the size of a head");
    k.number = 31;
    EXPECT(&m, VKLM_BAD_FILE, "is odd");
    k.number = 513;
    m = model_with("llama", "block_count", &k);
    EXPECT(&m, VKLM_BAD_FILE, "llama.block_count is over 512");
}
END_TEST

/* ---- What is refused by name ---- */

START_TEST(an_unknown_architecture_is_named)
{
    tiny_model m = tiny_model_of("phi3");
    EXPECT(&m, VKLM_UNSUPPORTED,
           "architecture 'phi3' is not supported; vklm runs llama, qwen2, qwen3, gemma3");
    m.arch = "llama4";
    EXPECT(&m, VKLM_UNSUPPORTED, "'llama4'");
    m.arch = "llam";
    EXPECT(&m, VKLM_UNSUPPORTED, "'llam'");
    m = tiny_model_of("llama");
    m.omitted[0] = "general.architecture";
    EXPECT(&m, VKLM_BAD_FILE, "general.architecture is missing");
    another_key k = {.key = "general.architecture", .type = U32};
    m.extra = put_key;
    m.extra_user = &k;
    EXPECT(&m, VKLM_BAD_FILE, "general.architecture");
}
END_TEST

START_TEST(features_without_support_are_named)
{
    another_key k = {.type = U32, .number = 8};
    tiny_model m = model_with("llama", "expert_count", &k);
    EXPECT(&m, VKLM_UNSUPPORTED, "llama with experts (Mixtral)");
    k.number = 0;
    EXPECT_OK(&m);
    k = (another_key){.type = F32, .real = 30};
    m = model_with("gemma3", "final_logit_softcapping", &k);
    EXPECT(&m, VKLM_UNSUPPORTED, "gemma3 with a soft cap on the logits");
    k.real = 0;
    EXPECT_OK(&m);
    k.real = 30;
    m = model_with("llama", "final_logit_softcapping", &k); /* ignored, as by the reference */
    EXPECT_OK(&m);
    m = tiny_model_of("llama");
    m.rope_scaling = "dynamic";
    EXPECT(&m, VKLM_UNSUPPORTED, "llama.rope.scaling.type 'dynamic'");
    m = tiny_model_of("qwen2");
    m.rope_scaling = "longrope";
    EXPECT(&m, VKLM_UNSUPPORTED, "'longrope' is not supported for qwen2");
}
END_TEST

START_TEST(files_that_are_no_model_say_what_they_are)
{
    static const char *const types[][2] = {
        {"adapter", "is a LoRA adapter"},
        {"mmproj", "vision or audio part"},
        {"vocab", "is a vocabulary"},
        {"imatrix", "importance matrix"},
    };
    for (size_t i = 0; i < 4; i++) {
        another_key k = {.key = "general.type", .type = STRING, .text = types[i][0]};
        tiny_model m = tiny_model_of("llama");
        m.extra = put_key;
        m.extra_user = &k;
        EXPECT(&m, VKLM_UNSUPPORTED, types[i][1]);
        k.text = "model";
        EXPECT_OK(&m);
    }
    tiny_model m = tiny_model_of("llama");
    m.omitted[0] = "token_embd.weight";
    EXPECT(&m, VKLM_BAD_FILE, "token_embd.weight is missing");
}
END_TEST

START_TEST(a_file_without_tensors_is_a_vocabulary)
{
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "general.architecture", "llama");
    vki_gguf gguf;
    ck_assert_int_eq(gguf_writer_open(w, &host, &error, &gguf), VKLM_OK);
    ck_assert_int_eq(vki_hparams_read(&gguf, &error, &h), VKLM_UNSUPPORTED);
    ck_assert(strstr(error.text, "tiny.gguf has no tensors") != NULL);
    vki_gguf_close(&gguf);
    gguf_writer_free(w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hparams");
    TCase *c = add_case(suite, "read", NULL, NULL);
    tcase_add_test(c, all_numbers_of_llama_are_read);
    tcase_add_test(c, heads_may_be_wider_than_the_model);
    tcase_add_test(c, gemma3_brings_windows_gelu_and_scales);
    tcase_add_test(c, windows_follow_a_period_or_a_list);
    tcase_add_test(c, other_architectures_ignore_windows);
    tcase_add_test(c, gemma3_of_62_layers_scales_by_its_width);
    tcase_add_test(c, rope_scaling_is_read_as_the_reference_reads_it);
    tcase_add_test(c, counts_may_come_as_one_for_each_layer);
    c = add_case(suite, "wrong", NULL, NULL);
    tcase_add_test(c, a_required_key_is_missing);
    tcase_add_test(c, a_count_is_zero_or_of_another_type_or_absurd);
    tcase_add_test(c, a_number_is_not_positive_or_not_finite);
    tcase_add_test(c, counts_contradict_each_other);
    c = add_case(suite, "refused", NULL, NULL);
    tcase_add_test(c, an_unknown_architecture_is_named);
    tcase_add_test(c, features_without_support_are_named);
    tcase_add_test(c, files_that_are_no_model_say_what_they_are);
    tcase_add_test(c, a_file_without_tensors_is_a_vocabulary);
    return run_suite(suite);
}
