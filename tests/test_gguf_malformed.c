/* test_gguf_malformed.c - files that lie, each refused in a sentence that names what is wrong. */
#include <stdio.h>
#include <stdlib.h>

#include "support/gguf_fixture.h"
#include "support/suite.h"

/* ---- Header -------------------------------------------------------------------------------- */

static uint8_t patched[sizeof known_file];

static const uint8_t *patch_u32(size_t at, uint32_t value)
{
    memcpy(patched, known_file, sizeof patched);
    gguf_patch_u32(patched, at, value);
    return patched;
}

static const uint8_t *patch_u64(size_t at, uint64_t value)
{
    memcpy(patched, known_file, sizeof patched);
    gguf_patch_u64(patched, at, value);
    return patched;
}

START_TEST(another_magic_is_not_gguf)
{
    refused(patch_u32(0, 0x47475546), sizeof patched, VKLM_BAD_FILE, "not a GGUF file", NULL);
}
END_TEST

START_TEST(versions_have_sentences_of_their_own)
{
    expect_ok(parse(patch_u32(4, 2), sizeof patched));
    refused(patch_u32(4, 0), sizeof patched, VKLM_BAD_FILE, "version 0", NULL);
    refused(patch_u32(4, 1), sizeof patched, VKLM_UNSUPPORTED, "version 1", "obsolete");
    refused(patch_u32(4, 4), sizeof patched, VKLM_UNSUPPORTED, "version 4", "newer");
    refused(patch_u32(4, 0x03000000), sizeof patched, VKLM_UNSUPPORTED, "big-endian", NULL);
    refused(patch_u32(4, 0x02000000), sizeof patched, VKLM_UNSUPPORTED, "big-endian", NULL);
}
END_TEST

START_TEST(counts_that_cannot_be_are_refused)
{
    static const size_t at[2] = {8, 16};
    static const char *const names[2] = {"tensor_count", "metadata_kv_count"};
    for (int i = 0; i < 2; i++) {
        refused(patch_u64(at[i], UINT64_MAX), sizeof patched, VKLM_BAD_FILE, names[i], "negative");
        refused(patch_u64(at[i], (uint64_t)1 << 63), sizeof patched, VKLM_BAD_FILE, names[i],
                "negative");
        refused(patch_u64(at[i], INT64_MAX), sizeof patched, VKLM_BAD_FILE, names[i], "bytes left");
    }
    refused(patch_u64(8, 11), sizeof patched, VKLM_BAD_FILE, "tensor_count is 11", "at most 10");
    refused(patch_u64(16, 19), sizeof patched, VKLM_BAD_FILE, "metadata_kv_count is 19",
            "at most 18");
}
END_TEST

/* ---- Keys ---------------------------------------------------------------------------------- */

START_TEST(keys_have_printable_names_that_occur_once)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_u32(w, "", 1);
    refused_file(w, "key number 1", "empty");
    w = gguf_writer_new();
    gguf_put_u32(w, "a.a", 1);
    gguf_put_u32(w, "a.\xc3\xa4", 1);
    refused_file(w, "key number 2", "ASCII");
    w = gguf_writer_new();
    gguf_put_u32(w, "a.a", 1);
    gguf_put_string(w, "a.b", "x");
    gguf_put_f32(w, "a.a", 1);
    refused_file(w, "key 'a.a'", "twice");
    char *name = malloc(65537);
    memset(name, 'x', 65536);
    name[65536] = '\0';
    w = gguf_writer_new();
    gguf_put_u32(w, name, 1);
    refused_file(w, "key number 1", "at most 65535");
    w = gguf_writer_new();
    gguf_put_u32(w, name + 1, 1);
    accepted_file(w);
    gguf_writer_free(w);
    free(name);
}
END_TEST

START_TEST(a_name_longer_than_the_file_is_refused)
{
    refused(patch_u64(0x18, 4000), sizeof patched, VKLM_BAD_FILE, "key number 1", "truncated");
    refused(patch_u64(0x18, UINT64_MAX), sizeof patched, VKLM_BAD_FILE, "key number 1", "at most");
}
END_TEST

START_TEST(unknown_value_types_are_refused)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_raw(w, "a.b", 13, "\0\0\0\0\0\0\0\0", 8);
    refused_file(w, "key 'a.b'", "value type 13");
    w = gguf_writer_new();
    gguf_put_raw(w, "a.b", UINT32_MAX, "\0\0\0\0\0\0\0\0", 8);
    refused_file(w, "key 'a.b'", "value type 4294967295");
    w = gguf_writer_new();
    gguf_put_array(w, "a.b", 13, 1, "\0\0\0\0\0\0\0\0", 8);
    refused_file(w, "key 'a.b'", "element type 13");
    w = gguf_writer_new();
    gguf_put_array(w, "a.b", 9, 1, "\4\0\0\0\1\0\0\0\0\0\0\0\7\0\0\0", 16);
    refused_file(w, "key 'a.b'", "arrays of arrays");
}
END_TEST

START_TEST(strings_longer_than_the_file_are_refused)
{
    static const uint64_t lengths[] = {6, 1 << 30, (1 << 30) + 1, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t value[13] = {0};
        memcpy(value + 8, "hello", 5);
        gguf_patch_u64(value, 0, lengths[i]);
        gguf_writer *w = gguf_writer_new();
        gguf_put_raw(w, "a.b", 8, value, sizeof value);
        refused_file(w, "key 'a.b'", i < 2 ? "truncated" : "at most 2^30");
        w = gguf_writer_new();
        gguf_put_array(w, "a.b", 8, 1, value, sizeof value);
        refused_file(w, "key 'a.b'", i < 2 ? "truncated" : "at most 2^30");
    }
}
END_TEST

START_TEST(arrays_longer_than_the_file_are_refused)
{
    static const uint64_t counts[] = {2, 1 << 30, (1 << 30) + 1, INT64_MAX / 8, INT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (uint32_t type = 0; type <= 12; type++) {
            if (type == 9) continue;
            gguf_writer *w = gguf_writer_new();
            const size_t size = type < 2 || type == 7 ? 1 : type < 4 ? 2 : type < 7 ? 4 : 8;
            gguf_put_array(w, "a.b", type, counts[i], "\0\0\0\0\0\0\0\0", size);
            refused_file(w, "key 'a.b'", "the number of elements");
        }
    gguf_writer *w = gguf_writer_new();
    gguf_put_array(w, "a.b", 0, UINT64_MAX, NULL, 0);
    refused_file(w, "key 'a.b'", "negative");
}
END_TEST

START_TEST(bools_are_0_or_1)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_raw(w, "a.b", 7, "\2", 1);
    refused_file(w, "key 'a.b'", "a bool is 2");
    w = gguf_writer_new();
    gguf_put_array(w, "a.b", 7, 4, "\1\0\1\xff", 4);
    refused_file(w, "key 'a.b'", "a bool is 255");
}
END_TEST

START_TEST(the_alignment_is_a_u32_and_a_power_of_two)
{
    static const uint32_t good[] = {1, 2, 4, 8, 16, 64, 4096}, bad[] = {0, 3, 24, UINT32_MAX};
    const float weights[3] = {1, 2, 3};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        gguf_writer *w = gguf_writer_new();
        gguf_writer_set_alignment(w, good[i]);
        gguf_put_tensor(w, "a", F32, 1, (uint64_t[]){3}, weights, sizeof weights);
        gguf_put_tensor(w, "b", F32, 1, (uint64_t[]){3}, weights, sizeof weights);
        accepted_file(w);
        ck_assert_mem_eq(vki_gguf_find_tensor(&gguf, "b")->data, weights, sizeof weights);
        gguf_writer_free(w);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf_writer *w = gguf_writer_new();
        gguf_put_u32(w, "general.alignment", bad[i]);
        refused_file(w, "key 'general.alignment'", "power of two");
    }
    gguf_writer *w = gguf_writer_new();
    gguf_put_u64(w, "general.alignment", 32);
    refused_file(w, "key 'general.alignment'", "u64, expected u32");
    w = gguf_writer_new();
    gguf_put_u32s(w, "general.alignment", 1, (uint32_t[]){32});
    refused_file(w, "key 'general.alignment'", "array of u32, expected u32");
}
END_TEST

START_TEST(an_alignment_beyond_the_file_puts_the_data_past_its_end)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_u32(w, "general.alignment", 0x80000000);
    gguf_put_tensor(w, "a", F32, 1, (uint64_t[]){3}, NULL, 12);
    refused_file(w, "tensor data: truncated", "byte 2147483648");
}
END_TEST

/* ---- Tensors ------------------------------------------------------------------------------- */

START_TEST(tensors_have_short_names_that_occur_once)
{
    char name[65];
    memset(name, 'n', sizeof name);
    name[64] = '\0';
    gguf_writer *w = gguf_writer_new();
    gguf_put_tensor(w, name, F32, 1, (uint64_t[]){1}, NULL, 4);
    refused_file(w, "tensor number 1", "64 bytes, at most 63");
    w = gguf_writer_new();
    gguf_put_tensor(w, name + 1, F32, 1, (uint64_t[]){1}, NULL, 4);
    accepted_file(w);
    ck_assert_ptr_nonnull(vki_gguf_find_tensor(&gguf, name + 1));
    gguf_writer_free(w);
    w = gguf_writer_new();
    gguf_put_tensor(w, "", F32, 1, (uint64_t[]){1}, NULL, 4);
    refused_file(w, "tensor number 1", "empty");
    w = gguf_writer_new();
    gguf_put_tensor(w, "a\n", F32, 1, (uint64_t[]){1}, NULL, 4);
    refused_file(w, "tensor number 1", "0x0a");
    w = gguf_writer_new();
    gguf_put_tensor(w, "a", F32, 1, (uint64_t[]){1}, NULL, 4);
    gguf_put_tensor(w, "b", F32, 1, (uint64_t[]){1}, NULL, 4);
    gguf_put_tensor(w, "a", F16, 1, (uint64_t[]){1}, NULL, 2);
    refused_file(w, "tensor 'a'", "twice");
}
END_TEST

START_TEST(tensors_have_at_most_four_dimensions)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_tensor(w, "a", F32, 5, (uint64_t[]){1, 1, 1, 1, 1}, NULL, 4);
    refused_file(w, "tensor 'a'", "5 dimensions");
    w = gguf_writer_new();
    gguf_put_tensor(w, "a", F32, 4, (uint64_t[]){1, 2, 3, 4}, NULL, 96);
    accepted_file(w);
    ck_assert_uint_eq(gguf.tensors[0].size_bytes, 96);
    gguf_writer_free(w);
}
END_TEST

START_TEST(no_dimensions_are_one_element_and_a_dimension_of_0_is_none)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_tensor(w, "scalar", F32, 0, NULL, "\0\0\x80\x3f", 4);
    gguf_put_tensor(w, "none", Q4_0, 2, (uint64_t[]){0, 7}, NULL, 0);
    gguf_put_tensor(w, "last", F32, 1, (uint64_t[]){1}, "\0\0\0\x40", 4);
    gguf_put_tensor(w, "nothing", F32, 3, (uint64_t[]){5, 0, 1}, NULL, 0);
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(w, &bytes, &size);
    expect_ok(parse(bytes, size - 28)); /* the padding behind the last element is missing */
    const vki_gguf_tensor *scalar = vki_gguf_find_tensor(&gguf, "scalar");
    ck_assert_uint_eq(scalar->n_dims, 0);
    ck_assert_uint_eq(scalar->size_bytes, 4);
    ck_assert_uint_eq(scalar->ne[0], 1);
    ck_assert_uint_eq(vki_gguf_find_tensor(&gguf, "none")->size_bytes, 0);
    ck_assert_uint_eq(vki_gguf_find_tensor(&gguf, "nothing")->ne[1], 0);
    ck_assert_mem_eq(vki_gguf_find_tensor(&gguf, "last")->data, "\0\0\0\x40", 4);
    gguf_writer_free(w);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    static const struct {
        uint32_t id;
        uint64_t ne[4];
        const char *words;
    } cases[] = {
        {F32, {(uint64_t)1 << 63, 1, 1, 1}, "dimension 0 is negative"},
        {F32, {1, 1, 1, UINT64_MAX}, "dimension 3 is negative"},
        {F32, {(uint64_t)1 << 32, (uint64_t)1 << 31, 1, 1}, "elements overflows"},
        {F32, {(uint64_t)1 << 32, (uint64_t)1 << 32, 1, 1}, "elements overflows"},
        {F32, {1 << 20, 1 << 20, 1 << 20, 1 << 20}, "elements overflows"},
        {F32, {(uint64_t)1 << 61, 1, 1, 1}, "bytes overflows"},
        {F32, {(uint64_t)1 << 62, 1, 1, 1}, "bytes overflows"},
        {28, {(uint64_t)1 << 62, 1, 1, 1}, "bytes overflows"}, /* F64 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer *w = gguf_writer_new();
        gguf_put_tensor(w, "a", cases[i].id, 4, cases[i].ne, NULL, 4);
        refused_file(w, "tensor 'a'", cases[i].words);
    }
}
END_TEST

START_TEST(the_sum_of_sizes_that_overflows_is_refused)
{
    gguf_writer *w = gguf_writer_new();
    const uint64_t most = (uint64_t)1 << 60; /* 2^62 bytes */
    for (uint64_t i = 0; i < 4; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        gguf_put_tensor_info(w, name, F32, 1, &most, i << 62);
    }
    refused_file(w, "tensor 'd'", "all tensors overflows");
}
END_TEST

START_TEST(unknown_and_removed_types_are_refused_by_tensor_and_id)
{
    for (uint32_t id = 0; id < 50; id++) {
        const char *name;
        uint32_t weights = 256, bytes = 4;
        const bool removed = id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38);
        const bool known = vki_ggml_type(id, &name, &weights, &bytes);
        ck_assert_int_eq(known, !removed && id < 43);
        gguf_writer *w = gguf_writer_new();
        gguf_put_tensor(w, "blk.0.x", id, 1, (uint64_t[]){weights}, NULL, bytes);
        if (known) {
            accepted_file(w);
            ck_assert_uint_eq(gguf.tensors[0].size_bytes, bytes);
            gguf_writer_free(w);
        } else {
            char words[32];
            snprintf(words, sizeof words, "type id %u ", (unsigned)id);
            refused_file(w, "tensor 'blk.0.x'", words);
        }
    }
}
END_TEST

START_TEST(rows_are_whole_blocks)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_tensor(w, "a", Q4_0, 2, (uint64_t[]){48, 2}, NULL, 54);
    refused_file(w, "tensor 'a'", "rows of 48 weights are not whole Q4_0 blocks of 32");
    w = gguf_writer_new();
    gguf_put_tensor(w, "a", Q4_0, 0, NULL, NULL, 18);
    refused_file(w, "tensor 'a'", "rows of 1 weights");
}
END_TEST

START_TEST(a_type_that_vklm_cannot_run_is_read_soundly)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_tensor(w, "a", IQ4_XS, 2, (uint64_t[]){512, 3}, NULL, 2 * 136 * 3);
    gguf_put_tensor(w, "b", F32, 1, (uint64_t[]){1}, "\0\0\x80\x3f", 4);
    accepted_file(w);
    ck_assert_uint_eq(gguf.tensors[0].size_bytes, 2 * 136 * 3);
    ck_assert_mem_eq(gguf.tensors[1].data, "\0\0\x80\x3f", 4);
    gguf_writer_free(w);
}
END_TEST

/* Two tensors of 8 bytes; the second one's offset is the one that lies. */
static void refused_offset(uint64_t first, uint64_t second, const char *name, const char *words)
{
    gguf_writer *w = gguf_writer_new();
    const uint64_t ne = 2;
    gguf_put_tensor_info(w, "a", F32, 1, &ne, first);
    gguf_put_tensor_info(w, "b", F32, 1, &ne, second);
    gguf_put_tensor(w, "c", F32, 1, (uint64_t[]){64}, NULL, 256); /* so that there are bytes */
    refused_file(w, name, words);
}

START_TEST(offsets_are_aligned_in_order_and_without_gaps)
{
    refused_offset(0, 8, "tensor 'b'", "offset 8 is not a multiple of the alignment 32");
    refused_offset(0, 0, "tensor 'b'", "offset 0, expected 32: tensors overlap");
    refused_offset(0, 64, "tensor 'b'", "offset 64, expected 32: tensors leave a gap");
    refused_offset(32, 0, "tensor 'a'", "offset 32, expected 0: tensors leave a gap");
    refused_offset(0, UINT64_MAX - 31, "tensor 'b'", "expected 32");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf_malformed");
    TCase *c = add_case(suite, "header", setup, teardown);
    tcase_add_test(c, another_magic_is_not_gguf);
    tcase_add_test(c, versions_have_sentences_of_their_own);
    tcase_add_test(c, counts_that_cannot_be_are_refused);
    c = add_case(suite, "keys", setup, teardown);
    tcase_add_test(c, keys_have_printable_names_that_occur_once);
    tcase_add_test(c, a_name_longer_than_the_file_is_refused);
    tcase_add_test(c, unknown_value_types_are_refused);
    tcase_add_test(c, strings_longer_than_the_file_are_refused);
    tcase_add_test(c, arrays_longer_than_the_file_are_refused);
    tcase_add_test(c, bools_are_0_or_1);
    tcase_add_test(c, the_alignment_is_a_u32_and_a_power_of_two);
    tcase_add_test(c, an_alignment_beyond_the_file_puts_the_data_past_its_end);
    c = add_case(suite, "tensors", setup, teardown);
    tcase_add_test(c, tensors_have_short_names_that_occur_once);
    tcase_add_test(c, tensors_have_at_most_four_dimensions);
    tcase_add_test(c, no_dimensions_are_one_element_and_a_dimension_of_0_is_none);
    tcase_add_test(c, sizes_that_overflow_are_refused);
    tcase_add_test(c, the_sum_of_sizes_that_overflows_is_refused);
    tcase_add_test(c, unknown_and_removed_types_are_refused_by_tensor_and_id);
    tcase_add_test(c, rows_are_whole_blocks);
    tcase_add_test(c, a_type_that_vklm_cannot_run_is_read_soundly);
    tcase_add_test(c, offsets_are_aligned_in_order_and_without_gaps);
    return run_suite(suite);
}
