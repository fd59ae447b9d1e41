/* test_save.c - sessions as bytes: what comes back in the same process and in another, with caches of both types, from
 * other models, and from bytes that are cut, damaged or lie.
 *
 * As "test_save BLOB MODEL KV" the program is that other process: it loads both and prints the ids that follow.
 */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L /* popen */
#endif
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "file/little.h"
#include "support/suite.h"
#include "support/temp.h"
#include "support/tiny_session.h"

enum { LONG = 300, NEW = 8 };

static vklm_device *device;
static vklm_model *model;
static vklm_session *session;
static vklm_error error;
static vklm_token ids[RUN_MAX_IDS];
static const char *program;

typedef struct blob {
    uint8_t *bytes;
    size_t size;
} blob;

static void load_model(const tiny_model *m)
{
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    model = tiny_load(device, m);
}

static void set_up(void)
{
    device = test_device(NULL);
    const tiny_model m = tiny_small("llama");
    load_model(&m);
    some_ids(41, 256, ids, RUN_MAX_IDS);
}

static void tear_down(void)
{
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
}

static void open_session(int kv, uint32_t context)
{
    vklm_session_destroy(&session);
    session = tiny_session(model, &(vklm_session_params){.kv = (vklm_kv_type)kv, .context = context, .no_sharing = true});
}

/* A history of plain ids, digested and a little continued. */
static void converse(int kv)
{
    run_result r;
    open_session(kv, 1024);
    CHECK_OK(vklm_session_set_ids(session, ids, LONG, &error, NULL));
    run_greedy(session, 3, &r);
    run_free(&r);
}

static blob save(unsigned flags)
{
    blob b = {0};
    size_t size = 0;
    CHECK_FAILS(vklm_session_save(session, flags, &error, NULL, 0, &b.size), VKLM_BUFFER_TOO_SMALL, "room is for 0");
    b.bytes = malloc(b.size);
    CHECK_FAILS(vklm_session_save(session, flags, &error, b.bytes, b.size - 1, &size), VKLM_BUFFER_TOO_SMALL, "bytes");
    ck_assert_uint_eq(size, b.size);
    CHECK_OK(vklm_session_save(session, flags, &error, b.bytes, b.size, &size));
    ck_assert_uint_eq(size, b.size);
    return b;
}

static void put_checksum(blob b)
{
    vki_store64(b.bytes + b.size - 8, vki_hash(b.bytes, b.size - 8, 0));
}

static void generate(vklm_token drawn[NEW])
{
    run_result r;
    run_greedy(session, NEW, &r);
    memcpy(drawn, r.drawn, NEW * sizeof *drawn);
    run_free(&r);
}

static void check_drawn(const vklm_token *got, const vklm_token *wanted)
{
    if (test_results_count()) ck_assert_mem_eq(got, wanted, NEW * sizeof *got);
}

START_TEST(the_hash_is_xxh64)
{
    /* From the specification's reference implementation (xxhsum -H64), and of a text that fills the lanes. */
    ck_assert_uint_eq(vki_hash("", 0, 0), 0xef46db3751d8e999u);
    ck_assert_uint_eq(vki_hash("a", 1, 0), 0xd24ec4f1a98c6e5bu);
    ck_assert_uint_eq(vki_hash("abc", 3, 0), 0x44bc2cf5ad770999u);
    ck_assert_uint_eq(vki_hash("Nobody inspects the spammish repetition", 39, 0), 0xfbcea83c8a378bf1u);
}
END_TEST

/* ---- There and back --------------------------------------------------------------------------------------- */

static void there_and_back(int kv)
{
    vklm_token wanted[NEW], got[NEW];
    size_t reused;
    converse(kv);
    const size_t n_ids = session->n_ids, n_cached = session->n_cached;
    const blob history = save(0), whole = save(VKLM_SAVE_CACHE);
    generate(wanted);
    ck_assert_uint_lt(history.size, 8 * LONG);
    for (int i = 0; i < 3; i++) {
        const blob *b = i ? &whole : &history;
        if (i < 2) open_session(kv, 500);
        else CHECK_OK(vklm_session_set_ids(session, ids + 7, 200, &error, NULL)); /* over another history */
        CHECK_OK(vklm_session_load(session, b->bytes, b->size, &error, &reused));
        ck_assert_uint_eq(session->n_ids, n_ids);
        ck_assert_uint_eq(reused, i ? n_cached : 0);
        const blob again = save(i ? VKLM_SAVE_CACHE : 0);
        ck_assert_uint_eq(again.size, b->size);
        ck_assert_mem_eq(again.bytes, b->bytes, b->size); /* to the bit */
        free(again.bytes);
        generate(got);
        check_drawn(got, wanted);
        ck_assert_uint_eq(session->stats.n_prompt, vki_max(n_ids - reused, 1)); /* the last's logits are needed */
    }
    CHECK_OK(vklm_session_set_ids(session, ids, 250, &error, NULL));
    CHECK_OK(vklm_session_load(session, history.bytes, history.size, &error, &reused));
    ck_assert_uint_eq(reused, 250); /* what the session has cached itself */
    free(history.bytes);
    free(whole.bytes);
}

START_TEST(a_session_comes_back_as_it_was)
{
    static const char *const archs[] = {"llama", "gemma3"};
    for (int a = 0; a < 2; a++)
        for (int kv = 0; kv < 2; kv++) {
            const tiny_model m = tiny_small(archs[a]);
            load_model(&m);
            there_and_back(kv);
        }
}
END_TEST

START_TEST(memory_that_the_host_does_not_see_is_staged)
{
    device->limits.is_cpu = false; /* as a discrete GPU: nothing of the device is mapped */
    device->info.type = VKLM_DEVICE_DISCRETE;
    const tiny_model m = tiny_small("llama");
    load_model(&m);
    there_and_back(0);
    ck_assert_ptr_null(session->kv.pages[0]->slice.mapped);
}
END_TEST

START_TEST(a_chat_comes_back_with_its_messages)
{
    const vklm_message chat[] = {{"system", "be brief"}, {"user", "what is \xc3\xa9?"}, {"assistant", ""}, {"user", "x"}};
    vklm_token wanted[NEW], got[NEW];
    size_t n, n_ids;
    open_session(0, 1024);
    CHECK_OK(vklm_session_set_chat(session, chat, 4, &error, NULL));
    generate(wanted);
    const blob b = save(VKLM_SAVE_CACHE);
    const vklm_message next = {"user", "and?"};
    CHECK_OK(vklm_session_append_chat(session, &next, 1, &error, NULL));
    generate(wanted);
    open_session(0, 1024);
    CHECK_OK(vklm_session_load(session, b.bytes, b.size, &error, NULL));
    const vklm_message *own = vklm_session_chat(session, &n, &n_ids);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(n_ids, session->n_ids - NEW);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(own[i].role, chat[i].role);
        ck_assert_str_eq(own[i].content, chat[i].content);
    }
    CHECK_OK(vklm_session_append_chat(session, &next, 1, &error, NULL));
    generate(got);
    check_drawn(got, wanted);
    free(b.bytes);
}
END_TEST

START_TEST(a_session_that_generates_is_saved_as_far_as_it_has_come)
{
    vklm_token wanted[NEW], got[NEW];
    vklm_event event = {0};
    const vklm_generate_params params = {.struct_size = sizeof params, .max_tokens = 20, .ignore_end = true,
                                         .sampling = {.temperature = -1}};
    open_session(0, 1024);
    CHECK_OK(vklm_session_set_ids(session, ids, LONG, &error, NULL));
    CHECK_OK(vklm_session_generate(session, &params, &error));
    while (event.kind != VKLM_EVENT_TOKEN) CHECK_OK(vklm_session_wait_event(session, &error, &event));
    (void)vklm_model_step(model, 0, &error);
    const blob b = save(VKLM_SAVE_CACHE);
    CHECK_FAILS(vklm_session_load(session, b.bytes, b.size, &error, NULL), VKLM_INVALID_ARGUMENT, "generating");
    while (event.kind != VKLM_EVENT_DONE) CHECK_OK(vklm_session_wait_event(session, &error, &event));
    size_t reused;
    vklm_session *own = session;
    session = tiny_session(model, &(vklm_session_params){.no_sharing = true});
    CHECK_OK(vklm_session_load(session, b.bytes, b.size, &error, &reused));
    ck_assert_uint_ge(reused, LONG);
    generate(got);
    memcpy(wanted, own->ids + session->n_ids - NEW, sizeof wanted);
    check_drawn(got, wanted);
    vklm_session_destroy(&own);
    free(b.bytes);
}
END_TEST

/* The other process. */
static int continue_elsewhere(const char *blob_path, const char *model_path, int kv)
{
    static uint8_t bytes[1 << 22];
    FILE *file = fopen(blob_path, "rb");
    const size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (!file || fclose(file)) return 1;
    size_t reused;
    vklm_event event = {0};
    const vklm_device_params own = {.struct_size = sizeof own,
#if defined(VKLM_RUNTIME_GLSL)
                                    .shader_dir = VKLM_SOURCE_DIR "/shaders",
#endif
    };
    if (vklm_device_create(&own, &error, &device) != VKLM_OK) return 2;
    const vklm_model_params params = {.struct_size = sizeof params, .path = model_path,
                                      .precision = VKLM_PRECISION_HIGH};
    if (vklm_model_load(device, &params, &error, &model) != VKLM_OK) return 2;
    const vklm_session_params create = {.struct_size = sizeof create, .kv = (vklm_kv_type)kv};
    const vklm_generate_params go = {.struct_size = sizeof go, .max_tokens = NEW, .ignore_end = true,
                                     .sampling = {.temperature = -1}};
    if (vklm_session_create(model, &create, &error, &session) != VKLM_OK ||
        vklm_session_load(session, bytes, size, &error, &reused) != VKLM_OK ||
        vklm_session_generate(session, &go, &error) != VKLM_OK)
        return 3;
    printf("%zu", reused);
    while (event.kind != VKLM_EVENT_DONE && vklm_session_wait_event(session, &error, &event) == VKLM_OK)
        if (event.kind == VKLM_EVENT_TOKEN) printf(" %d", event.id);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    vklm_device_destroy(&device);
    return 0;
}

START_TEST(another_process_goes_on_with_the_same_tokens)
{
    const tiny_model m = tiny_small("llama");
    for (int kv = 0; kv < 2; kv++) {
        vklm_token wanted[NEW];
        char folder[TEMP_FOLDER_SIZE], model_path[400], blob_path[400], command[2000], line[512] = "", expected[512];
        converse(kv);
        const size_t n_cached = session->n_cached;
        const blob b = save(VKLM_SAVE_CACHE);
        generate(wanted);
        temp_folder(folder);
        snprintf(model_path, sizeof model_path, "%s/model.gguf", folder);
        snprintf(blob_path, sizeof blob_path, "%s/session", folder);
        gguf_writer *w = tiny_model_write(&m);
        ck_assert(gguf_writer_save(w, model_path));
        gguf_writer_free(w);
        FILE *file = fopen(blob_path, "wb");
        ck_assert(file && fwrite(b.bytes, 1, b.size, file) == b.size && fclose(file) == 0);
        snprintf(command, sizeof command, "\"%s\" %s %s %d", program, blob_path, model_path, kv);
        FILE *other = popen(command, "r");
        ck_assert(other && fgets(line, sizeof line, other));
        ck_assert_int_eq(pclose(other), 0);
        int len = snprintf(expected, sizeof expected, "%zu", n_cached);
        for (int i = 0; i < NEW; i++) len += snprintf(expected + len, sizeof expected - (size_t)len, " %d", wanted[i]);
        if (test_results_count()) ck_assert_str_eq(line, expected);
        remove(model_path);
        remove(blob_path);
        temp_folder_remove(folder);
        free(b.bytes);
    }
}
END_TEST

/* ---- Other models and sessions ------------------------------------------------------------------------------- */

/* The saved history loads, without its cache, and works. */
static void check_history_alone(const blob *b)
{
    size_t reused = 1;
    vklm_token drawn[NEW];
    CHECK_OK(vklm_session_load(session, b->bytes, b->size, &error, &reused));
    ck_assert_uint_eq(reused, 0);
    ck_assert_mem_eq(session->ids, ids, LONG * sizeof *ids);
    generate(drawn);
}

START_TEST(of_another_model_or_type_the_history_is_digested_again)
{
    converse(0);
    const blob b = save(VKLM_SAVE_CACHE);
    open_session(1, 1024);
    check_history_alone(&b);
    tiny_model m = tiny_small("llama");
    m.seed++; /* other weights of the same shapes */
    load_model(&m);
    open_session(0, 1024);
    check_history_alone(&b);
    m = tiny_small("llama");
    m.n_layer = 2;
    load_model(&m);
    open_session(0, 1024);
    check_history_alone(&b);
    m = tiny_small("llama");
    m.default_precision = true;
    load_model(&m);
    open_session(0, 1024);
    check_history_alone(&b);
    m = tiny_small("llama");
    load_model(&m); /* the same again */
    open_session(0, 1024);
    size_t reused;
    CHECK_OK(vklm_session_load(session, b.bytes, b.size, &error, &reused));
    ck_assert_uint_eq(reused, LONG + 2);
    m.no_vocab = true;
    load_model(&m);
    open_session(0, 1024);
    CHECK_FAILS(vklm_session_load(session, b.bytes, b.size, &error, NULL), VKLM_BAD_FILE, "another vocabulary");
    free(b.bytes);
}
END_TEST

START_TEST(too_small_a_context_leaves_the_session_as_it_was)
{
    size_t reused = 9;
    converse(0);
    const blob b = save(VKLM_SAVE_CACHE);
    open_session(0, LONG);
    CHECK_OK(vklm_session_set_ids(session, ids, 7, &error, NULL));
    CHECK_FAILS(vklm_session_load(session, b.bytes, b.size, &error, &reused), VKLM_CONTEXT_FULL, "303 tokens");
    ck_assert_uint_eq(reused, 0);
    ck_assert_uint_eq(session->n_ids, 7);
    CHECK_FAILS(vklm_session_load(session, NULL, 5, &error, NULL), VKLM_INVALID_ARGUMENT, "no bytes");
    CHECK_FAILS(vklm_session_load(NULL, b.bytes, b.size, &error, NULL), VKLM_INVALID_ARGUMENT, "no session");
    size_t size;
    CHECK_FAILS(vklm_session_save(session, 2, &error, NULL, 0, &size), VKLM_INVALID_ARGUMENT, "flags 0x2");
    CHECK_FAILS(vklm_session_save(session, 0, &error, NULL, 0, NULL), VKLM_INVALID_ARGUMENT, "size");
    free(b.bytes);
}
END_TEST

/* ---- Bytes that are not what they should be --------------------------------------------------------------------- */

/* A copy on the heap of exactly this size, so that the sanitizer sees reads behind its end. */
static vklm_status try_copy(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    const vklm_status status = vklm_session_load(session, copy, size, &error, NULL);
    free(copy);
    return status;
}

static blob small_blob(unsigned flags)
{
    const vklm_message chat[] = {{"user", "hi"}};
    vklm_token drawn[NEW];
    open_session(0, 1024);
    CHECK_OK(vklm_session_set_chat(session, chat, 1, &error, NULL));
    generate(drawn);
    return save(flags);
}

START_TEST(cut_or_damaged_bytes_are_refused)
{
    const blob whole = small_blob(VKLM_SAVE_CACHE), history = small_blob(0);
    vklm_token drawn[NEW];
    CHECK_OK(vklm_session_set_ids(session, ids, 5, &error, NULL));
    for (int i = 0; i < 2; i++) {
        const blob *b = i ? &whole : &history;
        const size_t stride = b->size / 500 + 1;
        for (size_t size = 0; size < b->size; size += stride)
            ck_assert_int_eq(try_copy(b->bytes, size), VKLM_BAD_FILE);
        for (size_t at = 0; at < b->size; at += stride) {
            b->bytes[at] ^= (uint8_t)(1u << at % 8);
            ck_assert_int_eq(try_copy(b->bytes, b->size), VKLM_BAD_FILE);
            ck_assert_int_eq(error.status, VKLM_BAD_FILE);
            b->bytes[at] ^= (uint8_t)(1u << at % 8);
        }
        ck_assert_uint_eq(session->n_ids, 5); /* as before */
    }
    generate(drawn);
    CHECK_OK(vklm_session_load(session, history.bytes, history.size, &error, NULL));
    generate(drawn);
    free(whole.bytes);
    free(history.bytes);
}
END_TEST

START_TEST(the_refusal_says_what_is_wrong)
{
    const blob b = small_blob(0);
    const struct { size_t at; uint32_t value; const char *text; } cases[] = {
        {0, 0, "does not begin as"}, {8, 2, "version 2"}, {16, 5, "instead of 5"}, {12, 2, "sizes in its head"},
        {24, 1, "another vocabulary"}, {40, 1 << 30, "sizes in its head"}, {44, 999, "sizes in its head"},
        {48, 1u << 31, "no room for its messages"}, {48, 2, "no room for its messages"}, {48, 0, "messages do not fit"},
        {56, 0, "sizes in its head"}, {60, 1, "sizes in its head"}, {92, 1, "sizes in its head"},
        {96, 99999, "in no vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t saved[4];
        memcpy(saved, b.bytes + cases[i].at, 4);
        vki_store32(b.bytes + cases[i].at, cases[i].value);
        put_checksum(b);
        vklm_status status = try_copy(b.bytes, b.size);
        ck_assert_msg(status == VKLM_BAD_FILE && strstr(error.text, cases[i].text), "case %zu: %s: %s", i,
                      vklm_status_name(status), error.text);
        memcpy(b.bytes + cases[i].at, saved, 4);
    }
    b.bytes[b.size - 1] ^= 1;
    CHECK_FAILS(vklm_session_load(session, b.bytes, b.size, &error, NULL), VKLM_BAD_FILE, "checksum");
    free(b.bytes);
}
END_TEST

START_TEST(bytes_that_lie_do_no_harm)
{
    uint32_t seed = 1;
    vklm_token drawn[NEW];
    size_t n_loaded = 0;
    const int n_lies = test_results_count() ? 3000 : 300; /* drivers without hardware give 4 GiB in all */
    for (int cache = 0; cache < 2; cache++) {
        const blob b = small_blob(cache ? VKLM_SAVE_CACHE : 0);
        uint8_t *original = malloc(b.size);
        memcpy(original, b.bytes, b.size);
        for (int i = 0; i < n_lies; i++) {
            memcpy(b.bytes, original, b.size);
            for (int k = 0; k < 1 + i % 3; k++) { /* fields of the head, and some bytes behind it */
                seed = seed * 1664525u + 1013904223u;
                const size_t at = (seed >> 8) % (i % 2 ? 92 : 200);
                static const uint8_t values[] = {0, 1, 2, 0x7f, 0x80, 0xff};
                b.bytes[at] = seed >> 30 ? values[(seed >> 4) % 6] : (uint8_t)(seed >> 16);
            }
            put_checksum(b);
            const vklm_status status = try_copy(b.bytes, b.size);
            ck_assert_msg(status == VKLM_OK || status == VKLM_BAD_FILE || status == VKLM_CONTEXT_FULL, "%s: %s",
                          vklm_status_name(status), error.text);
            n_loaded += status == VKLM_OK;
        }
        CHECK_OK(vklm_session_load(session, original, b.size, &error, NULL));
        generate(drawn);
        free(original);
        free(b.bytes);
    }
    ck_assert_uint_gt(n_loaded, 10); /* ids and texts may be others */
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 4) return continue_elsewhere(argv[1], argv[2], atoi(argv[3]));
    program = argv[0];
    const TTest *const tests[] = {
        the_hash_is_xxh64,
        a_session_comes_back_as_it_was,
        memory_that_the_host_does_not_see_is_staged,
        a_chat_comes_back_with_its_messages,
        a_session_that_generates_is_saved_as_far_as_it_has_come,
        another_process_goes_on_with_the_same_tokens,
        of_another_model_or_type_the_history_is_digested_again,
        too_small_a_context_leaves_the_session_as_it_was,
        cut_or_damaged_bytes_are_refused,
        the_refusal_says_what_is_wrong,
        bytes_that_lie_do_no_harm,
    };
    return run_tests("save", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
