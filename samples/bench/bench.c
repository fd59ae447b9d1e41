/* bench.c - vklm-bench: tokens per second of prefill and decode, with the test names and fields of
 * llama-bench, so that figures stand side by side.
 *
 * ppN digests a prompt of N random ids; tgN generates N tokens, each from one forward pass over one
 * row: the history ends in one token that is not digested, which the first pass reads. A depth of D
 * puts D tokens in front, digested before the clock starts and kept from one repetition to the
 * next. Ids are random and never looked at, so that devices without hardware behind them will do;
 * tokens are drawn greedily, so that decode stays on the device.
 *
 * Before each test runs a warm-up, since the first run of a shape records and allocates: of pp the
 * whole prompt, because its chunks have their shapes from its length; of tg a few tokens, as many
 * for any N, because each step is like the last.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

static const char about[] =
    "    Measures how many tokens a model digests (pp) and generates (tg) a second, for each pair\n"
    "    of a depth and a length. GB/s is what decode reads of weights in a second; the device's\n"
    "    memory bandwidth is its bound. With --plan and --profile, what a prompt and a step of\n"
    "    decode are made of; with --tune, what would make them faster.\n";

static const char after[] =
    ARGS_EXIT_STATUS "\n\n"
    "EXAMPLES\n"
    "    vklm-bench -m model.gguf\n"
    "    vklm-bench -m model.gguf -p 0 -n 64 -d 0,1024,4096 -r 3 -o json\n"
    "    vklm-bench -m model.gguf -p 512 -n 16 --profile --trace trace.json\n";

static int parse(bench *b, int argc, char **argv)
{
    const args_option options[] = {
        {ARGS_LIST, "-p, --n-prompt", "N,...", &b->prompts, 0, 1e6,
         "Lengths of prompts; 0 leaves pp out. Default: 512."},
        {ARGS_LIST, "-n, --n-gen", "N,...", &b->generations, 0, 1e6,
         "Numbers of tokens to generate; 0 leaves tg out. Default: 128."},
        {ARGS_LIST, "-d, --n-depth", "N,...", &b->depths, 0, 1e6,
         "Tokens in the context before the test. Default: 0."},
        {ARGS_LIST, "-b, --batch", "N,...", &b->batches, 1, MOST_SESSIONS,
         "Sessions that generate at once; t/s is of all together. Default: 1."},
        {ARGS_REAL, "--temp", "X", &b->temperature, 0, 100,
         "Draw tokens with this temperature, else as by default; 0: greedily. Default: 0."},
        {ARGS_INTEGER, "-r, --repetitions", "N", &b->repetitions, 1, MOST_REPETITIONS,
         "Runs of each test after its warm-up. Default: 5."},
        {ARGS_CHOICE, "-o, --output", "md|json", &b->output, 0, 0,
         "A table, or an array of objects. Default: md."},
        {ARGS_FLAG, "--plan", NULL, &b->plan, 0, 0,
         "Instead: print the dispatches of each prompt and of a decode step at each depth."},
        {ARGS_FLAG, "--profile", NULL, &b->profile, 0, 0,
         "Instead: print the GPU time of each kind of dispatch, on a device with timestamps."},
        {ARGS_TEXT, "--trace", "FILE", &b->trace_path, 0, 0,
         "With --profile: write each dispatch to FILE, for Perfetto or chrome://tracing."},
        {ARGS_FLAG, "--tune", NULL, &b->tune, 0, 0,
         "Instead: time other values of the tuning table for each prompt and a decode step at each "
         "depth, and print the row of src/kernel/tune.c that is best."},
        {ARGS_REAL, "--tune-seconds", "S", &b->tune_seconds, 1, 1e6,
         "About how long the whole of --tune may take; a value needs three runs to replace the "
         "present one. Default: 120."},
        {ARGS_TEXT, "--tune-field", "NAME", &b->tune_field, 0, 0,
         "With --tune: the values of this field of the table alone, such as matmul8."},
        SETUP_OPTIONS(&b->setup, "--device"),
    };
    const args_program program = {
        .name = b->setup.program,
        .purpose = "speed of a model on a device",
        .synopsis = "-m FILE [OPTION]...",
        .about = about,
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .after = after,
    };
    const int parsed = args_parse(&program, argc, argv);
    if (parsed != ARGS_GO) return parsed;
    if (b->plan + b->profile + b->tune > 1)
        return args_complain(program.name, "--plan, --profile and --tune do not go together");
    if (b->trace_path && !b->profile) return args_complain(program.name, "--trace is a part of --profile");
    if (b->tune_field && !b->tune) return args_complain(program.name, "--tune-field is a part of --tune");
    if (b->output && (b->plan || b->profile || b->tune))
        return args_complain(program.name, "-o json is for speeds alone");
    for (size_t i = 0; i < b->prompts.count; i++) b->n_tests += b->prompts.values[i] > 0;
    for (size_t i = 0; i < b->generations.count; i++) b->n_tests += b->generations.values[i] > 0;
    b->n_tests *= b->depths.count; /* of a batch of one, as all but speeds are */
    return ARGS_GO;
}

/* ---- Running a test ------------------------------------------------------------------------- */

/* xorshift64: the same ids in every run of the program. */
static vklm_token draw_id(bench *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return (vklm_token)(b->random % b->setup.info.n_vocab);
}

/* The session's generation to its end. */
static bool finish(const bench *b, vklm_session *session, uint32_t n_tokens)
{
    vklm_error error;
    vklm_event event = {.kind = VKLM_EVENT_NONE};
    while (event.kind != VKLM_EVENT_DONE)
        if (session_next_event(session, &error, &event) != VKLM_OK) {
            setup_say(&b->setup, "%s", error.text);
            return false;
        }
    if (event.reason == (n_tokens ? VKLM_DONE_LENGTH : VKLM_DONE_PROMPT)) return true;
    setup_say(&b->setup, "a generation ended before its %u tokens", n_tokens);
    return false;
}

/* All sessions generate to the end; *elapsed_ns is the time from the first call to the last event. */
static bool generate(const bench *b, const bench_test *test, uint32_t n_tokens, uint64_t *elapsed_ns)
{
    const vklm_generate_params params = {
        .struct_size = sizeof params,
        .max_tokens = n_tokens,
        .prompt_only = n_tokens == 0,
        .ignore_end = true,
        .sampling = {.temperature = b->temperature > 0 ? (float)b->temperature : -1, .repeat_penalty = 1, .seed = 1},
    };
    vklm_error error;
    const uint64_t start = clock_ns();
    for (uint32_t i = 0; i < test->n_sessions; i++)
        if (vklm_session_generate(test->sessions[i], &params, &error) != VKLM_OK) {
            setup_say(&b->setup, "%s", error.text);
            return false;
        }
    for (uint32_t i = 0; i < test->n_sessions; i++)
        if (!finish(b, test->sessions[i], n_tokens)) return false;
    *elapsed_ns = clock_ns() - start;
    return true;
}

bool bench_place(bench *b, bench_test *test, bool generates)
{
    const uint32_t n_new = generates ? 1 : test->n_prompt;
    vklm_token *new_ids = test->ids + test->n_depth;
    for (uint32_t i = 0; i < n_new; i++) new_ids[i] = draw_id(b);
    vklm_error error;
    uint64_t unused_ns = 0;
    vklm_status status = VKLM_OK;
    for (uint32_t i = 0; i < test->n_sessions && status == VKLM_OK; i++)
        status = vklm_session_set_ids(test->sessions[i], test->ids, test->n_depth, &error, NULL);
    if (status == VKLM_OK && test->n_depth > 0 && !generate(b, test, 0, &unused_ns)) return false;
    for (uint32_t i = 0; i < test->n_sessions && status == VKLM_OK; i++)
        status = vklm_session_append_ids(test->sessions[i], new_ids, n_new, &error);
    if (status != VKLM_OK) setup_say(&b->setup, "%s", error.text);
    return status == VKLM_OK;
}

/* A prompt's time includes its first token, as llama-bench's includes the last row's logits. */
bool bench_once(bench *b, bench_test *test, uint32_t n_gen, uint64_t *elapsed_ns)
{
    return bench_place(b, test, n_gen > 0) && generate(b, test, n_gen ? n_gen : 1, elapsed_ns);
}

static bool repeat(bench *b, bench_test *test)
{
    uint64_t warm_up_ns = 0;
    if (!bench_once(b, test, test->n_gen ? WARM_UP_TOKENS : 0, &warm_up_ns)) return false;
    for (test->n_samples = 0; test->n_samples < (size_t)b->repetitions; test->n_samples++)
        if (!bench_once(b, test, test->n_gen, &test->samples_ns[test->n_samples])) return false;
    return true;
}

bool bench_open(bench *b, bench_test *test)
{
    const uint32_t n_gen =
        test->n_gen > 0 && test->n_gen < WARM_UP_TOKENS ? WARM_UP_TOKENS : test->n_gen;
    const uint32_t n_new = n_gen ? n_gen + 1 : test->n_prompt;
    /* One more than is stored: room for a token that is drawn and then dropped. */
    const vklm_session_params params = {.struct_size = sizeof params,
                                        .context = test->n_depth + n_new + 1,
                                        .kv = (vklm_kv_type)b->setup.kv,
                                        .ids_only = true,
                                        .no_sharing = true};
    const time_t now = time(NULL);
    strftime(test->started, sizeof test->started, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    test->ids = must_realloc(NULL, (test->n_depth + n_new) * sizeof *test->ids);
    for (uint32_t i = 0; i < test->n_depth; i++) test->ids[i] = draw_id(b);
    vklm_error error;
    bool good = true;
    if (test->n_sessions == 0) test->n_sessions = 1;
    for (uint32_t i = 0; i < test->n_sessions && good; i++)
        good = vklm_session_create(b->setup.model, &params, &error, &test->sessions[i]) == VKLM_OK;
    if (!good) setup_say(&b->setup, "%s", error.text);
    return good;
}

void bench_close(bench_test *test)
{
    for (uint32_t i = 0; i < MOST_SESSIONS; i++) vklm_session_destroy(&test->sessions[i]);
    free(test->ids);
}

/* ---- Printing ------------------------------------------------------------------------------- */

typedef struct summary {
    double average, deviation; /* deviation: of the sample, 0 for a single run */
} summary;

static uint32_t count_tokens(const bench_test *test)
{
    return test->n_prompt + test->n_gen;
}

static double sample_ns(const bench_test *test, size_t i)
{
    return (double)test->samples_ns[i];
}

static double sample_rate(const bench_test *test, size_t i)
{
    return count_tokens(test) * test->n_sessions * 1e9 / sample_ns(test, i);
}

static summary summarise(const bench_test *test, double (*value)(const bench_test *, size_t))
{
    const size_t n = test->n_samples;
    summary s = {0};
    for (size_t i = 0; i < n; i++) s.average += value(test, i) / (double)n;
    for (size_t i = 0; i < n && n > 1; i++)
        s.deviation += pow(value(test, i) - s.average, 2) / (double)(n - 1);
    s.deviation = sqrt(s.deviation);
    return s;
}

/* Of weights, which are read once for all sessions of a batch: eight at most. */
static double count_gbps(const bench *b, const bench_test *test, double rate)
{
    const double passes = test->n_sessions < 8 ? test->n_sessions : 8;
    return (double)b->setup.info.decode_bytes * rate / passes * 1e-9;
}

/* The number of parameters in millions or billions. */
static double scale_params(const bench *b, char *unit)
{
    const double millions = (double)b->setup.info.n_params * 1e-6;
    *unit = millions < 1000 ? 'M' : 'B';
    return millions < 1000 ? millions : millions * 1e-3;
}

bench_name bench_name_of(const bench_test *test)
{
    bench_name name;
    const size_t size = sizeof name.text;
    const int len = snprintf(name.text, size, "%s%u", test->n_gen ? "tg" : "pp", count_tokens(test));
    const int end = len + (test->n_depth ? snprintf(name.text + len, size - (size_t)len, " @ d%u", test->n_depth) : 0);
    if (test->n_sessions > 1) snprintf(name.text + end, size - (size_t)end, " x %u", test->n_sessions);
    return name;
}

static void print_table_row(const bench *b, const bench_test *test)
{
    static const char head[] =
        "| model                    |       size |     params | backend | test             |"
        "               t/s |     GB/s |\n"
        "| ------------------------ | ---------: | ---------: | ------- | ---------------: |"
        " ----------------: | -------: |\n";
    char params[16], speed[48], gbps[16] = "";
    char unit = ' ';
    const double scaled = scale_params(b, &unit);
    snprintf(params, sizeof params, "%.2f %c", scaled, unit);
    const summary rate = summarise(test, sample_rate);
    snprintf(speed, sizeof speed, "%.2f ± %.2f", rate.average, rate.deviation);
    if (test->n_gen) snprintf(gbps, sizeof gbps, "%.2f", count_gbps(b, test, rate.average));
    if (b->n_printed == 0) fputs(head, stdout);
    /* 18 bytes for 17 columns: the sign between the figures is two bytes long. */
    printf("| %-24s | %10s | %10s | %-7s | %16s | %18s | %8s |\n", b->model_type,
           format_size(b->setup.info.file_bytes).text, params, "Vulkan", bench_name_of(test).text, speed,
           gbps);
}

static void print_json_text(const char *key, const char *text)
{
    printf("    \"%s\": \"", key);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    printf("\",\n");
}

static void print_json_samples(const char *key, const bench_test *test,
                               double (*value)(const bench_test *, size_t), int decimals)
{
    printf("    \"%s\": [", key);
    for (size_t i = 0; i < test->n_samples; i++)
        printf("%s%.*f", i ? ", " : "", decimals, value(test, i));
    printf("]");
}

static void print_json_row(const bench *b, const bench_test *test)
{
    const summary ns = summarise(test, sample_ns), rate = summarise(test, sample_rate);
    const char *kv = b->setup.kv == VKLM_KV_F32 ? "f32" : "f16";
    printf(b->n_printed ? ",\n  {\n" : "[\n  {\n");
    print_json_text("backends", "Vulkan");
    print_json_text("gpu_info", b->device_name);
    print_json_text("model_filename", b->setup.model_path);
    print_json_text("model_type", b->model_type);
    printf("    \"model_size\": %" PRIu64 ",\n    \"model_n_params\": %" PRIu64 ",\n",
           b->setup.info.file_bytes, b->setup.info.n_params);
    print_json_text("type_k", kv);
    print_json_text("type_v", kv);
    print_json_text("precision", b->setup.precision == VKLM_PRECISION_HIGH ? "high" : "default");
    printf("    \"n_prompt\": %u,\n    \"n_gen\": %u,\n    \"n_depth\": %u,\n    \"n_sessions\": %u,\n", test->n_prompt,
           test->n_gen, test->n_depth, test->n_sessions);
    print_json_text("test_time", test->started);
    printf("    \"avg_ns\": %.0f,\n    \"stddev_ns\": %.0f,\n", ns.average, ns.deviation);
    printf("    \"avg_ts\": %.6f,\n    \"stddev_ts\": %.6f,\n", rate.average, rate.deviation);
    if (test->n_gen)
        printf("    \"gbps\": %.6f,\n", count_gbps(b, test, rate.average));
    else
        printf("    \"gbps\": null,\n");
    print_json_samples("samples_ns", test, sample_ns, 0);
    printf(",\n");
    print_json_samples("samples_ts", test, sample_rate, 6);
    printf("\n  }");
}

/* ---- The program ---------------------------------------------------------------------------- */

static bool measure_speed(bench *b, bench_test *test)
{
    const bool good = bench_open(b, test) && repeat(b, test);
    bench_close(test);
    if (!good) return false;
    if (b->output == 0)
        print_table_row(b, test);
    else
        print_json_row(b, test);
    return true;
}

static bool run_test(bench *b, bench_run run, bench_test test)
{
    if (count_tokens(&test) == 0) return true;
    const bool good = run(b, &test);
    fflush(stdout);
    b->n_printed += good;
    return good;
}

bool bench_all(bench *b, bench_run run)
{
    bool good = true;
    for (size_t d = 0; d < b->depths.count; d++) {
        const uint32_t depth = (uint32_t)b->depths.values[d];
        for (size_t i = 0; good && i < b->prompts.count; i++)
            good = run_test(b, run, (bench_test){.n_depth = depth, .n_prompt = (uint32_t)b->prompts.values[i]});
        for (size_t i = 0; good && i < b->generations.count; i++)
            for (size_t k = 0; good && k < (run == measure_speed ? b->batches.count : 1); k++)
                good = run_test(b, run, (bench_test){.n_depth = depth, .n_gen = (uint32_t)b->generations.values[i],
                                                     .n_sessions = (uint32_t)b->batches.values[k]});
    }
    return good;
}

static bool run(bench *b)
{
    if (b->plan) return bench_all(b, bench_plan);
    if (b->profile) return bench_profile(b);
    if (b->tune) return bench_tune(b);
    const bool good = bench_all(b, measure_speed);
    if (b->output == 1) puts(b->n_printed ? "\n]" : "[]");
    return good;
}

/* Names model and device as the rows do: "llama 135M Q4_1". */
static void name_subjects(bench *b)
{
    vklm_device_info device;
    vklm_device_get_info(b->setup.device, &device);
    snprintf(b->device_name, sizeof b->device_name, "%s", device.name);
    char unit = ' ';
    const double scaled = scale_params(b, &unit);
    snprintf(b->model_type, sizeof b->model_type, "%s %.*f%c %s", b->setup.info.architecture,
             scaled < 10, scaled, unit, b->setup.info.file_type);
}

int main(int argc, char **argv)
{
    bench b = {.setup = {.program = "vklm-bench", .no_cache = true}, /* the driver at its own speed */
               .prompts = {{512}, 1},
               .generations = {{128}, 1},
               .depths = {{0}, 1},
               .batches = {{1}, 1},
               .repetitions = 5,
               .tune_seconds = 120,
               .random = 88172645463325252u}; /* the seed of the generator's author */
    const int parsed = parse(&b, argc, argv);
    if (parsed != ARGS_GO) return parsed;
    if (b.setup.list_devices) return setup_list_devices(&b.setup);
    if (!setup_has_model(&b.setup)) return ARGS_USAGE;

    bool good = setup_open(&b.setup) == VKLM_OK;
    if (good) {
        name_subjects(&b);
        good = run(&b);
    }
    setup_close(&b.setup);
    return good ? 0 : 1;
}
