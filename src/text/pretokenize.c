/* pretokenize.c - the patterns of tokenizer.ggml.pre, run by PCRE2 (UTF, Unicode properties, JIT).
 *
 * The patterns are those that the models were trained with; models trained with another one would
 * read text that they have never seen, so an unknown name is refused. Each pattern of a list splits
 * every piece so far into its matches and the gaps between them; nothing is dropped. White space is
 * Unicode's White_Space, spelled out because PCRE2's \s also holds U+180E. No pattern can match the
 * empty string, and none backtracks over more than one run, so splitting is linear in practice;
 * PCRE2's own limits are lifted, since a run may be a megabyte long.
 */
#include "text/pretokenize.h"

#include <assert.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/checked.h"

/* clang-format off */
/* Inside a character class. */
#define WHITE "\\t-\\r\\x{85}\\p{Z}"
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PUNCTUATION " ?[^" WHITE "\\p{L}\\p{N}]+"
/* A run of white space leaves its last character to the word behind it. */
#define BLANKS "[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+"
#define NEWLINES_AND_BLANKS "[" WHITE "]*[\\r\\n]+|" BLANKS
#define WORD_PREFIX "[^\\r\\n\\p{L}\\p{N}]?"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" PUNCTUATION "|" BLANKS
#define LLAMA3                                                                                     \
    CONTRACTION "|" WORD_PREFIX "\\p{L}+|\\p{N}{1,3}|" PUNCTUATION "[\\r\\n]*|" NEWLINES_AND_BLANKS
#define QWEN2                                                                                      \
    CONTRACTION "|" WORD_PREFIX "\\p{L}+|\\p{N}|" PUNCTUATION "[\\r\\n]*|" NEWLINES_AND_BLANKS
#define QWEN35                                                                                     \
    CONTRACTION "|" WORD_PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^" WHITE                                \
                "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" NEWLINES_AND_BLANKS
#define TEKKEN                                                                                     \
    WORD_PREFIX "[" UPPER "]*[" LOWER "]+|" WORD_PREFIX "[" UPPER "]+[" LOWER "]*|\\p{N}|"         \
                PUNCTUATION "[\\r\\n/]*|" NEWLINES_AND_BLANKS
#define GPT4O                                                                                      \
    WORD_PREFIX "[" UPPER "]*[" LOWER "]+" CONTRACTION "?|" WORD_PREFIX "[" UPPER "]+[" LOWER      \
                "]*" CONTRACTION "?|\\p{N}{1,3}|" PUNCTUATION "[\\r\\n/]*|" NEWLINES_AND_BLANKS
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" NEWLINES_AND_BLANKS

/* Cased letters of Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee, Glagolitic, Coptic ... */
#define DEEPSEEK_LETTERS                                                                           \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ"         \
    "ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\\x{1F7D}ᾀ-ᾴᾶ-ᾼ\\x{1FBE}ῂ-ῄῆ-ῌῐ-\\x{1FD3}ῖ-\\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝ"         \
    "ℤ\\x{2126}ℨ\\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓"           \
    "𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
#define DEEPSEEK_PUNCTUATION                                                                       \
    "!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}"

static const struct rule {
    const char *names; /* separated by blanks */
    bool ignore_merges, add_bos;
    const char *patterns[VKI_MAX_PATTERNS];
} rules[] = {
    {"gpt-2 phi-2 mpt olmo jais exaone4 mellum a.x-4.0 modern-bert roberta-bpe granite-docling "
     "trillion", false, false,
     {GPT2}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2 midm-2.0", true, true, {LLAMA3}},
    {"dbrx smaug-bpe chatglm-bpe glm4", false, false, {LLAMA3}},
    {"qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan kormo grok-2", false, false, {QWEN2}},
    {"qwen35", false, false, {QWEN35}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", false, false,
     {"\\p{N}", GPT2}},
    {"deepseek-llm", false, false,
     {"[\\r\\n]", "[" WHITE "]?[" DEEPSEEK_LETTERS "]+", "[" WHITE "]?[" DEEPSEEK_PUNCTUATION "]+",
      /* The look-behind changes no match; without it a long run is tried from each character. */
      "(?<![" WHITE "])[" WHITE "]+\\z", CJK, "\\p{N}+"}},
    {"deepseek-coder", false, false,
     {"[\\r\\n]", "[" WHITE "]?\\p{L}+", "[" WHITE "]?\\p{P}+", CJK, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm", false, false,
     {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", DEEPSEEK3}},
    {"tekken", true, true, {TEKKEN}},
    {"gpt-4o llama4 kanana2 minimax-m2", false, false, {GPT4O}},
    {"falcon", false, false, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"default", false, false, {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};
/* clang-format on */

static bool has_word(const char *words, vki_string word)
{
    while (*words) {
        const size_t len = strcspn(words, " ");
        if (len == word.len && memcmp(words, word.text, len) == 0) return true;
        words += len;
        words += *words == ' ';
    }
    return false;
}

static const struct rule *find_rule(vki_string name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (has_word(rules[i].names, name)) return &rules[i];
    return NULL;
}

/* PCRE2's memory comes from the embedder's allocator too. */
static void *allocate(size_t size_bytes, void *user)
{
    const vki_host *host = user;
    return host->allocator.realloc(host->allocator.user, NULL, size_bytes);
}

static void release(void *memory, void *user)
{
    vki_release(user, &memory);
}

static bool make_contexts(vki_pretokenizer *pretokenizer)
{
    pretokenizer->memory =
        pcre2_general_context_create(allocate, release, (void *)pretokenizer->host);
    if (!pretokenizer->memory) return false;
    pretokenizer->limits = pcre2_match_context_create(pretokenizer->memory);
    if (!pretokenizer->limits) return false;
    pcre2_set_match_limit(pretokenizer->limits, UINT32_MAX);
    pcre2_set_depth_limit(pretokenizer->limits, UINT32_MAX);
    pcre2_set_heap_limit(pretokenizer->limits, UINT32_MAX);
    return true;
}

static bool compile_patterns(vki_pretokenizer *pretokenizer, const struct rule *rule)
{
    pcre2_compile_context *context = pcre2_compile_context_create(pretokenizer->memory);
    if (!context) return false;
    size_t n = 0;
    for (; n < VKI_MAX_PATTERNS && rule->patterns[n]; n++) {
        int code;
        PCRE2_SIZE at;
        pcre2_code *pattern = pcre2_compile((PCRE2_SPTR)rule->patterns[n], PCRE2_ZERO_TERMINATED,
                                            PCRE2_UTF | PCRE2_UCP, &code, &at, context);
        if (!pattern) break;
        /* Where there is no JIT, the interpreter matches. */
        pcre2_jit_compile(pattern, PCRE2_JIT_COMPLETE);
        pretokenizer->patterns[pretokenizer->n_patterns++] = pattern;
    }
    pcre2_compile_context_free(context);
    return n == VKI_MAX_PATTERNS || !rule->patterns[n];
}

vklm_status vki_pretokenizer_init(vki_pretokenizer *pretokenizer, const vki_host *host,
                                  vki_string name, vklm_error *error)
{
    *pretokenizer = (vki_pretokenizer){.host = host};
    const struct rule *rule = find_rule(name);
    if (!rule)
        return vki_fail(
            error, VKLM_UNSUPPORTED,
            "unknown pre-tokenizer '%.*s' (tokenizer.ggml.pre); use a model with another tokenizer",
            (int)vki_min(name.len, 64), name.text);
    pretokenizer->ignore_merges = rule->ignore_merges;
    pretokenizer->add_bos = rule->add_bos;
    if (make_contexts(pretokenizer) && compile_patterns(pretokenizer, rule)) return VKLM_OK;
    vki_pretokenizer_free(pretokenizer);
    return vki_fail(error, VKLM_OUT_OF_MEMORY, "no memory for the pre-tokenizer's patterns");
}

void vki_pretokenizer_free(vki_pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->n_patterns; i++)
        pcre2_code_free(pretokenizer->patterns[i]);
    pcre2_match_context_free(pretokenizer->limits);
    pcre2_general_context_free(pretokenizer->memory);
    *pretokenizer = (vki_pretokenizer){0};
}

/* The next match in the piece at or behind `at`; *from = *to = len where there is none. */
static vklm_status find_match(const vki_pretokenizer *pretokenizer, const pcre2_code *pattern,
                              vki_string piece, size_t at, vki_pieces *pieces, vklm_error *error,
                              size_t *from, size_t *to)
{
    const PCRE2_SPTR text = (PCRE2_SPTR)piece.text;
    int result = pcre2_match(pattern, text, piece.len, at, PCRE2_NO_UTF_CHECK, pieces->match,
                             pretokenizer->limits);
    /* The interpreter has no stack to run out of. */
    if (result == PCRE2_ERROR_JIT_STACKLIMIT || result == PCRE2_ERROR_MATCHLIMIT)
        result = pcre2_match(pattern, text, piece.len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                             pieces->match, pretokenizer->limits);
    *from = *to = piece.len;
    if (result == PCRE2_ERROR_NOMATCH) return VKLM_OK;
    if (result < 0)
        return vki_fail(error, VKLM_OUT_OF_MEMORY,
                        "the pre-tokenizer gave up on %zu bytes (PCRE2: %d)", piece.len, result);
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(pieces->match);
    *from = bounds[0];
    *to = bounds[1];
    assert(*to > *from); /* or this would never end */
    return VKLM_OK;
}

static vklm_status append_end(const vki_host *host, size_t end, vki_pieces *pieces, vklm_error *error)
{
    TRY(vki_grow(host, pieces->n + 1, sizeof *pieces->ends, error, &pieces->ends, &pieces->capacity));
    pieces->ends[pieces->n++] = (uint32_t)end;
    return VKLM_OK;
}

static vklm_status cut_piece(const vki_pretokenizer *pretokenizer, const pcre2_code *pattern,
                             const char *text, size_t begin, size_t end, vklm_error *error,
                             vki_pieces *pieces)
{
    const vki_string piece = {text + begin, end - begin};
    for (size_t at = 0, from, to; at < piece.len; at = to) {
        TRY(find_match(pretokenizer, pattern, piece, at, pieces, error, &from, &to));
        if (from > at) TRY(append_end(pretokenizer->host, begin + from, pieces, error));
        if (to > from) TRY(append_end(pretokenizer->host, begin + to, pieces, error));
    }
    return VKLM_OK;
}

vklm_status vki_pretokenizer_split(const vki_pretokenizer *pretokenizer, const char *text,
                                   size_t len, vklm_error *error, vki_pieces *pieces)
{
    pieces->n = 0;
    if (len == 0) return VKLM_OK;
    if (!pieces->match) pieces->match = pcre2_match_data_create(1, pretokenizer->memory);
    if (!pieces->match) return vki_fail(error, VKLM_OUT_OF_MEMORY, "no memory to match a pattern");
    TRY(append_end(pretokenizer->host, len, pieces, error));
    for (size_t i = 0; i < pretokenizer->n_patterns; i++) {
        const size_t n_before = pieces->n, capacity = pieces->capacity;
        uint32_t *before = pieces->ends;
        pieces->ends = pieces->spare;
        pieces->capacity = pieces->spare_capacity;
        pieces->spare = before;
        pieces->spare_capacity = capacity;
        pieces->n = 0;
        for (size_t k = 0, begin = 0; k < n_before; begin = before[k++])
            TRY(cut_piece(pretokenizer, pretokenizer->patterns[i], text, begin, before[k], error, pieces));
    }
    return VKLM_OK;
}

void vki_pieces_free(const vki_host *host, vki_pieces *pieces)
{
    vki_release(host, &pieces->ends);
    vki_release(host, &pieces->spare);
    pcre2_match_data_free(pieces->match);
    *pieces = (vki_pieces){0};
}
