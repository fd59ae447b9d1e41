/* Vocabularies: reading them, special tokens, ends of generation, the calls, and failing memory. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"
#include "support/test_memory.h"
#include "support/tiny_vocab.h"

/* ---- Special tokens
 * ------------------------------------------------------------------------------ */

START_TEST(only_user_defined_tokens_are_found_in_plain_text)
{
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny_bpe);
    ck_assert_str_eq(tiny_plain(vocab, "a<|end|>"), "97 60 124 101 110 100 124 62");
    ck_assert_str_eq(tiny_parsed(vocab, "a<|end|>he"), "97 261 256");
    ck_assert_str_eq(tiny_plain(vocab, "a  b"), "97 262 98");
    ck_assert_str_eq(tiny_plain(vocab, "a    b"), "97 263 98"); /* the longest */
    ck_assert_str_eq(tiny_plain(vocab, "a       b"), "97 263 262 32 98");
    ck_assert_str_eq(tiny_parsed(vocab, "<|end|><|en"), "261 60 124 101 110");
    ck_assert_str_eq(TINY_DECODE(vocab, false, 97, 262, 261, 98), "a  b");
    ck_assert_str_eq(TINY_DECODE(vocab, true, 97, 262, 261, 98), "a  <|end|>b");
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
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    ck_assert_str_eq(tiny_plain(vocab, "abcab"), "258 257");
    ck_assert_str_eq(tiny_plain(vocab, "x\xFF\xFEy"), "120 260 121");
    ck_assert_str_eq(TINY_DECODE(vocab, true, 256, 261, 258), "abc");
    vklm_vocab_destroy(&vocab);
}
END_TEST

START_TEST(phi3_drops_the_white_space_behind_special_tokens)
{
    static const tiny_token tokens[] = {
        {"<unk>", UNKNOWN, 0},
        {"<s>", CONTROL, 0},
        {"</s>", CONTROL, 0},
        {SPM_SPACE, 0, -1},
        {"a", 0, -2},
        {SPM_SPACE "a", 0, -1},
        {"<|user|>", CONTROL, 0},
        {"<|end|>", CONTROL, 0},
    };
    tiny_vocab tiny = {.model = "llama", .tokens = tokens, .n_tokens = 8, .with_bytes = true};
    static const char *const names[] = {"Phi-3 mini", "my-PHI3", "Phi-4"};
    for (size_t i = 0; i < 3; i++) {
        tiny.name = names[i];
        vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
        const bool drops = i < 2;
        ck_assert_str_eq(tiny_parsed(vocab, "<|user|>\n\ta<|end|>\n"),
                         drops ? "262 261 263" : "262 259 10 9 260 263 259 10");
        ck_assert_str_eq(tiny_parsed(vocab, "<s>\na"), "257 259 10 260");
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
    tiny_vocab tiny = tiny_bpe;
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
        vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
        ck_assert_str_eq(tiny_encode(vocab, "a", 1, VKLM_ADD_SPECIAL), cases[i].expected);
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
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
    static const bool expected[] = {false, true, true, true, true, true, true, true};
    for (vklm_token id = 0; id < 8; id++)
        ck_assert_int_eq(vklm_token_is_end(vocab, id), expected[id]);
    ck_assert(!vklm_token_is_end(vocab, -1));
    ck_assert(!vklm_token_is_end(vocab, 8));
    /* An end token is a control token, whatever the file calls it. */
    ck_assert_str_eq(tiny_plain(vocab, "<|im_end|>"), "");
    ck_assert_str_eq(tiny_parsed(vocab, "<|im_end|>"), "4");
    vklm_vocab_destroy(&vocab);

    tiny.n_tokens = 9; /* with <|return|> and <|call|>, <|end|> only ends an inner message */
    vocab = tiny_vocab_must_open(&tiny);
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
    vklm_vocab *vocab = tiny_vocab_must_open(&tiny_bpe);
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
    tiny_vocab with_bytes = tiny_spm;
    with_bytes.with_bytes = true;
    const tiny_vocab *const vocabs[] = {&tiny_bpe, &with_bytes};
    uint32_t state = 3;
    for (size_t v = 0; v < 2; v++) {
        vklm_vocab *vocab = tiny_vocab_must_open(vocabs[v]);
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
        tiny_vocab tiny = v < 6 ? tiny_bpe : tiny_spm;
        if (v < 6) tiny.pre = pres[v];
        vklm_vocab *vocab = tiny_vocab_must_open(&tiny);
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
        tiny_vocab tiny = tiny_spm;
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
    tiny_vocab tiny = {.model = "llama",
                       .tokens = tiny_spm.tokens,
                       .n_tokens = tiny_spm.n_tokens,
                       .put_more = put_wild_ids};
    int lines = 0;
    vki_host host;
    vki_host_init(&host, NULL, &(vklm_log){count_line, &lines});
    gguf_writer *w = tiny_vocab_write(&tiny);
    vklm_vocab *vocab;
    ck_assert_int_eq(tiny_vocab_read(w, &host, NULL, &vocab), VKLM_OK);
    ck_assert_int_ge(lines, 2);
    ck_assert_str_eq(tiny_encode(vocab, "Hi", 2, VKLM_ADD_SPECIAL), "15");
    vklm_vocab_destroy(&vocab);
    gguf_writer_free(w);
}
END_TEST

START_TEST(an_empty_vocabulary_says_nothing)
{
    static const tiny_vocab empty[] = {{.model = "llama"}, {.model = "gpt2", .pre = "llama-bpe"}};
    for (size_t i = 0; i < 2; i++) {
        vklm_vocab *vocab = tiny_vocab_must_open(&empty[i]);
        ck_assert_uint_eq(vklm_vocab_size(vocab), 0);
        ck_assert_str_eq(tiny_encode(vocab, "Hello <s>", 9, VKLM_ADD_SPECIAL | VKLM_PARSE_SPECIAL),
                         "");
        vklm_vocab_destroy(&vocab);
    }
}
END_TEST

START_TEST(a_vocabulary_opens_from_a_path)
{
    const char *path = "test_vocab_tiny.gguf";
    gguf_writer *w = tiny_vocab_write(&tiny_bpe);
    ck_assert(gguf_writer_save(w, path));
    gguf_writer_free(w);
    vklm_vocab_params params = {.struct_size = sizeof params, .path = path};
    vklm_error error;
    vklm_vocab *vocab;
    ck_assert_int_eq(vklm_vocab_open(&params, &error, &vocab), VKLM_OK);
    remove(path); /* nothing of the file is used any more */
    ck_assert_str_eq(tiny_plain(vocab, "hello"), "259");
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
    tiny_vocab tiny[] = {tiny_bpe, tiny_spm};
    tiny[0].pre = "deepseek-llm";
    tiny[0].chat_template = tiny[1].chat_template = "<|im_start|><|im_end|>";
    for (size_t v = 0; v < 2; v++) {
        gguf_writer *w = tiny_vocab_write(&tiny[v]);
        bool failed = true;
        for (size_t k = 1; failed; k++) {
            test_memory heap = {.fail_at = k};
            const vklm_allocator allocator = test_allocator(&heap);
            vki_host host;
            vki_host_init(&host, &allocator, NULL);
            const vklm_status status = open_and_use(w, &host);
            failed = heap.n_calls >= k;
            /* PCRE2's JIT may go without; everything else says so. */
            if (!failed)
                ck_assert_int_eq(status, VKLM_OK);
            else
                ck_assert(status == VKLM_OUT_OF_MEMORY || status == VKLM_OK);
            ck_assert_uint_eq(heap.n_live, 0);
        }
        gguf_writer_free(w);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        only_user_defined_tokens_are_found_in_plain_text,
        odd_special_tokens_do_no_harm,
        phi3_drops_the_white_space_behind_special_tokens,
        bpe_adds_bos_where_the_family_or_the_file_says_so,
        generation_ends_at_what_the_file_or_the_text_says,
        a_small_buffer_tells_the_needed_size,
        any_valid_text_comes_back,
        long_runs_take_no_time_to_speak_of,
        a_file_without_a_tokenizer_gives_none,
        other_tokenizers_are_refused_by_name,
        tables_that_do_not_fit_are_refused,
        ids_out_of_range_are_ignored_with_a_warning,
        an_empty_vocabulary_says_nothing,
        a_vocabulary_opens_from_a_path,
        every_allocation_may_fail,
    };
    return run_tests("vocab", NULL, NULL, tests, sizeof tests / sizeof *tests);
}
