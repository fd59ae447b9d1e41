/* Both tokenizers and the pre-tokenizers. The expected ids are worked out by hand on vocabularies
 * of a few tokens. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "support/suite.h"
#include "support/tiny_vocab.h"
#include "text/pretokenize.h"

/* ---- SPM ---------------------------------------------------------------------------------------
 */

START_TEST(spm_puts_a_space_before_each_fragment)
{
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny_spm);
    ck_assert_uint_eq(vklm_vocab_size(vocab), 17);
    ck_assert_str_eq(tiny_plain(vocab, "Hello"), "13");
    ck_assert_str_eq(tiny_plain(vocab, ""), "");
    ck_assert_str_eq(tiny_parsed(vocab, "<s>Hello</s>Hi"), "1 13 2 15");
    ck_assert_str_eq(tiny_parsed(vocab, "<s> Hello"), "1 3 13");
    ck_assert_str_eq(tiny_parsed(vocab, "<s></s>"), "1 2");
    ck_assert_str_eq(tiny_encode(vocab, "Hi", 2, VKLM_ADD_SPECIAL), "1 15");
    ck_assert_str_eq(tiny_encode(vocab, "", 0, VKLM_ADD_SPECIAL), "1");
    vklm_vocab_destroy(&vocab);
    ck_assert_ptr_null(vocab);
    vklm_vocab_destroy(&vocab);
}
END_TEST

static void put_no_space(gguf_writer *w)
{
    gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    gguf_put_bool(w, "tokenizer.ggml.add_eos_token", true);
}

START_TEST(spm_obeys_the_file_about_space_bos_and_eos)
{
    tiny_vocab tiny = tiny_spm;
    tiny.put_more = put_no_space;
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    ck_assert_str_eq(tiny_plain(vocab, "Hello"), "12");
    ck_assert_str_eq(tiny_plain(vocab, " Hello"), "13");
    ck_assert_str_eq(tiny_encode(vocab, "Hi", 2, VKLM_ADD_SPECIAL), "14 2");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 13), " Hello");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(spm_merges_the_best_pair_first_and_the_leftmost_of_equals)
{
    static const tiny_token tokens[] = {
        {"a", 0, 0},    {"b", 0, 0},      {"aa", 0, -1}, {"ab", 0, -2},
        {"aab", 0, -9}, {"ba", 0, -0.0f}, {"bb", 0, 0},
    };
    const tiny_vocab tiny = {
        .model = "llama", .tokens = tokens, .n_tokens = 7, .put_more = put_no_space};
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    ck_assert_str_eq(tiny_plain(vocab, "aaa"), "2 0"); /* leftmost */
    ck_assert_str_eq(tiny_plain(vocab, "aab"), "4");   /* aa before ab, then aa + b */
    ck_assert_str_eq(tiny_plain(vocab, "bab"), "5 1"); /* ba (0) before ab (-2) */
    ck_assert_str_eq(tiny_plain(vocab, "bba"), "6 0"); /* -0 and 0 are equal */
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(spm_falls_back_to_bytes)
{
    tiny_vocab tiny = {.model = "llama",
                       .tokens = tiny_spm.tokens,
                       .n_tokens = tiny_spm.n_tokens,
                       .with_bytes = true};
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    /* "a" and U+00E9 are no tokens here; 256 + 3 is the space. */
    ck_assert_str_eq(tiny_plain(vocab, "a"), "259 97");
    ck_assert_str_eq(tiny_plain(vocab, "\xC3\xA9"), "259 195 169");
    ck_assert_str_eq(tiny_plain(vocab, "\xFF"), "259 255");
    ck_assert_str_eq(tiny_encode(vocab, "\0", 1, 0), "259 0");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 259, 195, 169), "\xC3\xA9");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 195), "\xC3");
    const vki_string text = vki_vocab_token_text(vocab, 195);
    ck_assert_uint_eq(text.len, 1);
    ck_assert_mem_eq(text.text, "\xC3", 1);
    vklm_vocab_destroy(&vocab);

    vocab = tiny_vocab_must_open(&tiny_spm); /* no byte tokens: the unknown token, once a byte */
    ck_assert_str_eq(tiny_plain(vocab, "\xC3\xA9"), "3 0 0");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(spm_cannot_tell_its_space_mark_from_a_space)
{
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny_spm);
    ck_assert_str_eq(tiny_plain(vocab, "Hi" SPM_SPACE "Hi"), "15 15");
    ck_assert_str_eq(tiny_plain(vocab, "Hi Hi"), "15 15");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 15, 15), "Hi Hi");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(spm_detokenises_without_the_space_it_added)
{
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny_spm);
    ck_assert_str_eq(TINY_DECODE(vocab, false, 13), "Hello");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 1, 13, 2, 15), "Hello Hi");
    ck_assert_str_eq(TINY_DECODE(vocab, true, 1, 13, 2, 15), "<s>Hello</s>Hi");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 3, 13), " Hello");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 16, 0), "");
    ck_assert_str_eq(TINY_DECODE(vocab, true, 16, 0), "<unk>");
    vklm_vocab_destroy(&vocab);
}
END_TEST

/* ---- BPE ---------------------------------------------------------------------------------------
 */

START_TEST(bpe_merges_by_rank_within_pieces)
{
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny_bpe);
    ck_assert_str_eq(tiny_plain(vocab, "hello"), "259");
    ck_assert_str_eq(tiny_plain(vocab, "hell"), "256 257");
    ck_assert_str_eq(tiny_plain(vocab, "lll"), "257 108");
    ck_assert_str_eq(tiny_plain(vocab, "hello w"), "259 260");
    ck_assert_str_eq(tiny_plain(vocab, "he llo"), "256 32 258");
    ck_assert_str_eq(tiny_plain(vocab, "\n\n"), "265");
    ck_assert_str_eq(tiny_plain(vocab, "\xC3\xA9"), "195 169");
    ck_assert_str_eq(tiny_encode(vocab, "hello", 5, VKLM_ADD_SPECIAL), "259");
    ck_assert_str_eq(tiny_encode(vocab, "a\0b", 3, 0), "97 0 98");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 259, 260, 195, 169), "hello w\xC3\xA9");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(bpe_reads_bad_bytes_as_replacement_characters)
{
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny_bpe);
    ck_assert_str_eq(tiny_plain(vocab, "\xFF"), "239 191 189");
    ck_assert_str_eq(tiny_plain(vocab, "\xE2\x82z"), "239 191 189 239 191 189 122");
    ck_assert_str_eq(tiny_plain(vocab, "\xED\xA0\x80"), "239 191 189 239 191 189 239 191 189");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(bpe_can_ignore_merges_for_whole_pieces)
{
    tiny_vocab tiny = tiny_bpe;
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    ck_assert_str_eq(tiny_plain(vocab, "xyz"), "120 121 122"); /* no merge leads there */
    vklm_vocab_destroy(&vocab);
    tiny.pre = "llama-bpe";
    vocab = tiny_vocab_must_open(&tiny);
    ck_assert_str_eq(tiny_plain(vocab, "xyz"), "264");
    ck_assert_str_eq(tiny_plain(vocab, "xyzx"), "120 121 122 120");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(bpe_ignores_merges_of_what_is_no_token)
{
    static const char *const merges[] = {"a b", "ab c", "b c", "a bc"};
    static const tiny_token tokens[] = {{"abc", 0, 0}, {"bc", 0, 0}};
    const tiny_vocab tiny = {.model = "gpt2",
                             .pre = "gpt-2",
                             .tokens = tokens,
                             .n_tokens = 2,
                             .with_bytes = true,
                             .merges = merges,
                             .n_merges = 4};
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    ck_assert_str_eq(tiny_plain(vocab, "ab"), "97 98");
    ck_assert_str_eq(tiny_plain(vocab, "abc"), "256"); /* by way of "bc": "ab" is no token */
    vklm_vocab_destroy(&vocab);
}
END_TEST

/* Cuts the text into what remains when the pair of least rank merges, again and again; every pair
 * is looked up anew each time. Part i ends at ends[i]. */
static size_t merge_slowly(const char *const *merges, size_t n_merges, const char *text,
                           size_t *ends)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) ends[i] = i + 1;
    for (;;) {
        size_t best = n_merges, at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const size_t begin = i ? ends[i - 1] : 0, middle = ends[i];
            char pair[80];
            snprintf(pair, sizeof pair, "%.*s %.*s", (int)(middle - begin), text + begin,
                     (int)(ends[i + 1] - middle), text + middle);
            for (size_t k = 0; k < best; k++)
                if (strcmp(pair, merges[k]) == 0) {
                    best = k;
                    at = i;
                }
        }
        if (best == n_merges) return n;
        memmove(&ends[at], &ends[at + 1], (n - at - 1) * sizeof *ends);
        n--;
    }
}

START_TEST(bpe_merges_as_a_slow_search_does)
{
    static const char *const merges[] = {"a b",   "b a",   "a a", "ab a", "aa b",  "b b",
                                         "ab ab", "aba b", "c a", "bb c", "ca ab", "c c"};
    static const tiny_token tokens[] = {
        {"ab", 0, 0},   {"ba", 0, 0},  {"aa", 0, 0}, {"aba", 0, 0},  {"aab", 0, 0}, {"bb", 0, 0},
        {"abab", 0, 0}, {"bbc", 0, 0}, {"ca", 0, 0}, {"caab", 0, 0}, {"cc", 0, 0},
    };
    const tiny_vocab tiny = {.model = "gpt2",
                             .pre = "gpt-2",
                             .tokens = tokens,
                             .n_tokens = 11,
                             .with_bytes = true,
                             .merges = merges,
                             .n_merges = 12};
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    uint32_t state = 7;
    for (int round = 0; round < 1000; round++) {
        char text[33] = {0};
        size_t ends[32];
        const size_t len = 1 + state % 32;
        for (size_t i = 0; i < len; i++) {
            text[i] = (char)('a' + (state >> 16) % 3);
            state = state * 1664525u + 1013904223u;
        }
        const size_t n = merge_slowly(merges, 12, text, ends);
        vklm_token ids[32];
        size_t n_ids;
        ck_assert_int_eq(vklm_tokenize(vocab, text, strlen(text), 0, NULL, ids, 32, &n_ids),
                         VKLM_OK);
        ck_assert_uint_eq(n_ids, n);
        for (size_t i = 0; i < n; i++) {
            const vki_string token = vki_vocab_token_text(vocab, ids[i]);
            const size_t begin = i ? ends[i - 1] : 0;
            ck_assert_uint_eq(token.len, ends[i] - begin);
            ck_assert_mem_eq(token.text, text + begin, token.len);
        }
    }
    vklm_vocab_destroy(&vocab);
}
END_TEST

/* ---- Pre-tokenizers
 * ------------------------------------------------------------------------------ */

static const char *split(const char *pre, const char *text)
{
    static char out[512];
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    vki_pretokenizer pretokenizer;
    vki_pieces pieces = {0};
    ck_assert_int_eq(
        vki_pretokenizer_init(&pretokenizer, &host, (vki_string){pre, strlen(pre)}, NULL), VKLM_OK);
    ck_assert_int_eq(vki_pretokenizer_split(&pretokenizer, text, strlen(text), NULL, &pieces),
                     VKLM_OK);
    size_t at = 0, begin = 0;
    for (size_t i = 0; i < pieces.n; begin = pieces.ends[i++])
        at += (size_t)snprintf(out + at, sizeof out - at, i ? "|%.*s" : "%.*s",
                               (int)(pieces.ends[i] - begin), text + begin);
    out[at] = '\0';
    vki_pieces_free(&host, &pieces);
    vki_pretokenizer_free(&pretokenizer);
    return out;
}

START_TEST(each_pre_tokenizer_splits_in_its_way)
{
    static const struct {
        const char *pre, *text, *expected;
    } cases[] = {
        {"llama-bpe", "abc12345", "abc|123|45"},
        {"qwen2", "abc12345", "abc|1|2|3|4|5"},
        {"smollm", "abc12345", "abc|1|2|3|4|5"},
        {"gpt-2", "abc12345", "abc|12345"},
        {"tekken", "abc123", "abc|1|2|3"},
        {"gpt-4o", "abc1234", "abc|123|4"},
        {"deepseek-v3", "abc1234", "abc|123|4"},
        {"deepseek-coder", "abc123", "abc|1|2|3"},
        {"deepseek-llm", "abc123", "abc|123"},
        {"falcon", "abc1234", "abc|123|4"},
        {"default", "abc1234", "abc|123|4"},
        {"llama-bpe", "Hello  world", "Hello| | world"},
        {"qwen2", "Hello  world", "Hello| | world"},
        {"smollm", "Hello  world", "Hello| | world"},
        {"llama-bpe", "a\n\n b", "a|\n\n| b"},
        {"gpt-2", "a\n\n b", "a|\n\n| b"},
        {"llama-bpe", "DON'T", "DON|'T"},
        {"gpt-2", "DON'T", "DON|'|T"},
        {"gpt-2", "don't", "don|'t"},
        {"gpt-4o", "DON'T you'LL", "DON'T| you'LL"},
        {"llama-bpe", "foo();\n", "foo|();\n"},
        {"gpt-2", "foo();\n", "foo|();|\n"},
        {"gpt-4o", "fooBar path/\n", "foo|Bar| path|/\n"},
        {"tekken", "HTMLPage", "HTMLPage"},
        {"tekken", "iPhone", "i|Phone"},
        {"falcon", "a-b", "a|-|b"},
        {"falcon", "`x`", "`|x|`"},
        {"default", "`x`", "`|x|`"},
        {"deepseek-llm", "a  b  ", "a| | b|  "},
        {"deepseek-llm", "x\r\ny", "x|\r|\n|y"},
        {"deepseek-coder", "if (x)", "if| (|x|)"},
        {"deepseek-v3", "a.b", "a|.b"},
        {"qwen35", "e\xCC\x81x", "e\xCC\x81x"}, /* combining acute: in the word */
        {"qwen2", "e\xCC\x81x", "e|\xCC\x81x"}, /* outside, as the word's prefix */
        {"gpt-2", "\xC2\xBD", "\xC2\xBD"},      /* one half is a number */
        {"smollm", "1\xC2\xBD", "1|\xC2\xBD"},
        {"gpt-2",
         "a\xC2\x85"
         "b",
         "a|\xC2\x85|b"}, /* U+0085 is white space */
        {"gpt-2",
         "a\xC2\xA0\xE3\x80\x80"
         "b",
         "a|\xC2\xA0|\xE3\x80\x80|b"},
        {"gpt-2",
         "a \xE1\xA0\x8E"
         "b",
         "a| \xE1\xA0\x8E|b"}, /* U+180E is not */
        {"gpt-2", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *pieces = split(cases[i].pre, cases[i].text);
        ck_assert_msg(strcmp(pieces, cases[i].expected) == 0, "%s on '%s': '%s', not '%s'",
                      cases[i].pre, cases[i].text, pieces, cases[i].expected);
    }
}
END_TEST

START_TEST(every_listed_pre_tokenizer_opens)
{
    static const char *const names[] = {
        "gpt-2",
        "phi-2",
        "mpt",
        "olmo",
        "jais",
        "exaone4",
        "mellum",
        "a.x-4.0",
        "modern-bert",
        "roberta-bpe",
        "granite-docling",
        "trillion",
        "llama-bpe",
        "llama3",
        "llama-v3",
        "falcon3",
        "falcon-h1",
        "pixtral",
        "lfm2",
        "midm-2.0",
        "dbrx",
        "smaug-bpe",
        "chatglm-bpe",
        "glm4",
        "qwen2",
        "deepseek-r1-qwen",
        "megrez",
        "stablelm2",
        "hunyuan",
        "kormo",
        "grok-2",
        "qwen35",
        "smollm",
        "starcoder",
        "refact",
        "command-r",
        "codeshell",
        "exaone",
        "minerva-7b",
        "mellum2",
        "deepseek-llm",
        "deepseek-coder",
        "deepseek-v3",
        "hunyuan-dense",
        "joyai-llm",
        "tekken",
        "gpt-4o",
        "llama4",
        "kanana2",
        "minimax-m2",
        "falcon",
        "default",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_str_eq(split(names[i], "a b"), "a| b");
}
END_TEST

START_TEST(an_unknown_pre_tokenizer_is_refused_by_name)
{
    static const char *const names[] = {"gemma4", "gpt-2 phi-2", "gpt", "", "LLAMA3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tiny_vocab tiny = tiny_bpe;
        tiny.pre = names[i];
        vklm_error error;
        ck_assert_ptr_null(tiny_vocab_open(&tiny, &error));
        ck_assert_int_eq(error.status, VKLM_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.text, names[i]));
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        spm_puts_a_space_before_each_fragment,
        spm_obeys_the_file_about_space_bos_and_eos,
        spm_merges_the_best_pair_first_and_the_leftmost_of_equals,
        spm_falls_back_to_bytes,
        spm_cannot_tell_its_space_mark_from_a_space,
        spm_detokenises_without_the_space_it_added,
        bpe_merges_by_rank_within_pieces,
        bpe_reads_bad_bytes_as_replacement_characters,
        bpe_can_ignore_merges_for_whole_pieces,
        bpe_ignores_merges_of_what_is_no_token,
        bpe_merges_as_a_slow_search_does,
        each_pre_tokenizer_splits_in_its_way,
        every_listed_pre_tokenizer_opens,
        an_unknown_pre_tokenizer_is_refused_by_name,
    };
    return run_tests("tokenizers", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
