/* test_profile.c - vklm_profile.h on tiny models: a plan holds the dispatches that a run makes, a profile gives
 * each of them a time, and a session that was profiled goes on as if it had digested its ids.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/tune_values.h"
#include "support/suite.h"
#include "support/tiny_session.h"
#include "vklm/vklm_profile.h"

enum { MAX_SEEN = 1000 };

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

/* The dispatches visited, with their strings copied. */
typedef struct seen {
    vklm_dispatch items[MAX_SEEN];
    char names[MAX_SEEN][32], shaders[MAX_SEEN][32];
    size_t n, n_barriers;
} seen;

static void take(void *user, const vklm_dispatch *dispatch)
{
    seen *s = user;
    ck_assert_uint_lt(s->n, MAX_SEEN);
    ck_assert_uint_eq(dispatch->index, s->n);
    ck_assert_uint_ge(dispatch->n_constants, 1);
    ck_assert_uint_eq(dispatch->constants[0], dispatch->local_size);
    ck_assert(dispatch->grid[0] && dispatch->grid[1] && dispatch->grid[2] && dispatch->bytes);
    snprintf(s->names[s->n], sizeof *s->names, "%s", dispatch->name);
    snprintf(s->shaders[s->n], sizeof *s->shaders, "%s", dispatch->shader);
    s->n_barriers += dispatch->barrier;
    s->items[s->n++] = *dispatch;
}

static seen *plan_of(uint32_t n_tokens, uint32_t depth, vklm_kv_type kv)
{
    seen *s = calloc(1, sizeof *s);
    const vklm_plan_params params = {.struct_size = sizeof params, .n_tokens = n_tokens, .depth = depth, .kv = kv,
                                     .visit = take, .user = s};
    CHECK_OK(vklm_model_plan(model, &params, &error));
    return s;
}

static seen *profile_of(vklm_session *session)
{
    seen *s = calloc(1, sizeof *s);
    const vklm_profile_params params = {.struct_size = sizeof params, .visit = take, .user = s};
    CHECK_OK(vklm_session_profile(session, &params, &error));
    return s;
}

/* The same dispatches in the same order. */
static void check_same(const seen *a, const seen *b)
{
    ck_assert_uint_eq(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const vklm_dispatch *x = &a->items[i], *y = &b->items[i];
        ck_assert_str_eq(a->names[i], b->names[i]);
        ck_assert_str_eq(a->shaders[i], b->shaders[i]);
        ck_assert_mem_eq(x->grid, y->grid, sizeof x->grid);
        ck_assert(x->layer == y->layer && x->pass == y->pass && x->barrier == y->barrier);
        ck_assert(x->bytes == y->bytes && x->flops == y->flops);
    }
}

START_TEST(a_decode_step_is_five_dispatches_a_layer_and_three)
{
    tiny_model m = tiny_model_of("llama");
    tiny_model_set_formats(&m, VKI_Q4_0);
    m.default_precision = true;
    model = tiny_load(device, &m);
    seen *s = plan_of(0, 7, VKLM_KV_F16);
    ck_assert_uint_eq(s->n, 5 * m.n_layer + 3);
    ck_assert_uint_le(s->n_barriers, s->n);
    ck_assert(!s->items[0].barrier && s->items[0].layer == VKLM_NO_LAYER);
    ck_assert_str_eq(s->names[0], "embed");
    ck_assert_str_eq(s->shaders[0], "embed_q4_0");
    for (uint32_t l = 0; l < m.n_layer; l++) {
        static const char *const names[] = {"qkv", "attention", "attn_out", "ffn_gate_up", "ffn_down"};
        for (uint32_t k = 0; k < 5; k++) {
            ck_assert_str_eq(s->names[1 + 5 * l + k], names[k]);
            ck_assert_uint_eq(s->items[1 + 5 * l + k].layer, l);
            ck_assert_uint_eq(s->items[1 + 5 * l + k].end_ns, 0);
        }
    }
    ck_assert_str_eq(s->names[s->n - 2], "head");
    ck_assert_str_eq(s->names[s->n - 1], "sample");
    free(s);
}
END_TEST

/* Of what is pending in the session, of n ids; the same dispatches as in the plan, and time passes. */
static void check_profile(vklm_session *session, uint32_t depth, uint32_t n, vklm_kv_type kv)
{
    seen *planned = plan_of(n, depth, kv), *timed = profile_of(session);
    check_same(planned, timed);
    uint64_t end_ns = 0, sum_ns = 0;
    for (size_t i = 0; i < timed->n && test_results_count(); i++) {
        const vklm_dispatch *d = &timed->items[i];
        ck_assert_uint_le(d->begin_ns, d->end_ns);
        ck_assert_uint_ge(d->begin_ns, end_ns); /* one after the other */
        end_ns = d->end_ns;
        sum_ns += d->end_ns - d->begin_ns;
    }
    if (test_results_count()) ck_assert(sum_ns > 0 && sum_ns <= end_ns);
    free(planned);
    free(timed);
}

START_TEST(a_profile_times_every_dispatch_of_the_plan_once)
{
    static const char *const archs[] = {"llama", "gemma3"};
    vklm_token ids[120];
    for (int i = 0; i < 2; i++) {
        const tiny_model m = tiny_small(archs[i]);
        const vklm_kv_type kv = i ? VKLM_KV_F32 : VKLM_KV_F16;
        model = tiny_load(device, &m);
        model->chunk_rows = 64;
        some_ids(1, m.n_vocab, ids, 120);
        vklm_session *session = tiny_session(model, &(vklm_session_params){.kv = kv});
        CHECK_OK(vklm_session_set_ids(session, ids, 100, &error, NULL));
        check_profile(session, 0, 100, kv);
        CHECK_OK(vklm_session_append_ids(session, ids + 100, 1, &error));
        check_profile(session, 100, 1, kv);
        vklm_session_destroy(&session);
        vklm_model_destroy(&model);
    }
}
END_TEST

START_TEST(a_generation_goes_on_behind_a_profile)
{
    const tiny_model m = tiny_small("llama");
    vklm_token ids[20];
    run_result plain, after;
    some_ids(2, m.n_vocab, ids, 20);
    model = tiny_load(device, &m);
    vklm_session *session = tiny_session(model, NULL), *other = tiny_session(model, NULL);
    CHECK_OK(vklm_session_set_ids(other, ids, 20, &error, NULL));
    run_greedy(other, 8, &plain);
    CHECK_OK(vklm_session_set_ids(session, ids, 12, &error, NULL));
    free(profile_of(session));
    CHECK_OK(vklm_session_append_ids(session, ids + 12, 1, &error));
    free(profile_of(session));
    CHECK_OK(vklm_session_append_ids(session, ids + 13, 7, &error));
    run_greedy(session, 8, &after);
    vklm_session_stats stats;
    vklm_session_get_stats(session, &stats);
    ck_assert_uint_eq(stats.n_prompt, 7);
    if (test_results_count()) ck_assert_mem_eq(plain.drawn, after.drawn, 8 * sizeof *plain.drawn);
    run_free(&plain);
    run_free(&after);
    vklm_session_destroy(&session);
    vklm_session_destroy(&other);
}
END_TEST

/* ---- Tuning ------------------------------------------------------------------------------------------- */

typedef struct tuned {
    char field[32], name[32];
    uint64_t last_ns;
    uint32_t n_values, n_current; /* of the operation at hand */
    uint32_t n_fields, n_operations, n_sums;
    bool attention, ffn;
} tuned;

static void end_operation(const tuned *t)
{
    if (t->n_values == 0) return;
    ck_assert_uint_ge(t->n_values, 2);
    ck_assert_uint_eq(t->n_current, 1);
}

static void take_value(void *user, const vklm_tune_result *r)
{
    tuned *t = user;
    const char *name = r->name ? r->name : "";
    const bool same_field = strcmp(t->field, r->field) == 0;
    if (!same_field || strcmp(t->name, name) != 0) {
        end_operation(t);
        t->n_values = t->n_current = 0;
        t->last_ns = 0;
        t->n_fields += !same_field;
        *(r->name ? &t->n_operations : &t->n_sums) += 1;
    }
    snprintf(t->field, sizeof t->field, "%s", r->field);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n_values++;
    t->n_current += r->current;
    t->attention |= strcmp(name, "attention") == 0;
    t->ffn |= strncmp(name, "ffn_", 4) == 0;
    ck_assert_msg(r->value[0] && !r->failure[0] && r->n_samples > 0, "%s = %s, %u runs: %s", r->field,
                  r->value, r->n_samples, r->failure);
    if (!test_results_count()) return;
    ck_assert_uint_ge(r->ns, t->last_ns); /* best first */
    t->last_ns = r->ns;
    ck_assert_msg(r->nmse <= 1e-9, "%s = %s: logits differ by %.2g", r->field, r->value, r->nmse);
}

START_TEST(tuning_times_the_values_of_each_field)
{
    const tiny_model m = tiny_small("llama");
    vklm_token ids[20];
    run_result plain, after;
    some_ids(4, m.n_vocab, ids, 20);
    model = tiny_load(device, &m);
    const vki_tuning before = model->kernels.tuning;
    vklm_session *session = tiny_session(model, &(vklm_session_params){.kv = VKLM_KV_F32});
    CHECK_OK(vklm_session_set_ids(session, ids, 20, &error, NULL));
    run_greedy(session, 6, &plain);
    for (int decode = 0; decode < 2; decode++) {
        tuned t = {.n_fields = 0};
        const vklm_tune_params params = {.struct_size = sizeof params, .seconds = 1e6, .rounds = 2, .visit = take_value,
                                         .user = &t, .field = decode ? "attention_local" : "row_local"};
        CHECK_OK(vklm_session_set_ids(session, ids, decode ? 19 : 0, &error, NULL));
        CHECK_OK(vklm_session_append_ids(session, ids + (decode ? 19 : 0), decode ? 1 : 20, &error));
        CHECK_OK(vklm_session_tune(session, &params, &error));
        end_operation(&t);
        ck_assert(t.n_sums == t.n_fields && t.n_operations >= t.n_fields);
        ck_assert(t.n_fields == 1 && (decode ? t.attention : t.ffn));
    }
    ck_assert_mem_eq(&model->kernels.tuning, &before, sizeof before);
    run_greedy(session, 6, &after);
    if (test_results_count()) ck_assert_mem_eq(plain.drawn, after.drawn, 6 * sizeof *plain.drawn);
    run_free(&plain);
    run_free(&after);
    vklm_session_destroy(&session);
}
END_TEST

/* The text of the n-th value of a field that the device accepts, counted from 0; empty: there are fewer. */
static void nth_value(const char *field, size_t wanted, char text[VKI_TUNE_TEXT])
{
    size_t n;
    const vki_tune_value *values = vki_tune_values(&n);
    const vki_tuning base = vki_tuning_for(&device->limits);
    vki_tuning tuning;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (strcmp(values[i].field, field) != 0) continue;
        if (!vki_tune_apply(&values[i], &base, &device->limits, &tuning) || wanted-- > 0) continue;
        vki_tune_text(&values[i], &tuning, text);
        return;
    }
}

START_TEST(values_that_a_device_cannot_run_are_left_out)
{
    char text[VKI_TUNE_TEXT];
    device->limits.fast_packed_dot = true;
    nth_value("block8", 0, text);
    ck_assert_str_eq(text, "{VKI_DIRECT, 0, 0, 0, 0, {0}}");
    nth_value("block8", 1, text);
    ck_assert_str_eq(text, "{VKI_TILE, 128, 64, 8, 4, {0}}");
    device->limits.fast_packed_dot = false;
    device->limits.coop_s8 = (vki_matrix_size){0};
    nth_value("block8", 1, text);
    ck_assert_str_eq(text, "");
    device->limits.max_workgroup_invocations = 1; /* the table's own values are too large then */
    nth_value("row_local", 0, text);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(what_cannot_be_profiled_is_refused)
{
    const tiny_model m = tiny_small("llama");
    const vklm_token id = 3;
    model = tiny_load(device, &m);
    seen *s = calloc(1, sizeof *s);
    vklm_session *session = tiny_session(model, NULL), *other = tiny_session(model, NULL);
    vklm_plan_params plan = {.struct_size = sizeof plan, .n_tokens = 1, .depth = m.context_length};
    vklm_profile_params profile = {.struct_size = sizeof profile};
    CHECK_FAILS(vklm_model_plan(model, &plan, &error), VKLM_INVALID_ARGUMENT, "visits");
    CHECK_FAILS(vklm_session_profile(session, &profile, &error), VKLM_INVALID_ARGUMENT, "visits");
    plan.visit = profile.visit = take;
    plan.user = profile.user = s;
    CHECK_FAILS(vklm_model_plan(model, &plan, &error), VKLM_INVALID_ARGUMENT, "more than the model's");
    CHECK_FAILS(vklm_session_profile(session, &profile, &error), VKLM_INVALID_ARGUMENT, "append ids");
    CHECK_OK(vklm_session_append_ids(session, &id, 1, &error));
    CHECK_OK(vklm_session_append_ids(other, &id, 1, &error));
    CHECK_OK(vklm_session_generate(other, NULL, &error));
    CHECK_FAILS(vklm_session_profile(session, &profile, &error), VKLM_INVALID_ARGUMENT, "is generating");
    vklm_session_destroy(&other);
    const double timestamp_ns = device->limits.timestamp_ns;
    device->limits.timestamp_ns = 0;
    CHECK_FAILS(vklm_session_profile(session, &profile, &error), VKLM_DEVICE_UNSUITABLE, "no timestamps");
    vklm_tune_params tune = {.struct_size = sizeof tune, .visit = take_value, .field = "no_such_field"};
    CHECK_FAILS(vklm_session_tune(session, &tune, &error), VKLM_DEVICE_UNSUITABLE, "no timestamps");
    CHECK_FAILS(vklm_session_tune(session, NULL, &error), VKLM_INVALID_ARGUMENT, "visits");
    device->limits.timestamp_ns = timestamp_ns;
    CHECK_FAILS(vklm_session_tune(session, &tune, &error), VKLM_INVALID_ARGUMENT, "no_such_field");
    ck_assert_uint_eq(s->n, 0);
    vklm_session_destroy(&session);
    free(s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_decode_step_is_five_dispatches_a_layer_and_three,
        a_profile_times_every_dispatch_of_the_plan_once,
        a_generation_goes_on_behind_a_profile,
        tuning_times_the_values_of_each_field,
        values_that_a_device_cannot_run_are_left_out,
        what_cannot_be_profiled_is_refused,
    };
    return run_tests("profile", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
