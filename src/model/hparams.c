/* hparams.c - the metadata of any supported architecture, read and checked.
 *
 * Nothing is trusted: every count is positive and bounded, so that products of two of them fit 64
 * bits, and everything that the forward pass would divide by is checked here. What an architecture
 * has by nature comes from its row in arch.c, what a model chose from the keys "ARCH.*". Keys that
 * the reference ignores for an architecture are ignored here too: converters leave such behind.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "model/arch.h"

enum {
    MAX_COUNT = 1 << 24,   /* no published dimension comes near; products of two stay below 2^53 */
    KEY_SIZE = 96,
};

typedef struct reader {
    const vki_gguf *gguf;
    const vki_arch *arch;
    vklm_error *error;
    char key[KEY_SIZE];
} reader;

static const vki_gguf_value *find(reader *r, const char *suffix)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch->name, suffix);
    return vki_gguf_find(r->gguf, r->key);
}

static vklm_status bad_key(reader *r, const char *what)
{
    return vki_fail(r->error, VKLM_BAD_FILE, "%s: the key %s %s", r->gguf->path, r->key, what);
}

/* From 1 to MAX_COUNT. *value is the default; where that is 0 the key must be there. */
static vklm_status read_count(reader *r, const char *suffix, uint32_t *value)
{
    uint64_t number = *value;
    const bool present = find(r, suffix);
    TRY(vki_gguf_u64(r->gguf, r->key, MAX_COUNT, r->error, &number, NULL));
    if (number == 0) return bad_key(r, present ? "is 0" : "is missing");
    *value = (uint32_t)number;
    return VKLM_OK;
}

/* As read_count, for keys that may hold one count for each layer. Layers of different shape are
 * another kind of model (pruned or nested ones), which no supported architecture was trained as. */
static vklm_status read_layer_count(reader *r, const char *suffix, uint32_t n_layer, uint32_t *value)
{
    const vki_gguf_value *array = find(r, suffix);
    if (!array || !array->is_array) return read_count(r, suffix, value);
    TRY(vki_gguf_array_of(r->gguf, r->key, VKI_GGUF_INTS, r->error, &array));
    if (array->count != n_layer) return bad_key(r, "does not have one entry for each layer");
    const int64_t first = vki_gguf_int_at(array, 0);
    if (first <= 0 || first > MAX_COUNT) return bad_key(r, "is out of range");
    for (uint64_t i = 1; i < array->count; i++)
        if (vki_gguf_int_at(array, i) != first)
            return vki_fail(r->error, VKLM_UNSUPPORTED,
                            "%s: %s differs from layer to layer, which vklm does not support",
                            r->gguf->path, r->key);
    *value = (uint32_t)first;
    return VKLM_OK;
}

/* Positive and finite. *value is the default; where that is 0 the key must be there. */
static vklm_status read_positive(reader *r, const char *suffix, float *value)
{
    const bool present = find(r, suffix);
    TRY(vki_gguf_f32(r->gguf, r->key, r->error, value, NULL));
    if (*value > 0 && isfinite(*value)) return VKLM_OK;
    return bad_key(r, present ? "is not a positive number" : "is missing");
}

/* ---- What kind of file, and which architecture ---- */

static bool equals(vki_string string, const char *text)
{
    return string.len == strlen(text) && memcmp(string.text, text, string.len) == 0;
}

static vklm_status check_is_model(const vki_gguf *gguf, vklm_error *error)
{
    static const struct {
        const char *type, *what;
    } kinds[] = {
        {"adapter", "a LoRA adapter"},
        {"mmproj", "the vision or audio part of a model"},
        {"vocab", "a vocabulary without a model"},
        {"imatrix", "an importance matrix"},
    };
    vki_string type = {"model", 5};
    TRY(vki_gguf_string(gguf, "general.type", error, &type, NULL));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (equals(type, kinds[i].type))
            return vki_fail(error, VKLM_UNSUPPORTED, "%s is %s; a text model is needed", gguf->path,
                            kinds[i].what);
    if (gguf->n_tensors == 0)
        return vki_fail(error, VKLM_UNSUPPORTED,
                        "%s has no tensors: a vocabulary without a model; a text model is needed",
                        gguf->path);
    return VKLM_OK;
}

static vklm_status find_arch(const vki_gguf *gguf, vklm_error *error, const vki_arch **arch)
{
    vki_string name = {0};
    bool found;
    TRY(vki_gguf_string(gguf, "general.architecture", error, &name, &found));
    if (!found)
        return vki_fail(error, VKLM_BAD_FILE, "%s: the key general.architecture is missing", gguf->path);
    *arch = vki_arch_find(name.text, name.len);
    if (*arch) return VKLM_OK;
    char names[128];
    vki_arch_names(names, sizeof names);
    return vki_fail(error, VKLM_UNSUPPORTED,
                    "%s: architecture '%.*s' is not supported; vklm runs %s", gguf->path,
                    (int)vki_min(name.len, 64), name.text, names);
}

static bool is_nonzero(const vki_gguf_value *value)
{
    if (value->is_array || value->type == VKI_GGUF_STRING) return true;
    if (value->type == VKI_GGUF_F32 || value->type == VKI_GGUF_F64)
        return vki_gguf_float_at(value, 0) != 0;
    return vki_gguf_int_at(value, 0) != 0;
}

static vklm_status check_refusals(reader *r)
{
    for (size_t i = 0; i < VKI_MAX_REFUSALS && r->arch->refuses[i].key; i++) {
        const vki_gguf_value *value = find(r, r->arch->refuses[i].key);
        if (value && is_nonzero(value))
            return vki_fail(r->error, VKLM_UNSUPPORTED, "%s: %s with %s is not supported (key %s)",
                            r->gguf->path, r->arch->name, r->arch->refuses[i].what, r->key);
    }
    return VKLM_OK;
}

/* ---- Numbers ---- */

static vklm_status read_shape(reader *r, vki_hparams *h)
{
    TRY(read_count(r, "block_count", &h->n_layer));
    if (h->n_layer > VKI_MAX_LAYERS) return bad_key(r, "is over 512");
    TRY(read_count(r, "context_length", &h->context_length));
    TRY(read_count(r, "embedding_length", &h->d_model));
    TRY(read_layer_count(r, "feed_forward_length", h->n_layer, &h->d_ff));
    TRY(read_positive(r, "attention.layer_norm_rms_epsilon", &h->norm_epsilon));
    const vki_gguf_tensor *embedding = vki_gguf_find_tensor(r->gguf, "token_embd.weight");
    if (!embedding)
        return vki_fail(r->error, VKLM_BAD_FILE, "%s: the tensor token_embd.weight is missing", r->gguf->path);
    if (embedding->ne[1] == 0 || embedding->ne[1] > MAX_COUNT)
        return vki_fail(r->error, VKLM_BAD_FILE, "%s: token_embd.weight has %llu rows",
                        r->gguf->path, (unsigned long long)embedding->ne[1]);
    h->n_vocab = (uint32_t)embedding->ne[1];
    h->embedding_scale = r->arch->scales_embedding ? sqrtf((float)h->d_model) : 1;
    return VKLM_OK;
}

static vklm_status read_heads(reader *r, vki_hparams *h)
{
    TRY(read_layer_count(r, "attention.head_count", h->n_layer, &h->n_head));
    h->n_head_kv = h->n_head;
    TRY(read_layer_count(r, "attention.head_count_kv", h->n_layer, &h->n_head_kv));
    if (h->n_head % h->n_head_kv != 0) return bad_key(r, "does not divide attention.head_count");
    h->d_head = h->d_model / h->n_head;
    TRY(read_count(r, "attention.key_length", &h->d_head));
    uint32_t value_length = h->d_head;
    TRY(read_count(r, "attention.value_length", &value_length));
    if (value_length != h->d_head)
        return vki_fail(r->error, VKLM_UNSUPPORTED,
                        "%s: %s is %u but attention.key_length is %u; vklm needs them equal",
                        r->gguf->path, r->key, value_length, h->d_head);
    const bool wide = h->n_layer == r->arch->wide_scale_layers;
    h->attention_scale =
        1 / sqrtf(wide ? (float)h->d_model / (float)h->n_head : (float)h->d_head);
    return VKLM_OK;
}

static vklm_status read_scaling_type(reader *r, vki_hparams *h)
{
    static const struct {
        const char *name;
        vki_rope_scaling scaling;
    } types[] = {
        {"none", VKI_ROPE_PLAIN},
        {"linear", VKI_ROPE_LINEAR},
        {"yarn", VKI_ROPE_YARN},
        {"longrope", VKI_ROPE_LONG},
    };
    vki_string type = {"linear", 6}; /* where only a factor is given */
    find(r, "rope.scaling.type");
    TRY(vki_gguf_string(r->gguf, r->key, r->error, &type, NULL));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        h->rope_scaling = types[i].scaling;
        const bool able = h->rope_scaling != VKI_ROPE_LONG || r->arch->has_rope_factors;
        if (able && equals(type, types[i].name)) return VKLM_OK;
    }
    return vki_fail(r->error, VKLM_UNSUPPORTED, "%s: %s '%.*s' is not supported for %s",
                    r->gguf->path, r->key, (int)vki_min(type.len, 64), type.text, r->arch->name);
}

static vklm_status read_rope_scaling(reader *r, vki_hparams *h)
{
    TRY(read_scaling_type(r, h));
    /* A factor of 0 is how some writers say that there is none; scale_linear is the old name. */
    const bool has_factor = find(r, "rope.scaling.factor");
    if (!has_factor) find(r, "rope.scale_linear");
    TRY(vki_gguf_f32(r->gguf, r->key, r->error, &h->rope_factor, NULL));
    if (h->rope_factor < 0 || !isfinite(h->rope_factor)) return bad_key(r, "is out of range");
    if (h->rope_factor == 0 || h->rope_scaling == VKI_ROPE_PLAIN) h->rope_factor = 1;
    if (h->rope_factor == 1 && h->rope_scaling != VKI_ROPE_LONG) h->rope_scaling = VKI_ROPE_PLAIN;
    h->rope_original_context = h->context_length;
    TRY(read_count(r, "rope.scaling.original_context_length", &h->rope_original_context));
    h->rope_attention_factor = 1;
    return read_positive(r, "rope.scaling.attn_factor", &h->rope_attention_factor);
}

static vklm_status read_rope(reader *r, vki_hparams *h)
{
    h->n_rot = h->d_head;
    TRY(read_count(r, "rope.dimension_count", &h->n_rot));
    if (h->n_rot % 2 != 0 || h->n_rot > h->d_head)
        return bad_key(r, "is odd or over the size of a head");
    if (r->arch->rotates_whole_head && h->n_rot != h->d_head)
        return bad_key(r, "is not the size of a head");
    h->rope_base = h->rope_base_windowed = 10000;
    TRY(read_positive(r, "rope.freq_base", &h->rope_base));
    TRY(read_positive(r, "rope.freq_base_swa", &h->rope_base_windowed));
    return read_rope_scaling(r, h);
}

/* The pattern is a period, whose last layer sees all keys, or one truth value for each layer. */
static vklm_status read_windows(reader *r, vki_hparams *h)
{
    uint32_t period = r->arch->window_period;
    if (period == 0) return VKLM_OK;
    find(r, "attention.sliding_window");
    TRY(vki_gguf_u32(r->gguf, r->key, r->error, &h->window, NULL));
    if (h->window == 0) return VKLM_OK;
    const vki_gguf_value *pattern = find(r, "attention.sliding_window_pattern");
    const bool listed = pattern && pattern->is_array;
    if (listed) {
        TRY(vki_gguf_array_of(r->gguf, r->key, VKI_GGUF_INTS, r->error, &pattern));
        if (pattern->count != h->n_layer)
            return bad_key(r, "does not have one entry for each layer");
    } else {
        TRY(vki_gguf_u32(r->gguf, r->key, r->error, &period, NULL));
    }
    for (uint32_t l = 0; l < h->n_layer; l++)
        h->windowed[l] = listed ? vki_gguf_int_at(pattern, l) != 0
                                : period == 0 || l % period < period - 1;
    return VKLM_OK;
}

vklm_status vki_hparams_read(const vki_gguf *gguf, vklm_error *error, vki_hparams *hparams)
{
    *hparams = (vki_hparams){0};
    TRY(check_is_model(gguf, error));
    TRY(find_arch(gguf, error, &hparams->arch));
    reader r = {.gguf = gguf, .arch = hparams->arch, .error = error};
    hparams->activation = r.arch->activation;
    TRY(check_refusals(&r));
    TRY(read_shape(&r, hparams));
    TRY(read_heads(&r, hparams));
    TRY(read_rope(&r, hparams));
    return read_windows(&r, hparams);
}
