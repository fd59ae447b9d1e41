/* tokenize.c - the public calls that turn text into ids and ids into text.
 *
 * Both count what the whole result needs and write what fits, so a caller may ask for the size
 * first. Detokenising undoes what tokenising added: in an SPM vocabulary the space before each
 * fragment.
 */
#include <string.h>

#include "text/encode.h"

vklm_status vki_text_arguments(const vklm_vocab *vocab, const void *input, size_t n,
                               vklm_error *error, size_t *n_out)
{
    vki_error_clear(error);
    if (n_out) *n_out = 0;
    if (!vocab || !n_out || (n && !input))
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "a NULL in place of the vocabulary, the input or the size of the result");
    return VKLM_OK;
}

vklm_status vklm_tokenize(const vklm_vocab *vocab, const char *text, size_t len, unsigned flags,
                          vklm_error *error, vklm_token *ids, size_t capacity, size_t *n_out)
{
    TRY(vki_text_arguments(vocab, text, len, error, n_out));
    if (flags & ~(unsigned)(VKLM_ADD_SPECIAL | VKLM_PARSE_SPECIAL))
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "vklm_tokenize: unknown flags 0x%x", flags);
    vki_encoder encoder = {.vocab = vocab, .ids = ids, .capacity = ids ? capacity : 0};
    const vki_text whole = {.bytes = text, .len = len, .parse_special = flags & VKLM_PARSE_SPECIAL};
    const bool add = flags & VKLM_ADD_SPECIAL;
    if (add && vocab->add_bos && vocab->bos >= 0) vki_emit(&encoder, vocab->bos);
    const vklm_status status = vki_encode(&encoder, &whole, error);
    if (add && vocab->add_eos && vocab->eos >= 0) vki_emit(&encoder, vocab->eos);
    vki_encoder_free(&encoder);
    TRY(status);
    return vki_encoder_result(&encoder, error, n_out);
}

vklm_status vklm_detokenize(const vklm_vocab *vocab, const vklm_token *ids, size_t n,
                            bool show_special, vklm_error *error, char *text, size_t capacity,
                            size_t *len_out)
{
    TRY(vki_text_arguments(vocab, ids, n, error, len_out));
    size_t len = 0;
    bool begins_fragment = true; /* nothing shown yet, or a special token shown just before */
    for (size_t i = 0; i < n; i++) {
        const vklm_token id = ids[i];
        if (id < 0 || (uint32_t)id >= vocab->n_tokens)
            return vki_fail(error, VKLM_INVALID_ARGUMENT,
                            "token %d at %zu is not in the vocabulary of %u", id, i,
                            vocab->n_tokens);
        const bool special = vki_is_special(vocab, id);
        vki_string piece =
            special && show_special ? vocab->texts[id] : vki_vocab_token_text(vocab, id);
        if (piece.len == 0) continue;
        if (vocab->add_space_prefix && begins_fragment && !special && piece.text[0] == ' ') {
            piece.text++;
            piece.len--;
        }
        begins_fragment = special;
        if (text && len + piece.len <= capacity) memcpy(text + len, piece.text, piece.len);
        len += piece.len;
    }
    *len_out = len;
    if (len > (text ? capacity : 0))
        return vki_fail(error, VKLM_BUFFER_TOO_SMALL, "the text has %zu bytes", len);
    return VKLM_OK;
}
