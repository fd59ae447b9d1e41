/* encode.h - text to ids: partition at special tokens, then BPE or SPM on what lies between. */
#ifndef VKI_ENCODE_H
#define VKI_ENCODE_H

#include "text/merge.h"

typedef struct vki_span {
    size_t begin, end;
} vki_span;

typedef struct vki_text {
    const char *bytes;
    size_t len;
    bool parse_special; /* control tokens are recognised, but not inside or across a quoted span */
    const vki_span *quoted; /* ascending; what came from a person or a model */
    size_t n_quoted;
} vki_text;

/* Where ids go, and the memory that is reused from one fragment to the next. Initialise vocab, ids
 * and capacity, zero the rest. */
typedef struct vki_encoder {
    const vklm_vocab *vocab;
    vklm_token *ids;    /* borrowed */
    size_t capacity, n; /* n counts on where the ids no longer fit */
    char *clean;        /* owned, as below: the fragment as the tokenizer wants it */
    size_t clean_capacity;
    vki_pieces pieces;
    vki_merger merger;
} vki_encoder;

void vki_encoder_free(vki_encoder *encoder);

/* Appends one id. */
void vki_emit(vki_encoder *encoder, vklm_token id);

/* What the public calls need: a vocabulary, n elements of input, and a place for the size of the
 * result, which becomes 0. */
vklm_status vki_text_arguments(const vklm_vocab *vocab, const void *input, size_t n,
                               vklm_error *error, size_t *n_out);

/* The number of ids into *n_out; BUFFER_TOO_SMALL where they did not fit. */
vklm_status vki_encoder_result(const vki_encoder *encoder, vklm_error *error, size_t *n_out);

/* special.c */
vklm_status vki_encode(vki_encoder *encoder, const vki_text *text, vklm_error *error);

/* bpe.c, spm.c: one fragment without special tokens. */
vklm_status vki_bpe_encode(vki_encoder *encoder, const char *text, size_t len, vklm_error *error);
vklm_status vki_spm_encode(vki_encoder *encoder, const char *text, size_t len, bool add_space,
                           vklm_error *error);

#endif
