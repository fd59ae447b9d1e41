/* UTF-8: what is a character, and putting together characters that arrive in pieces. */
#include <check.h>
#include <string.h>

#include "support/suite.h"
#include "text/utf8.h"

#define BAD VKI_UTF8_REPLACEMENT

START_TEST(a_character_has_one_to_four_bytes)
{
    static const struct {
        const char *bytes;
        int expected;
    } cases[] = {
        {"a", 1},
        {"\x7F", 1},
        {"\xC2\x80", 2},
        {"\xDF\xBF", 2},
        {"\xE0\xA0\x80", 3},
        {"\xED\x9F\xBF", 3},
        {"\xEE\x80\x80", 3},
        {"\xEF\xBB\xBF", 3}, /* byte order mark */
        {"\xF0\x90\x80\x80", 4},
        {"\xF4\x8F\xBF\xBF", 4},
        {"\x80", -1},     /* continuation without a lead */
        {"\xC0\x80", -1}, /* overlong */
        {"\xC1\xBF", -1},
        {"\xE0\x9F\xBF", -1},
        {"\xED\xA0\x80", -1}, /* surrogate */
        {"\xF0\x8F\xBF\xBF", -1},
        {"\xF4\x90\x80\x80", -1}, /* above U+10FFFF */
        {"\xF5\x80", -1},
        {"\xFF", -1},
        {"\xC3x", -1},
        {"\xE2\x82x", -2},
        {"\xF0\x9F\x8Ex", -3},
        {"\xC3", 0},
        {"\xE2", 0},
        {"\xE2\x82", 0},
        {"\xF0\x9F\x8E", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(vki_utf8_char(cases[i].bytes, strlen(cases[i].bytes)) == cases[i].expected,
                      "case %zu", i);
}
END_TEST

/* Pushes `text` in pieces of `step` bytes, then flushes. */
static size_t stream_all(const char *text, size_t len, size_t step, char *out)
{
    vki_utf8_stream stream = {0};
    size_t written = 0;
    for (size_t at = 0; at < len; at += step) {
        const size_t n = len - at < step ? len - at : step;
        written += vki_utf8_push(&stream, text + at, n, out + written);
        ck_assert_uint_le(stream.n_held, 3);
    }
    return written + vki_utf8_flush(&stream, out + written);
}

START_TEST(a_stream_gives_the_same_text_however_it_is_cut)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"h\xC3\xA9llo \xE2\x82\xAC \xF0\x9F\x8E\x89!",
         "h\xC3\xA9llo \xE2\x82\xAC \xF0\x9F\x8E\x89!"},
        {"\xFF"
         "a",
         BAD "a"},
        {"\xE2\x82"
         "a",
         BAD "a"},
        {"\xE2\x82\xC3\xA9", BAD "\xC3\xA9"},
        {"\xF0\x9F\x8E\xF0\x9F\x8E\x89", BAD "\xF0\x9F\x8E\x89"},
        {"\xED\xA0\x80", BAD BAD BAD},
        {"a\x80\x80", "a" BAD BAD},
        {"cut \xF0\x9F\x8E", "cut " BAD},
    };
    char out[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 6; step++) {
            const size_t n = stream_all(cases[i].text, strlen(cases[i].text), step, out);
            out[n] = '\0';
            ck_assert_msg(strcmp(out, cases[i].expected) == 0, "case %zu in steps of %zu: '%s'", i,
                          step, out);
        }
}
END_TEST

START_TEST(a_stream_holds_back_only_what_may_become_a_character)
{
    vki_utf8_stream stream = {0};
    char out[32];
    ck_assert_uint_eq(vki_utf8_push(&stream, "\xF0\x9F", 2, out), 0);
    ck_assert_uint_eq(vki_utf8_push(&stream, "\x8E", 1, out), 0);
    ck_assert_uint_eq(vki_utf8_push(&stream, "\x89", 1, out), 4);
    ck_assert_mem_eq(out, "\xF0\x9F\x8E\x89", 4);
    ck_assert_uint_eq(vki_utf8_push(&stream, "\xC0", 1, out), 3);
    ck_assert_uint_eq(vki_utf8_flush(&stream, out), 0);
}
END_TEST

START_TEST(any_bytes_give_valid_text_within_the_promised_room)
{
    uint32_t state = 1;
    for (int round = 0; round < 2000; round++) {
        char text[64], out[3 * (64 + 3)];
        size_t len = 0;
        for (; len < sizeof text; len++) {
            state = state * 1664525u + 1013904223u;
            /* mostly leads and continuations */
            text[len] = (char)(0x80 | state >> 25);
        }
        const size_t n = stream_all(text, len, 1 + state % 7, out);
        ck_assert_uint_le(n, sizeof out);
        for (size_t at = 0; at < n;) {
            const int length = vki_utf8_char(out + at, n - at);
            ck_assert_int_gt(length, 0);
            at += (size_t)length;
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_character_has_one_to_four_bytes,
        a_stream_gives_the_same_text_however_it_is_cut,
        a_stream_holds_back_only_what_may_become_a_character,
        any_bytes_give_valid_text_within_the_promised_room,
    };
    return run_tests("utf8", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
