/* bpe.c - byte-level byte pair encoding (tokenizer.ggml.model "gpt2"), after GPT-2.
 *
 * GPT-2 writes each byte as one printable character, so that merges can be kept in a text file.
 * That map is undone when the file is read: here a symbol is a run of bytes, and the 256 bytes are
 * the first symbols of every piece. Merges are looked up by a pair of symbols. Merges and texts
 * outside the map are ignored, since no text can reach them.
 */
#include <string.h>

#include "base/checked.h"
#include "text/encode.h"
#include "text/utf8.h"

/* The byte that a character of GPT-2's alphabet stands for; -1: not in the alphabet. The printable
 * bytes of Latin-1 stand for themselves, the other 68 are U+0100 and up in increasing order. */
static int byte_of(uint32_t character)
{
    enum { BELOW_33 = 33, FROM_127_TO_160 = 34, SOFT_HYPHEN = 173 };
    if (character < 256) {
        const bool printable =
            character >= 33 && !(character >= 127 && character <= 160) && character != SOFT_HYPHEN;
        return printable ? (int)character : -1;
    }
    const uint32_t rank = character - 256;
    if (rank < BELOW_33) return (int)rank;
    if (rank < BELOW_33 + FROM_127_TO_160) return (int)(rank - BELOW_33) + 127;
    return rank == BELOW_33 + FROM_127_TO_160 ? SOFT_HYPHEN : -1;
}

/* All of the alphabet has one or two bytes of UTF-8. */
static int next_byte(const char *text, size_t len, size_t *at)
{
    const int length = vki_utf8_char(text + *at, len - *at);
    const uint32_t lead = (uint8_t)text[*at];
    if (length < 1 || length > 2) return -1;
    const uint32_t character =
        length == 1 ? lead : (lead & 0x1F) << 6 | ((uint8_t)text[*at + 1] & 0x3Fu);
    *at += (size_t)length;
    return byte_of(character);
}

bool vki_bpe_unmap(char *text, size_t *len)
{
    for (size_t at = 0; at < *len;)
        if (next_byte(text, *len, &at) < 0) return false;
    size_t written = 0;
    for (size_t at = 0; at < *len;) text[written++] = (char)next_byte(text, *len, &at);
    *len = written;
    return true;
}

/* The slot that holds the pair, or the empty one where it belongs. Slots hold rank + 1. */
static uint32_t *find_slot(const vklm_vocab *vocab, uint32_t left, uint32_t right)
{
    const size_t mask = vocab->n_merge_slots - 1;
    const uint64_t hash =
        ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */
    size_t at = (size_t)(hash ^ hash >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        const uint32_t slot = vocab->merge_slots[at];
        if (slot == 0) break;
        if (vocab->merges[slot - 1].left == left && vocab->merges[slot - 1].right == right) break;
    }
    return &vocab->merge_slots[at];
}

/* One line of the merge table, "left right", the two parted by the first blank that can part them.
 */
static vklm_status load_merge(vklm_vocab *vocab, char *line, size_t len, vki_merge *merge,
                              vklm_error *error)
{
    *merge = (vki_merge){VKI_NO_SYMBOL, VKI_NO_SYMBOL, VKI_NO_SYMBOL};
    char *blank = len > 1 ? memchr(line + 1, ' ', len - 1) : NULL;
    if (!blank) return VKLM_OK;
    size_t n_left = (size_t)(blank - line), n_right = len - n_left - 1;
    if (n_right == 0 || !vki_bpe_unmap(line, &n_left) || !vki_bpe_unmap(blank + 1, &n_right))
        return VKLM_OK;
    memmove(line + n_left, blank + 1, n_right);
    TRY(vki_symbol_intern(vocab, line, n_left, error, &merge->left));
    TRY(vki_symbol_intern(vocab, line + n_left, n_right, error, &merge->right));
    return vki_symbol_intern(vocab, line, n_left + n_right, error, &merge->result);
}

static vklm_status load_merges(vklm_vocab *vocab, const vki_gguf_value *lines, char **line,
                               vklm_error *error)
{
    size_t capacity = 0;
    for (size_t rank = 0; rank < vocab->n_merges; rank++) {
        vki_merge *merge = &vocab->merges[rank];
        const vki_string source = vki_gguf_string_at(lines, rank);
        TRY(vki_grow(&vocab->host, source.len + 1, 1, error, line, &capacity));
        memcpy(*line, source.text, source.len);
        TRY(load_merge(vocab, *line, source.len, merge, error));
        if (merge->result == VKI_NO_SYMBOL) continue;
        uint32_t *slot = find_slot(vocab, merge->left, merge->right);
        if (*slot == 0) *slot = (uint32_t)rank + 1; /* the first of equal lines counts */
    }
    return VKLM_OK;
}

vklm_status vki_bpe_load(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error)
{
    vki_string pre = {"default", strlen("default")};
    bool found = false;
    TRY(vki_gguf_string(gguf, "tokenizer.ggml.pre", error, &pre, &found));
    if (!found)
        vki_log(&vocab->host, VKLM_LOG_WARNING,
                "%s: no tokenizer.ggml.pre; the default pre-tokenizer may not be the model's",
                gguf->path);
    TRY(vki_pretokenizer_init(&vocab->pretokenizer, &vocab->host, pre, error));
    vocab->add_bos = vocab->pretokenizer.add_bos;

    const vki_gguf_value *lines;
    TRY(vki_gguf_array_of(gguf, "tokenizer.ggml.merges", VKI_GGUF_STRINGS, error, &lines));
    if (!lines)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: tokenizer.ggml.merges is missing; a BPE vocabulary needs it",
                        gguf->path);
    if (lines->count > INT32_MAX / 4)
        return vki_fail(error, VKLM_BAD_FILE, "%s: tokenizer.ggml.merges has too many entries",
                        gguf->path);
    vocab->n_merges = (size_t)lines->count;
    vocab->n_merge_slots = 16;
    while (vocab->n_merge_slots < vocab->n_merges + vocab->n_merges / 2) vocab->n_merge_slots *= 2;
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_merges, sizeof *vocab->merges, error,
                        &vocab->merges));
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_merge_slots, sizeof *vocab->merge_slots, error,
                        &vocab->merge_slots));
    char *line = NULL;
    const vklm_status status = load_merges(vocab, lines, &line, error);
    vki_release(&vocab->host, &line);
    for (unsigned i = 0; i < 256; i++) {
        const char byte = (char)i;
        vocab->byte_symbols[i] = vki_symbol_find(vocab, &byte, 1);
    }
    return status;
}

/* Bytes that are no UTF-8 become U+FFFD one by one; valid text is used where it lies. */
static vklm_status make_valid(vki_encoder *encoder, vki_string *text, vklm_error *error)
{
    size_t valid = 0;
    int length = 0;
    while (valid < text->len && (length = vki_utf8_char(text->text + valid, text->len - valid)) > 0)
        valid += (size_t)length;
    if (valid == text->len) return VKLM_OK;

    TRY(vki_grow(&encoder->vocab->host, text->len * VKI_UTF8_REPLACEMENT_BYTES, 1, error,
                 &encoder->clean, &encoder->clean_capacity));
    size_t written = 0;
    for (size_t at = 0; at < text->len;) {
        length = vki_utf8_char(text->text + at, text->len - at);
        const size_t taken = length > 0 ? (size_t)length : 1;
        const size_t n = length > 0 ? taken : VKI_UTF8_REPLACEMENT_BYTES;
        memcpy(encoder->clean + written, length > 0 ? text->text + at : VKI_UTF8_REPLACEMENT, n);
        written += n;
        at += taken;
    }
    *text = (vki_string){encoder->clean, written};
    return VKLM_OK;
}

static bool find_merge(const vklm_vocab *vocab, const char *text, const vki_part *left,
                       const vki_part *right, uint32_t *order, uint32_t *symbol)
{
    (void)text;
    const uint32_t slot = *find_slot(vocab, left->symbol, right->symbol);
    if (slot == 0) return false;
    *order = slot - 1;
    *symbol = vocab->merges[slot - 1].result;
    return true;
}

static void emit_symbol(vki_encoder *encoder, uint32_t symbol)
{
    if (symbol < encoder->vocab->n_tokens) vki_emit(encoder, (vklm_token)symbol);
}

static vklm_status encode_piece(vki_encoder *encoder, const char *piece, size_t len,
                                vklm_error *error)
{
    const vklm_vocab *vocab = encoder->vocab;
    vki_merger *merger = &encoder->merger;
    if (vocab->pretokenizer.ignore_merges) {
        const uint32_t whole = vki_symbol_find(vocab, piece, len);
        if (whole < vocab->n_tokens) {
            emit_symbol(encoder, whole);
            return VKLM_OK;
        }
    }
    merger->n_parts = 0;
    for (size_t i = 0; i < len; i++)
        TRY(vki_merger_add(merger, &vocab->host, (uint32_t)i, 1,
                           vocab->byte_symbols[(uint8_t)piece[i]], error));
    TRY(vki_merger_run(merger, vocab, piece, find_merge, error));
    for (size_t i = 0; i < merger->n_parts; i++) {
        const vki_part part = merger->parts[i];
        /* What merges to no token is given out byte by byte; consistent files have no such merges.
         */
        const bool whole = part.symbol < vocab->n_tokens;
        if (part.len && whole) emit_symbol(encoder, part.symbol);
        for (uint32_t k = 0; k < part.len && !whole; k++)
            emit_symbol(encoder, vocab->byte_symbols[(uint8_t)piece[part.start + k]]);
    }
    return VKLM_OK;
}

vklm_status vki_bpe_encode(vki_encoder *encoder, const char *text, size_t len, vklm_error *error)
{
    vki_string valid = {text, len};
    TRY(make_valid(encoder, &valid, error));
    TRY(vki_pretokenizer_split(&encoder->vocab->pretokenizer, valid.text, valid.len, error,
                               &encoder->pieces));
    for (size_t i = 0, begin = 0; i < encoder->pieces.n; begin = encoder->pieces.ends[i++])
        TRY(encode_piece(encoder, valid.text + begin, encoder->pieces.ends[i] - begin, error));
    return VKLM_OK;
}
