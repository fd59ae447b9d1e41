/* bench_profile.c - what a prompt and a step of decode are made of: --plan lists the dispatches, --profile adds up
 * their GPU time by kernel, --trace writes each of them as an event for a trace viewer.
 *
 * In a profile dispatches run one by one, so its sum is more than the time of the same work in a plain run; that is
 * printed beside it, measured on the host's clock.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { STEPS = 16 }; /* of decode on the clock, beside the profile */

/* ---- The plan ------------------------------------------------------------------------------- */

typedef struct totals {
    uint32_t n_dispatches, n_barriers;
    uint64_t bytes, flops;
} totals;

static void add_to_totals(totals *t, const vklm_dispatch *d)
{
    t->n_dispatches++;
    t->n_barriers += d->barrier;
    t->bytes += d->bytes;
    t->flops += d->flops;
}

static void print_totals(const totals *t)
{
    printf("%u dispatches, %u barriers, %.3f GB, %.3f GFLOP\n\n", t->n_dispatches, t->n_barriers,
           (double)t->bytes * 1e-9, (double)t->flops * 1e-9);
}

static void print_layer(uint32_t layer)
{
    if (layer == VKLM_NO_LAYER)
        printf("%5s", "");
    else
        printf("%5u", layer);
}

static void print_dispatch(void *user, const vklm_dispatch *d)
{
    char grid[48];
    snprintf(grid, sizeof grid, "%ux%ux%u", d->grid[0], d->grid[1], d->grid[2]);
    printf("%5u ", d->index);
    print_layer(d->layer);
    printf("  %c  %-16s %5u %14s %12" PRIu64 " %14" PRIu64 "  %s(", d->barrier ? '|' : ' ', d->name,
           d->local_size, grid, d->bytes, d->flops, d->shader);
    for (uint32_t i = 0; i < d->n_constants; i++) printf(i ? " %u" : "%u", d->constants[i]);
    printf(d->subgroup_size ? ") subgroup %u\n" : ")\n", d->subgroup_size);
    add_to_totals(user, d);
}

void bench_print_heading(const bench_test *test, const char *what)
{
    if (test->n_gen)
        printf("A step of decode at a depth of %u%s\n", test->n_depth, what);
    else
        printf("%s%s\n", bench_name_of(test).text, what);
}

bool bench_plan(bench *b, bench_test *test)
{
    totals t = {0};
    const vklm_plan_params params = {
        .struct_size = sizeof params, .n_tokens = test->n_gen ? 1 : test->n_prompt, .depth = test->n_depth,
        .kv = (vklm_kv_type)b->setup.kv, .visit = print_dispatch, .user = &t,
    };
    vklm_error error;
    bench_print_heading(test, "; |: a barrier stands before");
    printf("%5s %5s  %c  %-16s %5s %14s %12s %14s  %s\n", "", "layer", '|', "name", "local", "grid", "bytes", "flops",
           "shader(constants)");
    const bool good = vklm_model_plan(b->setup.model, &params, &error) == VKLM_OK;
    if (good)
        print_totals(&t);
    else
        setup_say(&b->setup, "%s", error.text);
    return good;
}

/* ---- The profile ---------------------------------------------------------------------------- */

/* Dispatches of one name and shader. */
typedef struct kernel {
    char name[32], shader[32];
    uint64_t n, ns, bytes, flops;
} kernel;

typedef struct profile {
    kernel *kernels; /* owned */
    size_t n_kernels;
    totals totals;
    uint64_t ns;
    FILE *trace; /* borrowed; NULL: this run is not traced */
    unsigned thread;
} profile;

static kernel *find_kernel(profile *p, const vklm_dispatch *d)
{
    for (size_t i = 0; i < p->n_kernels; i++)
        if (strcmp(p->kernels[i].name, d->name) == 0 && strcmp(p->kernels[i].shader, d->shader) == 0)
            return &p->kernels[i];
    p->kernels = must_realloc(p->kernels, (p->n_kernels + 1) * sizeof *p->kernels);
    kernel *k = &p->kernels[p->n_kernels++];
    *k = (kernel){.n = 0};
    snprintf(k->name, sizeof k->name, "%s", d->name);
    snprintf(k->shader, sizeof k->shader, "%s", d->shader);
    return k;
}

/* A complete event of the trace format that Chrome and Perfetto read; times in microseconds. */
static void write_event(FILE *file, unsigned thread, const vklm_dispatch *d)
{
    fprintf(file,
            ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{"
            "\"layer\":%d,\"shader\":\"%s\",\"grid\":[%u,%u,%u],\"local\":%u,\"bytes\":%" PRIu64
            ",\"flops\":%" PRIu64 ",\"barrier\":%s}}",
            d->name, thread, (double)d->begin_ns * 1e-3, (double)(d->end_ns - d->begin_ns) * 1e-3,
            d->layer == VKLM_NO_LAYER ? -1 : (int)d->layer, d->shader, d->grid[0], d->grid[1], d->grid[2],
            d->local_size, d->bytes, d->flops, d->barrier ? "true" : "false");
}

static void take_dispatch(void *user, const vklm_dispatch *d)
{
    profile *p = user;
    kernel *k = find_kernel(p, d);
    const uint64_t ns = d->end_ns - d->begin_ns;
    k->n++;
    k->ns += ns;
    k->bytes += d->bytes;
    k->flops += d->flops;
    p->ns += ns;
    add_to_totals(&p->totals, d);
    if (p->trace) write_event(p->trace, p->thread, d);
}

static int compare_kernels(const void *a, const void *b)
{
    const kernel *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

/* Sums are of `runs` runs, what is printed is of one. */
static void print_profile(profile *p, double runs, double plain_ns)
{
    qsort(p->kernels, p->n_kernels, sizeof *p->kernels, compare_kernels);
    printf("| kernel           | shader                 | count |         ms |    mean us |     GB/s |    GFLOP/s "
           "|  share |\n"
           "| ---------------- | ---------------------- | ----: | ---------: | ---------: | -------: | ---------: "
           "| -----: |\n");
    for (size_t i = 0; i < p->n_kernels; i++) {
        const kernel *k = &p->kernels[i];
        const double ns = (double)k->ns, scale = ns > 0 ? 1 / ns : 0;
        printf("| %-16s | %-22s | %5.0f | %10.3f | %10.2f | %8.2f | %10.2f | %5.1f%% |\n", k->name, k->shader,
               (double)k->n / runs, ns * 1e-6 / runs, ns * 1e-3 / (double)k->n, (double)k->bytes * scale,
               (double)k->flops * scale, 100 * ns / (p->ns > 0 ? (double)p->ns : 1));
    }
    printf("sum %.3f ms in %.0f dispatches; unprofiled %.3f ms with %.0f barriers\n\n", (double)p->ns * 1e-6 / runs,
           p->totals.n_dispatches / runs, plain_ns * 1e-6, p->totals.n_barriers / runs);
}

/* The mean time of a prompt, or of one step, in plain runs. */
static bool time_plain(bench *b, bench_test *test, double *ns)
{
    const uint32_t wanted = test->n_gen < STEPS ? test->n_gen : STEPS;
    const uint32_t n = wanted && wanted < WARM_UP_TOKENS ? WARM_UP_TOKENS : wanted;
    uint64_t elapsed_ns = 0;
    if (!bench_once(b, test, n ? WARM_UP_TOKENS : 0, &elapsed_ns)) return false;
    *ns = 0;
    for (int64_t i = 0; i < b->repetitions; i++) {
        if (!bench_once(b, test, n, &elapsed_ns)) return false;
        *ns += (double)elapsed_ns / (n ? n : 1) / (double)b->repetitions;
    }
    return true;
}

/* The last run alone is traced, so that its times do not lie over another's. */
static bool run_profiles(bench *b, bench_test *test, profile *p, FILE *trace)
{
    const vklm_profile_params params = {.struct_size = sizeof params, .visit = take_dispatch, .user = p};
    vklm_error error;
    for (int64_t i = 0; i < b->repetitions; i++) {
        if (i + 1 == b->repetitions) p->trace = trace;
        if (!bench_place(b, test, test->n_gen > 0)) return false;
        if (vklm_session_profile(test->sessions[0], &params, &error) != VKLM_OK) {
            setup_say(&b->setup, "%s", error.text);
            return false;
        }
    }
    return true;
}

static bool profile_test(bench *b, bench_test *test)
{
    profile p = {.thread = (unsigned)b->n_printed + 1};
    double plain_ns = 0;
    if (b->trace)
        fprintf(b->trace, "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"args\":{\"name\":\"%s\"}}",
                b->n_printed ? ",\n" : "", p.thread, bench_name_of(test).text);
    const bool good =
        bench_open(b, test) && time_plain(b, test, &plain_ns) && run_profiles(b, test, &p, b->trace);
    bench_close(test);
    if (good) {
        bench_print_heading(test, "");
        print_profile(&p, (double)b->repetitions, plain_ns);
    }
    free(p.kernels);
    return good;
}

bool bench_profile(bench *b)
{
    if (!b->trace_path) return bench_all(b, profile_test);
    b->trace = file_open(b->trace_path, "wb");
    if (!b->trace) {
        setup_say(&b->setup, "%s cannot be created", b->trace_path);
        return false;
    }
    fprintf(b->trace, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    const bool good = bench_all(b, profile_test);
    fprintf(b->trace, "\n]}\n");
    const bool failed = ferror(b->trace), written = fclose(b->trace) == 0 && !failed;
    if (!written) setup_say(&b->setup, "%s cannot be written: is the disk full?", b->trace_path);
    return good && written;
}
