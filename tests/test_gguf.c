/* test_gguf.c - the GGUF reader on sound files: a known file byte for byte, typed reads, split models, and every
 * allocation failing in turn. Files that lie: test_gguf_malformed.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/gguf_fixture.h"
#include "support/suite.h"
#include "support/temp.h"
#include "support/test_memory.h"

START_TEST(the_writer_makes_the_known_file)
{
    gguf_writer *w = known_writer();
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(w, &bytes, &size);
    ck_assert_uint_eq(size, sizeof known_file);
    ck_assert_mem_eq(bytes, known_file, size);
    gguf_writer_free(w);
}
END_TEST

START_TEST(the_known_file_is_read)
{
    vki_string architecture;
    uint32_t n_blocks = 0;
    const vki_gguf_value *array;
    bool found = false;
    expect_ok(parse(known_file, sizeof known_file));
    ck_assert_uint_eq(gguf.n_values, 3);
    ck_assert_uint_eq(gguf.n_tensors, 2);
    ck_assert_uint_eq(gguf.file_bytes, sizeof known_file);
    expect_ok(vki_gguf_string(&gguf, "general.architecture", &error, &architecture, &found));
    ck_assert(found);
    ck_assert_uint_eq(architecture.len, 5);
    ck_assert_mem_eq(architecture.text, "llama", 5);
    expect_ok(vki_gguf_u32(&gguf, "llama.block_count", &error, &n_blocks, NULL));
    ck_assert_uint_eq(n_blocks, 1);
    expect_ok(vki_gguf_array_of(&gguf, "a.b", VKI_GGUF_INTS, &error, &array));
    ck_assert_uint_eq(array->count, 3);
    for (uint64_t i = 0; i < 3; i++) ck_assert_int_eq(vki_gguf_int_at(array, i), (int64_t)i + 1);
    const vki_gguf_tensor *w = vki_gguf_find_tensor(&gguf, "w");
    ck_assert_ptr_nonnull(w);
    ck_assert_uint_eq(w->n_dims, 2);
    ck_assert(w->ne[0] == 3 && w->ne[1] == 2 && w->ne[2] == 1 && w->ne[3] == 1);
    ck_assert_uint_eq(w->size_bytes, 24);
    ck_assert_mem_eq(w->data, known_w, 24);
    const vki_gguf_tensor *v = vki_gguf_find_tensor(&gguf, "v");
    ck_assert_ptr_nonnull(v);
    ck_assert_uint_eq(v->ggml_id, F16);
    ck_assert_mem_eq(v->data, known_v, 4);
    ck_assert_ptr_null(vki_gguf_find_tensor(&gguf, "x"));
    ck_assert_ptr_null(vki_gguf_find(&gguf, "a.c"));
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused_unless_only_padding_is_gone)
{
    for (size_t size = 0; size <= sizeof known_file; size++) {
        uint8_t *cut = malloc(size ? size : 1); /* exact, so that a sanitiser sees any overrun */
        memcpy(cut, known_file, size);
        if (size >= 0x104)
            expect_ok(parse(cut, size)); /* v's four bytes end there */
        else
            refused(cut, size, VKLM_BAD_FILE, size < 4 ? "not a GGUF file" : "truncated", NULL);
        vki_gguf_close(&gguf);
        free(cut);
    }
}
END_TEST

START_TEST(a_truncated_file_is_called_so_with_the_field)
{
    refused(known_file, 0, VKLM_BAD_FILE, "not a GGUF file", "empty");
    refused(known_file, 6, VKLM_BAD_FILE, "header: truncated: version", "4 bytes");
    refused(known_file, 0xcd, VKLM_BAD_FILE, "tensor 'v': truncated: the type", NULL);
    refused(known_file, 0xd8, VKLM_BAD_FILE, "tensor data: truncated", "ends at 216");
    refused(known_file, 0xe8, VKLM_BAD_FILE, "tensor 'w': truncated", "24 bytes from byte 224");
    refused(known_file, 0x102, VKLM_BAD_FILE, "tensor 'v': truncated", "ends at 258");
}
END_TEST

START_TEST(bytes_behind_the_data_are_ignored)
{
    uint8_t longer[sizeof known_file + 77];
    memset(longer, 0xee, sizeof longer);
    memcpy(longer, known_file, sizeof known_file);
    expect_ok(parse(longer, sizeof longer));
}
END_TEST

/* ---- Typed reads --------------------------------------------------------------------------- */

static gguf_writer *numbers(void)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_u8(w, "u8", 200);
    gguf_put_i8(w, "i8", -100);
    gguf_put_u16(w, "u16", 60000);
    gguf_put_i16(w, "i16", -30000);
    gguf_put_u32(w, "u32", 4000000000);
    gguf_put_i32(w, "i32", 2000000000);
    gguf_put_u64(w, "u64", UINT64_MAX);
    gguf_put_i64(w, "i64", INT64_MIN);
    gguf_put_f32(w, "f32", 0.5f);
    gguf_put_f64(w, "f64", -0.25);
    gguf_put_f64(w, "f64.large", 1e300);
    gguf_put_f32(w, "f32.nan", NAN);
    gguf_put_bool(w, "bool", true);
    gguf_put_string_n(w, "string", "a\0b", 3);
    gguf_put_u32s(w, "array", 1, (uint32_t[]){1});
    return w;
}

static void bad_read(vklm_status status, const char *key, const char *words)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "key '%s'", key);
    ck_assert_int_eq(status, VKLM_BAD_FILE);
    expect_words("some.gguf: ", quoted, words);
}

START_TEST(integers_of_any_width_are_read_where_they_fit)
{
    gguf_writer *w = numbers();
    accepted_file(w);
    uint64_t wide = 7;
    uint32_t narrow = 7;
    bool found = false;
    expect_ok(vki_gguf_u64(&gguf, "u8", 200, &error, &wide, &found));
    ck_assert(found && wide == 200);
    bad_read(vki_gguf_u64(&gguf, "u8", 199, &error, &wide, NULL), "u8",
             "is 200, expected 0 to 199");
    expect_ok(vki_gguf_u32(&gguf, "u16", &error, &narrow, NULL));
    ck_assert_uint_eq(narrow, 60000);
    expect_ok(vki_gguf_u32(&gguf, "u32", &error, &narrow, NULL));
    ck_assert_uint_eq(narrow, 4000000000);
    expect_ok(vki_gguf_u32(&gguf, "i32", &error, &narrow, NULL));
    ck_assert_uint_eq(narrow, 2000000000);
    expect_ok(vki_gguf_u64(&gguf, "u64", UINT64_MAX, &error, &wide, NULL));
    ck_assert_uint_eq(wide, UINT64_MAX);
    bad_read(vki_gguf_u32(&gguf, "u64", &error, &narrow, &found), "u64", "is 18446744073709551615");
    ck_assert(found);
    ck_assert_uint_eq(narrow, 2000000000);
    bad_read(vki_gguf_u32(&gguf, "i8", &error, &narrow, NULL), "i8", "is -100, expected 0 to");
    bad_read(vki_gguf_u32(&gguf, "i16", &error, &narrow, NULL), "i16", "is -30000");
    bad_read(vki_gguf_u64(&gguf, "i64", UINT64_MAX, &error, &wide, NULL), "i64",
             "is -9223372036854775808");
    bad_read(vki_gguf_u32(&gguf, "f32", &error, &narrow, NULL), "f32", "f32, expected an integer");
    bad_read(vki_gguf_u32(&gguf, "bool", &error, &narrow, NULL), "bool", "expected an integer");
    bad_read(vki_gguf_u32(&gguf, "string", &error, &narrow, NULL), "string", "expected an integer");
    bad_read(vki_gguf_u32(&gguf, "array", &error, &narrow, NULL), "array", "array of u32");
    gguf_writer_free(w);
}
END_TEST

START_TEST(floats_bools_and_strings_are_read_as_such)
{
    gguf_writer *w = numbers();
    accepted_file(w);
    float number = 0;
    bool flag = false;
    vki_string text = {0};
    expect_ok(vki_gguf_f32(&gguf, "f32", &error, &number, NULL));
    ck_assert(number == 0.5f);
    expect_ok(vki_gguf_f32(&gguf, "f64", &error, &number, NULL));
    ck_assert(number == -0.25f);
    bad_read(vki_gguf_f32(&gguf, "f64.large", &error, &number, NULL), "f64.large", "finite");
    bad_read(vki_gguf_f32(&gguf, "f32.nan", &error, &number, NULL), "f32.nan", "finite");
    bad_read(vki_gguf_f32(&gguf, "u32", &error, &number, NULL), "u32", "u32, expected f32");
    ck_assert(number == -0.25f);
    expect_ok(vki_gguf_bool(&gguf, "bool", &error, &flag, NULL));
    ck_assert(flag);
    bad_read(vki_gguf_bool(&gguf, "u8", &error, &flag, NULL), "u8", "u8, expected bool");
    expect_ok(vki_gguf_string(&gguf, "string", &error, &text, NULL));
    ck_assert_uint_eq(text.len, 3);
    ck_assert_mem_eq(text.text, "a\0b", 3);
    bad_read(vki_gguf_string(&gguf, "u8", &error, &text, NULL), "u8", "u8, expected string");
    gguf_writer_free(w);
}
END_TEST

START_TEST(absent_keys_leave_the_default)
{
    expect_ok(parse(known_file, sizeof known_file));
    uint64_t wide = 1;
    uint32_t narrow = 2;
    float number = 3;
    bool flag = true, found = true;
    vki_string text = {"x", 1};
    const vki_gguf_value *array = gguf.values;
    expect_ok(vki_gguf_u64(&gguf, "none", 9, &error, &wide, &found));
    ck_assert(!found && wide == 1);
    expect_ok(vki_gguf_u32(&gguf, "none", &error, &narrow, NULL));
    expect_ok(vki_gguf_f32(&gguf, "none", &error, &number, NULL));
    expect_ok(vki_gguf_bool(&gguf, "none", &error, &flag, NULL));
    expect_ok(vki_gguf_string(&gguf, "none", &error, &text, NULL));
    expect_ok(vki_gguf_array_of(&gguf, "none", VKI_GGUF_INTS, &error, &array));
    ck_assert(narrow == 2 && number == 3 && flag && text.len == 1);
    ck_assert_ptr_null(array);
}
END_TEST

START_TEST(arrays_are_read_by_kind)
{
    gguf_writer *w = gguf_writer_new();
    const vki_gguf_value *array = NULL;
    gguf_put_strings(w, "s", 3, (const char *[]){"", "two", "3"});
    gguf_put_i32s(w, "i", 2, (int32_t[]){-5, 6});
    gguf_put_array(w, "u64", 10, 2, (uint64_t[]){UINT64_MAX, 7}, 16);
    gguf_put_array(w, "i8", 1, 2, (int8_t[]){-1, 1}, 2);
    gguf_put_array(w, "f64", 12, 2, (double[]){0.1, 2}, 16);
    gguf_put_f32s(w, "f", 2, (float[]){1.5f, -2});
    gguf_put_bools(w, "b", 3, (bool[]){true, false, true});
    gguf_put_strings(w, "empty", 0, NULL);
    gguf_put_u32(w, "scalar", 4);
    accepted_file(w);
    expect_ok(vki_gguf_array_of(&gguf, "s", VKI_GGUF_STRINGS, &error, &array));
    ck_assert_uint_eq(array->count, 3);
    ck_assert_uint_eq(vki_gguf_string_at(array, 0).len, 0);
    ck_assert_mem_eq(vki_gguf_string_at(array, 1).text, "two", 3);
    ck_assert_mem_eq(vki_gguf_string_at(array, 2).text, "3", 1);
    expect_ok(vki_gguf_array_of(&gguf, "i", VKI_GGUF_INTS, &error, &array));
    ck_assert_int_eq(vki_gguf_int_at(array, 0), -5);
    expect_ok(vki_gguf_array_of(&gguf, "u64", VKI_GGUF_INTS, &error, &array));
    ck_assert_int_eq(vki_gguf_int_at(array, 0), INT64_MAX);
    ck_assert_int_eq(vki_gguf_int_at(array, 1), 7);
    expect_ok(vki_gguf_array_of(&gguf, "i8", VKI_GGUF_INTS, &error, &array));
    ck_assert_int_eq(vki_gguf_int_at(array, 0), -1);
    expect_ok(vki_gguf_array_of(&gguf, "b", VKI_GGUF_INTS, &error, &array));
    ck_assert_int_eq(vki_gguf_int_at(array, 2), 1);
    expect_ok(vki_gguf_array_of(&gguf, "f", VKI_GGUF_FLOATS, &error, &array));
    ck_assert(vki_gguf_float_at(array, 1) == -2);
    expect_ok(vki_gguf_array_of(&gguf, "f64", VKI_GGUF_FLOATS, &error, &array));
    ck_assert(vki_gguf_float_at(array, 0) == 0.1);
    expect_ok(vki_gguf_array_of(&gguf, "empty", VKI_GGUF_STRINGS, &error, &array));
    ck_assert_uint_eq(array->count, 0);
    bad_read(vki_gguf_array_of(&gguf, "s", VKI_GGUF_INTS, &error, &array), "s",
             "array of string, expected array of int");
    ck_assert_ptr_null(array);
    bad_read(vki_gguf_array_of(&gguf, "i", VKI_GGUF_FLOATS, &error, &array), "i",
             "expected array of floats");
    bad_read(vki_gguf_array_of(&gguf, "f", VKI_GGUF_STRINGS, &error, &array), "f", "array of f32");
    bad_read(vki_gguf_array_of(&gguf, "scalar", VKI_GGUF_INTS, &error, &array), "scalar",
             "is of type u32");
    gguf_writer_free(w);
}
END_TEST

START_TEST(thousands_of_keys_and_tensors_are_found)
{
    enum { N = 5000 };
    gguf_writer *w = gguf_writer_new();
    char name[32];
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key.%u", (unsigned)i);
        gguf_put_u32(w, name, i);
        snprintf(name, sizeof name, "tensor.%u", (unsigned)i);
        gguf_put_tensor(w, name, F32, 1, (uint64_t[]){1}, &i, 4);
    }
    accepted_file(w);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t value = N;
        snprintf(name, sizeof name, "key.%u", (unsigned)i);
        expect_ok(vki_gguf_u32(&gguf, name, &error, &value, NULL));
        ck_assert_uint_eq(value, i);
        snprintf(name, sizeof name, "tensor.%u", (unsigned)i);
        ck_assert_mem_eq(vki_gguf_find_tensor(&gguf, name)->data, &i, 4);
    }
    ck_assert_ptr_null(vki_gguf_find(&gguf, "key.5000"));
    gguf_writer_free(w);
}
END_TEST

START_TEST(a_vocabulary_of_600000_strings_is_indexed)
{
    enum { N = 600000 };
    gguf_writer *w = gguf_writer_new();
    const char **texts = malloc(N * sizeof *texts);
    static char digits[N][12];
    for (int i = 0; i < N; i++) {
        snprintf(digits[i], sizeof digits[i], "%d", i);
        texts[i] = digits[i];
    }
    gguf_put_strings(w, "tokens", N, texts);
    accepted_file(w);
    const vki_gguf_value *tokens = vki_gguf_find(&gguf, "tokens");
    for (int i = 0; i < N; i += 997) {
        const vki_string text = vki_gguf_string_at(tokens, (uint64_t)i);
        ck_assert_uint_eq(text.len, strlen(digits[i]));
        ck_assert_mem_eq(text.text, digits[i], text.len);
    }
    free(texts);
    gguf_writer_free(w);
}
END_TEST

/* ---- Files and split models ---------------------------------------------------------------- */

static char folder[TEMP_FOLDER_SIZE];

static void make_folder(void)
{
    setup();
    temp_folder(folder);
}

static const char *part_path(unsigned part, unsigned n_parts)
{
    static char path[TEMP_FOLDER_SIZE + 64];
    snprintf(path, sizeof path, "%s/m-%05u-of-%05u.gguf", folder, part + 1, n_parts);
    return path;
}

static void remove_folder(void)
{
    char path[TEMP_FOLDER_SIZE + 64];
    vki_gguf_close(&gguf);
    for (unsigned n = 1; n <= 4; n++)
        for (unsigned i = 0; i < n; i++) remove(part_path(i, n));
    snprintf(path, sizeof path, "%s/other.gguf", folder);
    remove(path);
    temp_folder_remove(folder);
}

typedef struct part {
    unsigned no, count, n_tensors; /* what it says */
    const char *tensors[3];        /* what it holds, each 4 bytes: its name */
} part;

static void write_part(const char *path, const part *p)
{
    gguf_writer *w = gguf_writer_new();
    if (p->no == 0) gguf_put_string(w, "general.architecture", "llama");
    gguf_put_u16(w, "split.no", (uint16_t)p->no);
    gguf_put_u16(w, "split.count", (uint16_t)p->count);
    gguf_put_i32(w, "split.tensors.count", (int32_t)p->n_tensors);
    for (int i = 0; i < 3 && p->tensors[i]; i++) {
        char data[4] = {0};
        memcpy(data, p->tensors[i], strlen(p->tensors[i]));
        gguf_put_tensor(w, p->tensors[i], F32, 1, (uint64_t[]){1}, data, 4);
    }
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
}

/* Three parts, the first without tensors, the last with two; one of them may be another. */
static const char *write_model(unsigned changed, const part *other)
{
    static const part parts[3] = {{0, 3, 3, {0}}, {1, 3, 3, {"one"}}, {2, 3, 3, {"two", "tri"}}};
    for (unsigned i = 0; i < 3; i++)
        write_part(part_path(i, 3), other && i == changed ? other : &parts[i]);
    return part_path(0, 3);
}

static void refused_model(const char *path, vklm_status wanted, const char *file, const char *words)
{
    const vklm_status status = vki_gguf_open(&gguf, &host, &(vki_input){.path = path}, &error);
    ck_assert_msg(status == wanted, "%s: %s", vklm_status_name(status), error.text);
    ck_assert_msg(strstr(error.text, file) != NULL, "no \"%s\": %s", file, error.text);
    ck_assert_msg(strstr(error.text, words) != NULL, "no \"%s\": %s", words, error.text);
    ck_assert_ptr_null(gguf.host);
}

START_TEST(a_split_model_is_one)
{
    expect_ok(vki_gguf_open(&gguf, &host, &(vki_input){.path = write_model(0, NULL)}, &error));
    ck_assert_uint_eq(gguf.n_tensors, 3);
    ck_assert_uint_eq(gguf.n_sources, 3);
    static const char *const names[3] = {"one", "two", "tri"};
    for (int i = 0; i < 3; i++) {
        const vki_gguf_tensor *tensor = vki_gguf_find_tensor(&gguf, names[i]);
        ck_assert_ptr_eq(tensor, &gguf.tensors[i]);
        ck_assert_mem_eq(tensor->data, names[i], 4);
    }
    ck_assert_ptr_nonnull(vki_gguf_find(&gguf, "general.architecture"));
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++) sum += gguf.sources[i].size_bytes;
    ck_assert_uint_eq(gguf.file_bytes, sum);
}
END_TEST

START_TEST(a_later_part_says_to_open_the_first)
{
    write_model(0, NULL);
    refused_model(part_path(1, 3), VKLM_BAD_FILE, "m-00002-of-00003.gguf: part 2 of 3",
                  "open the first");
}
END_TEST

START_TEST(a_missing_part_is_named)
{
    write_model(0, NULL);
    remove(part_path(2, 3));
    refused_model(part_path(0, 3), VKLM_IO_ERROR, "m-00003-of-00003.gguf", "cannot be opened");
}
END_TEST

START_TEST(parts_must_agree)
{
    static const part swapped = {2, 3, 3, {"one"}}, counts = {1, 4, 3, {"one"}},
                      twice = {2, 3, 3, {"two", "one"}}, fewer = {2, 3, 3, {"two"}},
                      whole = {0, 1, 0, {"one"}};
    refused_model(write_model(1, &swapped), VKLM_BAD_FILE, "m-00002-of-",
                  "part 3 of 3, expected 2 of 3");
    refused_model(write_model(1, &counts), VKLM_BAD_FILE, "m-00002-of-",
                  "part 2 of 4, expected 2 of 3");
    refused_model(write_model(1, &whole), VKLM_BAD_FILE, "m-00002-of-",
                  "part 1 of 1, expected 2 of 3");
    refused_model(write_model(2, &twice), VKLM_BAD_FILE, "m-00003-of-",
                  "tensor 'one' occurs twice");
    refused_model(write_model(2, &fewer), VKLM_BAD_FILE, "hold 2 tensors",
                  "split.tensors.count says 3");
}
END_TEST

START_TEST(a_first_part_under_another_name_is_refused)
{
    static const part first = {0, 3, 3, {0}};
    char path[TEMP_FOLDER_SIZE + 64];
    snprintf(path, sizeof path, "%s/other.gguf", folder);
    write_part(path, &first);
    refused_model(path, VKLM_BAD_FILE, "other.gguf", "must end in -00001-of-00003.gguf");
}
END_TEST

START_TEST(a_part_without_its_keys_is_refused)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_u16(w, "split.count", 3);
    ck_assert(gguf_writer_save(w, part_path(0, 3)));
    refused_model(part_path(0, 3), VKLM_BAD_FILE, "key 'split.no'", "missing");
    gguf_put_u16(w, "split.no", 0);
    ck_assert(gguf_writer_save(w, part_path(0, 3)));
    refused_model(part_path(0, 3), VKLM_BAD_FILE, "key 'split.tensors.count'", "missing");
    gguf_put_i32(w, "split.tensors.count", -1);
    ck_assert(gguf_writer_save(w, part_path(0, 3)));
    refused_model(part_path(0, 3), VKLM_BAD_FILE, "key 'split.tensors.count'", "-1");
    gguf_writer_free(w);
}
END_TEST

START_TEST(one_part_of_one_is_whole)
{
    static const part only = {0, 1, 1, {"one"}};
    write_part(part_path(0, 1), &only);
    expect_ok(vki_gguf_open(&gguf, &host, &(vki_input){.path = part_path(0, 1)}, &error));
    ck_assert_uint_eq(gguf.n_tensors, 1);
}
END_TEST

START_TEST(a_part_in_memory_is_refused)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_u16(w, "split.no", 0);
    gguf_put_u16(w, "split.count", 2);
    gguf_put_i32(w, "split.tensors.count", 1);
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(w, &bytes, &size);
    refused(bytes, size, VKLM_INVALID_ARGUMENT, "first of 2 parts", "1 sources");
    gguf_writer_free(w);
}
END_TEST

START_TEST(files_that_cannot_be_opened_are_named)
{
    refused_model(part_path(0, 2), VKLM_IO_ERROR, part_path(0, 2), "cannot be opened");
    refused_model(folder, VKLM_IO_ERROR, folder, "not a regular file");
    FILE *file = fopen(part_path(0, 1), "wb");
    fclose(file);
    refused_model(part_path(0, 1), VKLM_BAD_FILE, part_path(0, 1), "empty");
}
END_TEST

/* ---- Memory -------------------------------------------------------------------------------- */

START_TEST(every_failed_allocation_is_survived)
{
    char path[TEMP_FOLDER_SIZE + 64];
    strcpy(path, write_model(0, NULL));
    gguf_writer *w = known_writer();
    static const char *const texts[] = {"a", "b"};
    gguf_put_strings(w, "tokens", 2, texts);
    gguf_put_u16(w, "split.no", 1);
    gguf_put_u16(w, "split.count", 3);
    gguf_put_i32(w, "split.tensors.count", 4);
    ck_assert(gguf_writer_save(w, part_path(1, 3)));
    gguf_writer_free(w);
    static const part first = {0, 3, 4, {0}};
    write_part(path, &first);
    vklm_status status = VKLM_OUT_OF_MEMORY;
    size_t k = 1;
    for (; status != VKLM_OK; k++) {
        test_memory heap = {.fail_from = k};
        const vklm_allocator allocator = test_allocator(&heap);
        vki_host_init(&host, &allocator, NULL);
        status = vki_gguf_open(&gguf, &host, &(vki_input){.path = path}, &error);
        ck_assert_msg(status == VKLM_OK || status == VKLM_OUT_OF_MEMORY, "%s", error.text);
        if (status != VKLM_OK) ck_assert_ptr_null(gguf.host);
        vki_gguf_close(&gguf);
        ck_assert_uint_eq(heap.n_live, 0);
    }
    ck_assert_uint_gt(k, 10);
    setup();
}
END_TEST

START_TEST(closing_nothing_is_safe)
{
    vki_gguf_close(&gguf);
    vki_gguf_close(&gguf);
    ck_assert_ptr_null(gguf.host);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf");
    TCase *c = add_case(suite, "known file", setup, teardown);
    tcase_add_test(c, the_writer_makes_the_known_file);
    tcase_add_test(c, the_known_file_is_read);
    tcase_add_test(c, a_file_cut_anywhere_is_refused_unless_only_padding_is_gone);
    tcase_add_test(c, a_truncated_file_is_called_so_with_the_field);
    tcase_add_test(c, bytes_behind_the_data_are_ignored);
    tcase_add_test(c, closing_nothing_is_safe);
    c = add_case(suite, "typed reads", setup, teardown);
    tcase_add_test(c, integers_of_any_width_are_read_where_they_fit);
    tcase_add_test(c, floats_bools_and_strings_are_read_as_such);
    tcase_add_test(c, absent_keys_leave_the_default);
    tcase_add_test(c, arrays_are_read_by_kind);
    tcase_add_test(c, thousands_of_keys_and_tensors_are_found);
    tcase_add_test(c, a_vocabulary_of_600000_strings_is_indexed);
    c = add_case(suite, "files", make_folder, remove_folder);
    tcase_add_test(c, a_split_model_is_one);
    tcase_add_test(c, a_later_part_says_to_open_the_first);
    tcase_add_test(c, a_missing_part_is_named);
    tcase_add_test(c, parts_must_agree);
    tcase_add_test(c, a_first_part_under_another_name_is_refused);
    tcase_add_test(c, a_part_without_its_keys_is_refused);
    tcase_add_test(c, one_part_of_one_is_whole);
    tcase_add_test(c, a_part_in_memory_is_refused);
    tcase_add_test(c, files_that_cannot_be_opened_are_named);
    tcase_add_test(c, every_failed_allocation_is_survived);
    return run_suite(suite);
}
