/* sample_setup.c - see sample_setup.h. With sample_files.c and sample_windows.c the only shared code with more
 * than one operating system in mind: a monotonic clock, peak memory.
 */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "sample_setup.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#define PSAPI_VERSION 2 /* the kernel's own GetProcessMemoryInfo */
#include <windows.h>

#include <psapi.h>
#else
#include <sys/resource.h>
#endif

#include "sample_files.h"

/* ---- Memory, time, numbers ------------------------------------------------------------------ */

void *must_realloc(void *pointer, size_t size_bytes)
{
    void *grown = realloc(pointer, size_bytes);
    if (!grown) {
        fprintf(stderr, "out of memory: %zu bytes are not to be had\n", size_bytes);
        exit(1);
    }
    return grown;
}

void text_append(sample_text *text, const char *bytes, size_t len)
{
    if (text->len + len + 1 > text->capacity) {
        text->capacity = 2 * text->capacity + len + 64;
        text->bytes = must_realloc(text->bytes, text->capacity);
    }
    if (len > 0) memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
}

bool text_append_file(sample_text *text, FILE *file)
{
    char block[4096];
    size_t n = 0;
    do {
        n = fread(block, 1, sizeof block, file);
        text_append(text, block, n);
    } while (n > 0);
    return !ferror(file);
}

uint64_t clock_ns(void)
{
#ifdef _WIN32
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (uint64_t)((double)count.QuadPart / (double)frequency.QuadPart * 1e9);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

uint64_t peak_memory(void)
{
#ifdef _WIN32
    PROCESS_MEMORY_COUNTERS counters;
    return GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters) ? counters.PeakWorkingSetSize : 0;
#else
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#ifdef __APPLE__
    return (uint64_t)usage.ru_maxrss;
#else
    return (uint64_t)usage.ru_maxrss * 1024;
#endif
#endif
}

size_text format_size(uint64_t size_bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)size_bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    size_text size;
    snprintf(size.text, sizeof size.text, "%.*f %s", unit ? 1 : 0, value, units[unit]);
    return size;
}

/* ---- Messages ------------------------------------------------------------------------------- */

void setup_say(const sample_setup *setup, const char *format, ...)
{
    progress_clear();
    char text[2 * VKLM_ERROR_TEXT_SIZE]; /* written as a whole: characters of many bytes stay together */
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fprintf(stderr, "%s: ", setup->program);
    fputs(text, stderr);
    fputc('\n', stderr);
}

static void write_log(void *user, vklm_log_level level, const char *line)
{
    const sample_setup *setup = user;
    if (level == VKLM_LOG_WARNING)
        setup_say(setup, "warning: %s", line);
    else if (setup->verbose)
        setup_say(setup, "%s", line);
}

static bool bar_is_shown;

void progress_show(const char *what, double fraction)
{
    static const char full[] = "########################################";
    if (!is_terminal(stderr)) return;
    const int width = (int)sizeof full - 1, done = (int)(fraction * width + 0.5);
    fprintf(stderr, "\r%s [%.*s%*s] %3.0f %%", what, done, full, width - done, "", fraction * 100);
    fflush(stderr);
    bar_is_shown = true;
}

void progress_clear(void)
{
    if (bar_is_shown) fprintf(stderr, "\r\033[K");
    bar_is_shown = false;
}

vklm_status setup_tokenize(const sample_setup *setup, const sample_text *text, unsigned flags,
                           vklm_token **ids, size_t *n_ids)
{
    const vklm_vocab *vocab = vklm_model_vocab(setup->model);
    *ids = NULL;
    *n_ids = 0;
    if (!vocab) {
        setup_say(setup, "%s has no tokenizer, so it cannot read text", setup->model_path);
        return VKLM_UNSUPPORTED;
    }
    vklm_error error;
    vklm_status status =
        vklm_tokenize(vocab, text->bytes, text->len, flags, &error, NULL, 0, n_ids);
    if (status == VKLM_BUFFER_TOO_SMALL) {
        *ids = must_realloc(NULL, *n_ids * sizeof **ids);
        status = vklm_tokenize(vocab, text->bytes, text->len, flags, &error, *ids, *n_ids, n_ids);
    }
    if (status != VKLM_OK) setup_say(setup, "%s", error.text);
    return status;
}

vklm_status session_next_event(vklm_session *session, vklm_error *error, vklm_event *event)
{
    const vklm_status status = vklm_session_wait_event(session, error, event);
    if (status == VKLM_OK) return event->reason == VKLM_DONE_ERROR ? event->status : VKLM_OK;
    while (vklm_session_next_event(session, event)) continue; /* none is of use any more */
    return status;
}

/* ---- Device and model ----------------------------------------------------------------------- */

static const char *name_type(vklm_device_type type)
{
    switch (type) {
    case VKLM_DEVICE_DISCRETE: return "discrete GPU";
    case VKLM_DEVICE_INTEGRATED: return "integrated GPU";
    case VKLM_DEVICE_VIRTUAL: return "virtual GPU";
    case VKLM_DEVICE_CPU: return "CPU";
    case VKLM_DEVICE_OTHER: break;
    }
    return "device";
}

static void print_device(unsigned index, const vklm_device_info *info)
{
    printf("%u: %s\n   %s, %s, subgroups of %u, Vulkan %u.%u\n   %s, UUID ", index, info->name,
           name_type(info->type), format_size(info->memory_bytes).text, info->subgroup_size,
           info->api_version >> 22 & 0x7fu, info->api_version >> 12 & 0x3ffu, info->driver);
    for (size_t i = 0; i < sizeof info->uuid; i++) printf("%02x", info->uuid[i]);
    if (info->missing[0]) printf("\n   not usable, it lacks: %s", info->missing);
    printf("\n");
}

int setup_list_devices(const sample_setup *setup)
{
    vklm_error error;
    uint32_t count = 0;
    vklm_device_info *infos = NULL;
    vklm_status status = vklm_device_list(&error, NULL, &count);
    if (status == VKLM_OK && count > 0) {
        infos = must_realloc(NULL, count * sizeof *infos);
        status = vklm_device_list(&error, infos, &count);
    }
    if (status != VKLM_OK) {
        setup_say(setup, "%s", error.text);
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) print_device(i, &infos[i]);
    free(infos);
    return status == VKLM_OK ? 0 : 1;
}

bool setup_has_model(const sample_setup *setup)
{
    if (setup->model_path) return true;
    args_complain(setup->program, "no model: give a GGUF file with -m FILE");
    return false;
}

static bool show_load(void *user, double fraction)
{
    const sample_setup *setup = user;
    if (setup->progress) return setup->progress(setup->progress_user, fraction);
    progress_show("loading", fraction);
    return !(setup->stop && *setup->stop);
}

/* The library's log has told of the device already. */
static void describe(const sample_setup *setup)
{
    vklm_device_info device;
    vklm_device_get_info(setup->device, &device);
    const vklm_model_info *model = &setup->info;
    setup_say(setup, "model: %s (%s, %s), %.1f M parameters, %u layers, trained for %u tokens",
              model->name[0] ? model->name : setup->model_path, model->architecture,
              model->file_type, (double)model->n_params * 1e-6, model->n_layer,
              model->context_length);
    if (model->license[0]) setup_say(setup, "license: %s", model->license);
    setup_say(setup, "memory: %s of weights on the device, of %s",
              format_size(model->weight_bytes).text, format_size(device.memory_bytes).text);
}

/* ---- Compiled pipelines ---------------------------------------------------------------------- */

enum { MOST_CACHE_BYTES = 64 << 20 }; /* of many models; then it begins anew */

/* One file for each way to name a device: what another device left there is ignored, and overwritten. */
static void read_cache(sample_setup *setup, sample_text *cache)
{
    char name[32] = "pipelines";
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = setup->device_select; c && *c; c++) hash = (hash ^ (uint8_t)*c) * 16777619u;
    if (setup->device_select) snprintf(name, sizeof name, "pipelines-%08x", (unsigned)hash);
    setup->cache_path = user_file(USER_CACHE, name);
    FILE *file = setup->cache_path ? file_open(setup->cache_path, "rb") : NULL;
    if (!file) return;
    if (!text_append_file(cache, file) || cache->len > MOST_CACHE_BYTES) cache->len = 0;
    fclose(file);
    setup->cache_bytes = cache->len;
}

/* Writes what the device has now, unless it has only what is in the file. */
static void write_cache(sample_setup *setup, const sample_text *old)
{
    size_t size = 0;
    if (!setup->cache_path || !setup->device) return;
    (void)vklm_device_get_pipeline_cache(setup->device, NULL, NULL, 0, &size);
    if (size == 0 || (!old && size == setup->cache_bytes)) return;
    uint8_t *bytes = must_realloc(NULL, size);
    const bool good = vklm_device_get_pipeline_cache(setup->device, NULL, bytes, size, &size) == VKLM_OK;
    const bool same = old && size == old->len && memcmp(bytes, old->bytes, size) == 0;
    if (good && !same && !file_replace(setup->cache_path, bytes, size) && setup->verbose)
        setup_say(setup, "%s cannot be written", setup->cache_path);
    setup->cache_bytes = size;
    free(bytes);
}

static vklm_status open_all(sample_setup *setup, const sample_text *cache, vklm_error *error)
{
    const vklm_device_params device = {.struct_size = sizeof device,
                                       .select = setup->device_select,
                                       .log = {write_log, setup},
                                       .shader_dir = setup->shader_dir,
                                       .pipeline_cache = cache->bytes,
                                       .pipeline_cache_bytes = cache->len};
    const vklm_model_params model = {.struct_size = sizeof model,
                                     .path = setup->model_path,
                                     .precision = (vklm_precision)setup->precision,
                                     .progress = show_load,
                                     .progress_user = setup,
                                     .threads = (uint32_t)setup->threads};
    const uint64_t began = clock_ns();
    vklm_status status = vklm_device_create(&device, error, &setup->device);
    const uint64_t opened = clock_ns();
    if (status == VKLM_OK) status = vklm_model_load(setup->device, &model, error, &setup->model);
    setup->device_ns = opened - began;
    setup->load_ns = clock_ns() - opened;
    progress_clear();
    return status;
}

vklm_status setup_open(sample_setup *setup)
{
    sample_text cache = {0};
    if (!setup->no_cache) read_cache(setup, &cache);
    const vklm_status status = open_all(setup, &cache, &setup->error);
    if (status == VKLM_OK) write_cache(setup, &cache);
    free(cache.bytes);
    if (status != VKLM_OK) {
        if (status != VKLM_CANCELLED && !setup->progress) setup_say(setup, "%s", setup->error.text);
        return status;
    }
    vklm_model_get_info(setup->model, &setup->info);
    if (setup->verbose) describe(setup);
    return VKLM_OK;
}

void setup_close(sample_setup *setup)
{
    write_cache(setup, NULL);
    free(setup->cache_path);
    setup->cache_path = NULL;
    vklm_model_destroy(&setup->model);
    vklm_device_destroy(&setup->device);
}
