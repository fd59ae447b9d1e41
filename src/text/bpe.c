/* bpe.c - byte-level byte pair encoding (tokenizer.ggml.model "gpt2"), after GPT-2.
 *
 * GPT-2 writes each byte as one printable character, so that merges can be kept in a text file.
 * That map is undone when the file is read: tokens are runs of bytes, a piece begins as the tokens
 * of its bytes, and merges are looked up by a pair of ids. Merges that name what is no token are
 * ignored, and so are texts outside the map: no text of a user's leads there.
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
 * False where it joins no two tokens to a third. */
static bool parse_merge(const vklm_vocab *vocab, char *line, size_t len, vki_merge *merge)
{
    char *blank = len > 1 ? memchr(line + 1, ' ', len - 1) : NULL;
    if (!blank) return false;
    size_t n_left = (size_t)(blank - line), n_right = len - n_left - 1;
    if (!vki_bpe_unmap(line, &n_left) || !vki_bpe_unmap(blank + 1, &n_right)) return false;
    memmove(line + n_left, blank + 1, n_right);
    *merge = (vki_merge){vki_vocab_find(vocab, line, n_left),
                         vki_vocab_find(vocab, line + n_left, n_right),
                         vki_vocab_find(vocab, line, n_left + n_right)};
    return merge->left != VKI_NO_ID && merge->right != VKI_NO_ID && merge->result != VKI_NO_ID;
}

static vklm_status load_merges(vklm_vocab *vocab, const vki_gguf_value *lines, char **line, vklm_error *error)
{
    size_t capacity = 0;
    for (size_t rank = 0; rank < vocab->n_merges; rank++) {
        vki_merge *merge = &vocab->merges[rank];
        const vki_string source = vki_gguf_string_at(lines, rank);
        TRY(vki_grow(&vocab->host, source.len + 1, 1, error, line, &capacity));
        memcpy(*line, source.text, source.len);
        if (!parse_merge(vocab, *line, source.len, merge)) continue;
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
        return vki_fail(error, VKLM_BAD_FILE, "%s: tokenizer.ggml.merges has too many entries", gguf->path);
    vocab->n_merges = (size_t)lines->count;
    vocab->n_merge_slots = 16;
    while (vocab->n_merge_slots < vocab->n_merges + vocab->n_merges / 2) vocab->n_merge_slots *= 2;
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_merges, sizeof *vocab->merges, error, &vocab->merges));
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_merge_slots, sizeof *vocab->merge_slots, error,
                        &vocab->merge_slots));
    char *line = NULL;
    const vklm_status status = load_merges(vocab, lines, &line, error);
    vki_release(&vocab->host, &line);
    for (unsigned i = 0; i < 256; i++) {
        const char byte = (char)i;
        vocab->byte_ids[i] = vki_vocab_find(vocab, &byte, 1);
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
                       const vki_part *right, uint32_t *order, uint32_t *id)
{
    (void)text;
    const uint32_t slot = *find_slot(vocab, left->id, right->id);
    if (slot == 0) return false;
    *order = slot - 1;
    *id = vocab->merges[slot - 1].result;
    return true;
}

static vklm_status encode_piece(vki_encoder *encoder, const char *piece, size_t len, vklm_error *error)
{
    const vklm_vocab *vocab = encoder->vocab;
    vki_merger *merger = &encoder->merger;
    if (vocab->pretokenizer.ignore_merges) {
        const uint32_t whole = vki_vocab_find(vocab, piece, len);
        if (whole != VKI_NO_ID) {
            vki_emit(encoder, (vklm_token)whole);
            return VKLM_OK;
        }
    }
    merger->n_parts = 0;
    for (size_t i = 0; i < len; i++)
        TRY(vki_merger_add(merger, &vocab->host, (uint32_t)i, 1, vocab->byte_ids[(uint8_t)piece[i]], error));
    TRY(vki_merger_run(merger, vocab, piece, find_merge, error));
    for (size_t i = 0; i < merger->n_parts; i++) {
        const vki_part part = merger->parts[i];
        /* Bytes without a token are dropped; sound files have all 256. */
        if (part.len && part.id != VKI_NO_ID) vki_emit(encoder, (vklm_token)part.id);
    }
    return VKLM_OK;
}

vklm_status vki_bpe_encode(vki_encoder *encoder, const char *text, size_t len, vklm_error *error)
{
    vki_string valid = {text, len};
    TRY(make_valid(encoder, &valid, error));
    TRY(vki_pretokenizer_split(&encoder->vocab->pretokenizer, valid.text, valid.len, error, &encoder->pieces));
    for (size_t i = 0, begin = 0; i < encoder->pieces.n; begin = encoder->pieces.ends[i++])
        TRY(encode_piece(encoder, valid.text + begin, encoder->pieces.ends[i] - begin, error));
    return VKLM_OK;
}
