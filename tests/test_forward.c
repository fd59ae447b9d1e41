/* test_forward.c - whole tiny models against a forward pass in double precision: every architecture and
 * format, every way a prompt can be cut, contexts beyond pages, windows and splits.
 *
 * Bounds are normalised errors (nmse). With an f32 KV cache only the precision and order of sums differ
 * from the reference: 2e-12 was measured. An f16 cache rounds k and v to 11 bits: 2e-6 was measured.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"
#include "support/tiny_session.h"

static const double bound_f32 = 1e-9, bound_f16 = 1e-5, bound_same = 1e-6;
/* A byte is off by 1/254 of its block's largest value at most; random models weigh that little. */
static const double bound_int8 = 1e-3;

static vklm_device *device;
static vklm_model *model;
static vklm_error error;

static void set_up(void)
{
    device = test_device(NULL);
}

static void tear_down(void)
{
    vklm_model_destroy(&model);
    vklm_device_destroy(&device);
}

static double bound_of(vklm_kv_type kv)
{
    return kv == VKLM_KV_F32 ? bound_f32 : bound_f16;
}

/* Logits of a generation, all of positions first_logits on, against the reference's of the history. */
static void check_logits(const char *name, const tiny_model *m, const vklm_token *history, size_t n_ids,
                         const run_result *r, double bound)
{
    model_ref *ref = tiny_ref(m);
    double *reference = malloc(n_ids * m->n_vocab * sizeof *reference), worst = 0;
    model_ref_logits(ref, history, n_ids, reference);
    for (uint32_t i = 0; i < r->n_logits; i++) {
        const uint32_t position = r->first_logits + i;
        const double e = nmse(r->logits + (size_t)i * m->n_vocab, reference + (size_t)position * m->n_vocab, m->n_vocab);
        ck_assert_msg(e <= bound, "%s: logits of position %u differ by %.2g", name, position, e);
        worst = e > worst ? e : worst;
    }
    if (getenv("VKLM_TEST_VERBOSE")) printf("%-28s worst nmse %.2g of %.0g\n", name, worst, bound);
    free(reference);
    model_ref_free(ref);
}

/* A prompt's and its continuation's logits; the device's own greedy draw finds the same tokens. */
static void check_model(const char *name, const tiny_model *m, size_t n_prompt, uint32_t n_new,
                        uint32_t chunk, vklm_kv_type kv)
{
    vklm_token ids[RUN_MAX_IDS];
    run_result r, greedy;
    some_ids(7, m->n_vocab, ids, n_prompt);
    vklm_session *session = tiny_session(model, &(vklm_session_params){.chunk = chunk, .kv = kv});
    CHECK_OK(vklm_session_set_ids(session, ids, n_prompt, &error, NULL));
    run_generate(session, (vklm_generate_params){.max_tokens = n_new, .ignore_end = true, .want_logits = true,
                                                 .sampling = {.temperature = -1}}, &r);
    size_t n_ids;
    const vklm_token *history = vklm_session_ids(session, &n_ids);
    if (test_results_count()) {
        ck_assert_int_eq(r.done.reason, VKLM_DONE_LENGTH);
        ck_assert_uint_eq(r.n_drawn, n_new);
        ck_assert_uint_eq(r.first_logits, 0);
        ck_assert_uint_eq(r.n_logits, n_prompt + n_new - 1);
        ck_assert_uint_eq(n_ids, n_prompt + n_new);
        check_logits(name, m, history, n_ids, &r, m->default_precision ? bound_int8 : bound_of(kv));
    }
    CHECK_OK(vklm_session_set_ids(session, NULL, 0, &error, NULL));
    CHECK_OK(vklm_session_set_ids(session, ids, n_prompt, &error, NULL));
    run_greedy(session, n_new, &greedy);
    if (test_results_count()) ck_assert_mem_eq(greedy.drawn, r.drawn, n_new * sizeof *r.drawn);
    run_free(&r);
    run_free(&greedy);
    vklm_session_destroy(&session);
}

static void check_both_caches(const char *name, const tiny_model *m, size_t n_prompt, uint32_t n_new,
                              uint32_t chunk)
{
    char named[96];
    vklm_model_destroy(&model);
    model = tiny_load(device, m);
    snprintf(named, sizeof named, "%s, f16 KV", name);
    check_model(named, m, n_prompt, n_new, chunk, VKLM_KV_F16);
    snprintf(named, sizeof named, "%s, f32 KV", name);
    check_model(named, m, n_prompt, n_new, chunk, VKLM_KV_F32);
}

static void check_fresh(const char *name, const tiny_model *m, size_t n_prompt, vklm_kv_type kv)
{
    vklm_model_destroy(&model);
    model = tiny_load(device, m);
    check_model(name, m, n_prompt, 3, 0, kv);
}

/* ---- Architectures ------------------------------------------------------------------------------------- */

START_TEST(every_architecture_computes_what_the_formulas_say)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        const tiny_model m = tiny_small(archs[i]);
        check_both_caches(archs[i], &m, 37, 6, 0);
    }
}
END_TEST

START_TEST(a_model_with_everything_optional)
{
    tiny_model m = tiny_small("llama");
    m.tied = m.qkv_bias = m.o_bias = m.ffn_bias = true;
    m.n_head_kv = 4;
    check_fresh("llama, tied, biases", &m, 11, VKLM_KV_F32);
    m.tied = false;
    m.fused_qkv = m.factors = true;
    m.n_head_kv = 2;
    check_fresh("llama, fused, factors", &m, 11, VKLM_KV_F32);
    m = tiny_small("qwen2");
    m.head_bias = true;
    m.n_rot = 8;
    check_fresh("qwen2, half rotated", &m, 11, VKLM_KV_F32);
}
END_TEST

START_TEST(sizes_that_fill_no_unit)
{
    tiny_model m = tiny_small("llama");
    m.d_model = 72;
    m.d_head = 20;
    m.n_head = 6;
    m.n_head_kv = 3;
    m.d_ff = 100;
    m.n_vocab = 301;
    m.context_length = 333;
    check_fresh("odd sizes", &m, 21, VKLM_KV_F32);
    tiny_model_set_formats(&m, VKI_F16);
    m.tied = true;
    check_fresh("odd sizes, F16", &m, 21, VKLM_KV_F32);
}
END_TEST

START_TEST(rotary_positions_are_scaled_as_the_file_says)
{
    tiny_model m = tiny_small("llama");
    m.rope_scaling = "linear";
    m.rope_factor = 4;
    check_both_caches("linear", &m, 40, 2, 0);
    m.rope_scaling = "yarn";
    m.rope_factor = 8;
    m.rope_original_context = 128;
    check_both_caches("yarn", &m, 40, 2, 0);
    m.rope_scaling = NULL;
    m.rope_factor = 0;
    m.rope_divisors = true; /* llama 3's */
    check_both_caches("divisors", &m, 40, 2, 0);
    m = tiny_small("qwen2");
    m.rope_scaling = "yarn";
    m.rope_factor = 4;
    m.rope_original_context = 64;
    check_both_caches("qwen2, yarn", &m, 40, 2, 0);
    m = tiny_small("gemma3");
    m.rope_scaling = "linear"; /* of the full layers only */
    m.rope_factor = 8;
    check_both_caches("gemma3, linear", &m, 40, 2, 0);
}
END_TEST

START_TEST(windowed_layers_forget)
{
    tiny_model m = tiny_small("gemma3"); /* window 8, every second layer */
    check_both_caches("gemma3, window 8", &m, 90, 12, 32);
    m.window = 300; /* more than a page */
    m.window_period = 3;
    check_both_caches("gemma3, window 300", &m, 610, 3, 0);
}
END_TEST

/* ---- Formats --------------------------------------------------------------------------------------------- */

/* Its matrices have a format each, counted on from `first` to the last and around. Every format in every role
 * would be many pipelines; the tests of the kernels have them. */
static tiny_model mixed_model(vki_format first, vki_format least)
{
    tiny_model m = tiny_model_of("llama"); /* rows of 256 for the K formats */
    m.d_head = 16; /* of which the attention of other models here is compiled already */
    m.n_head = 16;
    m.n_head_kv = 8;
    vki_format *const matrices[] = {&m.formats.q, &m.formats.k, &m.formats.v, &m.formats.output, &m.formats.gate,
                                    &m.formats.up, &m.formats.down, &m.formats.head, &m.formats.embedding};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        *matrices[i] = least + ((unsigned)(first - least) + i) % (unsigned)(VKI_FORMAT_COUNT - least);
    return m;
}

START_TEST(every_format_computes_what_the_file_says)
{
    static const vki_format firsts[] = {VKI_F32, VKI_Q8_0, VKI_Q5_1};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        char name[64];
        const tiny_model m = mixed_model(firsts[i], VKI_F32);
        snprintf(name, sizeof name, "formats from %s on", vki_format_get(firsts[i])->name);
        check_fresh(name, &m, 9, i ? VKLM_KV_F32 : VKLM_KV_F16);
    }
}
END_TEST

START_TEST(int8_activations_stay_near_what_the_file_says)
{
    static const vki_format firsts[] = {VKI_Q8_0, VKI_Q5_0};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        tiny_model m = mixed_model(firsts[i], VKI_Q8_0);
        m.default_precision = true;
        check_fresh("int8 activations", &m, 9, VKLM_KV_F16);
    }
}
END_TEST

/* ---- Cutting a prompt ---------------------------------------------------------------------------------------- */

/* All logits of a prompt, fed `batch` ids a generation (0: all), in chunks. */
static float *logits_of(const tiny_model *m, const vklm_token *ids, size_t n, uint32_t chunk, size_t batch,
                        vklm_kv_type kv)
{
    vklm_session *session = tiny_session(model, &(vklm_session_params){.chunk = chunk, .kv = kv});
    float *logits = malloc(n * m->n_vocab * sizeof *logits);
    for (size_t at = 0; at < n;) {
        const size_t count = batch && batch < n - at ? batch : n - at;
        run_result r;
        CHECK_OK(vklm_session_append_ids(session, ids + at, count, &error));
        run_generate(session, (vklm_generate_params){.prompt_only = true, .want_logits = true}, &r);
        ck_assert_int_eq(r.done.reason, VKLM_DONE_PROMPT);
        /* Only of what is new: the rest is in the cache. */
        ck_assert_uint_eq(r.first_logits, at);
        ck_assert_uint_eq(r.n_logits, count);
        memcpy(logits + at * m->n_vocab, r.logits, count * m->n_vocab * sizeof *logits);
        run_free(&r);
        at += count;
    }
    vklm_session_destroy(&session);
    return logits;
}

static void check_cuts(const tiny_model *m, size_t n, vklm_kv_type kv)
{
    static const struct { uint32_t chunk; size_t batch; } cuts[] = {{1, 0}, {7, 0}, {64, 0}, {0, 1}, {0, 5}, {3, 50}};
    vklm_token ids[RUN_MAX_IDS];
    some_ids(3, m->n_vocab, ids, n);
    model = tiny_load(device, m);
    float *whole = logits_of(m, ids, n, 0, 0, kv);
    double *reference = malloc(n * m->n_vocab * sizeof *reference);
    for (size_t i = 0; i < n * m->n_vocab; i++) reference[i] = (double)whole[i];
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        float *logits = logits_of(m, ids, n, cuts[c].chunk, cuts[c].batch, kv);
        for (size_t i = 0; i < n && test_results_count(); i++) {
            const double e = nmse(logits + i * m->n_vocab, reference + i * m->n_vocab, m->n_vocab);
            ck_assert_msg(e <= bound_same, "chunk %u, %zu ids at once: position %zu differs by %.2g",
                          cuts[c].chunk, cuts[c].batch, i, e);
        }
        free(logits);
    }
    free(whole);
    free(reference);
    vklm_model_destroy(&model);
}

START_TEST(a_prompt_in_any_pieces_has_the_same_logits)
{
    tiny_model m = tiny_small("qwen3");
    check_cuts(&m, 150, VKLM_KV_F32);
    m = tiny_small("gemma3");
    tiny_model_set_formats(&m, VKI_Q8_0);
    check_cuts(&m, 150, VKLM_KV_F16);
    m.default_precision = true;
    check_cuts(&m, 150, VKLM_KV_F16);
}
END_TEST

START_TEST(a_long_context_crosses_pages_and_splits)
{
    tiny_model m = tiny_small("llama");
    m.n_layer = 2;
    m.context_length = 1024;
    model = tiny_load(device, &m);
    /* So that few tokens see many splits: 2 from 33 keys on, 16 from 257. */
    model->kernels.tuning.split_keys = 32;
    check_model("to 2 splits", &m, 29, 10, 0, VKLM_KV_F32);
    check_model("to 16 splits, a page", &m, 250, 12, 0, VKLM_KV_F16);
    check_model("two pages, cut across", &m, 505, 16, 200, VKLM_KV_F32);
    check_model("a page's last place", &m, 256, 2, 256, VKLM_KV_F16);
    m.context_length = 300; /* the last page is a part of one */
    vklm_model_destroy(&model);
    model = tiny_load(device, &m);
    check_model("to the context's end", &m, 290, 10, 0, VKLM_KV_F32);
}
END_TEST

/* ---- Memory in small blocks ------------------------------------------------------------------------------------ */

START_TEST(matrices_in_many_segments_give_the_same_logits)
{
    tiny_model m = tiny_small("llama");
    m.d_model = 128;
    m.n_vocab = 5000;
    vklm_token ids[20];
    some_ids(5, m.n_vocab, ids, 20);
    model = tiny_load(device, &m);
    ck_assert_uint_eq(model->weights.head.n_segments, 1);
    float *whole = logits_of(&m, ids, 20, 0, 0, VKLM_KV_F16);
    double *reference = malloc(20 * m.n_vocab * sizeof *reference);
    for (size_t i = 0; i < 20 * m.n_vocab; i++) reference[i] = (double)whole[i];
    vklm_model_destroy(&model);
    vklm_device_destroy(&device);

    device = test_device(&(vklm_device_params){.struct_size = sizeof(vklm_device_params),
                                               .block_limit_bytes = 256 << 10});
    model = tiny_load(device, &m);
    ck_assert_uint_ge(model->weights.head.n_segments, 10);
    ck_assert_uint_ge(model->weights.embedding.n_segments, 10);
    float *cut = logits_of(&m, ids, 20, 0, 0, VKLM_KV_F16);
    for (size_t i = 0; i < 20 && test_results_count(); i++)
        ck_assert_double_le(nmse(cut + i * m.n_vocab, reference + i * m.n_vocab, m.n_vocab), bound_same);
    free(whole);
    free(cut);
    free(reference);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        every_architecture_computes_what_the_formulas_say,
        a_model_with_everything_optional,
        sizes_that_fill_no_unit,
        rotary_positions_are_scaled_as_the_file_says,
        windowed_layers_forget,
        every_format_computes_what_the_file_says,
        int8_activations_stay_near_what_the_file_says,
        a_prompt_in_any_pieces_has_the_same_logits,
        a_long_context_crosses_pages_and_splits,
        matrices_in_many_segments_give_the_same_logits,
    };
    return run_tests("forward", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
