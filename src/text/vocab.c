/* vocab.c - reads a vocabulary from the tokenizer.* keys of a GGUF file, and answers what a token
 * is.
 *
 * Called once per model or vocabulary file. Refuses tokenizer models other than "llama" (SPM) and
 * "gpt2" (byte-level BPE) by name, and tables whose lengths do not fit. Tolerates what real files
 * have: special ids out of range, empty and duplicate texts, merges of unknown tokens.
 */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "text/vocab_types.h"

static bool equals(vki_string text, const char *other, size_t len)
{
    return text.len == len && memcmp(text.text, other, len) == 0;
}

static bool is_text(vki_string text, const char *other)
{
    return equals(text, other, strlen(other));
}

/* The slot that holds the text, or the empty one where it belongs. Slots hold id + 1. */
static uint32_t *find_slot(const vklm_vocab *vocab, const char *text, size_t len)
{
    const size_t mask = vocab->n_text_slots - 1;
    size_t at = (size_t)vki_hash(text, len, vocab->seed) & mask;
    while (vocab->text_slots[at] && !equals(vocab->texts[vocab->text_slots[at] - 1], text, len))
        at = (at + 1) & mask;
    return &vocab->text_slots[at];
}

uint32_t vki_vocab_find(const vklm_vocab *vocab, const char *text, size_t len)
{
    if (len == 0 || len > vocab->longest_text) return VKI_NO_ID;
    const uint32_t slot = *find_slot(vocab, text, len);
    return slot ? slot - 1 : VKI_NO_ID;
}

static void enter_text(vklm_vocab *vocab, uint32_t id)
{
    const vki_string text = vocab->texts[id];
    if (text.len == 0) return;
    uint32_t *slot = find_slot(vocab, text.text, text.len);
    if (*slot == 0) *slot = id + 1; /* the first of equal texts counts */
    vocab->longest_text = (size_t)vki_max(vocab->longest_text, text.len);
}

/* The value of "<0x41>"; -1 for any other text. */
static int byte_value(vki_string text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (text.len != 6 || memcmp(text.text, "<0x", 3) != 0 || text.text[5] != '>') return -1;
    const char *high = memchr(digits, text.text[3], 16), *low = memchr(digits, text.text[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Whether the text is the same with and without the byte map of BPE. */
static bool is_graphic(vki_string text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.text[i] < 33 || text.text[i] > 126) return false;
    return true;
}

/* Turns a token's text, `copy` of it, into the bytes that it stands for, and enters it among what
 * the tokenizer can find: a text that the tokenizer meets is in the file's alphabet, where spaces,
 * say, are spelled another way. */
static void load_token(vklm_vocab *vocab, uint32_t id, vki_string source, char *copy)
{
    const uint8_t type = vocab->types[id];
    const int byte = byte_value(source);
    if (source.len) memcpy(copy, source.text, source.len);
    vki_string *text = &vocab->texts[id];
    *text = (vki_string){copy, source.len};
    if (byte >= 0 && (type == VKI_TOKEN_BYTE || !vocab->is_bpe)) vocab->byte_ids[byte] = id;
    if (byte >= 0 && type == VKI_TOKEN_BYTE) {
        *text = (vki_string){&vocab->bytes[byte], 1};
        return;
    }
    const bool plain = type == VKI_TOKEN_NORMAL || type == VKI_TOKEN_UNUSED;
    bool reachable;
    if (vocab->is_bpe) {
        reachable = plain ? vki_bpe_unmap(copy, &text->len) : is_graphic(source);
    } else {
        reachable = source.len && !memchr(source.text, ' ', source.len);
        if (plain) text->len = vki_spm_unmark(copy, copy, source.len);
    }
    if (reachable) enter_text(vocab, id);
}

static vklm_status load_types(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error)
{
    const vki_gguf_value *types;
    TRY(vki_gguf_array_of(gguf, "tokenizer.ggml.token_type", VKI_GGUF_INTS, error, &types));
    if (types && types->count < vocab->n_tokens)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: tokenizer.ggml.token_type has %" PRIu64 " entries for %" PRIu32
                        " tokens",
                        gguf->path, types->count, vocab->n_tokens);
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_tokens, 1, error, &vocab->types));
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        const int64_t type = types ? vki_gguf_int_at(types, id) : VKI_TOKEN_NORMAL;
        const bool known = type >= VKI_TOKEN_NORMAL && type <= VKI_TOKEN_BYTE;
        vocab->types[id] = (uint8_t)(known ? type : VKI_TOKEN_NORMAL);
    }
    return VKLM_OK;
}

static vklm_status load_tokens(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error)
{
    const vki_gguf_value *tokens;
    TRY(vki_gguf_array_of(gguf, "tokenizer.ggml.tokens", VKI_GGUF_STRINGS, error, &tokens));
    if (!tokens)
        return vki_fail(error, VKLM_BAD_FILE, "%s: tokenizer.ggml.tokens is missing", gguf->path);
    if (tokens->count > INT32_MAX / 4)
        return vki_fail(error, VKLM_BAD_FILE, "%s: tokenizer.ggml.tokens has too many entries", gguf->path);
    vocab->n_tokens = (uint32_t)tokens->count;
    TRY(load_types(vocab, gguf, error));
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_tokens, sizeof *vocab->texts, error, &vocab->texts));
    vocab->n_text_slots = 16;
    while (vocab->n_text_slots / 2 < vocab->n_tokens)
        vocab->n_text_slots *= 2; /* half stay empty */
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_text_slots, sizeof *vocab->text_slots, error,
                        &vocab->text_slots));
    size_t n_bytes = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) n_bytes += vki_gguf_string_at(tokens, id).len;
    char *copy;
    TRY(vki_arena_alloc(&vocab->arena, n_bytes, 1, error, &copy));
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        const vki_string source = vki_gguf_string_at(tokens, id);
        load_token(vocab, id, source, copy);
        copy += source.len;
    }
    return VKLM_OK;
}

/* An id, or `fallback` where the key is absent; -1 for what is not a token. */
static vklm_token load_id(const vklm_vocab *vocab, const vki_gguf *gguf, const char *key, int64_t fallback)
{
    const vki_gguf_value *value = vki_gguf_find(gguf, key);
    const bool is_integer =
        value && !value->is_array &&
        (value->type <= VKI_GGUF_I32 || value->type == VKI_GGUF_U64 || value->type == VKI_GGUF_I64);
    const int64_t id = is_integer ? vki_gguf_int_at(value, 0) : fallback;
    if (id >= 0 && id < vocab->n_tokens) return (vklm_token)id;
    if (value)
        vki_log(&vocab->host, VKLM_LOG_WARNING, "%s: %s is no token and was ignored", gguf->path, key);
    return -1;
}

static vklm_status load_options(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error)
{
    const bool spm = !vocab->is_bpe;
    vocab->bos = load_id(vocab, gguf, "tokenizer.ggml.bos_token_id", spm ? 1 : -1);
    vocab->eos = load_id(vocab, gguf, "tokenizer.ggml.eos_token_id", spm ? 2 : -1);
    vocab->unknown = load_id(vocab, gguf, "tokenizer.ggml.unknown_token_id", spm ? 0 : -1);
    TRY(vki_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", error, &vocab->add_bos, NULL));
    TRY(vki_gguf_bool(gguf, "tokenizer.ggml.add_eos_token", error, &vocab->add_eos, NULL));
    if (spm)
        TRY(vki_gguf_bool(gguf, "tokenizer.ggml.add_space_prefix", error, &vocab->add_space_prefix, NULL));

    vki_string name = {0};
    TRY(vki_gguf_string(gguf, "general.name", error, &name, NULL));
    for (size_t i = 0; i + 4 <= name.len; i++) {
        char start[6] = {0};
        for (size_t k = 0; k < 5 && i + k < name.len; k++)
            start[k] = (char)tolower((uint8_t)name.text[i + k]);
        if (strncmp(start, "phi3", 4) == 0 || strcmp(start, "phi-3") == 0)
            vocab->drops_space_after_special = true;
    }
    return VKLM_OK;
}

static void mark_end(vklm_vocab *vocab, vklm_token id)
{
    if (id < 0) return;
    vocab->ends[id] = true;
    /* A file may call its end token user-defined; then any text could end a turn. */
    if (vocab->types[id] == VKI_TOKEN_USER) vocab->types[id] = VKI_TOKEN_CONTROL;
}

static vklm_status load_ends(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error)
{
    static const char *const keys[] = {
        "tokenizer.ggml.eos_token_id",     "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pad_token_id",
        "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
    };
    static const char *const texts[] = {
        "<|eot_id|>",         "<|im_end|>",    "<|end|>",
        "<end_of_turn>",      "<|endoftext|>", "<|end_of_text|>",
        "<|eom_id|>",         "<EOT>",         "_<EOT>",
        "<|return|>",         "<|call|>",      "<｜end▁of▁sentence｜>",
        "<end_of_utterance>", "</s>",
    };
    enum { N_TEXTS = sizeof texts / sizeof *texts, INNER_END = 2, RETURN = 9, CALL = 10 };
    TRY(vki_arena_alloc(&vocab->arena, vocab->n_tokens, sizeof *vocab->ends, error, &vocab->ends));
    vklm_token found[N_TEXTS];
    for (size_t i = 0; i < N_TEXTS; i++) found[i] = -1;
    for (uint32_t id = 0; id < vocab->n_tokens; id++)
        for (size_t i = 0; i < N_TEXTS; i++)
            if (is_text(vocab->texts[id], texts[i])) found[i] = (vklm_token)id;
    /* gpt-oss ends an inner message with <|end|> and goes on. */
    if (found[RETURN] >= 0 && found[CALL] >= 0) found[INNER_END] = -1;
    for (size_t i = 0; i < N_TEXTS; i++) mark_end(vocab, found[i]);
    mark_end(vocab, vocab->eos);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        mark_end(vocab, load_id(vocab, gguf, keys[i], -1));
    return VKLM_OK;
}

static vklm_status load(vklm_vocab *vocab, const vki_gguf *gguf, vklm_error *error)
{
    for (unsigned i = 0; i < 256; i++) {
        vocab->bytes[i] = (char)i;
        vocab->byte_ids[i] = VKI_NO_ID;
    }
    vocab->add_bos = vocab->add_space_prefix = !vocab->is_bpe;
    TRY(load_tokens(vocab, gguf, error));
    TRY(vocab->is_bpe ? vki_bpe_load(vocab, gguf, error) : vki_spm_load(vocab, gguf, error));
    TRY(load_options(vocab, gguf, error));
    TRY(load_ends(vocab, gguf, error));
    TRY(vki_specials_load(vocab, error));
    vki_string chat_template = {0};
    TRY(vki_gguf_string(gguf, "tokenizer.chat_template", error, &chat_template, NULL));
    vki_chat_detect(vocab, chat_template);
    return VKLM_OK;
}

vklm_status vki_vocab_create(const vki_gguf *gguf, const vki_host *host, vklm_error *error,
                             vklm_vocab **vocab_out)
{
    *vocab_out = NULL;
    vki_string model = {"none", strlen("none")};
    TRY(vki_gguf_string(gguf, "tokenizer.ggml.model", error, &model, NULL));
    if (is_text(model, "none") || is_text(model, "no_vocab")) return VKLM_OK;
    const bool is_bpe = is_text(model, "gpt2");
    if (!is_bpe && !is_text(model, "llama"))
        return vki_fail(
            error, VKLM_UNSUPPORTED,
            "%s: tokenizer model '%.*s' is not supported; use a model with an SPM ('llama') or "
            "BPE ('gpt2') tokenizer",
            gguf->path, (int)vki_min(model.len, 64), model.text);
    vklm_vocab *vocab;
    TRY(vki_alloc(host, 1, sizeof *vocab, error, &vocab));
    vocab->host = *host;
    vocab->seed = gguf->seed;
    vocab->is_bpe = is_bpe;
    vki_arena_init(&vocab->arena, &vocab->host);
    const vklm_status status = load(vocab, gguf, error);
    if (status != VKLM_OK) vklm_vocab_destroy(&vocab);
    *vocab_out = vocab;
    return status;
}

vklm_status vklm_vocab_open(const vklm_vocab_params *params, vklm_error *error, vklm_vocab **vocab_out)
{
    vki_error_clear(error);
    if (vocab_out) *vocab_out = NULL;
    vklm_vocab_params given;
    TRY(vki_params(&given, sizeof given, params, "vklm_vocab_params", error));
    const vki_input input = {given.path, given.sources, given.n_sources};
    if (!vocab_out) return vki_fail(error, VKLM_INVALID_ARGUMENT, "a vocabulary needs a place to go");
    TRY(vki_input_check(&input, "a vocabulary", error));
    vki_host host;
    vki_host_init(&host, &given.allocator, &given.log);
    vki_gguf gguf;
    TRY(vki_gguf_open(&gguf, &host, &input, error));
    vklm_status status = vki_vocab_create(&gguf, &host, error, vocab_out);
    if (status == VKLM_OK && !*vocab_out)
        status = vki_fail(error, VKLM_UNSUPPORTED,
                          "%s: the file has no tokenizer; use one that has", gguf.path);
    vki_gguf_close(&gguf);
    return status;
}

void vklm_vocab_destroy(vklm_vocab **vocab)
{
    if (!vocab || !*vocab) return;
    const vki_host host = (*vocab)->host;
    vki_pretokenizer_free(&(*vocab)->pretokenizer);
    vki_arena_free(&(*vocab)->arena);
    vki_release(&host, vocab);
}

uint32_t vklm_vocab_size(const vklm_vocab *vocab)
{
    return vocab->n_tokens;
}

bool vklm_token_is_end(const vklm_vocab *vocab, vklm_token id)
{
    return id >= 0 && (uint32_t)id < vocab->n_tokens && vocab->ends[id];
}

vki_string vki_vocab_token_text(const vklm_vocab *vocab, vklm_token id)
{
    const uint8_t type = vocab->types[id];
    const bool hidden =
        type == VKI_TOKEN_CONTROL || type == VKI_TOKEN_UNKNOWN || type == VKI_TOKEN_UNUSED;
    return hidden ? (vki_string){"", 0} : vocab->texts[id];
}
