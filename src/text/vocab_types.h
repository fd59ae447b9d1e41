/* vocab_types.h - what a vocabulary is made of, for the files of the text layer only.
 *
 * Texts are stored as the bytes they stand for: the byte map of BPE and the U+2581 of SPM are
 * undone when the file is read. Both tokenizers then work on plain bytes, and showing a token is a
 * lookup. All of it is written by vki_vocab_create alone.
 */
#ifndef VKI_VOCAB_TYPES_H
#define VKI_VOCAB_TYPES_H

#include "text/pretokenize.h"
#include "text/vocab.h"

typedef enum vki_token_type {
    VKI_TOKEN_NORMAL = 1, /* the numbers of the file */
    VKI_TOKEN_UNKNOWN,
    VKI_TOKEN_CONTROL,
    VKI_TOKEN_USER,
    VKI_TOKEN_UNUSED,
    VKI_TOKEN_BYTE,
} vki_token_type;

#define VKI_NO_ID UINT32_MAX

typedef struct vki_merge {
    uint32_t left, right, result; /* ids; its index is its rank */
} vki_merge;

typedef struct vki_special {
    vki_string text;
    vklm_token id;
} vki_special;

struct vklm_vocab {
    vki_host host;
    vki_arena arena; /* holds the texts and tables */

    bool is_bpe, add_bos, add_eos, add_space_prefix;
    bool drops_space_after_special; /* phi-3 */
    vklm_token bos, eos, unknown;   /* -1: none */

    uint32_t n_tokens;
    uint8_t *types; /* vki_token_type of each token */
    bool *ends;     /* whether generation stops at it */

    vki_string *texts;
    uint32_t *text_slots; /* open addressing over the texts that a tokenizer can meet */
    size_t n_text_slots, longest_text;
    uint64_t seed;        /* of their hashes: no file can be made to have them collide */

    uint32_t byte_ids[256]; /* the token that stands for a byte, or VKI_NO_ID */
    char bytes[256];        /* 0, 1, 2 ...: what byte tokens show */

    uint32_t *orders; /* SPM: the order of tokens by score, high scores first */

    vki_merge *merges; /* BPE */
    size_t n_merges;
    uint32_t *merge_slots;
    size_t n_merge_slots;
    vki_pretokenizer pretokenizer;

    vki_special *specials; /* sorted by text; what partition looks for */
    size_t n_specials;
    bool begins_special[256]; /* by first byte */

    const struct vki_chat_family *family; /* NULL: none */
    bool chat_names_bos;                  /* the template mentions bos_token */
};

/* What partition looks for, and what shows its text only on request (user-defined tokens always).
 */
static inline bool vki_is_special(const vklm_vocab *vocab, vklm_token id)
{
    const uint8_t type = vocab->types[id];
    return type == VKI_TOKEN_UNKNOWN || type == VKI_TOKEN_CONTROL || type == VKI_TOKEN_USER;
}

/* The first token with this text among those that can come out of a tokenizer, or VKI_NO_ID. */
uint32_t vki_vocab_find(const vklm_vocab *vocab, const char *text, size_t len);

/* bpe.c: undoes the byte map in place. False, text untouched: it has a character outside the map.
 */
bool vki_bpe_unmap(char *text, size_t *len);
/* Reads what BPE needs beyond the tokens: pre-tokenizer and merges. */
vklm_status vki_bpe_load(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error);

/* spm.c: U+2581 becomes a space; out may be text. Returns the new length. */
size_t vki_spm_unmark(char *out, const char *text, size_t len);
/* Reads what SPM needs beyond the tokens: the scores. */
vklm_status vki_spm_load(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error);

/* special.c: sorts the special tokens. */
vklm_status vki_specials_load(vklm_vocab *vocab, vklm_error *error);

/* chat.c: finds the family of the file's template, if any. */
void vki_chat_detect(vklm_vocab *vocab, vki_string chat_template);

#endif
