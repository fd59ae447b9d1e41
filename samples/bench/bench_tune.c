/* bench_tune.c - --tune: other values of the library's tuning table, timed on the device at hand, and in the end
 * the row of the table that they speak for.
 *
 * The values of a field are compared by their times relative to the present value's, summed over the tests, so that
 * a prompt of a second does not outweigh a step of a hundredth.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { LEAST_RUNS = 3 }; /* of a value that is to replace the present one */
static const double least_gain = 0.02; /* of a test's time: less is noise, and the present value stays */

typedef struct score {
    char field[32], value[96];
    double gain; /* parts of the present value's time, summed over the tests */
    bool current, failed;
} score;

typedef struct tuning {
    score *scores; /* owned; those of a field may lie apart */
    size_t n_scores;
    char field[32], name[32]; /* last printed, of the test at hand */
    bool several;             /* operations of this field: their sum says something new */
} tuning;

static score *find_score(tuning *t, const vklm_tune_result *r)
{
    for (size_t i = 0; i < t->n_scores; i++)
        if (strcmp(t->scores[i].field, r->field) == 0 && strcmp(t->scores[i].value, r->value) == 0)
            return &t->scores[i];
    t->scores = must_realloc(t->scores, (t->n_scores + 1) * sizeof *t->scores);
    score *s = &t->scores[t->n_scores++];
    *s = (score){.current = r->current};
    snprintf(s->field, sizeof s->field, "%s", r->field);
    snprintf(s->value, sizeof s->value, "%s", r->value);
    return s;
}

static bool is_wrong(const vklm_tune_result *r)
{
    return !(r->nmse <= VKLM_TUNE_NMSE); /* a NaN is wrong too */
}

static void print_result(const vklm_tune_result *r, bool begins)
{
    const char *name = r->name ? r->name : "all of it";
    printf("| %-17s | %-16s | %-34s ", begins ? r->field : "", begins ? name : "", r->value);
    if (r->failure[0]) {
        printf("| not run: %.300s |\n", r->failure);
        return;
    }
    const double now = r->current_ns > 0 ? (double)r->current_ns : 1;
    printf("| %11.2f | %6.2f | %4u | %8.1e | %-13s |\n", (double)r->ns * 1e-3, (double)r->ns / now, r->n_samples,
           r->nmse, is_wrong(r) ? "WRONG RESULTS" : r->current ? "present" : "");
}

static void take_result(void *user, const vklm_tune_result *r)
{
    tuning *t = user;
    const char *name = r->name ? r->name : "";
    const bool same_field = strcmp(r->field, t->field) == 0, same_name = same_field && strcmp(name, t->name) == 0;
    if (!same_field) t->several = false;
    if (r->name && same_field && !same_name) t->several = true;
    snprintf(t->field, sizeof t->field, "%s", r->field);
    snprintf(t->name, sizeof t->name, "%s", name);
    if (r->name || t->several) print_result(r, !same_name);
    if (r->name) return;
    score *s = find_score(t, r);
    s->failed |= r->failure[0] || is_wrong(r);
    if (!s->failed && r->n_samples >= LEAST_RUNS && r->current_ns > 0)
        s->gain += 1 - (double)r->ns / (double)r->current_ns;
    fflush(stdout);
}

static bool tune_test(bench *b, bench_test *test)
{
    const vklm_tune_params params = {.struct_size = sizeof params, .seconds = b->tune_seconds / (double)b->n_tests,
                                     .field = b->tune_field, .visit = take_result, .user = b->tuning};
    vklm_error error = {.status = VKLM_OK};
    bench_print_heading(test, "");
    printf("| %-17s | %-16s | %-34s | %11s | %6s | %4s | %8s | %-13s |\n", "field", "operation", "value", "us", "to now",
           "runs", "nmse", "");
    printf("| ----------------- | ---------------- | ---------------------------------- | ----------: | -----: | ---: "
           "| -------: | ------------- |\n");
    b->tuning->field[0] = '\0';
    bool good = bench_open(b, test) && bench_place(b, test, test->n_gen > 0);
    if (good && vklm_session_tune(test->sessions[0], &params, &error) != VKLM_OK) {
        setup_say(&b->setup, "%s", error.text);
        good = false;
    }
    bench_close(test);
    printf("\n");
    return good;
}

static const score *best_of(const tuning *t, const score *current, double noise)
{
    const score *best = current;
    for (size_t i = 0; i < t->n_scores; i++) {
        const score *s = &t->scores[i];
        if (!s->failed && strcmp(s->field, current->field) == 0 && s->gain > (best->current ? noise : best->gain)) best = s;
    }
    return best;
}

/* What belongs into the device's row of src/kernel/tune.c. */
static void print_row(const bench *b, const tuning *t)
{
    printf("    /* %s, %s: vklm-bench --tune */\n", b->device_name, b->model_type);
    for (size_t i = 0; i < t->n_scores; i++) {
        if (!t->scores[i].current) continue;
        const score *best = best_of(t, &t->scores[i], least_gain * (double)b->n_tests);
        printf("    .%s = %s,", best->field, best->value);
        if (best->current)
            printf("\n");
        else
            printf(" /* was %s; takes %.0f%% less */\n", t->scores[i].value, 100 * best->gain / (double)b->n_tests);
    }
}

bool bench_tune(bench *b)
{
    tuning t = {.n_scores = 0};
    b->tuning = &t;
    const bool good = bench_all(b, tune_test);
    if (good) print_row(b, &t);
    free(t.scores);
    return good;
}
