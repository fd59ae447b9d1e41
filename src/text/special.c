/* special.c - the special tokens' literal texts: found in a text, and what lies between them
 * encoded.
 *
 * One pass, the longest special text at the leftmost place, as Hugging Face's tokenizers do. The
 * sorted list of special texts serves as a trie: reading on by a byte narrows the range of those
 * that still fit, so a place costs at most the length of what matches there, however many specials
 * there are (Gemma has 6,000).
 *
 * In a quoted span, control tokens are plain text: whoever writes "<|im_end|>" in a message does
 * not end it. User-defined tokens are recognised everywhere, except those that look like a
 * template's marks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "text/encode.h"

void vki_encoder_free(vki_encoder *encoder)
{
    const vki_host *host = &encoder->vocab->host;
    vki_release(host, &encoder->clean);
    vki_pieces_free(host, &encoder->pieces);
    vki_merger_free(&encoder->merger, host);
}

void vki_emit(vki_encoder *encoder, vklm_token id)
{
    if (encoder->n < encoder->capacity) encoder->ids[encoder->n] = id;
    encoder->n++;
}

vklm_status vki_encoder_result(const vki_encoder *encoder, vklm_error *error, size_t *n_out)
{
    *n_out = encoder->n;
    if (encoder->n <= encoder->capacity) return VKLM_OK;
    return vki_fail(error, VKLM_BUFFER_TOO_SMALL, "the text has %zu tokens, room is for %zu",
                    encoder->n, encoder->capacity);
}

static int compare_specials(const void *left, const void *right)
{
    const vki_special *a = left, *b = right;
    const size_t shorter = (size_t)vki_min(a->text.len, b->text.len);
    const int order = memcmp(a->text.text, b->text.text, shorter);
    if (order) return order;
    if (a->text.len != b->text.len) return a->text.len < b->text.len ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static bool is_sought(const vklm_vocab *vocab, uint32_t id)
{
    return vki_is_special(vocab, (vklm_token)id) && vocab->texts[id].len > 0;
}

vklm_status vki_specials_load(vklm_vocab *vocab, vklm_error *error)
{
    size_t n = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) n += is_sought(vocab, id);
    TRY(vki_arena_alloc(&vocab->arena, n, sizeof *vocab->specials, error, &vocab->specials));
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (!is_sought(vocab, id)) continue;
        const vki_string text = vocab->texts[id];
        vocab->begins_special[(uint8_t)text.text[0]] = true;
        vocab->specials[vocab->n_specials++] = (vki_special){text, (vklm_token)id};
    }
    if (n) qsort(vocab->specials, n, sizeof *vocab->specials, compare_specials);
    return VKLM_OK;
}

/* The first in [low, high) whose byte at `depth` is `byte` or more; texts that end there are less.
 */
static size_t lower_bound(const vki_special *specials, size_t low, size_t high, size_t depth, int byte)
{
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const vki_string text = specials[middle].text;
        const int here = depth < text.len ? (uint8_t)text.text[depth] : -1;
        if (here < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* "<|im_start|>": what models delimit turns with, whatever type the file gives it. */
static bool looks_like_mark(vki_string text)
{
    return text.len >= 4 && memcmp(text.text, "<|", 2) == 0 &&
           memcmp(text.text + text.len - 2, "|>", 2) == 0;
}

/* `quoted`: the first span that ends behind `at`, or NULL. */
static bool may_match(const vklm_vocab *vocab, const vki_text *text, const vki_span *quoted,
                      size_t at, const vki_special *special)
{
    const bool in_quote = quoted && quoted->begin < at + special->text.len;
    if (vocab->types[special->id] == VKI_TOKEN_USER)
        return !in_quote || !looks_like_mark(special->text);
    return text->parse_special && !in_quote;
}

static const vki_special *longest_special(const vklm_vocab *vocab, const vki_text *text,
                                          const vki_span *quoted, size_t at)
{
    const vki_special *specials = vocab->specials, *longest = NULL;
    size_t low = 0, high = vocab->n_specials;
    for (size_t depth = 0; at + depth < text->len && low < high; depth++) {
        const int byte = (uint8_t)text->bytes[at + depth];
        low = lower_bound(specials, low, high, depth, byte);
        high = lower_bound(specials, low, high, depth, byte + 1);
        /* What ends here stands first in the range. Equal texts (broken files): the lowest id. */
        for (size_t i = low; i < high && specials[i].text.len == depth + 1; i++) {
            if (!may_match(vocab, text, quoted, at, &specials[i])) continue;
            longest = &specials[i];
            break;
        }
    }
    return longest;
}

/* Phi-3 was trained with special tokens that swallow the white space behind them; three do not. */
static bool drops_space(const vklm_vocab *vocab, vki_string text)
{
    static const char *const keeps[] = {"<unk>", "<s>", "<|endoftext|>"};
    if (!vocab->drops_space_after_special) return false;
    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++)
        if (text.len == strlen(keeps[i]) && memcmp(text.text, keeps[i], text.len) == 0)
            return false;
    return true;
}

static vklm_status encode_fragment(vki_encoder *encoder, const vki_text *text, size_t begin,
                                   size_t end, vklm_error *error)
{
    if (begin == end) return VKLM_OK;
    const vklm_vocab *vocab = encoder->vocab;
    const char *bytes = text->bytes + begin;
    if (vocab->is_bpe) return vki_bpe_encode(encoder, bytes, end - begin, error);
    /* A fragment begins the text or follows a special token, so each of them takes the space. */
    return vki_spm_encode(encoder, bytes, end - begin, vocab->add_space_prefix, error);
}

vklm_status vki_encode(vki_encoder *encoder, const vki_text *text, vklm_error *error)
{
    enum { LIMIT_BYTES = 1 << 30 }; /* offsets have 32 bits, and bad bytes triple */
    const vklm_vocab *vocab = encoder->vocab;
    if (text->len > LIMIT_BYTES)
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "a text of %zu bytes is too long; give at most 1 GiB at a time", text->len);
    const vki_span *quoted = text->quoted, *last = quoted ? quoted + text->n_quoted : NULL;
    size_t begin = 0;
    for (size_t at = 0; at < text->len;) {
        while (quoted != last && quoted->end <= at) quoted++;
        const vki_special *special = NULL;
        if (vocab->begins_special[(uint8_t)text->bytes[at]])
            special = longest_special(vocab, text, quoted != last ? quoted : NULL, at);
        if (!special) {
            at++;
            continue;
        }
        TRY(encode_fragment(encoder, text, begin, at, error));
        vki_emit(encoder, special->id);
        at += special->text.len;
        if (drops_space(vocab, special->text))
            while (at < text->len && memchr(" \t\n\v\f\r", text->bytes[at], 6)) at++;
        begin = at;
    }
    return encode_fragment(encoder, text, begin, text->len, error);
}
