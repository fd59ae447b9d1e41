/* test_stop.c - stop strings and ids: whatever pieces a text comes in, what is given out is the same, and is what a
 * plain search of the whole says. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "run/stop.h"
#include "support/gpu.h"
#include "support/suite.h"

static vklm_error error;
static vki_host host;
static vki_stops stops;

static void set_up(void)
{
    vki_host_init(&host, NULL, NULL);
}

static void tear_down(void)
{
    vki_stops_free(&stops);
    vki_stops_free(&stops); /* safe twice */
}

static void start(const char *const *strings, size_t n)
{
    CHECK_OK(vki_stops_start(&stops, &host, strings, n, NULL, 0, &error));
}

/* Gives the text out in pieces of `piece` bytes; `out` receives it up to the stop, or all but what is held. */
static int32_t push_all(const char *text, size_t piece, char *out)
{
    size_t n_out = 0;
    stops.n_held = 0;
    for (size_t at = 0, n = strlen(text); at < n; at += piece) {
        char joined[600];
        const size_t n_new = piece < n - at ? piece : n - at;
        size_t given;
        memcpy(joined, stops.held, stops.n_held);
        memcpy(joined + stops.n_held, text + at, n_new);
        const int32_t found = vki_stops_push(&stops, joined, n_new, &given);
        memcpy(out + n_out, joined, given);
        n_out += given;
        out[n_out] = '\0';
        if (found >= 0) return found;
    }
    out[n_out] = '\0';
    return -1;
}

static void check(const char *text, int32_t which, const char *given)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        char out[600];
        const int32_t found = push_all(text, piece, out);
        ck_assert_msg(found == which, "'%s' in pieces of %zu: string %d, not %d", text, piece, found, which);
        ck_assert_str_eq(out, given);
        if (which >= 0) ck_assert_uint_eq(stops.n_held, 0);
    }
}

START_TEST(a_string_is_found_wherever_pieces_end)
{
    const char *const strings[] = {"END", "\n\n", "stop here"};
    start(strings, 3);
    check("some text END more", 0, "some text ");
    check("one\ntwo\n\nthree END", 1, "one\ntwo");
    check("END", 0, "");
    check("please stop here.", 2, "please ");
    check("EENDEND", 0, "E");
    check("stop hestop here", 2, "stop he");
    check("nothing of that kind, ENd\n.", -1, "nothing of that kind, ENd\n.");
}
END_TEST

START_TEST(what_may_become_one_is_held_back)
{
    const char *const strings[] = {"abcabd", "cx"};
    start(strings, 2);
    const struct { const char *text, *given, *held; } cases[] = {
        {"zabc", "z", "abc"}, {"zabcab", "z", "abcab"}, {"zabcabc", "zabc", "abc"}, {"abcx", NULL, ""},
        {"abca", "", "abca"}, {"ac", "a", "c"}, {"acabx", "acabx", ""}, {"", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece < 4; piece++) {
            char out[64] = "";
            const int32_t found = push_all(cases[i].text, piece, out);
            ck_assert_int_eq(found, cases[i].given ? -1 : 1);
            ck_assert_str_eq(out, cases[i].given ? cases[i].given : "ab");
            ck_assert_uint_eq(stops.n_held, strlen(cases[i].held));
            ck_assert_mem_eq(stops.held, cases[i].held, stops.n_held);
        }
}
END_TEST

START_TEST(the_first_to_end_counts_and_of_these_the_longest)
{
    const char *const strings[] = {"bcd", "abcd", "cd", "abcde", "xyz", "y"};
    start(strings, 6);
    check("--abcde", 1, "--"); /* three end with the d: the longest began first */
    check("-bcd", 0, "-");
    check("xyz", 5, "x");
    const char *const twice[] = {"aa", "aa"};
    start(twice, 2);
    check("baaa", 0, "b");
}
END_TEST

/* Texts over a small alphabet, where strings overlap themselves and each other: the search of the whole says it. */
START_TEST(random_texts_agree_with_a_plain_search)
{
    const char *const strings[] = {"aab", "abaabb", "bbbb", "babab"};
    uint32_t random = 1;
    start(strings, 4);
    for (int round = 0; round < 500; round++) {
        char text[41] = "", given[600];
        for (int i = 0; i < 40; i++) {
            random = random * 1664525 + 1013904223;
            text[i] = (random >> 16) % 5 == 0 ? ' ' : (random >> 20) % 2 ? 'a' : 'b';
        }
        int32_t which = -1;
        size_t end = 0, len = 0;
        for (end = 1; end <= 40 && which < 0; end++)
            for (int32_t s = 0; s < 4; s++) {
                const size_t n = strlen(strings[s]);
                if (n > len && n <= end && memcmp(text + end - n, strings[s], n) == 0) {
                    which = s;
                    len = n;
                }
            }
        if (which < 0) continue;
        snprintf(given, sizeof given, "%.*s", (int)(end - 1 - len), text);
        check(text, which, given);
    }
}
END_TEST

START_TEST(ids_stop_too)
{
    const vklm_token ids[] = {7, -3, 7, 100000};
    CHECK_OK(vki_stops_start(&stops, &host, NULL, 0, ids, 4, &error));
    ck_assert(vki_stops_at(&stops, 7) && vki_stops_at(&stops, 100000) && !vki_stops_at(&stops, 8));
    start(NULL, 0); /* forgets them */
    ck_assert(!vki_stops_at(&stops, 7));
    check("any text", -1, "any text");
}
END_TEST

START_TEST(strings_that_cannot_be_are_refused)
{
    char longest[VKI_STOP_BYTES + 2];
    memset(longest, 'x', sizeof longest);
    longest[VKI_STOP_BYTES + 1] = '\0';
    const struct { const char *string, *text; } cases[] = {
        {NULL, "string 1 is empty"}, {"", "string 1 is empty"}, {longest, "has 256 bytes"}, {"ab\xff", "at byte 2"},
        {"\xc3", "not UTF-8"}, {"\xed\xa0\x80", "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const strings[] = {"fine", cases[i].string};
        CHECK_FAILS(vki_stops_start(&stops, &host, strings, 2, NULL, 0, &error), VKLM_INVALID_ARGUMENT, cases[i].text);
        check("fine", -1, "fine");
    }
    longest[VKI_STOP_BYTES] = '\0';
    start((const char *const[]){longest}, 1);
    char text[600];
    snprintf(text, sizeof text, "-%s", longest);
    check(text, 0, "-");
    CHECK_FAILS(vki_stops_start(&stops, &host, NULL, 1, NULL, 0, &error), VKLM_INVALID_ARGUMENT, "no pointer");
    CHECK_FAILS(vki_stops_start(&stops, &host, NULL, 0, NULL, 1, &error), VKLM_INVALID_ARGUMENT, "no pointer");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_string_is_found_wherever_pieces_end, what_may_become_one_is_held_back,
        the_first_to_end_counts_and_of_these_the_longest, random_texts_agree_with_a_plain_search, ids_stop_too,
        strings_that_cannot_be_are_refused,
    };
    return run_tests("stop", set_up, tear_down, tests, sizeof tests / sizeof *tests);
}
