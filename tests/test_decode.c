/* test_decode.c - decode by vki_forward_rows (products with prologues and epilogues), as software and as a GPU
 * would be tuned for it, against double precision and against the pass of many dispatches; and rows together
 * against each alone, to the bit. */
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"
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

/* Logits of every step, and the tokens that the device draws by itself. rows_fit: the form to be tested. */
static void check_decode(vklm_device *device, const tiny_model *m, bool rows_fit)
{
    vklm_token ids[N_PROMPT];
    run_result r, greedy;
    some_ids(11, m->n_vocab, ids, N_PROMPT);
    vklm_model *model = tiny_load(device, m);
    if (!rows_fit) model->rows_fit = false;
    ck_assert_int_eq(model->rows_fit, rows_fit);
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

static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};

START_TEST(a_step_in_few_dispatches_computes_the_same)
{
    /* Each format once: test_kernel_matvec.c has every combination. */
    check_case((decode_case){archs[_i % 4], (vki_format)_i, _i % 3 == 0, _i / 2 % 2});
}
END_TEST

START_TEST(what_a_row_cannot_have_takes_the_long_way)
{
    vklm_device *device = test_device(NULL);
    tiny_model m = tiny_model_of("llama"); /* gate and up of unequal formats */
    m.formats.gate = VKI_Q8_0;
    m.formats.up = VKI_Q4_0;
    vklm_model *model = tiny_load(device, &m);
    ck_assert(!model->rows_fit);
    vklm_model_destroy(&model);
    m = tiny_model_of("llama"); /* rows of two kinds of activations in a matrix */
    m.formats.v = VKI_Q8_0;
    m.default_precision = true;
    model = tiny_load(device, &m);
    ck_assert(!model->rows_fit || !device->limits.fast_packed_dot);
    vklm_model_destroy(&model);
    device->limits.max_workgroup_invocations = 128; /* a head's blocks are too many for a workgroup */
    device->limits.max_workgroup_subgroups = 2;
    m = tiny_model_of("qwen3");
    model = tiny_load(device, &m);
    ck_assert(!model->rows_fit);
    vklm_model_destroy(&model);
    vklm_device_destroy(&device);
}
END_TEST

/* ---- Several rows ------------------------------------------------------------------------------------ */

enum { ROWS = VKI_MAX_BATCH };

/* Sequences of unequal length, all but their last ids in the cache. */
typedef struct row_batch {
    vklm_model *model;
    bool one_sequence; /* the rows are the last ids of the first sequence */
    vklm_session *sessions[ROWS];
    vklm_token ids[ROWS][2 * ROWS];
    uint32_t n_ids[ROWS];
} row_batch;

static void begin_batch(row_batch *b, vklm_device *device, const tiny_model *m)
{
    b->model = tiny_load(device, m);
    ck_assert(b->model->rows_fit);
    for (uint32_t s = 0; s < ROWS; s++) {
        const uint32_t n = b->n_ids[s] = ROWS + 2 + s * 5 % 6;
        run_result r;
        some_ids(31 + s, m->n_vocab, b->ids[s], n);
        b->sessions[s] = tiny_session(b->model, &(vklm_session_params){.kv = VKLM_KV_F32});
        CHECK_OK(vklm_session_set_ids(b->sessions[s], b->ids[s], n - 1, &error, NULL));
        run_generate(b->sessions[s], (vklm_generate_params){.prompt_only = true}, &r);
        run_free(&r);
    }
}

static void end_batch(row_batch *b)
{
    for (uint32_t s = 0; s < ROWS; s++) vklm_session_destroy(&b->sessions[s]);
    vklm_model_destroy(&b->model);
}

/* Logits [n][n_vocab] of rows first .. first + n - 1. */
static void run_rows(const row_batch *b, uint32_t first, uint32_t n, float *logits)
{
    vklm_model *model = b->model;
    const uint32_t n_vocab = model->weights.hparams.n_vocab;
    const vki_pass pass = {.weights = &model->weights, .activations = &model->decode, .kernels = &model->kernels,
                           .kv_f32 = true, .one_sequence = b->one_sequence, .rows = n, .n_out = n,
                           .keys = 1, .splits = 1};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = b->one_sequence ? 0 : first + i;
        const uint32_t position = b->one_sequence ? b->n_ids[0] - ROWS + first + i : b->n_ids[s] - 1;
        CHECK_OK(vki_kv_reserve(&b->sessions[s]->kv, position + 1, &error));
        vki_state_write(&model->decode, i, b->sessions[s]->kv.table.address, b->ids[s][position], position, 0);
    }
    const vki_span to_host = {model->host_logits.address, n, model->logits.stride};
    uint64_t value;
    bool done;
    vki_plan_clear(&model->plan);
    model->kernels.plan = &model->plan;
    CHECK_OK(vki_forward_rows(&pass, &error));
    CHECK_OK(vki_forward_rows_head(&pass, 0, to_host, model->decode.partial, &error));
    CHECK_OK(vki_record(&model->recording, &model->plan, 0, &error));
    CHECK_OK(vki_queue_submit(&model->queue, model->recording.units, model->recording.n_units, &error, &value));
    CHECK_OK(vki_queue_wait(&model->queue, value, UINT64_MAX, &error, &done));
    for (uint32_t i = 0; i < n; i++)
        memcpy(logits + i * n_vocab, model->host_logits.mapped + (size_t)i * model->logits.stride * 4,
               n_vocab * sizeof *logits);
}

static void compare_rows(const row_batch *b, const tiny_model *m, const float *logits, double bound)
{
    model_ref *ref = tiny_ref(m);
    double *reference = malloc(2 * ROWS * m->n_vocab * sizeof *reference);
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t s = b->one_sequence ? 0 : i;
        const uint32_t position = b->one_sequence ? b->n_ids[0] - ROWS + i : b->n_ids[s] - 1;
        model_ref_logits(ref, b->ids[s], position + 1, reference);
        const double e = nmse(logits + i * m->n_vocab, reference + position * m->n_vocab, m->n_vocab);
        ck_assert_msg(e <= bound, "%s %s, one sequence %d: logits of row %u differ by %.2g", m->arch,
                      vki_format_get(m->formats.q)->name, b->one_sequence, i, e);
    }
    free(reference);
    model_ref_free(ref);
}

static void check_batch(row_batch *b, const tiny_model *m, bool one_sequence)
{
    static const uint32_t counts[] = {2, 3, 8};
    b->one_sequence = one_sequence;
    float *alone = calloc(ROWS * m->n_vocab, sizeof *alone), *together = calloc(ROWS * m->n_vocab, sizeof *together);
    for (uint32_t i = 0; i < ROWS; i++) run_rows(b, i, 1, alone + i * m->n_vocab);
    if (test_results_count()) compare_rows(b, m, alone, m->default_precision ? bound_int8 : bound_f32);
    for (uint32_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const uint32_t n = counts[c], first = (ROWS - n) / 2;
        run_rows(b, first, n, together);
        for (uint32_t i = 0; i < n && test_results_count(); i++)
            ck_assert_msg(memcmp(together + i * m->n_vocab, alone + (first + i) * m->n_vocab,
                                 m->n_vocab * sizeof *alone) == 0,
                          "%s %s, one sequence %d: row %u of %u is not what it is alone", m->arch,
                          vki_format_get(m->formats.q)->name, one_sequence, i, n);
    }
    free(alone);
    free(together);
}

/* Weights that are floats, with an offset, with two scales a unit; with f32 activations and int8. */
static const struct {
    const char *arch;
    vki_format format;
    bool default_precision, untuned;
} batch_cases[] = {
    {"llama", VKI_Q4_0, true, false}, {"qwen3", VKI_F16, false, false}, {"gemma3", VKI_Q6_K, true, false},
    {"qwen2", VKI_Q4_K, false, true}, {"qwen3", VKI_Q4_0, true, true},  {"gemma3", VKI_F32, false, true},
};

START_TEST(rows_together_are_what_each_is_alone)
{
    vklm_device *device = test_device(NULL);
    if (batch_cases[_i].untuned) device->limits.is_cpu = !device->limits.is_cpu;
    tiny_model m = tiny_model_of(batch_cases[_i].arch);
    tiny_model_set_formats(&m, batch_cases[_i].format);
    m.default_precision = batch_cases[_i].default_precision;
    row_batch b;
    begin_batch(&b, device, &m);
    check_batch(&b, &m, false);
    check_batch(&b, &m, true);
    end_batch(&b);
    vklm_device_destroy(&device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode");
    TCase *c = add_case(suite, "decode", NULL, NULL);
    tcase_add_loop_test(c, a_step_in_few_dispatches_computes_the_same, 0, VKI_FORMAT_COUNT);
    tcase_add_test(c, what_a_row_cannot_have_takes_the_long_way);
    tcase_add_loop_test(c, rows_together_are_what_each_is_alone, 0,
                        sizeof batch_cases / sizeof *batch_cases);
    return run_suite(suite);
}
