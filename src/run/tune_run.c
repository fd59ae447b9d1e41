/* tune_run.c - times other values of the tuning table on the device at hand: vklm_session_tune.
 *
 * A value is tried by running the whole pass under it, of a few layers, with the time of each dispatch: the weights
 * are as cold as in a real run, and the logits at the end show a value whose kernels compute something else. A field
 * shapes those operations whose dispatches differ between its values. Values take turns, so that a change of the
 * device's clock meets them alike.
 */
#include "run/profile.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/os.h"
#include "kernel/tune_values.h"

enum { MAX_TRIALS = 16, MAX_NAMES = 32, MAX_ROUNDS = 15, SAMPLED_LAYERS = 4 };
enum { HOPELESS = 3 }; /* times the current value's time: counts once */

/* A value of the field under test. */
typedef struct trial {
    vki_tuning tuning;
    char value[VKI_TUNE_TEXT], failure[VKLM_ERROR_TEXT_SIZE];
    uint64_t shapes[MAX_NAMES];         /* of each operation's dispatches: equal where they are the same */
    uint64_t ns[MAX_NAMES][MAX_ROUNDS];
    uint32_t n_rounds;
    bool hopeless;                      /* so slow that it runs no more */
    double nmse;
} trial;

/* An operation: its name, and whether it is one of the layers'. */
typedef struct operation {
    const char *name;
    bool in_layer;
} operation;

typedef struct tuner {
    vki_profiler profiler;
    vki_tokens tokens;
    vki_tuning base;
    vklm_tune_params params;
    operation names[MAX_NAMES];
    uint32_t n_names;
    trial trials[MAX_TRIALS];           /* [0]: what the device runs now */
    uint32_t n_trials;
    uint32_t n_layers;                  /* sampled */
    float *logits;                      /* owned: [V], of trials[0] */
} tuner;

/* ---- The pass ------------------------------------------------------------------------------------ */

/* The layers that run: spread, for files whose layers differ in format, without the last, which makes one row. */
static bool is_sampled(uint32_t layer, uint32_t n_layer)
{
    for (uint32_t i = 0; i < SAMPLED_LAYERS; i++)
        if (layer == i * (n_layer - 1) / SAMPLED_LAYERS) return true;
    return layer == UINT32_MAX;
}

static vklm_status plan_trial(tuner *t, const trial *trial, vklm_error *error)
{
    vklm_model *model = t->tokens.model;
    vki_plan *plan = &model->plan;
    const uint32_t n_layer = model->weights.hparams.n_layer;
    uint32_t rows;
    model->kernels.tuning = trial->tuning;
    const vklm_status status = vki_tokens_plan(&t->tokens, error, &rows);
    model->kernels.tuning = t->base;
    size_t n = 0;
    for (size_t i = 0; i < plan->n; i++)
        if (is_sampled(plan->items[i].layer, n_layer)) plan->items[n++] = plan->items[i];
    plan->n = n;
    return status;
}

/* The index of a dispatch's operation; where there are too many, the last. */
static uint32_t find_name(tuner *t, const vki_dispatch *dispatch)
{
    const bool in_layer = dispatch->layer != UINT32_MAX;
    /* What merges the splits belongs to the attention that made them. */
    const char *name = strcmp(dispatch->name, "attention_merge") == 0 ? "attention" : dispatch->name;
    for (uint32_t i = 0; i < t->n_names; i++)
        if (t->names[i].in_layer == in_layer && strcmp(t->names[i].name, name) == 0) return i;
    if (t->n_names < MAX_NAMES) t->names[t->n_names++] = (operation){name, in_layer};
    return t->n_names - 1;
}

/* Two lists of dispatches with the same pipelines and grids have the same sum. */
static void note_shapes(tuner *t, trial *trial)
{
    const vki_plan *plan = &t->tokens.model->plan;
    for (size_t i = 0; i < plan->n; i++) {
        const vki_dispatch *d = &plan->items[i];
        uint64_t *shape = &trial->shapes[find_name(t, d)];
        *shape = *shape * 1000003 + (uintptr_t)d->pipeline;
        for (int k = 0; k < 3; k++) *shape = *shape * 1000003 + d->grid[k];
    }
}

static double nmse(const float *got, const float *wanted, uint32_t n)
{
    double error = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        error += ((double)got[i] - wanted[i]) * ((double)got[i] - wanted[i]);
        sum += (double)wanted[i] * wanted[i];
    }
    return sum > 0 ? error / sum : error;
}

/* The first run of a trial warms up (a driver may compile only then) and is checked, the others count. */
static vklm_status run_trial(tuner *t, trial *trial, bool first, vklm_error *error)
{
    vklm_model *model = t->tokens.model;
    const uint32_t n_vocab = model->weights.hparams.n_vocab;
    const float *logits = vki_host_logits(model, t->tokens.n > 1, 0);
    TRY(plan_trial(t, trial, error));
    TRY(vki_profiler_run(&t->profiler, t->tokens.n == 1 ? 1 : VKI_CHUNK_UNITS, error));
    if (first) {
        if (trial == t->trials) memcpy(t->logits, logits, n_vocab * sizeof *logits);
        trial->nmse = nmse(logits, t->logits, n_vocab);
        return VKLM_OK;
    }
    for (size_t i = 0; i < model->plan.n; i++) {
        const vki_time *time = &t->profiler.times[i];
        trial->ns[find_name(t, &model->plan.items[i])][trial->n_rounds] += time->end_ns - time->begin_ns;
    }
    trial->n_rounds++;
    return VKLM_OK;
}

/* ---- A field ------------------------------------------------------------------------------------- */

/* Adds a trial unless it would run what another does. A value that does not compile stays, with the reason. */
static vklm_status add_trial(tuner *t, const vki_tune_value *value, const vki_tuning *tuning, vklm_error *error)
{
    vklm_error failure = {.status = VKLM_OK};
    trial *new = &t->trials[t->n_trials];
    *new = (trial){.tuning = *tuning};
    vki_tune_text(value, tuning, new->value);
    const vklm_status status = plan_trial(t, new, &failure);
    if (status != VKLM_OK && status != VKLM_SHADER_ERROR && status != VKLM_DRIVER_ERROR)
        return vki_fail(error, status, "%s", failure.text);
    snprintf(new->failure, sizeof new->failure, "%s", failure.text);
    if (status == VKLM_OK) note_shapes(t, new);
    for (uint32_t i = 0; i < t->n_trials && status == VKLM_OK; i++)
        if (memcmp(t->trials[i].shapes, new->shapes, sizeof new->shapes) == 0) return VKLM_OK;
    t->n_trials++;
    return VKLM_OK;
}

static uint64_t median(const uint64_t *values, uint32_t n)
{
    uint64_t sorted[MAX_ROUNDS];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return n ? sorted[(n - 1) / 2] : 0; /* of two the lower: what disturbs a run makes it longer */
}

/* Whether the field shapes it: not all that was tried runs the same dispatches. */
static bool is_shaped(const tuner *t, uint32_t name)
{
    for (uint32_t i = 1; i < t->n_trials; i++)
        if (!t->trials[i].failure[0] && t->trials[i].shapes[name] != t->trials[0].shapes[name]) return true;
    return false;
}

/* Nanoseconds of an operation in one layer, or where it stands outside of them. */
static uint64_t time_of(const tuner *t, const trial *trial, uint32_t name)
{
    return median(trial->ns[name], trial->n_rounds) / (t->names[name].in_layer ? t->n_layers : 1);
}

/* Of all that the field shapes, in all layers of the model. */
static uint64_t sum_of(const tuner *t, const trial *trial)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < t->n_names; n++)
        if (is_shaped(t, n))
            sum += time_of(t, trial, n) * (t->names[n].in_layer ? t->tokens.model->weights.hparams.n_layer : 1);
    return sum;
}

/* Round after round until the deadline; the current value counts once at least. */
static vklm_status run_rounds(tuner *t, uint64_t deadline_ns, vklm_error *error)
{
    for (uint32_t round = 0; round <= t->params.rounds; round++)
        for (uint32_t i = 0; i < t->n_trials; i++) {
            trial *trial = &t->trials[i];
            const bool late = vki_now_ns() > deadline_ns && (round > 1 || i > 0);
            if (late && round > 1) return VKLM_OK;
            if (late && !trial->failure[0])
                snprintf(trial->failure, sizeof trial->failure, "the time was over before its turn");
            if (round == 2 && sum_of(t, trial) > HOPELESS * sum_of(t, t->trials)) trial->hopeless = true;
            if (!trial->failure[0] && !trial->hopeless) TRY(run_trial(t, trial, round == 0, error));
        }
    return VKLM_OK;
}

/* Visits the trials, best first. name: MAX_NAMES for the sum. */
static void report(const tuner *t, const char *field, uint32_t name)
{
    vklm_tune_result results[MAX_TRIALS], swap;
    const uint64_t current_ns = name < MAX_NAMES ? time_of(t, t->trials, name) : sum_of(t, t->trials);
    for (uint32_t i = 0; i < t->n_trials; i++) {
        const trial *trial = &t->trials[i];
        results[i] = (vklm_tune_result){
            .field = field, .value = trial->value, .name = name < MAX_NAMES ? t->names[name].name : NULL,
            .current = i == 0, .current_ns = current_ns, .n_samples = trial->n_rounds, .nmse = trial->nmse, .failure = trial->failure,
            .ns = trial->failure[0] ? UINT64_MAX : name < MAX_NAMES ? time_of(t, trial, name) : sum_of(t, trial),
        };
        for (uint32_t k = i; k > 0 && results[k].ns < results[k - 1].ns; k--) {
            swap = results[k];
            results[k] = results[k - 1];
            results[k - 1] = swap;
        }
    }
    for (uint32_t i = 0; i < t->n_trials; i++) t->params.visit(t->params.user, &results[i]);
}

static vklm_status tune_field(tuner *t, const vki_tune_value *values, size_t n, uint64_t deadline_ns,
                              vklm_error *error)
{
    vki_tuning tuning;
    t->n_trials = 0;
    TRY(add_trial(t, values, &t->base, error));
    for (size_t i = 0; i < n && t->n_trials < MAX_TRIALS && (t->n_trials < 2 || vki_now_ns() < deadline_ns); i++)
        if (vki_tune_apply(&values[i], &t->base, &t->tokens.model->device->limits, &tuning))
            TRY(add_trial(t, &values[i], &tuning, error));
    if (t->n_trials == 1) return VKLM_OK;
    TRY(run_rounds(t, deadline_ns, error));
    for (uint32_t name = 0; name < t->n_names; name++)
        if (is_shaped(t, name)) report(t, values->field, name);
    report(t, values->field, MAX_NAMES);
    return VKLM_OK;
}

/* ---- All fields ------------------------------------------------------------------------------------ */

static size_t count_field(const vki_tune_value *values, size_t n)
{
    size_t same = 1;
    while (same < n && strcmp(values[same].field, values->field) == 0) same++;
    return same;
}

static bool is_wanted(const tuner *t, const vki_tune_value *value)
{
    /* What other values there are of `block` multiplies in f16. */
    if (strcmp(value->field, "block") == 0 && t->tokens.model->kernels.high_precision) return false;
    return !t->params.field || strcmp(t->params.field, value->field) == 0;
}

static vklm_status tune_all(tuner *t, vklm_session *session, vklm_error *error)
{
    vklm_model *model = session->model;
    const uint32_t n_layer = model->weights.hparams.n_layer;
    size_t n, n_fields = 0;
    const vki_tune_value *values = vki_tune_values(&n);
    const uint64_t begin_ns = vki_now_ns(), limit_ns = (uint64_t)(t->params.seconds * 1e9);
    TRY(vki_profiler_init(&t->profiler, model, error));
    TRY(vki_alloc(&model->device->host, model->weights.hparams.n_vocab, sizeof *t->logits, error, &t->logits));
    TRY(vki_tokens_pending(session, error, &t->tokens));
    t->tokens.on_device = false; /* logits go to the host */
    t->tokens.n = (uint32_t)vki_min(t->tokens.n, t->tokens.chunk);
    t->base = model->kernels.tuning;
    for (uint32_t l = 0; l < n_layer; l++) t->n_layers += is_sampled(l, n_layer);
    TRY(vki_tokens_place(&t->tokens, session, t->tokens.n, error));
    for (size_t i = 0; i < n; i += count_field(&values[i], n - i)) n_fields += is_wanted(t, &values[i]);
    if (n_fields == 0)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "the tuning table has no field \"%s\" with several values",
                        t->params.field);
    for (size_t i = 0, count, left = n_fields; i < n; i += count) {
        count = count_field(&values[i], n - i);
        if (!is_wanted(t, &values[i])) continue;
        const uint64_t spent_ns = vki_now_ns() - begin_ns;
        const uint64_t share_ns = spent_ns < limit_ns ? (limit_ns - spent_ns) / left : 0;
        left--;
        TRY(tune_field(t, &values[i], count, begin_ns + spent_ns + share_ns, error));
    }
    return VKLM_OK;
}

vklm_status vklm_session_tune(vklm_session *session, const vklm_tune_params *params, vklm_error *error)
{
    static const double default_seconds = 60;
    vki_error_clear(error);
    vklm_tune_params own;
    TRY(vki_params(&own, sizeof own, params, "vklm_tune_params", error));
    if (!session || !own.visit || own.rounds > MAX_ROUNDS || !(own.seconds >= 0 && own.seconds < 1e9))
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "tuning needs a session, a function that visits the results, up to %d rounds and 1e9 seconds",
                        MAX_ROUNDS);
    if (own.rounds == 0) own.rounds = MAX_ROUNDS;
    if (own.seconds == 0) own.seconds = default_seconds;
    const vki_host *host = &session->model->device->host;
    tuner *t;
    TRY(vki_alloc(host, 1, sizeof *t, error, &t));
    t->params = own;
    vki_mutex_lock(&session->model->lock);
    const vklm_status status = tune_all(t, session, error);
    vki_mutex_unlock(&session->model->lock);
    vki_profiler_free(&t->profiler);
    vki_release(host, &t->logits);
    vki_release(host, &t);
    return status;
}
