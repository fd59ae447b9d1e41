/* test_desktop.c - the parts of vklm-desktop that need no window: lines, typing, and what the model is told. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "desktop_edit.h"
#include "desktop_talk.h"
#include "desktop_text.h"
#include "support/suite.h"

/* Chinese and Japanese are twice as wide as the rest. */
static int advance(void *font, uint32_t code)
{
    (void)font;
    return code >= 0x2e80 ? 2 : 1;
}

static const text_measure measure = {advance, NULL};

/* The lines of a text, each between bars. */
static const char *wrapped(const char *text, int limit)
{
    static char joined[400];
    text_lines lines = {0};
    text_wrap(&lines, text, strlen(text), limit, measure);
    strcpy(joined, "|");
    for (size_t i = 0; i < lines.n; i++) {
        strncat(joined, text + lines.lines[i].at, lines.lines[i].len);
        strcat(joined, "|");
    }
    text_lines_free(&lines);
    return joined;
}

START_TEST(lines_break_between_words)
{
    ck_assert_str_eq(wrapped("", 5), "||");
    ck_assert_str_eq(wrapped("one two", 7), "|one two|");
    ck_assert_str_eq(wrapped("one two", 6), "|one |two|");
    ck_assert_str_eq(wrapped("one   two", 3), "|one   |two|"); /* blanks hang over */
    ck_assert_str_eq(wrapped("one\n\ntwo\n", 9), "|one||two||");
    ck_assert_str_eq(wrapped("unbreakable", 4), "|unbr|eaka|ble|");
    ck_assert_str_eq(wrapped("a unbreakable", 4), "|a |unbr|eaka|ble|");
    ck_assert_str_eq(wrapped("well-known", 6), "|well-|known|");
    ck_assert_str_eq(wrapped("x", 0), "|x|"); /* a character at least */
}
END_TEST

START_TEST(chinese_breaks_between_characters)
{
    ck_assert_str_eq(wrapped("今天天气很好", 8), "|今天天气|很好|");
    ck_assert_str_eq(wrapped("今天天气。好", 8), "|今天天|气。好|"); /* no line begins with a full stop */
    ck_assert_str_eq(wrapped("今天天（气）", 8), "|今天天|（气）|"); /* none ends with a bracket */
    ck_assert_str_eq(wrapped("用GPU好", 4), "|用|GPU|好|");
}
END_TEST

START_TEST(a_line_knows_its_width)
{
    text_lines lines = {0};
    const char *text = "one two  \n今天";
    text_wrap(&lines, text, strlen(text), 20, measure);
    ck_assert_uint_eq(lines.n, 2);
    ck_assert_int_eq(lines.lines[0].width, 7);
    ck_assert_int_eq(lines.lines[1].width, 4);
    ck_assert_int_eq(lines.width, 7);
    ck_assert_uint_eq(text_line_of(&lines, 9), 0);
    ck_assert_uint_eq(text_line_of(&lines, 10), 1);
    ck_assert_uint_eq(text_offset_at(text, &lines.lines[0], -5, measure), 0);
    ck_assert_uint_eq(text_offset_at(text, &lines.lines[0], 4, measure), 4);
    ck_assert_uint_eq(text_offset_at(text, &lines.lines[1], 1, measure), 13);
    ck_assert_uint_eq(text_offset_at(text, &lines.lines[1], 99, measure), 16);
    text_lines_free(&lines);
}
END_TEST

START_TEST(characters_are_stepped_over_whole)
{
    const char *text = "a\xc3\xa9\xe5\xa4\xa9\xf0\x9f\x98\x80"; /* of one, two, three and four bytes */
    static const size_t begins[] = {0, 1, 3, 6, 10};
    for (size_t i = 0, at = 0; i < 4; i++) {
        ck_assert_uint_eq(text_before(text, begins[i + 1]), begins[i]);
        (void)text_next(text, 10, &at);
        ck_assert_uint_eq(at, begins[i + 1]);
    }
    static const char *const broken[] = {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe5\xa4"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        size_t at = 0;
        ck_assert_uint_eq(text_next(broken[i], strlen(broken[i]), &at), 0xfffd);
        ck_assert_uint_eq(at, 1);
        ck_assert_uint_eq(text_before(broken[i], strlen(broken[i])), strlen(broken[i]) - 1);
    }
}
END_TEST

static void type(edit *e, const char *text)
{
    edit_insert(e, text, strlen(text));
}

START_TEST(typing_replaces_the_selection)
{
    edit e = {0};
    type(&e, "Hello wrld");
    edit_move(&e, EDIT_WORD_LEFT, false);
    edit_move(&e, EDIT_RIGHT, false);
    type(&e, "o");
    ck_assert_str_eq(e.text.bytes, "Hello world");
    edit_select_word(&e, 1);
    char *copy = edit_copy(&e);
    ck_assert_str_eq(copy, "Hello");
    free(copy);
    type(&e, "你好");
    ck_assert_str_eq(e.text.bytes, "你好 world");
    edit_erase(&e, EDIT_LEFT);
    ck_assert_str_eq(e.text.bytes, "你 world");
    edit_erase(&e, EDIT_WORD_RIGHT);
    ck_assert_str_eq(e.text.bytes, "你");
    edit_select_all(&e);
    edit_move(&e, EDIT_LEFT, false); /* to the selection's begin */
    ck_assert_uint_eq(e.cursor, 0);
    edit_erase(&e, EDIT_LEFT);
    edit_erase(&e, EDIT_RIGHT);
    ck_assert_str_eq(e.text.bytes, "");
    ck_assert_ptr_null(edit_copy(&e));
    edit_free(&e);
}
END_TEST

START_TEST(an_empty_text_takes_every_key)
{
    for (edit_place to = EDIT_LEFT; to <= EDIT_END; to++) {
        edit e = {0};
        edit_move(&e, to, false);
        edit_move(&e, to, true);
        edit_erase(&e, to);
        edit_select_word(&e, 3);
        ck_assert_uint_eq(e.cursor, 0);
        ck_assert_uint_eq(e.text.len, 0);
        edit_free(&e);
    }
}
END_TEST

START_TEST(pasted_text_is_cleaned)
{
    edit e = {0};
    edit_insert(&e, "a\r\nb\rc\td\x01\x7f\xff!", 12);
    ck_assert_str_eq(e.text.bytes, "a\nb\nc    d\xef\xbf\xbd!");
    edit_free(&e);
}
END_TEST

START_TEST(what_is_composed_is_cut_to_whole_characters)
{
    edit e = {0};
    char text[301];
    for (size_t i = 0; i < 300; i += 3) memcpy(text + i, "天", 3);
    text[300] = '\0';
    edit_compose(&e, text);
    ck_assert_uint_eq(strlen(e.composed), 255);
    edit_compose(&e, "n");
    ck_assert_str_eq(e.composed, "n");
    edit_compose(&e, NULL);
    ck_assert_str_eq(e.composed, "");
    edit_free(&e);
}
END_TEST

/* What the model is told, in one line. */
static const char *told(const talk *t)
{
    static char joined[400];
    vklm_message messages[20];
    joined[0] = '\0';
    const size_t n = talk_messages(t, messages);
    for (size_t i = 0; i < n; i++) {
        strncat(joined, messages[i].role, 1);
        strcat(joined, ":");
        strcat(joined, messages[i].content);
        strcat(joined, " ");
    }
    return joined;
}

START_TEST(the_model_is_told_what_was_answered_and_the_last_question)
{
    talk t = {.system = "S"};
    ck_assert_str_eq(told(&t), "s:S ");
    talk_add(&t, TALK_USER, "1");
    talk_add(&t, TALK_MODEL, "a");
    talk_add(&t, TALK_USER, "2");
    talk_say(&t, "%s", "stopped");
    talk_say(&t, "%s", "stopped");
    ck_assert_uint_eq(t.n, 4); /* the same notice is said once */
    talk_add(&t, TALK_USER, "3");
    ck_assert_str_eq(told(&t), "s:S u:1 a:a u:3 ");
    talk_add(&t, TALK_MODEL, "");
    talk_drop_empty(&t);
    talk_add(&t, TALK_MODEL, "b");
    ck_assert_str_eq(told(&t), "s:S u:1 a:a u:3 a:b ");
    ck_assert(talk_drop_reply(&t));
    ck_assert_str_eq(told(&t), "s:S u:1 a:a u:3 ");
    talk_forget(&t, 2);
    ck_assert_str_eq(told(&t), "s:S u:3 ");
    talk_add(&t, TALK_MODEL, "c");
    talk_forget(&t, 1); /* also the question that had no answer, and the notice */
    ck_assert_str_eq(told(&t), "s:S a:c ");
    talk_forget(&t, 9);
    ck_assert_str_eq(told(&t), "s:S ");
    talk_clear(&t);
    ck_assert_str_eq(told(&t), "s:S ");
    ck_assert(!talk_drop_reply(&t));
    talk_free(&t);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        lines_break_between_words,
        chinese_breaks_between_characters,
        a_line_knows_its_width,
        characters_are_stepped_over_whole,
        typing_replaces_the_selection,
        an_empty_text_takes_every_key,
        pasted_text_is_cleaned,
        what_is_composed_is_cut_to_whole_characters,
        the_model_is_told_what_was_answered_and_the_last_question,
    };
    return run_tests("desktop", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
