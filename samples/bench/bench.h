/* bench.h - what the parts of vklm-bench share: the command line, and tests that can be run.
 *
 * bench.c          options, running a test, speed, main     bench_tune.c  --tune
 * bench_profile.c  --plan, --profile, --trace
 */
#ifndef BENCH_H
#define BENCH_H

#include "sample_setup.h"
#include "vklm/vklm_profile.h"

enum { WARM_UP_TOKENS = 4, MOST_REPETITIONS = 1000, MOST_SESSIONS = 64 };

typedef struct bench {
    sample_setup setup;
    args_list prompts, generations, depths, batches;
    int64_t repetitions;
    int output; /* index into "md|json" */
    bool plan, profile, tune;
    double temperature;       /* 0: greedy */
    double tune_seconds;      /* of all tests together */
    const char *tune_field;
    size_t n_tests;           /* that the command line asks for */
    struct tuning *tuning;    /* of --tune, while it runs */
    const char *trace_path;
    FILE *trace; /* of --profile, while it runs */
    char model_type[128], device_name[256];
    size_t n_printed;
    uint64_t random;
} bench;

/* One row of the result. n_prompt or n_gen is 0. */
typedef struct bench_test {
    uint32_t n_prompt, n_gen, n_depth;
    uint32_t n_sessions;   /* that generate at once */
    vklm_session *sessions[MOST_SESSIONS]; /* owned while it runs */
    vklm_token *ids;       /* owned: depth, then the prompt */
    uint64_t samples_ns[MOST_REPETITIONS];
    size_t n_samples;
    char started[32]; /* ISO 8601 */
} bench_test;

/* "tg128 @ d512 x 4" */
typedef struct bench_name {
    char text[48];
} bench_name;
bench_name bench_name_of(const bench_test *test);

/* What runs a test says why it fails. */
typedef bool (*bench_run)(bench *b, bench_test *test);

/* Sessions of its own for the test, so that no test inherits another's cache. */
bool bench_open(bench *b, bench_test *test);
void bench_close(bench_test *test);
/* Brings each history to the test's depth, digested, and adds new ids: one, where it generates. */
bool bench_place(bench *b, bench_test *test, bool generates);
/* bench_place, then n_gen tokens of each session on the clock; 0: the prompt. */
bool bench_once(bench *b, bench_test *test, uint32_t n_gen, uint64_t *elapsed_ns);
/* Runs each test that the command line asks for. */
bool bench_all(bench *b, bench_run run);

/* ---- bench_profile.c ---- */
bool bench_plan(bench *b, bench_test *test);
void bench_print_heading(const bench_test *test, const char *what);
bool bench_profile(bench *b);

/* ---- bench_tune.c ---- */
bool bench_tune(bench *b);

#endif
