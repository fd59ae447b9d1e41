/* vklm.h - runs GGUF language models on any Vulkan GPU. This header holds no Vulkan types.
 *
 * Objects: device > model > session, and a vocabulary that lives in a model or stands alone.
 *
 *     vklm_device *device = NULL; vklm_model *model = NULL; vklm_session *session = NULL;
 *     vklm_error error;
 *     vklm_device_create(NULL, &error, &device);
 *     vklm_model_load(device, &(vklm_model_params){.struct_size = sizeof(vklm_model_params),
 *                                                  .path = "model.gguf"}, &error, &model);
 *     vklm_session_create(model, NULL, &error, &session);
 *     vklm_message ask = {"user", "Why is the sky blue?"};
 *     vklm_session_set_chat(session, &ask, 1, &error, NULL);
 *     vklm_session_generate(session, NULL, &error);
 *     vklm_event event;
 *     while (vklm_session_wait_event(session, &error, &event) == VKLM_OK) {
 *         if (event.kind == VKLM_EVENT_TOKEN) fwrite(event.text, 1, event.text_len, stdout);
 *         if (event.kind == VKLM_EVENT_DONE) break;
 *     }
 *     vklm_session_destroy(&session); vklm_model_destroy(&model); vklm_device_destroy(&device);
 *
 * Rules that hold everywhere:
 *   - A fallible call returns vklm_status and leaves its result through the last parameter, set to
 *     empty on failure. `error` may be NULL; else it receives the status and a sentence that names
 *     the thing and the remedy.
 *   - Params structs begin with struct_size; a NULL params pointer and a zero member mean the
 *     default. They are read during the call only, strings included.
 *   - Each destroy takes the address of a handle, sets it to NULL, and accepts NULL. Destroy
 *     children before parents.
 *   - Threads: a device, a model and its sessions take calls from any thread; a call that computes holds the
 *     model's lock for a short while, and none while it waits for the GPU. So several threads may each wait for
 *     a session of their own, and work for all of them goes on together. Models know nothing of each other: one
 *     may load while another generates. What a call lends (an event's text, the history) lives until the next
 *     call on that session. A vocabulary is read-only: any thread. Destroy what no other thread is in a call on.
 *   - The library never aborts, prints or reads the environment. Threads of its own live within the calls
 *     that name vklm_model_params.threads, never longer, and call no callback; the one exception is a
 *     vklm_worker, which is asked for.
 */
#ifndef VKLM_H
#define VKLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(VKLM_STATIC)
#define VKLM_API
#elif defined(_WIN32)
#ifdef VKLM_BUILDING
#define VKLM_API __declspec(dllexport)
#else
#define VKLM_API __declspec(dllimport)
#endif
#else
#define VKLM_API __attribute__((visibility("default")))
#endif

#define VKLM_VERSION_MAJOR 0
#define VKLM_VERSION_MINOR 1
#define VKLM_VERSION_PATCH 0

/* The version of the library that is running, as major * 10000 + minor * 100 + patch. Any thread. */
VKLM_API uint32_t vklm_version(void);

typedef struct vklm_device vklm_device;
typedef struct vklm_model vklm_model;
typedef struct vklm_session vklm_session;
typedef struct vklm_vocab vklm_vocab;

/* ---- Status ---------------------------------------------------------------------------------- */

/* What went wrong, by what the caller can do about it. */
#define VKLM_STATUS_LIST(X)                                                                        \
    X(OK, "success")                                                                               \
    X(INVALID_ARGUMENT, "an argument is out of its range")                                         \
    X(OUT_OF_MEMORY, "the host has no memory left")                                                \
    X(OUT_OF_DEVICE_MEMORY, "the device has no memory left")                                       \
    X(NO_VULKAN, "no Vulkan loader or no Vulkan device on this machine")                           \
    X(DEVICE_UNSUITABLE, "the device lacks a feature that vklm needs")                             \
    X(DEVICE_LOST, "the device was lost; destroy it and everything made from it")                  \
    X(DRIVER_ERROR, "the driver refused a call")                                                   \
    X(IO_ERROR, "a file could not be opened or read")                                              \
    X(BAD_FILE, "the file is malformed")                                                           \
    X(UNSUPPORTED, "the file is sound but needs something that vklm does not have")                \
    X(CONTEXT_FULL, "the session's context is full; everything is still usable")                   \
    X(CANCELLED, "the caller cancelled")                                                           \
    X(BUFFER_TOO_SMALL, "the result does not fit; the needed size was returned")                   \
    X(NOTHING_TO_DO, "no session has work")                                                        \
    X(SHADER_ERROR, "a shader does not compile")

typedef enum vklm_status {
#define VKLM_STATUS_ENUM(name, sentence) VKLM_##name,
    VKLM_STATUS_LIST(VKLM_STATUS_ENUM)
#undef VKLM_STATUS_ENUM
} vklm_status;

/* The status's name ("VKLM_OK") and sentence. Never NULL, also for unknown values. Any thread. */
VKLM_API const char *vklm_status_name(vklm_status status);
VKLM_API const char *vklm_status_sentence(vklm_status status);

#define VKLM_ERROR_TEXT_SIZE 1024
typedef struct vklm_error {
    vklm_status status;
    char text[VKLM_ERROR_TEXT_SIZE]; /* UTF-8, terminated; names the thing and the remedy */
} vklm_error;

/* ---- Host: memory and log --------------------------------------------------------------------- */

/* realloc(user, NULL, n) allocates, realloc(user, p, 0) frees and returns NULL; NULL from a growing
 * call is out of memory. Alignment as malloc's. Called on the threads that call the library, and on a
 * vklm_worker's: of several at once, so it must bear that where a program has several. So must the log. */
typedef struct vklm_allocator {
    void *(*realloc)(void *user, void *pointer, size_t size_bytes);
    void *user;
} vklm_allocator;

typedef enum vklm_log_level { VKLM_LOG_INFO, VKLM_LOG_WARNING } vklm_log_level;

/* Receives one line without a newline; silent where write is NULL. */
typedef struct vklm_log {
    void (*write)(void *user, vklm_log_level level, const char *line);
    void *user;
} vklm_log;

/* ---- Where a GGUF comes from -------------------------------------------------------------------- */

typedef enum vklm_source_kind {
    VKLM_SOURCE_MEMORY, /* bytes, size */
    VKLM_SOURCE_FILE,   /* file, offset, size: part of an open file, such as an archive or an APK */
    VKLM_SOURCE_READ,   /* read, user, size: the program's own archive */
} vklm_source_kind;

/* A GGUF that is not a file with a path. It may begin anywhere: at any address, at any byte of a file. All of it
 * is used during the call only (vklm_model_load, vklm_model_estimate, vklm_vocab_open), copied or uploaded, and is
 * the caller's to free or close after it. Whoever changes the bytes meanwhile, or cuts a file that is mapped
 * short, may crash the program, as with any mapped file. */
typedef struct vklm_source {
    size_t struct_size;
    vklm_source_kind kind;
    const char *name;     /* for errors, UTF-8; NULL: "the model in memory" and the like */
    uint64_t size;        /* in bytes, of the GGUF; 0 with FILE: to the file's end */
    const void *bytes;
    intptr_t file;        /* a descriptor of a regular file, open for reading; on Windows a HANDLE (of a C descriptor:
                             _get_osfhandle). It is mapped; its position is neither read nor moved */
    uint64_t offset;      /* in the file, of the GGUF's first byte */
    /* Fills n bytes (never beyond `size`; some MiB at most, unless a row of weights is larger) from byte `offset`
     * of the GGUF on; false: it cannot, and the call fails with IO_ERROR. Called on the thread that called the
     * library, never on another, while others of the library's repack what was read before. Asked for are the keys,
     * then 64 bytes here and there of all tensors (what saved sessions know the model by), then the tensors, about in
     * the order of the file. The GGUF is never held as a whole: a load of any size takes some tens of MB of host
     * memory. */
    bool (*read)(void *user, uint64_t offset, void *bytes, size_t n);
    void *user;
} vklm_source;

/* ---- Device ----------------------------------------------------------------------------------- */

typedef enum vklm_device_type {
    VKLM_DEVICE_DISCRETE,
    VKLM_DEVICE_INTEGRATED,
    VKLM_DEVICE_VIRTUAL,
    VKLM_DEVICE_CPU,
    VKLM_DEVICE_OTHER,
} vklm_device_type;

typedef struct vklm_device_info {
    char name[256];        /* as the driver gives it */
    char driver[256];      /* driver name and version */
    uint8_t uuid[16];
    vklm_device_type type;
    uint32_t api_version;  /* VK_MAKE_API_VERSION encoding */
    uint64_t memory_bytes; /* size of the largest device-local heap */
    uint32_t subgroup_size;
    char missing[256];     /* names of what it lacks, separated by ", "; empty: usable */
    char reason[256];      /* of a created device: why it was chosen; else empty */
    bool luid_valid;
    uint8_t luid[8];       /* what Windows calls the adapter (AdapterLuid), where the driver says */
    char queue[128];       /* of a created device: its queue and priority; else empty */
} vklm_device_info;

/* Which device is taken where none is named. Usable ones only; types in order, virtual GPUs and software last. */
typedef enum vklm_power {
    VKLM_POWER_DEFAULT, /* discrete before integrated; the first of a type */
    VKLM_POWER_LOW,     /* integrated before discrete; the first of a type */
    VKLM_POWER_HIGH,    /* discrete before integrated; of a type the one with the most memory */
} vklm_power;

typedef enum vklm_queue_priority {
    VKLM_QUEUE_PRIORITY_DEFAULT, /* below other programs and the renderer where the driver grants that, else normal */
    VKLM_QUEUE_PRIORITY_NORMAL,
} vklm_queue_priority;

typedef struct vklm_device_params {
    size_t struct_size;
    const char *select;          /* NULL: by uuid, luid or power below. Else an index of vklm_device_list
                                    ("1"), a UUID of 32 hex digits, a LUID of 16, or a part of the name
                                    (case ignored; the first match) */
    vklm_allocator allocator;    /* realloc NULL: the C library's */
    vklm_log log;
    const char *shader_dir;      /* GLSL compiled at run time from here; only where the library was
                                    built with VKLM_RUNTIME_GLSL, else UNSUPPORTED */
    double submit_limit_ms;      /* aim for at most so much GPU time in one submit; default 50 */
    uint64_t block_limit_bytes;  /* no device memory block larger than this; default: the device's
                                    limit. For tests and for tight heaps */
    const void *pipeline_cache;  /* of vklm_device_get_pipeline_cache, in an earlier run: models then load
                                    faster. One of another device, driver or vklm version, or a damaged one, is
                                    ignored with a line in the log. NULL: none */
    size_t pipeline_cache_bytes;
    const void *uuid;            /* 16 bytes: the GPU that the renderer uses, by Vulkan's deviceUUID; or NULL */
    const void *luid;            /* 8 bytes: the same by Windows' name of it (&desc.AdapterLuid); or NULL */
    vklm_power power;            /* where nothing above names one */
    vklm_queue_priority queue_priority;
    uint64_t memory_budget_bytes; /* the device's models and sessions never hold more device memory than this
                                     together, of whatever heap. What would is refused with
                                     OUT_OF_DEVICE_MEMORY: a load before it allocates, a cache that grows once
                                     idle ones are dropped. Default: no limit but the driver's */
} vklm_device_params;

/* Lists the machine's Vulkan devices, usable or not, in the loader's order. *count is the capacity
 * of infos on entry and the number of devices on return (infos may be NULL to ask for it). A GPU with two drivers
 * is there twice, with one UUID or LUID.
 * Errors: NO_VULKAN (no loader, no driver), BUFFER_TOO_SMALL. Makes and destroys a VkInstance. */
VKLM_API vklm_status vklm_device_list(vklm_error *error, vklm_device_info *infos, uint32_t *count);

/* Makes an own VkInstance and VkDevice (vklm_vulkan.h: takes the program's). A device that is named is taken or
 * refused, never replaced by another. Errors: NO_VULKAN, INVALID_ARGUMENT (nothing matches; the text lists what
 * there is), DEVICE_UNSUITABLE (the text names what is missing),
 * SHADER_ERROR, OUT_OF_MEMORY, DRIVER_ERROR. Blocks for the driver's start. */
VKLM_API vklm_status vklm_device_create(const vklm_device_params *params, vklm_error *error,
                                        vklm_device **device_out);

/* After its models. An adopted VkDevice stays, as it was. */
VKLM_API void vklm_device_destroy(vklm_device **device);

/* Copies what is known since the device was made; needs no driver. Strings are terminated. */
VKLM_API void vklm_device_get_info(const vklm_device *device, vklm_device_info *info_out);

/* Bytes of device memory that the device's models and sessions hold now: all VkDeviceMemory, of whatever heap. */
VKLM_API uint64_t vklm_device_memory_used(const vklm_device *device);

/* In bytes, now. "Local" are the device-local heaps that weights and caches can come from, together. */
typedef struct vklm_memory {
    uint64_t used_bytes;          /* vklm_device_memory_used */
    uint64_t budget_bytes;        /* vklm_device_params.memory_budget_bytes; 0: none */
    uint64_t local_bytes;         /* size of the local heaps */
    uint64_t local_used_bytes;    /* of used_bytes, what lies in them */
    uint64_t driver_budget_bytes; /* of the local heaps, by VK_EXT_memory_budget: what this process may use of them */
    uint64_t driver_usage_bytes;  /* now without harm, and what it uses, vklm included. 0: the driver does not say */
    uint64_t free_bytes;          /* of the local heaps: the driver's budget less its usage, or where it does not say,
                                     the heaps less local_used_bytes. memory_budget_bytes is apart from it */
} vklm_memory;

/* Asks the driver: some microseconds. Cheap enough for once a frame. */
VKLM_API void vklm_device_get_memory(const vklm_device *device, vklm_memory *memory_out);

/* What the driver compiled for the device's models so far, to be given to vklm_device_create in the next run.
 * *size_out: its size in bytes, some 100 KB to a few MB; BUFFER_TOO_SMALL where that exceeds `capacity` (call
 * again; bytes may be NULL to ask). It holds for this device and driver version only. DEVICE_LOST, DRIVER_ERROR. */
VKLM_API vklm_status vklm_device_get_pipeline_cache(vklm_device *device, vklm_error *error, void *bytes,
                                                    size_t capacity, size_t *size_out);

/* ---- Vocabulary and text ------------------------------------------------------------------------ */

typedef int32_t vklm_token;

typedef struct vklm_vocab_params {
    size_t struct_size;
    const char *path; /* a GGUF file with a tokenizer; vocabulary-only files will do. UTF-8 */
    vklm_allocator allocator;
    vklm_log log;
    const vklm_source *sources; /* as in vklm_model_params, in place of path */
    uint32_t n_sources;
} vklm_vocab_params;

/* Opens a file's vocabulary without a GPU. Errors: INVALID_ARGUMENT, IO_ERROR, BAD_FILE, UNSUPPORTED (a tokenizer
 * model or pre-tokenizer that vklm does not know, by name), OUT_OF_MEMORY. */
VKLM_API vklm_status vklm_vocab_open(const vklm_vocab_params *params, vklm_error *error, vklm_vocab **vocab_out);

/* Of vklm_vocab_open. A model's vocabulary goes with the model. */
VKLM_API void vklm_vocab_destroy(vklm_vocab **vocab);

/* How many ids there are: from 0 to one less. Any thread. */
VKLM_API uint32_t vklm_vocab_size(const vklm_vocab *vocab);

enum {
    VKLM_ADD_SPECIAL = 1,   /* BOS and EOS where the file asks for them */
    VKLM_PARSE_SPECIAL = 2, /* the literal text of control tokens becomes those tokens */
};

/* Text to ids. text: len bytes of UTF-8 (invalid bytes: BPE reads U+FFFD, SPM keeps the bytes).
 * *n_out is the number of ids of the whole text; BUFFER_TOO_SMALL where it exceeds capacity (call
 * again; ids may be NULL with capacity 0). Any thread. */
VKLM_API vklm_status vklm_tokenize(const vklm_vocab *vocab, const char *text, size_t len, unsigned flags,
                                   vklm_error *error, vklm_token *ids, size_t capacity, size_t *n_out);

/* Ids to text, the inverse of vklm_tokenize. With show_special control tokens appear as their text. Same size
 * protocol, in bytes; no terminator is written. INVALID_ARGUMENT: an id out of range. Any thread. */
VKLM_API vklm_status vklm_detokenize(const vklm_vocab *vocab, const vklm_token *ids, size_t n, bool show_special,
                                     vklm_error *error, char *text, size_t capacity, size_t *len_out);

/* Whether generation stops at this id (end of sequence, of turn, of message). Any thread. */
VKLM_API bool vklm_token_is_end(const vklm_vocab *vocab, vklm_token id);

typedef struct vklm_message {
    const char *role;    /* "system", "user" or "assistant" */
    const char *content; /* UTF-8, terminated; never parsed for special tokens */
} vklm_message;

/* The family of chat format recognised from the file's template ("chatml", "llama3", "gemma" ...),
 * or NULL: the file has no template, or one of no known family; it continues plain text. */
VKLM_API const char *vklm_chat_family(const vklm_vocab *vocab);

/* A conversation as ids, BOS included where the family begins with it, ending where the assistant's
 * reply begins. UNSUPPORTED where vklm_chat_family is NULL; INVALID_ARGUMENT: an unknown role, or a NULL in a
 * message. Same size protocol as vklm_tokenize. Any thread. */
VKLM_API vklm_status vklm_chat_tokenize(const vklm_vocab *vocab, const vklm_message *messages, size_t n_messages,
                                        vklm_error *error, vklm_token *ids, size_t capacity, size_t *n_out);

/* ---- Model -------------------------------------------------------------------------------------- */

typedef enum vklm_precision {
    VKLM_PRECISION_DEFAULT, /* what is fastest on the device within the peer's accuracy */
    VKLM_PRECISION_HIGH,    /* f32 activations throughout */
} vklm_precision;

typedef struct vklm_model_params {
    size_t struct_size;
    const char *path; /* GGUF v2 or v3, UTF-8; of a split model the first part: the others lie beside it */
    vklm_precision precision;
    /* Called now and then during the load, on the thread that loads; fraction: 0 to 1; false cancels (CANCELLED). */
    bool (*progress)(void *user, double fraction);
    void *progress_user;
    uint32_t threads; /* that may work on weights, and as many on pipelines, the caller's included; 1: it
                         alone; default: one for each processor, at most 8; a number over 16 is lowered */
    /* In place of path, with path NULL: one source, or as many as a split model has parts, in their order. */
    const vklm_source *sources;
    uint32_t n_sources; /* default 1 */
    /* Sessions that are to follow: a load is refused unless n_expected (default 1) of them fit with full contexts,
     * beside the model. NULL: room for 256 tokens is enough. Nothing is set aside for them. */
    const struct vklm_session_params *expected;
    uint32_t n_expected; /* above 1, also without `expected`: pipelines for several sessions at once are made at load */
} vklm_model_params;

typedef struct vklm_model_info {
    const char *architecture; /* strings live as long as the model; never NULL, maybe empty */
    const char *name;
    const char *license;
    const char *file_type;    /* of most tensors: "Q4_K" */
    uint32_t n_vocab, n_layer, d_model, n_head, n_head_kv, d_head, d_ff;
    uint32_t context_length;  /* that the model was trained for */
    uint64_t n_params;
    uint64_t file_bytes;
    uint64_t weight_bytes;    /* on the device */
    uint64_t decode_bytes;    /* of weights read for one decoded token */
    const char *no_vocab;     /* why vklm_model_vocab is NULL ("tokenizer model 't5' ..."); else empty */
} vklm_model_info;

/* Reads, checks, repacks and uploads a model, and meanwhile compiles its pipelines, all that it will ever
 * use with an f16 cache (for several sessions at once where n_expected is above 1: see vklm_session_create).
 * Starts up to `threads` threads, which end before it returns. Blocks, for seconds where nothing is compiled yet:
 * a program that draws loads on a thread of its own; `progress` can cancel. Before anything is allocated, all that
 * the model needs of device memory is summed up and compared with memory_budget_bytes and with what the driver says
 * is free; OUT_OF_DEVICE_MEMORY names what is needed, what there is, and what would help. Errors:
 * INVALID_ARGUMENT, IO_ERROR, BAD_FILE (names the file, the key or tensor, and what was expected), UNSUPPORTED
 * (architecture or format, by name), OUT_OF_MEMORY, OUT_OF_DEVICE_MEMORY, CANCELLED, DEVICE_LOST, DRIVER_ERROR. On
 * failure nothing is left behind. */
VKLM_API vklm_status vklm_model_load(vklm_device *device, const vklm_model_params *params,
                                     vklm_error *error, vklm_model **model_out);

/* After its worker and its sessions. Waits for what the model has in flight. */
VKLM_API void vklm_model_destroy(vklm_model **model);

VKLM_API void vklm_model_get_info(const vklm_model *model, vklm_model_info *info_out);

/* Borrowed; lives as long as the model. NULL where the file has no tokenizer, or one that vklm does not
 * know (vklm_model_info.no_vocab says why): ids still work. */
VKLM_API const vklm_vocab *vklm_model_vocab(const vklm_model *model);

/* ---- Session ------------------------------------------------------------------------------------ */

/* How the next token is drawn. Order: bias, penalties, top_k, top_p, min_p, temperature, draw. A zero
 * means the model file's recommendation (general.sampling.*) where it has one, else the default. The random
 * number that draws a token depends on the seed and the token's position alone: a generation that was cut in two goes
 * on as one would have. */
typedef struct vklm_sampling {
    float temperature;       /* default 0.8; negative: greedy, the likeliest token, lowest id on ties */
    int32_t top_k;           /* default 40; negative: off */
    float top_p;             /* default 0.95; 1 or more: off; not negative */
    float min_p;             /* default 0.05; negative: off; at most 1 */
    float repeat_penalty;    /* divides the logits of the last repeat_last_n tokens; above 0; default 1, off */
    float presence_penalty;  /* taken off their logits; default 0 */
    float frequency_penalty; /* taken off for each time that a token is among them; default 0 */
    int32_t repeat_last_n;   /* default 64; negative: the whole context */
    uint64_t seed;           /* 0: from the operating system */
} vklm_sampling;

/* Added to a token's logit before everything else: any finite number; -INFINITY bans the token. */
typedef struct vklm_logit_bias {
    vklm_token id; /* of the vocabulary; one that stands in an array twice gets the sum */
    float bias;
} vklm_logit_bias;

typedef enum vklm_kv_type { VKLM_KV_F16, VKLM_KV_F32 } vklm_kv_type;

/* What a session does where a chat, or a generation, does not fit its context. What is left is digested again
 * behind the common prefix. */
typedef enum vklm_overflow_policy {
    VKLM_OVERFLOW_REFUSE,   /* CONTEXT_FULL, or the end of the generation with VKLM_DONE_CONTEXT_FULL */
    VKLM_OVERFLOW_DROP,     /* the oldest exchanges (a user's message and what follows to the next one) are dropped
                               until half of the context is free, never the system messages in front nor the last
                               user's message. Where that is not enough, and in a history that is no chat, the
                               oldest half of the reply, or of the ids behind n_keep */
    VKLM_OVERFLOW_CALLBACK, /* `overflow` decides */
} vklm_overflow_policy;

/* What an overflow callback is asked: something must go until at most `limit` tokens are left; it is asked again
 * where that is not reached. It fills drop and drop_behind. */
typedef struct vklm_overflow {
    const vklm_message *messages; /* of the chat; n_messages is 0 where the history is plain ids */
    size_t n_messages;
    bool *drop;                   /* [n_messages], all false; the last message stays in any case */
    size_t n_kept, n_behind;      /* tokens of the messages (plain ids: the first n_keep), and of what follows them */
    size_t drop_behind;           /* so many of the oldest of n_behind are to go, too; 0 */
    size_t limit;
} vklm_overflow;

typedef struct vklm_session_params {
    size_t struct_size;
    uint32_t context;  /* most tokens in the session; default min(context_length, 4096) */
    vklm_kv_type kv;
    uint32_t chunk;    /* most prompt tokens in one prefill pass, 1 to 512; default 512, less where
                          the model is wide; a larger number is lowered to what fits */
    bool ids_only;     /* TOKEN events carry no text, and ids are not checked against the vocabulary */
    vklm_overflow_policy on_overflow;
    /* Called by set_chat, append_chat and generate, and while the model steps, on the thread that does; must not
     * call the library. False: as VKLM_OVERFLOW_REFUSE. */
    bool (*overflow)(void *user, vklm_overflow *what);
    void *overflow_user;
    uint32_t reserve;  /* tokens that set_chat and append_chat leave free for the reply where they can, unless the
                          policy is REFUSE; default an eighth of the context */
    uint32_t n_keep;   /* DROP keeps so many first ids of a history that is no chat */
    bool keep_cache;   /* while idle too: not dropped where other sessions lack device memory */
    bool no_sharing;   /* no pages of the KV cache in common with other sessions but forks */
    bool keep_replaced; /* what set_ids and set_chat replace stays cached besides, if it is no more than what stays:
                          a reply that is written anew and then taken after all is not digested again */
} vklm_session_params;

/* What a model and its sessions take, in bytes. */
typedef struct vklm_estimate {
    uint64_t weight_bytes;     /* of device memory, like all that follow but one */
    uint64_t buffer_bytes;     /* activations, logits and other buffers that its sessions share */
    uint64_t kv_bytes;         /* a session with a full context, all of its own included */
    uint64_t kv_token_bytes;   /* K and V of one token; they are taken for 256 at a time */
    uint64_t total_bytes;      /* model and sessions, every context full: vklm_device_memory_used then */
    uint64_t load_bytes;       /* most while the model is loaded, the staging buffer included where uploads need one */
    uint64_t host_bytes;       /* most host memory at a time during the load, by the allocator; an upper bound. Not
                                  in it: pages of a mapped file, which the system takes back at need, and what the
                                  driver's compiler takes */
    uint64_t free_bytes;       /* vklm_memory.free_bytes, less where memory_budget_bytes leaves less. 0: no device */
    bool fits;                 /* into that, now */
    uint32_t context;          /* of the sessions */
    uint32_t largest_context;  /* with which n_sessions (or one, for 0) would fit; 0: none. No device: the model's */
} vklm_estimate;

/* How much memory a load and n_sessions sessions would take, from the keys and the table of tensors alone: weights
 * are not read, and no device memory is allocated. model and session: as they would be given to vklm_model_load and
 * vklm_session_create (session may be NULL; struct members that change no memory are not looked at). On a device
 * the numbers of device memory are exact, to the byte; with device NULL they are those of a discrete GPU whose
 * driver has no limits and rounds nothing up. n_sessions: at most 4096. Takes some ms. Errors as vklm_model_load's
 * for the file, INVALID_ARGUMENT as vklm_session_create's; that something does not fit is no error. */
VKLM_API vklm_status vklm_model_estimate(vklm_device *device, const vklm_model_params *model,
                                         const vklm_session_params *session, uint32_t n_sessions, vklm_error *error,
                                         vklm_estimate *estimate_out);

/* Makes an empty session. Allocates little: the KV cache grows on demand. The model's first session with an f32
 * cache compiles the pipelines for it, and the first beside another those for several at once, unless
 * vklm_model_params.n_expected said at the load that they would come; by up to vklm_model_params.threads threads.
 * Nothing is compiled later. INVALID_ARGUMENT: a context of more than the model's context_length (the text says so),
 * or another value out of range; OUT_OF_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST, DRIVER_ERROR. */
VKLM_API vklm_status vklm_session_create(vklm_model *model, const vklm_session_params *params,
                                         vklm_error *error, vklm_session **session_out);

/* Waits for the session's own work on the device, at most two submits. */
VKLM_API void vklm_session_destroy(vklm_session **session);

/* Makes the session's history exactly these ids. The longest common prefix with what is already in
 * the KV cache is kept (*n_reused_out, may be NULL), the rest is dropped, what is new becomes
 * pending and is digested by the next generate. Where another session of the model and cache type has cached more of
 * the ids, its pages are shared. Nothing is computed here, at most a page copied on the device; it waits for what the
 * session still has in flight, after DONE a step at most. Errors, all of which leave the session as before:
 * CONTEXT_FULL, INVALID_ARGUMENT (an id out of range, or the session is generating), OUT_OF_MEMORY, DEVICE_LOST. */
VKLM_API vklm_status vklm_session_set_ids(vklm_session *session, const vklm_token *ids, size_t n,
                                          vklm_error *error, size_t *n_reused_out);

/* Adds n ids behind the history, pending as those of set_ids. Does not wait. Errors as set_ids's. */
VKLM_API vklm_status vklm_session_append_ids(vklm_session *session, const vklm_token *ids, size_t n,
                                             vklm_error *error);

/* vklm_chat_tokenize, then vklm_session_set_ids; what does not fit goes by the session's overflow policy, and the
 * next generate begins with a DROPPED event. Called with a whole conversation turn after turn, it drops the same
 * messages again and no more until the context is full anew. The session keeps the messages, see
 * vklm_session_chat. Errors also: CONTEXT_FULL where the policy cannot help, UNSUPPORTED (no chat format),
 * INVALID_ARGUMENT (of vklm_chat_tokenize). */
VKLM_API vklm_status vklm_session_set_chat(vklm_session *session, const vklm_message *messages, size_t n_messages,
                                           vklm_error *error, size_t *n_reused_out);

/* The next turn: what set_chat would do with the session's messages, the text generated since as the assistant's
 * message (none where nothing was), and these. Errors also: INVALID_ARGUMENT (the history is not empty and came from
 * ids). */
VKLM_API vklm_status vklm_session_append_chat(vklm_session *session, const vklm_message *messages, size_t n_messages,
                                              vklm_error *error, size_t *n_reused_out);

/* The messages that the history begins with, of set_chat, append_chat or load, without what was dropped; they take
 * the first *n_ids_out ids (may be NULL), behind which lies the reply. *n_out is 0 where the history is plain ids.
 * Borrowed until the next call on the session or vklm_model_step. */
VKLM_API const vklm_message *vklm_session_chat(const vklm_session *session, size_t *n_out, size_t *n_ids_out);

/* A new session, made like this one, whose history is the first n_tokens of this one's (0: all of it), and with them
 * what is cached: whole pages of the KV cache are shared, a last part page is copied on the device, so a prompt
 * that many sessions begin with is digested and stored once. Either may be destroyed first. A session that is
 * generating is forked as far as it has come; the new one is idle. Costs what vklm_session_create does. Chat
 * messages go along where all of their ids do. INVALID_ARGUMENT (more tokens than there are), OUT_OF_MEMORY,
 * OUT_OF_DEVICE_MEMORY, DEVICE_LOST. */
VKLM_API vklm_status vklm_session_fork(vklm_session *session, size_t n_tokens, vklm_error *error,
                                       vklm_session **session_out);

/* Gives the session's KV cache back to the device, but for pages that others share. The history stays, and is
 * digested again when needed. Waits for what the model has in flight, at most two submits. INVALID_ARGUMENT: the
 * session is generating. The library does the same to idle sessions, the longest unused first, where the
 * device lacks memory for one that generates: vklm_session_params.keep_cache. */
VKLM_API vklm_status vklm_session_drop_cache(vklm_session *session, vklm_error *error);

enum { VKLM_SAVE_CACHE = 1 }; /* the KV cache, too: much larger, and nothing to digest after the load */

/* The history, with its chat messages, as bytes that vklm_session_load takes, in this process or another, on any
 * machine. Size protocol of vklm_tokenize: BUFFER_TOO_SMALL where *size_out exceeds capacity (bytes may be NULL to
 * ask). Sampling is not in it: it belongs to each generate. With VKLM_SAVE_CACHE blocks until the model's work in
 * flight is done and the cache read. Also of a session that generates: as far as it has come. INVALID_ARGUMENT
 * (unknown flags), OUT_OF_MEMORY; with VKLM_SAVE_CACHE also OUT_OF_DEVICE_MEMORY, DEVICE_LOST, DRIVER_ERROR. */
VKLM_API vklm_status vklm_session_save(vklm_session *session, unsigned flags, vklm_error *error, void *bytes,
                                       size_t capacity, size_t *size_out);

/* Makes the saved history the session's. The saved cache is used where it is of this very model, precision and
 * cache type and the device has room; else the history is digested by the next generate, behind what this session
 * has cached of it. *n_reused_out (may be NULL): ids that are cached now. The session is as before after: BAD_FILE
 * (the text says what is wrong: damaged, cut, of another version or another vocabulary), CONTEXT_FULL (saved
 * with more than this context; no policy applies), INVALID_ARGUMENT (generating), OUT_OF_MEMORY. */
VKLM_API vklm_status vklm_session_load(vklm_session *session, const void *bytes, size_t size, vklm_error *error,
                                       size_t *n_reused_out);

typedef struct vklm_generate_params {
    size_t struct_size;
    uint32_t max_tokens;    /* stop with VKLM_DONE_LENGTH after so many; default: until the end token
                               or the context's end */
    bool prompt_only;       /* digest the prompt and stop with VKLM_DONE_PROMPT: no token is drawn */
    bool ignore_end;        /* go on past end tokens */
    bool want_logits;       /* LOGITS events for every prompt row not reused and every new token that is
                               digested, which the last is not. Until they are taken, the model's
                               sessions stand still. Costs what `sample` does */
    vklm_sampling sampling;
    const vklm_logit_bias *bias;
    size_t n_bias;
    /* End the generation with VKLM_DONE_STOP: strings of valid UTF-8, terminated, 1 to 255 bytes, wherever they come
     * up in the generated text, within tokens and across; the first to be complete counts, of several the longest.
     * No TOKEN event has text of a string that completes: what may become one is held back until it is decided. The
     * history holds all that was generated, the tokens that spell the string and what the last of them has behind it.
     * Not for sessions without text. */
    const char *const *stop;
    size_t n_stop;
    const vklm_token *stop_ids; /* the same by token, which is in the history, but not in text */
    size_t n_stop_ids;
    /* Draws tokens in the library's place; sampling and bias then mean nothing. Called within vklm_model_step and
     * vklm_session_wait_event, on the thread that steps: logits [n_vocab], valid during the call; history: all ids so
     * far. It returns an id of the vocabulary (another ends the generation with INVALID_ARGUMENT) and may not call the
     * library for this model, but vklm_session_cancel. Costs a row of logits read back and a submit for each token. */
    vklm_token (*sample)(void *user, const float *logits, uint32_t n_vocab, const vklm_token *history,
                         size_t n_history);
    void *sample_user;
} vklm_generate_params;

/* Arms the session: steps digest what is pending, then generate. Does not compute and does not
 * block. Tokens are drawn on the device, but for want_logits and for a sampler of the caller's. Events wait until
 * they are taken, however many; those of an earlier generation are dropped. INVALID_ARGUMENT: nothing in the
 * history, a generation is already running, or a parameter is out of its range (the text names it). OUT_OF_MEMORY. */
VKLM_API vklm_status vklm_session_generate(vklm_session *session, const vklm_generate_params *params,
                                           vklm_error *error);

typedef enum vklm_event_kind {
    VKLM_EVENT_NONE,
    VKLM_EVENT_PROGRESS, /* n_done of n_total prompt tokens are digested */
    VKLM_EVENT_LOGITS,   /* logits of position `position`: n_vocab floats */
    VKLM_EVENT_TOKEN,    /* `id` was generated at `position`, with the text that became whole */
    VKLM_EVENT_DONE,     /* generation ended for `reason`; the session takes the next call */
    VKLM_EVENT_DROPPED,  /* for want of room, n_done messages and n_total tokens of the history are gone: by the
                            session's overflow policy. Positions that follow are those in what is left */
} vklm_event_kind;

typedef enum vklm_done_reason {
    VKLM_DONE_END,          /* the model ended its turn; the end token is in the history, not in text */
    VKLM_DONE_LENGTH,       /* max_tokens */
    VKLM_DONE_PROMPT,       /* prompt_only */
    VKLM_DONE_CONTEXT_FULL, /* no room for another token */
    VKLM_DONE_CANCELLED,
    VKLM_DONE_ERROR,        /* `status`; the history is kept, what was not digested stays pending */
    VKLM_DONE_STOP,         /* a stop string or stop id: `stop` and `id` */
} vklm_done_reason;

typedef struct vklm_event {
    vklm_event_kind kind;
    vklm_done_reason reason;
    vklm_status status;
    vklm_token id;
    uint32_t position, n_done, n_total;
    const char *text;    /* whole UTF-8 characters, not terminated; valid until the next call on the
                            session. With DONE: what was held back, as it might have become a stop string, and
                            of a character that never became whole (U+FFFD), so show it like a TOKEN's; or, with
                            reason ERROR, the sentence of the failure, terminated */
    size_t text_len;
    const float *logits; /* same life */
    int32_t stop;        /* with reason STOP: which of the params' stop strings; -1: the stop id `id` */
} vklm_event;

/* Advances all sessions of the model: takes what the device has finished, submits what comes next. Up to eight
 * sessions that generate take a step together, each with the tokens it would have alone (those of one cache type, and
 * those whose tokens the device draws apart from others); more take turns, and so do prompts, a slice between two
 * steps. Never blocks. budget_ns: all that is submitted and not yet finished takes at most so much GPU time,
 * by what such work has taken so far: called once a frame, about so much in each. Longer work is cut into slices, the
 * least of which is one dispatch; a prompt's are made smaller where one alone exceeds the budget. 0: no limit but
 * submit_limit_ms for a slice of a prompt; a step is one submit, unless it would take a second.
 * NOTHING_TO_DO where no session is generating. DEVICE_LOST, OUT_OF_DEVICE_MEMORY and DRIVER_ERROR
 * also reach the session as DONE with reason ERROR. */
VKLM_API vklm_status vklm_model_step(vklm_model *model, uint64_t budget_ns, vklm_error *error);

/* Blocks until the device has finished something that a step can take, or timeout_ns passed; VKLM_OK either way, and
 * at once where nothing is in flight. DEVICE_LOST, DRIVER_ERROR. */
VKLM_API vklm_status vklm_model_wait(vklm_model *model, uint64_t timeout_ns, vklm_error *error);

/* A thread that steps a model while any of its sessions generates, and sleeps otherwise. Where there is one,
 * vklm_model_step is nobody else's duty, and vklm_session_wait_event only waits. */
typedef struct vklm_worker vklm_worker;

typedef struct vklm_worker_params {
    size_t struct_size;
    uint64_t budget_ns;   /* of GPU time in each interval, as vklm_model_step takes it; 0: all there is */
    uint64_t interval_ns; /* with a budget; default 16666667, a frame at 60 Hz */
    /* Called after a step that brought events, on the worker's thread, without a lock: take them here, or wake who
     * does. May be NULL. Must not destroy worker or model, nor call vklm_session_wait_event. */
    void (*ready)(void *user);
    void *user;
} vklm_worker_params;

/* Starts the thread; a model has one worker at most. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY (the system gives no
 * thread). Any thread. */
VKLM_API vklm_status vklm_worker_create(vklm_model *model, const vklm_worker_params *params, vklm_error *error,
                                        vklm_worker **worker_out);

/* Ends the thread, after the step it is in and what that waits for, at most a submit or an interval; what generates
 * goes on with the next step of anybody. Before the model is destroyed; not from `ready`. */
VKLM_API void vklm_worker_destroy(vklm_worker **worker);

/* Takes the next event; kind NONE and false where there is none. */
VKLM_API bool vklm_session_next_event(vklm_session *session, vklm_event *event_out);

/* The blocking form: steps and waits until the session has an event. NOTHING_TO_DO where it is not
 * generating and no event is left. INVALID_ARGUMENT where another session's LOGITS events keep the model
 * from going on and no other thread takes them. A failed generation is VKLM_OK with a DONE event of reason ERROR;
 * *error then holds its status and sentence too. */
VKLM_API vklm_status vklm_session_wait_event(vklm_session *session, vklm_error *error, vklm_event *event_out);

/* Asks the generation to stop: between tokens, or in mid-prefill after the submits in flight. The
 * DONE event says CANCELLED. The history keeps what was generated. Without effect on an idle session and on its next
 * generation. Any thread, signal handlers too. */
VKLM_API void vklm_session_cancel(vklm_session *session);

typedef struct vklm_session_stats {
    uint32_t context_used, context_size;
    uint64_t kv_bytes;                         /* on the device */
    /* Of the last generation. n_prompt: tokens digested, without the n_reused that the cache held. */
    uint32_t n_prompt, n_reused, n_generated;
    uint64_t prompt_ns;    /* wall time from generate to the first token (prompt_only: to the end) */
    uint64_t generate_ns;  /* from the first token to the last: n_generated - 1 tokens */
    uint64_t kv_shared_bytes; /* of kv_bytes: pages that other sessions hold, too */
    uint32_t n_cache_lost;    /* times that the cache was dropped, on request or for other sessions' sake */
} vklm_session_stats;

/* While it generates, too: as far as it has come. */
VKLM_API void vklm_session_get_stats(const vklm_session *session, vklm_session_stats *stats_out);

/* The history: *n_out ids, borrowed until the next call on the session (while it generates it only grows, in
 * place). */
VKLM_API const vklm_token *vklm_session_ids(const vklm_session *session, size_t *n_out);

#ifdef __cplusplus
}
#endif
#endif
