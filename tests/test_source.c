/* test_source.c - models and vocabularies from everywhere: paths, open files at any offset, memory at any address,
 * read functions. All give the same, and what they cannot give is said.
 */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"
#include "support/temp.h"
#include "support/tiny_session.h"
#include "support/weights_check.h"

enum { PROMPT = 40, NEW = 6 };

static vklm_device *device;
static vklm_error error;
static char folder[TEMP_FOLDER_SIZE], path[TEMP_FOLDER_SIZE + 64];
static gguf_writer *writer;
static uint8_t *bytes;
static size_t size;

/* ---- A file that is read by calls ------------------------------------------------------------------------- */

typedef struct archive {
    pthread_t caller;
    size_t n_reads, fail_at;  /* the read that fails; 0: none */
    uint64_t n_bytes;
    size_t largest;
} archive;

static archive shelf;

static bool read_shelf(void *user, uint64_t offset, void *to, size_t n)
{
    archive *a = user;
    ck_assert(pthread_equal(a->caller, pthread_self()));
    ck_assert_uint_gt(n, 0);
    ck_assert(offset <= size && n <= size - offset);
    if (++a->n_reads == a->fail_at) return false;
    a->n_bytes += n;
    if (n > a->largest) a->largest = n;
    memcpy(to, bytes + offset, n);
    return true;
}

static vklm_source shelf_source(void)
{
    shelf = (archive){.caller = pthread_self()};
    return (vklm_source){.struct_size = sizeof(vklm_source), .kind = VKLM_SOURCE_READ, .name = "shelf 7", .size = size,
                         .read = read_shelf, .user = &shelf};
}

static vklm_source memory_source(void)
{
    return (vklm_source){.struct_size = sizeof(vklm_source), .bytes = bytes, .size = size};
}

/* ---- Fixture ---------------------------------------------------------------------------------------------- */

static void write_model(const tiny_model *m)
{
    if (writer) gguf_writer_free(writer);
    writer = tiny_model_write(m);
    gguf_writer_finish(writer, &bytes, &size);
}

static void save_bytes(const char *to, size_t lead, size_t tail)
{
    FILE *file = temp_file(to, "wb");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < lead; i++) fputc('x', file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    for (size_t i = 0; i < tail; i++) fputc('y', file);
    fclose(file);
}

static tiny_model source_model(void)
{
    tiny_model m = tiny_small("llama");
    m.n_layer = 2;
    m.qkv_bias = true;
    m.formats.gate = VKI_Q8_0;
    m.rope_divisors = true;
    return m;
}

static void set_up(void)
{
    temp_folder(folder);
    snprintf(path, sizeof path, "%s/Mod\xC3\xA8le \xE4\xBB\x8A\xE5\xA4\xA9 \xF0\x9F\x98\x80.gguf", folder);
    writer = NULL;
    const tiny_model m = source_model();
    write_model(&m);
    save_bytes(path, 0, 0);
    device = test_device(NULL);
}

static void tear_down(void)
{
    ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    vklm_device_destroy(&device);
    temp_file_remove(path);
    temp_folder_remove(folder);
    gguf_writer_free(writer);
}

static vklm_status load(const char *from, const vklm_source *sources, uint32_t n, vklm_model **model)
{
    const vklm_model_params params = {.struct_size = sizeof params, .path = from, .sources = sources, .n_sources = n,
                                      .precision = VKLM_PRECISION_HIGH, .threads = 3};
    return vklm_model_load(device, &params, &error, model);
}

/* What a model says and draws. */
static void use(vklm_model *model, run_result *result)
{
    vklm_token prompt[PROMPT];
    some_ids(11, 256, prompt, PROMPT);
    vklm_session *session = tiny_session(model, NULL);
    CHECK_OK(vklm_session_set_ids(session, prompt, PROMPT, &error, NULL));
    run_generate(session, (vklm_generate_params){.max_tokens = NEW, .ignore_end = true, .want_logits = true,
                                                 .sampling = {.temperature = -1}}, result);
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
}

static void check_same(const char *from, const vklm_source *sources, uint32_t n, const run_result *expected)
{
    vklm_model *model;
    run_result result;
    CHECK_OK(load(from, sources, n, &model));
    vklm_model_info info;
    vklm_model_get_info(model, &info);
    ck_assert_uint_eq(info.file_bytes, size);
    const size_t n_vocab = info.n_vocab;
    use(model, &result);
    if (test_results_count()) {
        ck_assert_uint_eq(result.n_logits, expected->n_logits);
        ck_assert_mem_eq(result.logits, expected->logits, n_vocab * result.n_logits * sizeof(float));
        ck_assert_mem_eq(result.drawn, expected->drawn, NEW * sizeof *result.drawn);
    }
    run_free(&result);
}

static void from_path(run_result *expected)
{
    vklm_model *model;
    CHECK_OK(load(path, NULL, 0, &model));
    use(model, expected);
}

/* ---- All are the same ------------------------------------------------------------------------------------- */

START_TEST(every_source_gives_the_same_logits)
{
    run_result expected;
    from_path(&expected);
    const vklm_source memory = memory_source(), shelved = shelf_source();
    check_same(NULL, &memory, 0, &expected);
    check_same(NULL, &shelved, 1, &expected);
    ck_assert_uint_gt(shelf.n_reads, 10);
    uint8_t *odd = malloc(size + 3);
    memcpy(odd + 3, bytes, size);
    const vklm_source moved = {.struct_size = sizeof moved, .bytes = odd + 3, .size = size};
    check_same(NULL, &moved, 1, &expected);
    free(odd);
    const intptr_t file = temp_source(path);
    const vklm_source opened = {.struct_size = sizeof opened, .kind = VKLM_SOURCE_FILE, .file = file};
    check_same(NULL, &opened, 1, &expected);
    ck_assert_uint_eq(temp_source_position(file), 0);
    check_same(path, NULL, 0, &expected); /* while somebody else has it open */
    temp_source_close(file);
    run_free(&expected);
}
END_TEST

/* Windows takes 260 characters of a path that is not marked as a long one. */
START_TEST(a_path_may_be_long)
{
    vklm_model *model;
    char name[251], file[TEMP_FOLDER_SIZE + sizeof name], crooked[sizeof file + 4];
    run_result expected;
    from_path(&expected);
    memset(name, 'n', sizeof name - 1);
    memcpy(name + sizeof name - 6, ".gguf", 6);
    snprintf(file, sizeof file, "%s/%s", folder, name);
    snprintf(crooked, sizeof crooked, "%s/.//%s", folder, name);
    save_bytes(file, 0, 0);
    check_same(file, NULL, 0, &expected);
    check_same(crooked, NULL, 0, &expected);
    temp_file_remove(file);
    CHECK_FAILS(load(file, NULL, 0, &model), VKLM_IO_ERROR, name);
    run_free(&expected);
}
END_TEST

START_TEST(a_file_may_lie_anywhere_in_an_archive)
{
    static const size_t leads[] = {1, 4096, 70001};
    run_result expected;
    from_path(&expected);
    char packed[TEMP_FOLDER_SIZE + 64];
    snprintf(packed, sizeof packed, "%s/archive.pak", folder);
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        save_bytes(packed, leads[i], 13);
        const intptr_t file = temp_source(packed);
        const vklm_source part = {.struct_size = sizeof part, .kind = VKLM_SOURCE_FILE, .file = file,
                                  .offset = leads[i], .size = size};
        check_same(NULL, &part, 1, &expected);
        temp_source_close(file);
    }
    remove(packed);
    run_free(&expected);
}
END_TEST

/* The weights alone, compared with the file one by one where the host sees them. */
static vklm_status weights_by_calls(const vklm_source *source, vki_weights *weights)
{
    vki_gguf by_calls;
    const vki_load_params params = {.threads = 2};
    vklm_status status = vki_gguf_open(&by_calls, &device->host, &(vki_input){.sources = source}, &error);
    if (status == VKLM_OK) status = vki_weights_load(weights, device, &by_calls, &params, &error);
    vki_gguf_close(&by_calls);
    return status;
}

static void check_by_calls(const tiny_model *m)
{
    vki_gguf whole;
    vki_weights weights;
    write_model(m);
    const vklm_source source = shelf_source();
    CHECK_OK(gguf_parse(&whole, &device->host, "whole", bytes, size, &error));
    CHECK_OK(weights_by_calls(&source, &weights));
    if (weights.pool.blocks[0].mapped) check_weights(&weights, &whole);
    vki_weights_free(&weights);
    vki_gguf_close(&whole);
}

START_TEST(every_format_of_every_architecture_is_read_by_calls)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};
    for (uint32_t i = 0; i < 4 * VKI_FORMAT_COUNT; i++) {
        tiny_model m = tiny_model_of(archs[i % 4]);
        tiny_model_set_formats(&m, (vki_format)(i / 4));
        m.formats.v = i % 3 ? VKI_Q6_K : m.formats.v;
        m.fused_qkv = i % 4 == 0;
        m.n_layer = 1;
        check_by_calls(&m);
    }
}
END_TEST

/* Far more than both windows hold, and more in one tensor than in one of them. */
START_TEST(a_large_file_passes_through_small_windows)
{
    tiny_model m = tiny_model_of("llama");
    m.n_layer = 1;
    m.n_vocab = 25000;
    m.formats.head = VKI_F16;
    check_by_calls(&m);
    ck_assert_uint_gt(size, 36 << 20);
    ck_assert_uint_lt(shelf.largest, 17 << 20);
    ck_assert_uint_lt(shelf.n_bytes, size + size / 4);
}
END_TEST

START_TEST(parts_of_a_split_model_are_sources_in_their_order)
{
    gguf_writer *first = gguf_writer_new();
    const tiny_model m = source_model();
    gguf_writer_free(writer);
    writer = tiny_model_write(&m);
    gguf_put_u16(writer, "split.no", 1);
    gguf_put_u16(writer, "split.count", 2);
    vki_gguf gguf;
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    gguf_put_i32(writer, "split.tensors.count", 0);
    gguf_writer_finish(writer, &bytes, &size);
    const vklm_source second = memory_source();
    gguf_put_u16(first, "split.no", 0);
    gguf_put_u16(first, "split.count", 2);
    gguf_put_i32(first, "split.tensors.count", 28);
    uint8_t *first_bytes;
    size_t first_size;
    gguf_writer_finish(first, &first_bytes, &first_size);
    const vki_input swapped = {.sources = &second};
    vklm_source good[2] = {{.struct_size = sizeof *good, .bytes = first_bytes, .size = first_size}, second};
    const vki_input whole = {.sources = good, .n_sources = 2};
    CHECK_OK(vki_gguf_open(&gguf, &host, &whole, &error));
    ck_assert_uint_eq(gguf.n_sources, 2);
    ck_assert_uint_eq(gguf.file_bytes, first_size + size);
    const vki_gguf_tensor *tensor = vki_gguf_find_tensor(&gguf, "output_norm.weight");
    uint8_t value[4];
    CHECK_OK(vki_gguf_read_tensor(&gguf, tensor, 8, 4, &error, value));
    ck_assert_mem_eq(value, tensor->data + 8, 4);
    vki_gguf_close(&gguf);
    good[1] = shelf_source();
    CHECK_OK(vki_gguf_open(&gguf, &host, &whole, &error));
    tensor = vki_gguf_find_tensor(&gguf, "output_norm.weight");
    ck_assert_ptr_null(tensor->data);
    CHECK_OK(vki_gguf_read_tensor(&gguf, tensor, 8, 4, &error, value));
    ck_assert_mem_eq(value, bytes + tensor->offset + 8, 4);
    vki_gguf_close(&gguf);
    const vki_input alone = {.sources = good};
    CHECK_FAILS(vki_gguf_open(&gguf, &host, &alone, &error), VKLM_INVALID_ARGUMENT, "give one for each part");
    CHECK_FAILS(vki_gguf_open(&gguf, &host, &swapped, &error), VKLM_BAD_FILE, "part 2 of 2");
    gguf_writer_free(first);
}
END_TEST

/* ---- What cannot be given --------------------------------------------------------------------------------- */

static void refused(const vklm_source *source, vklm_status wanted, const char *text)
{
    vklm_model *model;
    vklm_vocab *vocab;
    const vklm_vocab_params params = {.struct_size = sizeof params, .sources = source, .n_sources = 1};
    const vklm_status status = load(NULL, source, 1, &model);
    ck_assert_msg(status == wanted && strstr(error.text, text), "no \"%s\": %s", text, error.text);
    ck_assert_ptr_null(model);
    CHECK_FAILS(vklm_vocab_open(&params, &error, &vocab), wanted, text);
    ck_assert_ptr_null(vocab);
}

START_TEST(sources_that_make_no_sense_are_refused)
{
    vklm_model *model;
    const vklm_source memory = memory_source();
    CHECK_FAILS(load(path, &memory, 1, &model), VKLM_INVALID_ARGUMENT, "not both");
    CHECK_FAILS(load(NULL, NULL, 0, &model), VKLM_INVALID_ARGUMENT, "a path, or sources");
    CHECK_FAILS(load(path, NULL, 1, &model), VKLM_INVALID_ARGUMENT, "not both");
    const vklm_source nothing = {.struct_size = sizeof nothing}, sizeless = {0};
    const vklm_source unread = {.struct_size = sizeof unread, .kind = VKLM_SOURCE_READ, .size = size};
    const vklm_source odd = {.struct_size = sizeof odd, .kind = (vklm_source_kind)9, .bytes = bytes, .size = size};
    refused(&nothing, VKLM_INVALID_ARGUMENT, "kind 0");
    refused(&sizeless, VKLM_INVALID_ARGUMENT, "struct_size");
    refused(&unread, VKLM_INVALID_ARGUMENT, "kind 2");
    refused(&odd, VKLM_INVALID_ARGUMENT, "kind 9");
    vklm_source empty = memory_source();
    empty.size = 0;
    refused(&empty, VKLM_BAD_FILE, "empty");
    empty = shelf_source();
    empty.size = 0;
    refused(&empty, VKLM_BAD_FILE, "shelf 7: not a GGUF file");
    ck_assert_uint_eq(shelf.n_reads, 0);
}
END_TEST

START_TEST(files_that_are_none_or_end_early_are_named)
{
    const intptr_t file = temp_source(path);
    vklm_source source = {.struct_size = sizeof source, .kind = VKLM_SOURCE_FILE, .name = "base.apk", .file = file};
    source.size = size + 1;
    refused(&source, VKLM_IO_ERROR, "base.apk: the file has");
    source.size = size;
    source.offset = 1;
    refused(&source, VKLM_IO_ERROR, "from byte 1 on");
    source.offset = (uint64_t)1 << 60;
    refused(&source, VKLM_IO_ERROR, "base.apk");
    source.offset = 32;
    source.size = 0;
    refused(&source, VKLM_BAD_FILE, "base.apk: not a GGUF");
    source.offset = size;
    refused(&source, VKLM_BAD_FILE, "empty");
    source.offset = 0;
    source.size = size / 2;
    source.name = NULL;
    refused(&source, VKLM_BAD_FILE, "the model's open file: tensor");
    temp_source_close(file);
    refused(&source, VKLM_IO_ERROR, "the model's open file");
    source.file = temp_source_pipe();
    refused(&source, VKLM_IO_ERROR, "not a regular file");
    temp_source_close(source.file);
}
END_TEST

/* The truncation is told from the table of tensors, without a read behind the end (read_shelf checks). */
START_TEST(a_truncated_source_is_called_so)
{
    vklm_source source = shelf_source();
    for (source.size = 4; source.size < size - 64; source.size += 1 + source.size / 3) {
        vklm_model *model;
        const vklm_status status = load(NULL, &source, 1, &model);
        ck_assert_int_eq(status, VKLM_BAD_FILE);
        ck_assert_msg(strstr(error.text, "shelf 7") && strstr(error.text, "truncated"), "%s", error.text);
    }
}
END_TEST

START_TEST(any_read_may_fail)
{
    vklm_model *model;
    vki_weights weights;
    vklm_status status = VKLM_IO_ERROR;
    size_t n = 0;
    for (; status != VKLM_OK; n++) {
        const vklm_source source = shelf_source();
        shelf.fail_at = n + 1;
        status = weights_by_calls(&source, &weights);
        if (status == VKLM_OK) break;
        ck_assert_int_eq(status, VKLM_IO_ERROR);
        ck_assert_msg(strstr(error.text, "shelf 7: ") && strstr(error.text, "could not be read"), "%s", error.text);
        ck_assert_uint_eq(shelf.n_reads, n + 1); /* none behind the one that failed */
        ck_assert_uint_eq(vklm_device_memory_used(device), 0);
    }
    ck_assert_uint_gt(n, 10);
    vki_weights_free(&weights);
    const vklm_source source = shelf_source();
    shelf.fail_at = n - 2;
    CHECK_FAILS(load(NULL, &source, 1, &model), VKLM_IO_ERROR, "shelf 7: ");
    ck_assert_ptr_null(model);
}
END_TEST

/* ---- Vocabularies ----------------------------------------------------------------------------------------- */

static void check_vocab(const char *from, const vklm_source *source)
{
    vklm_vocab *vocab;
    const vklm_vocab_params params = {.struct_size = sizeof params, .path = from, .sources = source};
    CHECK_OK(vklm_vocab_open(&params, &error, &vocab));
    vklm_token ids[8];
    size_t n;
    ck_assert_uint_eq(vklm_vocab_size(vocab), TINY_VOCAB_TOKENS);
    CHECK_OK(vklm_tokenize(vocab, "abc", 3, 0, &error, ids, 8, &n));
    ck_assert_uint_gt(n, 0);
    vklm_vocab_destroy(&vocab);
}

START_TEST(a_vocabulary_comes_from_anywhere)
{
    const vklm_source memory = memory_source(), shelved = shelf_source();
    check_vocab(path, NULL);
    check_vocab(NULL, &memory);
    check_vocab(NULL, &shelved);
}
END_TEST

/* Keys that are longer than the first read: what was read before moves. */
START_TEST(long_keys_are_read_piece_by_piece)
{
    enum { N = 100000 };
    gguf_writer_free(writer);
    writer = gguf_writer_new();
    char (*texts)[16] = calloc(N, sizeof *texts);
    const char **pointers = calloc(N, sizeof *pointers);
    gguf_put_string(writer, "first", "the first of all");
    for (size_t i = 0; i < N; i++) {
        snprintf(texts[i], sizeof *texts, "text %zu", i);
        pointers[i] = texts[i];
    }
    gguf_put_strings(writer, "texts", N, pointers);
    gguf_put_u32(writer, "last", 77);
    gguf_put_tensor(writer, "w", 0, 1, (uint64_t[]){2}, (float[]){3, 4}, 8);
    gguf_writer_finish(writer, &bytes, &size);
    vki_gguf gguf;
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    const vklm_source shelved = shelf_source();
    CHECK_OK(vki_gguf_open(&gguf, &host, &(vki_input){.sources = &shelved}, &error));
    ck_assert_uint_gt(shelf.n_reads, 2);
    const vki_gguf_value *values = vki_gguf_find(&gguf, "texts");
    for (size_t i = 0; i < N; i++) {
        const vki_string text = vki_gguf_string_at(values, i);
        ck_assert(text.len == strlen(texts[i]) && memcmp(text.text, texts[i], text.len) == 0);
    }
    vki_string first;
    uint32_t last = 0;
    CHECK_OK(vki_gguf_string(&gguf, "first", &error, &first, NULL));
    CHECK_OK(vki_gguf_u32(&gguf, "last", &error, &last, NULL));
    ck_assert(first.len == 16 && memcmp(first.text, "the first of all", 16) == 0);
    ck_assert_uint_eq(last, 77);
    float w[2];
    CHECK_OK(vki_gguf_read_tensor(&gguf, vki_gguf_find_tensor(&gguf, "w"), 0, 8, &error, w));
    ck_assert(w[0] == 3 && w[1] == 4);
    vki_gguf_close(&gguf);
    free(texts);
    free(pointers);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        every_source_gives_the_same_logits,
        a_path_may_be_long,
        a_file_may_lie_anywhere_in_an_archive,
        every_format_of_every_architecture_is_read_by_calls,
        a_large_file_passes_through_small_windows,
        parts_of_a_split_model_are_sources_in_their_order,
        sources_that_make_no_sense_are_refused,
        files_that_are_none_or_end_early_are_named,
        a_truncated_source_is_called_so,
        any_read_may_fail,
        a_vocabulary_comes_from_anywhere,
        long_keys_are_read_piece_by_piece,
    };
    return run_tests("source", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
