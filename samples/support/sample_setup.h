/* sample_setup.h - what the tools do alike: name a model and a device on the command line, open
 * them with a progress bar, print errors and logs, wait for events, read files, tell the time.
 *
 * Everything said to people goes to stderr; stdout belongs to a program's result. A function that
 * returns false or a status has said why.
 */
#ifndef SAMPLE_SETUP_H
#define SAMPLE_SETUP_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "sample_args.h"
#include "sample_files.h"
#include "vklm/vklm.h"

/* Bytes that grow; text_append keeps them terminated. Zeroed is empty; free bytes when done. */
typedef struct sample_text {
    char *bytes;
    size_t len, capacity;
} sample_text;

void text_append(sample_text *text, const char *bytes, size_t len);

/* Appends the rest of a file; false where reading fails. */
bool text_append_file(sample_text *text, FILE *file);

typedef struct sample_setup {
    const char *program; /* its name, in front of each message */
    const char *model_path, *device_select, *shader_dir;
    int precision, kv; /* vklm_precision, vklm_kv_type */
    int64_t threads;
    bool verbose, list_devices, no_cache;
    const volatile sig_atomic_t *stop; /* where not NULL: nonzero cancels the load */
    /* Where not NULL: told of the load, on the thread that opens, instead of the terminal; false cancels. A failure
     * is then only left in `error`, for a window to show. */
    bool (*progress)(void *user, double fraction);
    void *progress_user;
    vklm_error error;                  /* of a setup_open that failed */
    vklm_device *device;               /* owned, as is the model; made by setup_open */
    vklm_model *model;
    vklm_model_info info;
    char *cache_path;                  /* owned: of the file with compiled pipelines; NULL: none */
    size_t cache_bytes;                /* in that file */
    uint64_t device_ns, load_ns;       /* that device and model took to open */
} sample_setup;

/* The option rows that fill a sample_setup. device_names: "-d, --device", or what is left of it. */
/* clang-format off */
#define SETUP_OPTIONS(setup, device_names)                                                       \
    {ARGS_HEADING, "Model and device", NULL, NULL, 0, 0, NULL},                                  \
    {ARGS_TEXT, "-m, --model", "FILE", &(setup)->model_path, 0, 0, "The model, a GGUF file."},   \
    {ARGS_TEXT, device_names, "DEVICE", &(setup)->device_select, 0, 0,                           \
     "The GPU: its number or UUID in --list-devices, or a part of its name. Default: the first " \
     "usable one, discrete before integrated before CPU."},                                      \
    {ARGS_FLAG, "--list-devices", NULL, &(setup)->list_devices, 0, 0,                            \
     "List the Vulkan devices of this machine and leave."},                                      \
    {ARGS_CHOICE, "--kv", "f16|f32", &(setup)->kv, 0, 0,                                         \
     "Format of the cache of keys and values. Default: f16."},                                   \
    {ARGS_CHOICE, "--precision", "default|high", &(setup)->precision, 0, 0,                      \
     "high: activations stay in f32. Default: the fastest within the usual accuracy."},          \
    {ARGS_TEXT, "--shader-dir", "DIR", &(setup)->shader_dir, 0, 0,                               \
     "Compile the shaders from DIR at start, for work on them; needs a library built for that."}, \
    {ARGS_INTEGER, "--threads", "N", &(setup)->threads, 0, 16,                                   \
     "Load with N threads. Default: one for each processor, at most 8."},                        \
    {ARGS_FLAG, "-v, --verbose", NULL, &(setup)->verbose, 0, 0,                                  \
     "Tell on stderr of the device and why it was chosen, the model, memory and speed."}
#define CACHE_OPTION(setup)                                                                      \
    {ARGS_FLAG, "--no-cache", NULL, &(setup)->no_cache, 0, 0,                                    \
     "Keep no compiled pipelines in " USER_CACHE_NAME ", and use none from there."}
/* clang-format on */

/* Whether the command line names a model; else complains of its use. */
bool setup_has_model(const sample_setup *setup);

/* Creates the device and loads the model, with what the driver compiled in earlier runs. CANCELLED is the one
 * failure that is not printed. */
vklm_status setup_open(sample_setup *setup);
void setup_close(sample_setup *setup);

/* Prints the machine's devices on stdout; returns the exit code. */
int setup_list_devices(const sample_setup *setup);

/* Prints "program: text" on stderr. */
void setup_say(const sample_setup *setup, const char *format, ...) SAMPLE_PRINTF(2, 3);

/* Text to ids (owned by the caller: free). flags as for vklm_tokenize. */
vklm_status setup_tokenize(const sample_setup *setup, const sample_text *text, unsigned flags,
                           vklm_token **ids, size_t *n_ids);

/* vklm_session_wait_event, but a generation that ended in an error is a failure too. Prints
 * nothing. */
vklm_status session_next_event(vklm_session *session, vklm_error *error, vklm_event *event);

/* A bar on stderr, where that is a terminal. Clear it before anything else is printed. */
void progress_show(const char *what, double fraction);
void progress_clear(void);

/* Monotonic. */
uint64_t clock_ns(void);

/* The most memory that the process has had so far, file mappings included; 0: unknown. */
uint64_t peak_memory(void);

/* "93.4 MiB" */
typedef struct size_text {
    char text[32];
} size_text;
size_text format_size(uint64_t size_bytes);

/* realloc that ends the program with a message where there is no memory. */
void *must_realloc(void *pointer, size_t size_bytes);

#endif
