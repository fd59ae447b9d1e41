/* tiny_vocab.c - writes the tokenizer keys of a GGUF file and reads them back through the library.
 */
#include "tiny_vocab.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of a byte's token: GPT-2's printable character, or "<0x41>". */
static void write_byte_token(bool is_bpe, unsigned byte, char *text)
{
    if (!is_bpe) {
        sprintf(text, "<0x%02X>", byte);
        return;
    }
    unsigned code = byte, rank = 0;
    for (unsigned b = 0; b <= byte; b++) {
        const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        code = printable ? b : 256 + rank++;
    }
    if (code < 128)
        sprintf(text, "%c", (int)code);
    else
        sprintf(text, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 0x3F)));
}

static void put_id(gguf_writer *w, const tiny_vocab *tiny, const char *key, const char *text)
{
    for (size_t i = 0; text && i < tiny->n_tokens; i++)
        if (strcmp(tiny->tokens[i].text, text) == 0)
            gguf_put_u32(w, key, (uint32_t)(i + (tiny->with_bytes ? 256 : 0)));
}

gguf_writer *tiny_vocab_write(const tiny_vocab *tiny)
{
    enum { NORMAL = 1, BYTE = 6 };
    const bool is_bpe = strcmp(tiny->model, "gpt2") == 0;
    const size_t n_bytes = tiny->with_bytes ? 256 : 0, n = n_bytes + tiny->n_tokens;
    char bytes[256][8];
    const char **texts = calloc(n + 1, sizeof *texts);
    int32_t *types = calloc(n + 1, sizeof *types);
    float *scores = calloc(n + 1, sizeof *scores);
    if (!texts || !types || !scores) abort();
    for (size_t i = 0; i < n; i++) {
        if (i < n_bytes) {
            write_byte_token(is_bpe, (unsigned)i, bytes[i]);
            texts[i] = bytes[i];
            types[i] = is_bpe ? NORMAL : BYTE;
        } else {
            const tiny_token token = tiny->tokens[i - n_bytes];
            texts[i] = token.text;
            types[i] = token.type ? token.type : NORMAL;
            scores[i] = token.score;
        }
    }
    gguf_writer *w = gguf_writer_new();
    if (tiny->name) gguf_put_string(w, "general.name", tiny->name);
    gguf_put_string(w, "tokenizer.ggml.model", tiny->model);
    if (tiny->pre) gguf_put_string(w, "tokenizer.ggml.pre", tiny->pre);
    gguf_put_strings(w, "tokenizer.ggml.tokens", n, texts);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", n, types);
    if (!is_bpe) gguf_put_f32s(w, "tokenizer.ggml.scores", n, scores);
    if (is_bpe) gguf_put_strings(w, "tokenizer.ggml.merges", tiny->n_merges, tiny->merges);
    put_id(w, tiny, "tokenizer.ggml.bos_token_id", tiny->bos);
    put_id(w, tiny, "tokenizer.ggml.eos_token_id", tiny->eos);
    if (tiny->chat_template) gguf_put_string(w, "tokenizer.chat_template", tiny->chat_template);
    if (tiny->put_more) tiny->put_more(w);
    free(texts);
    free(types);
    free(scores);
    return w;
}

vklm_status tiny_vocab_read(gguf_writer *w, const vki_host *host, vklm_error *error,
                            vklm_vocab **vocab_out)
{
    *vocab_out = NULL;
    vki_gguf gguf;
    vklm_status status = gguf_writer_open(w, host, error, &gguf);
    if (status == VKLM_OK) status = vki_vocab_create(&gguf, host, error, vocab_out);
    vki_gguf_close(&gguf);
    return status;
}

vklm_vocab *tiny_vocab_open(const tiny_vocab *tiny, vklm_error *error)
{
    vki_host host;
    vki_host_init(&host, NULL, NULL);
    vklm_vocab *vocab;
    gguf_writer *w = tiny_vocab_write(tiny);
    tiny_vocab_read(w, &host, error, &vocab);
    gguf_writer_free(w);
    return vocab;
}

const char *tiny_encode(const vklm_vocab *vocab, const char *text, size_t len, unsigned flags)
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

const char *tiny_plain(const vklm_vocab *vocab, const char *text)
{
    return tiny_encode(vocab, text, strlen(text), 0);
}

const char *tiny_parsed(const vklm_vocab *vocab, const char *text)
{
    return tiny_encode(vocab, text, strlen(text), VKLM_PARSE_SPECIAL);
}

const char *tiny_decode(const vklm_vocab *vocab, bool show_special, size_t n, const vklm_token *ids)
{
    static char text[4096];
    size_t len;
    vklm_error error;
    ck_assert_int_eq(
        vklm_detokenize(vocab, ids, n, show_special, &error, text, sizeof text - 1, &len), VKLM_OK);
    text[len] = '\0';
    return text;
}

vklm_vocab *tiny_vocab_must_open(const tiny_vocab *tiny)
{
    vklm_error error = {0};
    vklm_vocab *vocab = tiny_vocab_open(tiny, &error);
    ck_assert_msg(vocab != NULL, "%s", error.text);
    return vocab;
}

static const tiny_token spm_tokens[] = {
    {"<unk>", UNKNOWN, 0},  {"<s>", CONTROL, 0},
    {"</s>", CONTROL, 0},   {SPM_SPACE, 0, -10},
    {"H", 0, -11},          {"e", 0, -12},
    {"l", 0, -13},          {"o", 0, -14},
    {"i", 0, -15},          {"He", 0, -1},
    {"ll", 0, -2},          {"Hell", 0, -3},
    {"Hello", 0, -4},       {SPM_SPACE "Hello", 0, -5},
    {"Hi", 0, -6},          {SPM_SPACE "Hi", 0, -7},
    {"unused", UNUSED, -8},
};
const tiny_vocab tiny_spm = {
    .model = "llama", .tokens = spm_tokens, .n_tokens = 17, .bos = "<s>", .eos = "</s>"};

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
const tiny_vocab tiny_bpe = {.model = "gpt2",
                             .pre = "gpt-2",
                             .tokens = bpe_tokens,
                             .n_tokens = 10,
                             .with_bytes = true,
                             .merges = bpe_merges,
                             .n_merges = 9};
