/* test_decode.c - decode by vki_forward_row (products with prologues and epilogues), as software and as a GPU
 * would be tuned for it, against double precision and against the pass of many dispatches. */
#include <stdlib.h>

#include "support/tiny_session.h"

static vklm_error error;

/* f32 sums; an f32 cache. A byte is off by 1/254 of its block's largest value at most. */
static const double bound_f32 = 1e-9, bound_int8 = 3e-3;

enum { N_PROMPT = 5, N_NEW = 5 };

typedef struct decode_case {
    const char *arch;
    vki_format format;
    bool tied, untuned; /* untuned: as the other class of devices */
} decode_case;

static void compare(const tiny_model *m, const run_result *r, const vklm_token *history, size_t n_ids,
                    double bound)
{
    model_ref *ref = tiny_ref(m);
    double *reference = malloc(n_ids * m->n_vocab * sizeof *reference);
    model_ref_logits(ref, history, n_ids, reference);
    for (uint32_t i = 0; i < r->n_logits; i++) {
        const double e = nmse(r->logits + (size_t)i * m->n_vocab, reference + (size_t)i * m->n_vocab, m->n_vocab);
        ck_assert_msg(e <= bound, "%s %s: logits of position %u differ by %.2g", m->arch,
                      vki_format_get(m->formats.q)->name, i, e);
    }
    free(reference);
    model_ref_free(ref);
}

/* Logits of every step, and the tokens that the device draws by itself. row_fits: the form to be tested. */
static void check_decode(vklm_device *device, const tiny_model *m, bool row_fits)
{
    vklm_token ids[N_PROMPT];
    run_result r, greedy;
    some_ids(11, m->n_vocab, ids, N_PROMPT);
    vklm_model *model = tiny_load(device, m);
    if (!row_fits) model->row_fits = false;
    ck_assert_int_eq(model->row_fits, row_fits);
    vklm_session *session = tiny_session(model, &(vklm_session_params){.kv = VKLM_KV_F32});
    CHECK_OK(vklm_session_set_ids(session, ids, N_PROMPT, &error, NULL));
    run_generate(session, (vklm_generate_params){.max_tokens = N_NEW, .ignore_end = true, .want_logits = true,
                                                 .sampling = {.temperature = -1}}, &r);
    size_t n_ids;
    const vklm_token *history = vklm_session_ids(session, &n_ids);
    if (test_results_count()) compare(m, &r, history, n_ids, m->default_precision ? bound_int8 : bound_f32);
    /* Anew: what was kept of the prompt would leave its last token to decode, which rounds coarser. */
    vklm_session_destroy(&session);
    session = tiny_session(model, &(vklm_session_params){.kv = VKLM_KV_F32});
    CHECK_OK(vklm_session_set_ids(session, ids, N_PROMPT, &error, NULL));
    run_greedy(session, N_NEW, &greedy);
    if (test_results_count()) ck_assert_mem_eq(greedy.drawn, r.drawn, N_NEW * sizeof *r.drawn);
    run_free(&r);
    run_free(&greedy);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
}

static void check_case(decode_case c)
{
    vklm_device *device = test_device(NULL);
    if (c.untuned) device->limits.is_cpu = !device->limits.is_cpu;
    tiny_model m = tiny_model_of(c.arch);
    m.tied = c.tied;
    tiny_model_set_formats(&m, c.format);
    for (int precision = 0; precision < 2; precision++) {
        m.default_precision = precision;
        check_decode(device, &m, true);
    }
    if (c.tied) check_decode(device, &m, false); /* the long way, for comparison */
    vklm_device_destroy(&device);
}

START_TEST(a_step_in_five_dispatches_computes_the_same)
{
    /* Each format once: test_kernel_matvec.c has every combination. */
    check_case((decode_case){_i / 2 % 2 ? "qwen2" : "llama", (vki_format)_i, _i % 3 == 0, _i % 2});
}
END_TEST

START_TEST(what_a_row_cannot_have_takes_the_long_way)
{
    vklm_device *device = test_device(NULL);
    static const char *const archs[] = {"qwen3", "gemma3"};
    for (size_t i = 0; i < 2; i++) {
        const tiny_model m = tiny_model_of(archs[i]);
        vklm_model *model = tiny_load(device, &m);
        ck_assert(!model->row_fits);
        vklm_model_destroy(&model);
    }
    tiny_model m = tiny_model_of("llama"); /* gate and up of unequal formats */
    m.formats.gate = VKI_Q8_0;
    m.formats.up = VKI_Q4_0;
    vklm_model *model = tiny_load(device, &m);
    ck_assert(!model->row_fits);
    vklm_model_destroy(&model);
    vklm_device_destroy(&device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode");
    TCase *c = tcase_create("decode");
    tcase_set_timeout(c, 0);
    tcase_add_loop_test(c, a_step_in_five_dispatches_computes_the_same, 0, VKI_FORMAT_COUNT);
    tcase_add_test(c, what_a_row_cannot_have_takes_the_long_way);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
