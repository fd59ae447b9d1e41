/* Vocabularies: reading them, both tokenizers, special tokens, and the way back to text. The
 * expected ids are worked out by hand on vocabularies of a few tokens. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tiny_vocab.h"
#include "text/merge.h"

enum { UNKNOWN = 2, CONTROL, USER, UNUSED };

#define SPACE "\xE2\x96\x81" /* U+2581, SPM's space */
#define BPE_SPACE "\xC4\xA0" /* U+0120, a space in the byte map */
#define BPE_NEWLINE "\xC4\x8A"

/* Ids as text: "1 2 3". */
static const char *encode(const vklm_vocab *vocab, const char *text, size_t len, unsigned flags)
{
    static char line[4096];
    vklm_token ids[512];
    size_t n, at = 0;
    ck_assert_int_eq(vklm_tokenize(vocab, text, len, flags, NULL, ids, 512, &n), VKLM_OK);
    line[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, i ? " %d" : "%d", (int)ids[i]);
    return line;
}

static const char *plain(const vklm_vocab *vocab, const char *text)
{
    return encode(vocab, text, strlen(text), 0);
}

static const char *parsed(const vklm_vocab *vocab, const char *text)
{
    return encode(vocab, text, strlen(text), VKLM_PARSE_SPECIAL);
}

static const char *decode(const vklm_vocab *vocab, bool show_special, size_t n,
                          const vklm_token *ids)
{
    static char text[4096];
    size_t len;
    vklm_error error;
    ck_assert_int_eq(
        vklm_detokenize(vocab, ids, n, show_special, &error, text, sizeof text - 1, &len), VKLM_OK);
    text[len] = '\0';
    return text;
}
#define DECODE(vocab, show, ...)                                                                   \
    decode(vocab, show, sizeof((vklm_token[]){__VA_ARGS__}) / sizeof(vklm_token),                  \
           (vklm_token[]){__VA_ARGS__})

static vklm_vocab *open_tiny(const tiny_vocab *tiny)
{
    vklm_error error = {0};
    vklm_vocab *vocab = tiny_vocab_open(tiny, &error);
    ck_assert_msg(vocab != NULL, "%s", error.text);
    return vocab;
}

/* ---- SPM ---------------------------------------------------------------------------------------
 */

static const tiny_token spm_tokens[] = {
    {"<unk>", UNKNOWN, 0},  {"<s>", CONTROL, 0},    {"</s>", CONTROL, 0}, {SPACE, 0, -10},
    {"H", 0, -11},          {"e", 0, -12},          {"l", 0, -13},        {"o", 0, -14},
    {"i", 0, -15},          {"He", 0, -1},          {"ll", 0, -2},        {"Hell", 0, -3},
    {"Hello", 0, -4},       {SPACE "Hello", 0, -5}, {"Hi", 0, -6},        {SPACE "Hi", 0, -7},
    {"unused", UNUSED, -8},
};
static const tiny_vocab spm = {
    .model = "llama", .tokens = spm_tokens, .n_tokens = 17, .bos = "<s>", .eos = "</s>"};

START_TEST(spm_puts_a_space_before_each_fragment)
{
    vklm_vocab *vocab = open_tiny(&spm);
    ck_assert_uint_eq(vklm_vocab_size(vocab), 17);
    ck_assert_str_eq(plain(vocab, "Hello"), "13");
    ck_assert_str_eq(plain(vocab, ""), "");
    ck_assert_str_eq(parsed(vocab, "<s>Hello</s>Hi"), "1 13 2 15");
    ck_assert_str_eq(parsed(vocab, "<s> Hello"), "1 3 13");
    ck_assert_str_eq(parsed(vocab, "<s></s>"), "1 2");
    ck_assert_str_eq(encode(vocab, "Hi", 2, VKLM_ADD_SPECIAL), "1 15");
    ck_assert_str_eq(encode(vocab, "", 0, VKLM_ADD_SPECIAL), "1");
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
    tiny_vocab tiny = spm;
    tiny.put_more = put_no_space;
    vklm_vocab *vocab = open_tiny(&tiny);
    ck_assert_str_eq(plain(vocab, "Hello"), "12");
    ck_assert_str_eq(plain(vocab, " Hello"), "13");
    ck_assert_str_eq(encode(vocab, "Hi", 2, VKLM_ADD_SPECIAL), "14 2");
    ck_assert_str_eq(DECODE(vocab, false, 13), " Hello");
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
    vklm_vocab *vocab = open_tiny(&tiny);
    ck_assert_str_eq(plain(vocab, "aaa"), "2 0"); /* leftmost */
    ck_assert_str_eq(plain(vocab, "aab"), "4");   /* aa before ab, then aa + b */
    ck_assert_str_eq(plain(vocab, "bab"), "5 1"); /* ba (0) before ab (-2) */
    ck_assert_str_eq(plain(vocab, "bba"), "6 0"); /* -0 and 0 are equal */
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(spm_falls_back_to_bytes)
{
    tiny_vocab tiny = {.model = "llama", .tokens = spm_tokens, .n_tokens = 17, .with_bytes = true};
    vklm_vocab *vocab = open_tiny(&tiny);
    /* "a" and U+00E9 are no tokens here; 256 + 3 is the space. */
    ck_assert_str_eq(plain(vocab, "a"), "259 97");
    ck_assert_str_eq(plain(vocab, "\xC3\xA9"), "259 195 169");
    ck_assert_str_eq(plain(vocab, "\xFF"), "259 255");
    ck_assert_str_eq(encode(vocab, "\0", 1, 0), "259 0");
    ck_assert_str_eq(DECODE(vocab, false, 259, 195, 169), "\xC3\xA9");
    ck_assert_str_eq(DECODE(vocab, false, 195), "\xC3");
    const vki_string text = vki_vocab_token_text(vocab, 195);
    ck_assert_uint_eq(text.len, 1);
    ck_assert_mem_eq(text.text, "\xC3", 1);
    vklm_vocab_destroy(&vocab);

    vocab = open_tiny(&spm); /* no byte tokens: the unknown token, once a byte */
    ck_assert_str_eq(plain(vocab, "\xC3\xA9"), "3 0 0");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(spm_cannot_tell_its_space_mark_from_a_space)
{
    vklm_vocab *vocab = open_tiny(&spm);
    ck_assert_str_eq(plain(vocab, "Hi" SPACE "Hi"), "15 15");
    ck_assert_str_eq(plain(vocab, "Hi Hi"), "15 15");
    ck_assert_str_eq(DECODE(vocab, false, 15, 15), "Hi Hi");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(spm_detokenises_without_the_space_it_added)
{
    vklm_vocab *vocab = open_tiny(&spm);
    ck_assert_str_eq(DECODE(vocab, false, 13), "Hello");
    ck_assert_str_eq(DECODE(vocab, false, 1, 13, 2, 15), "Hello Hi");
    ck_assert_str_eq(DECODE(vocab, true, 1, 13, 2, 15), "<s>Hello</s>Hi");
    ck_assert_str_eq(DECODE(vocab, false, 3, 13), " Hello");
    ck_assert_str_eq(DECODE(vocab, false, 16, 0), "");
    ck_assert_str_eq(DECODE(vocab, true, 16, 0), "<unk>");
    vklm_vocab_destroy(&vocab);
}
END_TEST

/* ---- BPE ---------------------------------------------------------------------------------------
 */

static const tiny_token bpe_tokens[] = {
    {"he", 0, 0},          {"ll", 0, 0},
    {"llo", 0, 0},         {"hello", 0, 0},
    {BPE_SPACE "w", 0, 0}, {"<|end|>", CONTROL, 0},
    {"  ", USER, 0},       {"    ", USER, 0},
    {"xyz", 0, 0},         {BPE_NEWLINE BPE_NEWLINE, 0, 0},
};
static const char *const bpe_merges[] = {
    "h e",
    "l l",
    "ll o",
    "he llo",
    BPE_SPACE " w",
    "q nothing",
    "bad",
    " ",
    BPE_NEWLINE " " BPE_NEWLINE,
};
static const tiny_vocab bpe = {.model = "gpt2",
                               .pre = "gpt-2",
                               .tokens = bpe_tokens,
                               .n_tokens = 10,
                               .with_bytes = true,
                               .merges = bpe_merges,
                               .n_merges = 9};

START_TEST(bpe_merges_by_rank_within_pieces)
{
    vklm_vocab *vocab = open_tiny(&bpe);
    ck_assert_str_eq(plain(vocab, "hello"), "259");
    ck_assert_str_eq(plain(vocab, "hell"), "256 257");
    ck_assert_str_eq(plain(vocab, "lll"), "257 108");
    ck_assert_str_eq(plain(vocab, "hello w"), "259 260");
    ck_assert_str_eq(plain(vocab, "he llo"), "256 32 258");
    ck_assert_str_eq(plain(vocab, "\n\n"), "265");
    ck_assert_str_eq(plain(vocab, "\xC3\xA9"), "195 169");
    ck_assert_str_eq(encode(vocab, "hello", 5, VKLM_ADD_SPECIAL), "259");
    ck_assert_str_eq(encode(vocab, "a\0b", 3, 0), "97 0 98");
    ck_assert_str_eq(DECODE(vocab, false, 259, 260, 195, 169), "hello w\xC3\xA9");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(bpe_reads_bad_bytes_as_replacement_characters)
{
    vklm_vocab *vocab = open_tiny(&bpe);
    ck_assert_str_eq(plain(vocab, "\xFF"), "239 191 189");
    ck_assert_str_eq(plain(vocab, "\xE2\x82z"), "239 191 189 239 191 189 122");
    ck_assert_str_eq(plain(vocab, "\xED\xA0\x80"), "239 191 189 239 191 189 239 191 189");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(bpe_can_ignore_merges_for_whole_pieces)
{
    tiny_vocab tiny = bpe;
    vklm_vocab *vocab = open_tiny(&tiny);
    ck_assert_str_eq(plain(vocab, "xyz"), "120 121 122"); /* no merge leads there */
    vklm_vocab_destroy(&vocab);
    tiny.pre = "llama-bpe";
    vocab = open_tiny(&tiny);
    ck_assert_str_eq(plain(vocab, "xyz"), "264");
    ck_assert_str_eq(plain(vocab, "xyzx"), "120 121 122 120");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(bpe_gives_a_merge_that_is_no_token_byte_by_byte)
{
    static const char *const merges[] = {"a b", "ab c"};
    static const tiny_token tokens[] = {{"abc", 0, 0}};
    const tiny_vocab tiny = {.model = "gpt2",
                             .pre = "gpt-2",
                             .tokens = tokens,
                             .n_tokens = 1,
                             .with_bytes = true,
                             .merges = merges,
                             .n_merges = 2};
    vklm_vocab *vocab = open_tiny(&tiny);
    ck_assert_str_eq(plain(vocab, "abc"), "256"); /* by way of "ab" */
    ck_assert_str_eq(plain(vocab, "ab"), "97 98");
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
    vklm_vocab *vocab = open_tiny(&tiny);
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
        tiny_vocab tiny = bpe;
        tiny.pre = names[i];
        vklm_error error;
        ck_assert_ptr_null(tiny_vocab_open(&tiny, &error));
        ck_assert_int_eq(error.status, VKLM_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.text, names[i]));
    }
}
END_TEST

/* ---- Special tokens
 * ------------------------------------------------------------------------------ */

START_TEST(only_user_defined_tokens_are_found_in_plain_text)
{
    vklm_vocab *vocab = open_tiny(&bpe);
    ck_assert_str_eq(plain(vocab, "a<|end|>"), "97 60 124 101 110 100 124 62");
    ck_assert_str_eq(parsed(vocab, "a<|end|>he"), "97 261 256");
    ck_assert_str_eq(plain(vocab, "a  b"), "97 262 98");
    ck_assert_str_eq(plain(vocab, "a    b"), "97 263 98"); /* the longest */
    ck_assert_str_eq(plain(vocab, "a       b"), "97 263 262 32 98");
    ck_assert_str_eq(parsed(vocab, "<|end|><|en"), "261 60 124 101 110");
    ck_assert_str_eq(DECODE(vocab, false, 97, 262, 261, 98), "a  b");
    ck_assert_str_eq(DECODE(vocab, true, 97, 262, 261, 98), "a  <|end|>b");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(odd_special_tokens_do_no_harm)
{
    static const tiny_token tokens[] = {
        {"", USER, 0},         {"ab", USER, 0}, {"abc", USER, 0},  {"ab", USER, 0},
        {"\xFF\xFE", USER, 0}, {"", 0, 0},      {"c", CONTROL, 0}, {"strange type", 77, 0},
    };
    const tiny_vocab tiny = {
        .model = "gpt2", .pre = "gpt-2", .tokens = tokens, .n_tokens = 8, .with_bytes = true};
    vklm_vocab *vocab = open_tiny(&tiny);
    ck_assert_str_eq(plain(vocab, "abcab"), "258 257");
    ck_assert_str_eq(plain(vocab, "x\xFF\xFEy"), "120 260 121");
    ck_assert_str_eq(DECODE(vocab, true, 256, 261, 258), "abc");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(phi3_drops_the_white_space_behind_special_tokens)
{
    static const tiny_token tokens[] = {
        {"<unk>", UNKNOWN, 0},
        {"<s>", CONTROL, 0},
        {"</s>", CONTROL, 0},
        {SPACE, 0, -1},
        {"a", 0, -2},
        {SPACE "a", 0, -1},
        {"<|user|>", CONTROL, 0},
        {"<|end|>", CONTROL, 0},
    };
    tiny_vocab tiny = {.model = "llama", .tokens = tokens, .n_tokens = 8, .with_bytes = true};
    static const char *const names[] = {"Phi-3 mini", "my-PHI3", "Phi-4"};
    for (size_t i = 0; i < 3; i++) {
        tiny.name = names[i];
        vklm_vocab *vocab = open_tiny(&tiny);
        const bool drops = i < 2;
        ck_assert_str_eq(parsed(vocab, "<|user|>\n\ta<|end|>\n"),
                         drops ? "262 261 263" : "262 259 10 9 260 263 259 10");
        ck_assert_str_eq(parsed(vocab, "<s>\na"), "257 259 10 260");
        vklm_vocab_destroy(&vocab);
    }
}
END_TEST

static void put_add_bos(gguf_writer *w)
{
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
}

START_TEST(bpe_adds_bos_where_the_family_or_the_file_says_so)
{
    tiny_vocab tiny = bpe;
    tiny.bos = "<|end|>";
    static const struct {
        const char *pre, *expected;
        void (*put_more)(gguf_writer *w);
    } cases[] = {
        {"gpt-2", "97", NULL},       {"llama-bpe", "261 97", NULL},    {"tekken", "261 97", NULL},
        {"chatglm-bpe", "97", NULL}, {"gpt-2", "261 97", put_add_bos},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny.pre = cases[i].pre;
        tiny.put_more = cases[i].put_more;
        vklm_vocab *vocab = open_tiny(&tiny);
        ck_assert_str_eq(encode(vocab, "a", 1, VKLM_ADD_SPECIAL), cases[i].expected);
        vklm_vocab_destroy(&vocab);
    }
}
END_TEST

/* ---- End of generation
 * ---------------------------------------------------------------------------- */

static void put_end_ids(gguf_writer *w)
{
    gguf_put_u32(w, "tokenizer.ggml.eot_token_id", 2);
    gguf_put_u32(w, "tokenizer.ggml.fim_pad_token_id", 3);
    gguf_put_i32(w, "tokenizer.ggml.eom_token_id", -1);
}

START_TEST(generation_ends_at_what_the_file_or_the_text_says)
{
    static const tiny_token tokens[] = {
        {"a", 0, 0},
        {"<eos>", CONTROL, 0},
        {"x", 0, 0},
        {"y", 0, 0},
        {"<|im_end|>", USER, 0},
        {"<|end|>", CONTROL, 0},
        {"<|return|>", CONTROL, 0},
        {"<\xEF\xBD\x9C"
         "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
         CONTROL, 0},
        {"<|call|>", CONTROL, 0},
    };
    tiny_vocab tiny = {.model = "gpt2",
                       .pre = "gpt-2",
                       .tokens = tokens,
                       .n_tokens = 8,
                       .eos = "<eos>",
                       .put_more = put_end_ids};
    vklm_vocab *vocab = open_tiny(&tiny);
    static const bool expected[] = {false, true, true, true, true, true, true, true};
    for (vklm_token id = 0; id < 8; id++)
        ck_assert_int_eq(vklm_token_is_end(vocab, id), expected[id]);
    ck_assert(!vklm_token_is_end(vocab, -1));
    ck_assert(!vklm_token_is_end(vocab, 8));
    /* An end token is a control token, whatever the file calls it. */
    ck_assert_str_eq(plain(vocab, "<|im_end|>"), "");
    ck_assert_str_eq(parsed(vocab, "<|im_end|>"), "4");
    vklm_vocab_destroy(&vocab);

    tiny.n_tokens = 9; /* with <|return|> and <|call|>, <|end|> only ends an inner message */
    vocab = open_tiny(&tiny);
    ck_assert(!vklm_token_is_end(vocab, 5));
    ck_assert(vklm_token_is_end(vocab, 6));
    ck_assert(vklm_token_is_end(vocab, 8));
    vklm_vocab_destroy(&vocab);
}
END_TEST

/* ---- The calls
 * -------------------------------------------------------------------------------------- */

START_TEST(a_small_buffer_tells_the_needed_size)
{
    vklm_vocab *vocab = open_tiny(&bpe);
    vklm_token ids[3] = {-7, -7, -7};
    size_t n;
    vklm_error error;
    ck_assert_int_eq(vklm_tokenize(vocab, "abc", 3, 0, &error, NULL, 0, &n), VKLM_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(vklm_tokenize(vocab, "abc", 3, 0, NULL, ids, 2, &n), VKLM_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(ids[2], -7);
    ck_assert_int_eq(vklm_tokenize(vocab, "abc", 3, 0, &error, ids, 3, &n), VKLM_OK);
    ck_assert_int_eq(vklm_tokenize(vocab, NULL, 0, 0, &error, NULL, 0, &n), VKLM_OK);
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(vklm_tokenize(vocab, "a", 1, 8, &error, ids, 3, &n), VKLM_INVALID_ARGUMENT);

    char text[8] = "......";
    ck_assert_int_eq(vklm_detokenize(vocab, ids, 3, false, &error, NULL, 0, &n),
                     VKLM_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(vklm_detokenize(vocab, ids, 3, false, &error, text, 2, &n),
                     VKLM_BUFFER_TOO_SMALL);
    ck_assert_str_eq(text + 2, "....");
    ck_assert_int_eq(vklm_detokenize(vocab, ids, 3, false, &error, text, 3, &n), VKLM_OK);
    ck_assert_str_eq(text, "abc...");
    ids[1] = 266;
    ck_assert_int_eq(vklm_detokenize(vocab, ids, 3, false, &error, text, 8, &n),
                     VKLM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.text, "266"));
    ck_assert_int_eq(vklm_detokenize(vocab, ids, 0, false, &error, NULL, 0, &n), VKLM_OK);
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(any_valid_text_comes_back)
{
    static const char *const words[] = {
        "hello", " ",       "  ", "    ", "\n\n",         "\xC3\xA9",     "\xF0\x9F\x8E\x89",
        "'s",    "<|end|>", "42", "!?",   "\xE3\x80\x80", "\xEF\xBB\xBF", "\r\n",
        "Hi"};
    tiny_vocab with_bytes = spm;
    with_bytes.with_bytes = true;
    const tiny_vocab *const vocabs[] = {&bpe, &with_bytes};
    uint32_t state = 3;
    for (size_t v = 0; v < 2; v++) {
        vklm_vocab *vocab = open_tiny(vocabs[v]);
        for (int round = 0; round < 500; round++) {
            char text[256] = "", back[256];
            vklm_token ids[256];
            size_t n, len;
            for (uint32_t i = 0; i < state % 12; i++) {
                state = state * 1664525u + 1013904223u;
                strcat(text, words[(state >> 16) % 15]);
            }
            ck_assert_int_eq(vklm_tokenize(vocab, text, strlen(text), 0, NULL, ids, 256, &n),
                             VKLM_OK);
            ck_assert_int_eq(vklm_detokenize(vocab, ids, n, true, NULL, back, 255, &len), VKLM_OK);
            back[len] = '\0';
            ck_assert_str_eq(back, text);
            state = state * 1664525u + 1013904223u;
        }
        vklm_vocab_destroy(&vocab);
    }
}
END_TEST

START_TEST(long_runs_take_no_time_to_speak_of)
{
    enum { N = 1000000 };
    static const char *const pres[] = {"gpt-2",       "llama-bpe", "deepseek-llm",
                                       "deepseek-v3", "tekken",    "falcon"};
    static const char bytes[] = "a \n7!\xFF'A";
    char *text = malloc(N + 1);
    vklm_token *ids = malloc(3 * (N + 1) * sizeof *ids);
    ck_assert(text && ids);
    for (size_t v = 0; v < 7; v++) {
        tiny_vocab tiny = v < 6 ? bpe : spm;
        if (v < 6) tiny.pre = pres[v];
        vklm_vocab *vocab = open_tiny(&tiny);
        for (size_t i = 0; i + 1 < sizeof bytes; i++) {
            size_t n;
            memset(text, bytes[i], N);
            text[N] = '5'; /* the run does not end the text */
            ck_assert_int_eq(vklm_tokenize(vocab, text, N + 1, 0, NULL, ids, 3 * (N + 1), &n),
                             VKLM_OK);
            ck_assert_uint_gt(n, 0);
        }
        vklm_vocab_destroy(&vocab);
    }
    free(text);
    free(ids);
}
END_TEST

/* ---- Files
 * -------------------------------------------------------------------------------------------- */

static vklm_status read_with(gguf_writer *w, vklm_error *error, vklm_vocab **vocab)
{
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    const vklm_status status = tiny_vocab_read(w, &host, error, vocab);
    gguf_writer_free(w);
    return status;
}

START_TEST(a_file_without_a_tokenizer_gives_none)
{
    static const char *const models[] = {NULL, "none", "no_vocab"};
    for (size_t i = 0; i < 3; i++) {
        gguf_writer *w = gguf_writer_new();
        if (models[i]) gguf_put_string(w, "tokenizer.ggml.model", models[i]);
        vklm_vocab *vocab;
        ck_assert_int_eq(read_with(w, NULL, &vocab), VKLM_OK);
        ck_assert_ptr_null(vocab);
    }
}
END_TEST

START_TEST(other_tokenizers_are_refused_by_name)
{
    static const char *const models[] = {"bert", "t5", "rwkv", "plamo2", "llama2", ""};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        tiny_vocab tiny = spm;
        tiny.model = models[i];
        vklm_error error;
        ck_assert_ptr_null(tiny_vocab_open(&tiny, &error));
        ck_assert_int_eq(error.status, VKLM_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.text, models[i]));
    }
}
END_TEST

START_TEST(tables_that_do_not_fit_are_refused)
{
    static const char *const two[] = {"a", "b"};
    vklm_error error;
    vklm_vocab *vocab;
    for (int fault = 0; fault < 6; fault++) {
        static const char *const named[] = {"tokens", "merges", "token_type",
                                            "scores", "tokens", "pre"};
        gguf_writer *w = gguf_writer_new();
        gguf_put_string(w, "tokenizer.ggml.model", fault == 3 ? "llama" : "gpt2");
        if (fault == 5)
            gguf_put_u32(w, "tokenizer.ggml.pre", 1);
        else
            gguf_put_string(w, "tokenizer.ggml.pre", "gpt-2");
        if (fault == 4) gguf_put_u32(w, "tokenizer.ggml.tokens", 1);
        if (fault != 0 && fault != 4) gguf_put_strings(w, "tokenizer.ggml.tokens", 2, two);
        if (fault != 1) gguf_put_strings(w, "tokenizer.ggml.merges", 0, NULL);
        if (fault == 2) gguf_put_i32s(w, "tokenizer.ggml.token_type", 1, (int32_t[]){1});
        if (fault == 3) gguf_put_f32s(w, "tokenizer.ggml.scores", 1, (float[]){1});
        ck_assert_int_eq(read_with(w, &error, &vocab), VKLM_BAD_FILE);
        ck_assert_ptr_null(vocab);
        ck_assert_msg(strstr(error.text, named[fault]) != NULL, "%s", error.text);
        ck_assert_ptr_nonnull(strstr(error.text, "tiny.gguf"));
    }
}
END_TEST

static void count_line(void *user, vklm_log_level level, const char *line)
{
    ck_assert_int_eq(level, VKLM_LOG_WARNING);
    ck_assert_uint_gt(strlen(line), 0);
    ++*(int *)user;
}

static void put_wild_ids(gguf_writer *w)
{
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1000000);
    gguf_put_i32(w, "tokenizer.ggml.eos_token_id", -1);
    gguf_put_string(w, "tokenizer.ggml.unknown_token_id", "x");
}

START_TEST(ids_out_of_range_are_ignored_with_a_warning)
{
    tiny_vocab tiny = {
        .model = "llama", .tokens = spm_tokens, .n_tokens = 17, .put_more = put_wild_ids};
    int lines = 0;
    vki_host host;
    vki_host_init(&host, NULL, &(vklm_log){count_line, &lines});
    gguf_writer *w = tiny_vocab_write(&tiny);
    vklm_vocab *vocab;
    ck_assert_int_eq(tiny_vocab_read(w, &host, NULL, &vocab), VKLM_OK);
    ck_assert_int_ge(lines, 2);
    ck_assert_str_eq(encode(vocab, "Hi", 2, VKLM_ADD_SPECIAL), "15");
    vklm_vocab_destroy(&vocab);
    gguf_writer_free(w);
}
END_TEST

START_TEST(an_empty_vocabulary_says_nothing)
{
    static const tiny_vocab empty[] = {{.model = "llama"}, {.model = "gpt2", .pre = "llama-bpe"}};
    for (size_t i = 0; i < 2; i++) {
        vklm_vocab *vocab = open_tiny(&empty[i]);
        ck_assert_uint_eq(vklm_vocab_size(vocab), 0);
        ck_assert_str_eq(encode(vocab, "Hello <s>", 9, VKLM_ADD_SPECIAL | VKLM_PARSE_SPECIAL), "");
        vklm_vocab_destroy(&vocab);
    }
}
END_TEST

START_TEST(a_vocabulary_opens_from_a_path)
{
    const char *path = "test_vocab_tiny.gguf";
    gguf_writer *w = tiny_vocab_write(&bpe);
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
    vklm_vocab_params params = {.struct_size = sizeof params, .path = path};
    vklm_error error;
    vklm_vocab *vocab;
    ck_assert_int_eq(vklm_vocab_open(&params, &error, &vocab), VKLM_OK);
    remove(path); /* nothing of the file is used any more */
    ck_assert_str_eq(plain(vocab, "hello"), "259");
    vklm_vocab_destroy(&vocab);

    ck_assert_int_eq(vklm_vocab_open(&params, &error, &vocab), VKLM_IO_ERROR);
    ck_assert_ptr_null(vocab);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    ck_assert_int_eq(vklm_vocab_open(NULL, &error, &vocab), VKLM_INVALID_ARGUMENT);
    params.path = NULL;
    ck_assert_int_eq(vklm_vocab_open(&params, &error, &vocab), VKLM_INVALID_ARGUMENT);

    w = gguf_writer_new();
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
    params.path = path;
    ck_assert_int_eq(vklm_vocab_open(&params, &error, &vocab), VKLM_UNSUPPORTED);
    remove(path);
}
END_TEST

/* ---- Memory
 * ---------------------------------------------------------------------------------------- */

struct ration {
    int left, live; /* allocations until one fails; allocations not yet freed */
    bool failed;
};

static void *rationed(void *user, void *pointer, size_t size_bytes)
{
    struct ration *ration = user;
    if (size_bytes == 0) {
        ration->live -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (ration->left-- == 0) {
        ration->failed = true;
        return NULL;
    }
    void *memory = realloc(pointer, size_bytes);
    ration->live += memory && !pointer;
    return memory;
}

static vklm_status open_and_use(gguf_writer *w, const vki_host *host)
{
    vklm_vocab *vocab;
    vklm_error error;
    TRY(tiny_vocab_read(w, host, &error, &vocab));
    static const char text[] = "hello \xFF w 123<|end|>  world\n\nHi";
    vklm_token ids[128];
    size_t n;
    vklm_status status = vklm_tokenize(vocab, text, strlen(text), 3, &error, ids, 128, &n);
    const vklm_message ask = {"user", "hello"};
    if (status == VKLM_OK) status = vklm_chat_tokenize(vocab, &ask, 1, &error, ids, 128, &n);
    if (status != VKLM_OK) ck_assert_uint_eq(n, 0);
    vklm_vocab_destroy(&vocab);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    tiny_vocab tiny[] = {bpe, spm};
    tiny[0].pre = "deepseek-llm";
    tiny[0].chat_template = tiny[1].chat_template = "<|im_start|><|im_end|>";
    for (size_t v = 0; v < 2; v++) {
        gguf_writer *w = tiny_vocab_write(&tiny[v]);
        bool failed = true;
        for (int k = 0; failed; k++) {
            struct ration ration = {.left = k};
            vki_host host;
            vki_host_init(&host, &(vklm_allocator){rationed, &ration}, NULL);
            const vklm_status status = open_and_use(w, &host);
            failed = ration.failed;
            /* PCRE2's JIT may go without; everything else says so. */
            if (!failed)
                ck_assert_int_eq(status, VKLM_OK);
            else
                ck_assert(status == VKLM_OUT_OF_MEMORY || status == VKLM_OK);
            ck_assert_int_eq(ration.live, 0);
        }
        gguf_writer_free(w);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vocab");
    TCase *c = tcase_create("vocab");
    tcase_set_timeout(c, 0);
    tcase_add_test(c, spm_puts_a_space_before_each_fragment);
    tcase_add_test(c, spm_obeys_the_file_about_space_bos_and_eos);
    tcase_add_test(c, spm_merges_the_best_pair_first_and_the_leftmost_of_equals);
    tcase_add_test(c, spm_falls_back_to_bytes);
    tcase_add_test(c, spm_cannot_tell_its_space_mark_from_a_space);
    tcase_add_test(c, spm_detokenises_without_the_space_it_added);
    tcase_add_test(c, bpe_merges_by_rank_within_pieces);
    tcase_add_test(c, bpe_reads_bad_bytes_as_replacement_characters);
    tcase_add_test(c, bpe_can_ignore_merges_for_whole_pieces);
    tcase_add_test(c, bpe_gives_a_merge_that_is_no_token_byte_by_byte);
    tcase_add_test(c, bpe_merges_as_a_slow_search_does);
    tcase_add_test(c, each_pre_tokenizer_splits_in_its_way);
    tcase_add_test(c, every_listed_pre_tokenizer_opens);
    tcase_add_test(c, an_unknown_pre_tokenizer_is_refused_by_name);
    tcase_add_test(c, only_user_defined_tokens_are_found_in_plain_text);
    tcase_add_test(c, odd_special_tokens_do_no_harm);
    tcase_add_test(c, phi3_drops_the_white_space_behind_special_tokens);
    tcase_add_test(c, bpe_adds_bos_where_the_family_or_the_file_says_so);
    tcase_add_test(c, generation_ends_at_what_the_file_or_the_text_says);
    tcase_add_test(c, a_small_buffer_tells_the_needed_size);
    tcase_add_test(c, any_valid_text_comes_back);
    tcase_add_test(c, long_runs_take_no_time_to_speak_of);
    tcase_add_test(c, a_file_without_a_tokenizer_gives_none);
    tcase_add_test(c, other_tokenizers_are_refused_by_name);
    tcase_add_test(c, tables_that_do_not_fit_are_refused);
    tcase_add_test(c, ids_out_of_range_are_ignored_with_a_warning);
    tcase_add_test(c, an_empty_vocabulary_says_nothing);
    tcase_add_test(c, a_vocabulary_opens_from_a_path);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
