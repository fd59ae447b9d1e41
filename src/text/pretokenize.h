/* pretokenize.h - cuts text into the pieces that BPE merges within, by the patterns of a model
 * family. */
#ifndef VKI_PRETOKENIZE_H
#define VKI_PRETOKENIZE_H

#include "file/gguf.h"

enum { VKI_MAX_PATTERNS = 6 };

typedef struct vki_pretokenizer {
    const vki_host *host; /* borrowed */
    bool ignore_merges;   /* a whole piece that is a token is that token */
    bool add_bos;         /* unless the file says otherwise */
    size_t n_patterns;
    struct pcre2_real_code_8 *patterns[VKI_MAX_PATTERNS]; /* owned, as all below */
    struct pcre2_real_general_context_8 *memory;
    struct pcre2_real_match_context_8 *limits;
} vki_pretokenizer;

/* name: the value of tokenizer.ggml.pre. UNSUPPORTED names an unknown one. host must outlive it. */
vklm_status vki_pretokenizer_init(vki_pretokenizer *pretokenizer, const vki_host *host,
                                  vki_string name, vklm_error *error);

/* Safe on a zeroed one. */
void vki_pretokenizer_free(vki_pretokenizer *pretokenizer);

/* The result of a split, and what is reused from one to the next. Zero it before the first. */
typedef struct vki_pieces {
    uint32_t *ends; /* owned: where each piece ends; it begins where the one before ended */
    size_t n, capacity;
    uint32_t *spare;
    size_t spare_capacity;
    struct pcre2_real_match_data_8 *match; /* owned */
} vki_pieces;

/* text: valid UTF-8, len at most UINT32_MAX. Linear in len. */
vklm_status vki_pretokenizer_split(const vki_pretokenizer *pretokenizer, const char *text,
                                   size_t len, vklm_error *error, vki_pieces *pieces);

/* Safe on zeroed pieces. */
void vki_pieces_free(const vki_host *host, vki_pieces *pieces);

#endif
