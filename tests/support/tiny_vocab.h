/* tiny_vocab.h - vocabularies of a few tokens, opened without a file. */
#ifndef TINY_VOCAB_H
#define TINY_VOCAB_H

#include "gguf_writer.h"
#include "text/vocab.h"

typedef struct tiny_token {
    const char *text; /* as in the file: U+0120 for a space in BPE, U+2581 in SPM */
    int32_t type;     /* 0: normal */
    float score;
} tiny_token;

typedef struct tiny_vocab {
    const char *model, *pre;  /* "gpt2" or "llama"; pre NULL: no key */
    const tiny_token *tokens; /* NULL: only the bytes */
    size_t n_tokens;
    bool with_bytes;           /* 256 tokens for the bytes come first: ids 0 to 255 */
    const char *const *merges; /* NULL in SPM */
    size_t n_merges;
    const char *bos, *eos;            /* texts of tokens, or NULL */
    const char *chat_template, *name; /* NULL: no key */
    void (*put_more)(gguf_writer *w); /* more keys, or NULL */
} tiny_vocab;

/* The file's bytes; the writer owns them. */
gguf_writer *tiny_vocab_write(const tiny_vocab *tiny);

/* NULL and *error where the vocabulary is refused. */
vklm_vocab *tiny_vocab_open(const tiny_vocab *tiny, vklm_error *error);

/* As tiny_vocab_open, over a writer and with a host; frees nothing. */
vklm_status tiny_vocab_read(gguf_writer *w, const vki_host *host, vklm_error *error,
                            vklm_vocab **vocab_out);

/* The same for vocabularies that are sound; fails the test otherwise. */
vklm_vocab *tiny_vocab_must_open(const tiny_vocab *tiny);

/* Ids as text, "1 2 3"; valid until the next call. plain: flags 0, parsed: VKLM_PARSE_SPECIAL. */
const char *tiny_encode(const vklm_vocab *vocab, const char *text, size_t len, unsigned flags);
const char *tiny_plain(const vklm_vocab *vocab, const char *text);
const char *tiny_parsed(const vklm_vocab *vocab, const char *text);

/* Text of the ids, terminated; valid until the next call. */
const char *tiny_decode(const vklm_vocab *vocab, bool show_special, size_t n,
                        const vklm_token *ids);
#define TINY_DECODE(vocab, show, ...)                                                              \
    tiny_decode(vocab, show, sizeof((vklm_token[]){__VA_ARGS__}) / sizeof(vklm_token),             \
                (vklm_token[]){__VA_ARGS__})

/* The vocabularies of the tokenizer tests: SPM with scores, BPE with the bytes and a few merges. */
#define SPM_SPACE "\xE2\x96\x81" /* U+2581 */
#define BPE_SPACE "\xC4\xA0"     /* U+0120, a space in the byte map */
#define BPE_NEWLINE "\xC4\x8A"
enum { UNKNOWN = 2, CONTROL, USER, UNUSED };
extern const tiny_vocab tiny_spm, tiny_bpe;

#endif
