/* spm.c - SentencePiece's BPE by scores (tokenizer.ggml.model "llama"), after the facts of its
 * papers.
 *
 * The text is one piece: neighbours merge as long as what they make together is a token, the token
 * with the highest score first. U+2581 stands for a space in the file; it was turned into one when
 * the file was read, so a U+2581 in the text is turned into one too. A character that is no token
 * becomes the tokens of its bytes. Merged parts are always tokens, so only characters can be
 * missing.
 */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "file/little.h"
#include "text/encode.h"

static const char space_mark[] = "\xE2\x96\x81"; /* U+2581 */
enum { SPACE_MARK_BYTES = 3 };

size_t vki_spm_unmark(char *out, const char *text, size_t len)
{
    size_t written = 0;
    for (size_t at = 0; at < len;) {
        const bool mark =
            len - at >= SPACE_MARK_BYTES && memcmp(text + at, space_mark, SPACE_MARK_BYTES) == 0;
        out[written++] = mark ? ' ' : text[at];
        at += mark ? SPACE_MARK_BYTES : 1;
    }
    return written;
}

/* High scores first: the bits of a float, made to sort as an unsigned number, and inverted. Adding
 * zero makes -0 equal to 0. */
static uint32_t order_of(float score)
{
    const uint32_t bits = vki_bits_of_float(score + 0.0f);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

vklm_status vki_spm_load(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error)
{
    const vki_gguf_value *scores;
    TRY(vki_gguf_array_of(gguf, "tokenizer.ggml.scores", VKI_GGUF_FLOATS, error, &scores));
    if (scores && scores->count < vocab->n_tokens)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: tokenizer.ggml.scores has %" PRIu64 " entries for %" PRIu32 " tokens",
                        gguf->path, scores->count, vocab->n_tokens);
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_tokens, sizeof *vocab->orders, error, &vocab->orders));
    for (uint32_t id = 0; id < vocab->n_tokens && scores; id++)
        vocab->orders[id] = order_of((float)vki_gguf_float_at(scores, id));
    for (unsigned i = 0; i < 256; i++) {
        const char byte = (char)i;
        if (vocab->byte_ids[i] == VKI_NO_ID) vocab->byte_ids[i] = vki_vocab_find(vocab, &byte, 1);
    }
    return VKLM_OK;
}

/* By the lead byte alone, as SentencePiece does it: it matters for bytes that are no text. */
static size_t promised_length(char lead)
{
    const uint8_t byte = (uint8_t)lead;
    return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

static bool find_pair(const vklm_vocab *vocab, const char *text, const vki_part *left,
                      const vki_part *right, uint32_t *order, uint32_t *id)
{
    *id = vki_vocab_find(vocab, text + left->start, left->len + right->len);
    if (*id == VKI_NO_ID) return false;
    *order = vocab->orders[*id];
    return true;
}

static void emit_part(vki_encoder *encoder, const char *text, const vki_part *part)
{
    const vklm_vocab *vocab = encoder->vocab;
    uint32_t id = part->id;
    if (id == VKI_NO_ID) id = vki_vocab_find(vocab, text + part->start, part->len);
    if (id != VKI_NO_ID) {
        vki_emit(encoder, (vklm_token)id);
        return;
    }
    for (uint32_t i = 0; i < part->len; i++) {
        const uint32_t byte = vocab->byte_ids[(uint8_t)text[part->start + i]];
        if (byte != VKI_NO_ID)
            vki_emit(encoder, (vklm_token)byte);
        else if (vocab->unknown >= 0)
            vki_emit(encoder, vocab->unknown);
    }
}

vklm_status vki_spm_encode(vki_encoder *encoder, const char *text, size_t len, bool add_space,
                           vklm_error *error)
{
    const vklm_vocab *vocab = encoder->vocab;
    vki_merger *merger = &encoder->merger;
    TRY(vki_grow(&vocab->host, len + 1, 1, error, &encoder->clean, &encoder->clean_capacity));
    char *clean = encoder->clean;
    clean[0] = ' ';
    const size_t n = add_space + vki_spm_unmark(clean + add_space, text, len);

    merger->n_parts = 0;
    for (size_t at = 0; at < n;) {
        const size_t length = (size_t)vki_min(promised_length(clean[at]), n - at);
        TRY(vki_merger_add(merger, &vocab->host, (uint32_t)at, (uint32_t)length, VKI_NO_ID, error));
        at += length;
    }
    TRY(vki_merger_run(merger, vocab, clean, find_pair, error));
    for (size_t i = 0; i < merger->n_parts; i++)
        if (merger->parts[i].len) emit_part(encoder, clean, &merger->parts[i]);
    return VKLM_OK;
}
