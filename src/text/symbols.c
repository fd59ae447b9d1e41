/* symbols.c - the texts of a vocabulary, numbered, and found again by hash (FNV-1a, open
 * addressing).
 *
 * Invariant: a symbol that is found by its text is the first one entered with it. Tokens whose text
 * cannot come out of the tokenizer (specials, bytes) have a number but are not entered.
 */
#include <string.h>

#include "base/checked.h"
#include "text/vocab_types.h"

static uint64_t hash_text(const void *bytes, size_t len)
{
    const uint8_t *byte = bytes;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < len; i++) hash = (hash ^ byte[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}

static bool equal(vki_string a, const char *text, size_t len)
{
    return a.len == len && memcmp(a.text, text, len) == 0;
}

/* The slot that holds the text, or the empty one where it belongs. Slots hold symbol + 1. */
static uint32_t *find_slot(const vklm_vocab *vocab, const char *text, size_t len)
{
    const size_t mask = vocab->n_symbol_slots - 1;
    size_t at = (size_t)hash_text(text, len) & mask;
    while (vocab->symbol_slots[at] && !equal(vocab->texts[vocab->symbol_slots[at] - 1], text, len))
        at = (at + 1) & mask;
    return &vocab->symbol_slots[at];
}

uint32_t vki_symbol_find(const vklm_vocab *vocab, const char *text, size_t len)
{
    if (len == 0 || len > vocab->longest_text) return VKI_NO_SYMBOL;
    const uint32_t slot = *find_slot(vocab, text, len);
    return slot ? slot - 1 : VKI_NO_SYMBOL;
}

/* Half of the slots stay empty, which keeps probing short. */
static vklm_status grow_slots(vklm_vocab *vocab, size_t n, vklm_error *error)
{
    size_t wanted = 256;
    while (wanted / 2 < n) wanted *= 2;
    uint32_t *old = vocab->symbol_slots;
    const size_t n_old = vocab->n_symbol_slots;
    if (wanted <= n_old) return VKLM_OK;
    uint32_t *slots;
    TRY(vki_alloc(&vocab->host, wanted, sizeof *slots, error, &slots));
    vocab->symbol_slots = slots;
    vocab->n_symbol_slots = wanted;
    for (size_t i = 0; i < n_old; i++)
        if (old[i]) {
            const vki_string text = vocab->texts[old[i] - 1];
            *find_slot(vocab, text.text, text.len) = old[i];
        }
    vki_release(&vocab->host, &old);
    return VKLM_OK;
}

vklm_status vki_symbols_reserve(vklm_vocab *vocab, size_t n, vklm_error *error)
{
    TRY(vki_grow(&vocab->host, n, sizeof *vocab->texts, error, &vocab->texts,
                 &vocab->symbol_capacity));
    return grow_slots(vocab, n, error);
}

void vki_symbol_enter(vklm_vocab *vocab, uint32_t symbol)
{
    const vki_string text = vocab->texts[symbol];
    if (text.len == 0) return;
    uint32_t *slot = find_slot(vocab, text.text, text.len);
    if (*slot == 0) *slot = symbol + 1;
    vocab->longest_text = (size_t)vki_max(vocab->longest_text, text.len);
}

vklm_status vki_symbol_intern(vklm_vocab *vocab, const char *text, size_t len, vklm_error *error,
                              uint32_t *symbol_out)
{
    *symbol_out = vki_symbol_find(vocab, text, len);
    if (*symbol_out != VKI_NO_SYMBOL) return VKLM_OK;
    TRY(vki_symbols_reserve(vocab, vocab->n_symbols + 1, error));
    vki_string copy = {.len = len};
    TRY(vki_arena_string(&vocab->arena, text, len, error, &copy.text));
    *symbol_out = (uint32_t)vocab->n_symbols;
    vocab->texts[vocab->n_symbols++] = copy;
    vki_symbol_enter(vocab, *symbol_out);
    return VKLM_OK;
}
