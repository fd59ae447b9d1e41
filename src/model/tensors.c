/* tensors.c - walks the rules of an architecture over the tensor table of a file.
 *
 * Every tensor that is used has exactly the shape that the hyperparameters imply, so a file whose
 * metadata lies is refused here and sizes are bounded by the file's own. Nothing is read but the
 * one-element factors beside some matrices.
 */
#include "model/tensors.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 96, NO_LAYER = -1 };

/* One rule being looked up in one layer. */
typedef struct search {
    vki_stacks *stacks;
    const vki_gguf *gguf;
    const vki_hparams *hparams;
    vklm_error *error;
    const vki_rule *rule;
    int layer;             /* or NO_LAYER */
    char name[NAME_SIZE];  /* of the tensor looked at last */
} search;

static uint64_t extent(const vki_hparams *h, vki_extent letter)
{
    switch (letter) {
    case VKI_EXTENT_1: break;
    case VKI_EXTENT_D: return h->d_model;
    case VKI_EXTENT_E: return h->d_head;
    case VKI_EXTENT_HE: return (uint64_t)h->n_head * h->d_head;
    case VKI_EXTENT_KE: return (uint64_t)h->n_head_kv * h->d_head;
    case VKI_EXTENT_F: return h->d_ff;
    case VKI_EXTENT_V: return h->n_vocab;
    }
    return 1;
}

static const vki_gguf_tensor *find(search *s, const char *base, const char *kind)
{
    if (s->layer == NO_LAYER) snprintf(s->name, sizeof s->name, "%s.%s", base, kind);
    else snprintf(s->name, sizeof s->name, "blk.%d.%s.%s", s->layer, base, kind);
    const vki_gguf_tensor *tensor = vki_gguf_find_tensor(s->gguf, s->name);
    if (tensor) s->stacks->used[tensor - s->gguf->tensors] = true;
    return tensor;
}

static vklm_status missing(const search *s)
{
    return vki_fail(s->error, VKLM_BAD_FILE, "%s: the tensor %s is missing", s->gguf->path, s->name);
}

static vklm_status check_shape(const search *s, const vki_gguf_tensor *t, uint64_t ne0, uint64_t ne1)
{
    if (t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == 1 && t->ne[3] == 1) return VKLM_OK;
    return vki_fail(s->error, VKLM_BAD_FILE,
                    "%s: the tensor %s has the shape {%llu, %llu, %llu, %llu}, "
                    "expected was {%llu, %llu}",
                    s->gguf->path, s->name, (unsigned long long)t->ne[0],
                    (unsigned long long)t->ne[1], (unsigned long long)t->ne[2],
                    (unsigned long long)t->ne[3], (unsigned long long)ne0, (unsigned long long)ne1);
}

/* Vectors become f32 whatever they are, but formats with blocks make no sense for them. */
static vklm_status check_format(const search *s, const vki_gguf_tensor *tensor, vki_format *format)
{
    const bool known = vki_format_from_ggml(tensor->ggml_id, format);
    if (known && (!s->rule->is_vector || vki_format_get(*format)->block_weights == 1))
        return VKLM_OK;
    const char *name = "of an unknown type";
    uint32_t block_weights, block_bytes;
    (void)vki_ggml_type(tensor->ggml_id, &name, &block_weights, &block_bytes);
    char readable[128] = "";
    size_t used = 0;
    for (vki_format f = 0; f < VKI_FORMAT_COUNT; f++) {
        const vki_format_info *info = vki_format_get(f);
        if (used < sizeof readable && (!s->rule->is_vector || info->block_weights == 1))
            used += (size_t)snprintf(readable + used, sizeof readable - used, "%s%s",
                                     used ? ", " : "", info->name);
    }
    return vki_fail(s->error, VKLM_UNSUPPORTED, "%s: %s is %s; vklm reads %s here", s->gguf->path,
                    s->name, name, readable);
}

/* Some converters put one factor beside a matrix. Only F32 weights can take it up without loss. */
static vklm_status read_scale(search *s, const char *base, vki_part *part)
{
    if (!(s->rule->factors & s->hparams->arch->factors)) return VKLM_OK;
    const vki_gguf_tensor *tensor = find(s, base, "scale");
    if (!tensor) return VKLM_OK;
    TRY(check_shape(s, tensor, 1, 1));
    vki_format format;
    if (!vki_format_from_ggml(tensor->ggml_id, &format) || format != VKI_F32)
        return vki_fail(s->error, VKLM_BAD_FILE, "%s: the tensor %s is not F32", s->gguf->path, s->name);
    uint8_t bytes[sizeof(float)];
    TRY(vki_gguf_read_tensor(s->gguf, tensor, 0, sizeof bytes, s->error, bytes));
    vki_floats_decode(format, bytes, 1, &part->scale);
    if (part->scale == 1 || part->format == VKI_F32 || s->rule->is_vector) return VKLM_OK;
    return vki_fail(s->error, VKLM_UNSUPPORTED, "%s: %s is not 1, which vklm supports for F32 only",
                    s->gguf->path, s->name);
}

/* Fills *part from the tensor of that name, or with zeros where it is absent and may be. */
static vklm_status read_part(search *s, const char *base, uint64_t rows, bool may_miss, vki_part *part)
{
    const vki_gguf_tensor *tensor = find(s, base, s->rule->is_bias ? "bias" : "weight");
    if (rows > INT32_MAX)
        return vki_fail(s->error, VKLM_UNSUPPORTED, "%s: %s would have %llu rows", s->gguf->path,
                        s->name, (unsigned long long)rows);
    *part = (vki_part){.tensor = tensor, .rows = (uint32_t)rows, .scale = 1};
    if (!tensor) return may_miss ? VKLM_OK : missing(s);
    const uint64_t cols = extent(s->hparams, s->rule->cols);
    TRY(s->rule->is_vector ? check_shape(s, tensor, rows, 1) : check_shape(s, tensor, cols, rows));
    TRY(check_format(s, tensor, &part->format));
    return read_scale(s, base, part);
}

static vklm_status read_parts(search *s, bool fused, bool may_miss, vki_stack *stack)
{
    const vki_rule *rule = s->rule;
    uint64_t rows[VKI_MAX_PARTS] = {0}, total = 0, halved = 0;
    for (uint32_t i = 0; i < VKI_MAX_PARTS && rule->parts[i]; i++) {
        rows[i] = extent(s->hparams, rule->rows[i]);
        total += rows[i];
        if (i < rule->n_rotary && s->hparams->arch->halves) halved += rows[i];
        if (fused) continue;
        vki_part *part = &stack->parts[stack->n_parts++];
        TRY(read_part(s, rule->parts[i], rows[i], may_miss, part));
        part->n_halved = i < rule->n_rotary && s->hparams->arch->halves ? part->rows : 0;
    }
    if (total > INT32_MAX)
        return vki_fail(s->error, VKLM_UNSUPPORTED, "%s: %s and its neighbours have %llu rows",
                        s->gguf->path, s->name, (unsigned long long)total);
    if (fused) {
        stack->n_parts = 1;
        TRY(read_part(s, rule->fused, total, false, &stack->parts[0]));
        stack->parts[0].n_halved = (uint32_t)halved;
    }
    stack->rows = (uint32_t)total;
    stack->cols = (uint32_t)extent(s->hparams, rule->cols);
    return VKLM_OK;
}

/* Finds the rule's tensors and adds a stack for them, unless they are absent and may be. */
static vklm_status apply_rule(search *s, void *owner)
{
    const vki_rule *rule = s->rule;
    const vki_arch *arch = s->hparams->arch;
    const char *kind = rule->is_bias ? "bias" : "weight";
    const bool fused = rule->fused && find(s, rule->fused, kind);
    bool any = fused;
    for (uint32_t i = 0; i < VKI_MAX_PARTS && rule->parts[i] && !any; i++)
        any = find(s, rule->parts[i], kind);
    const bool needed = arch->needs & rule->group;
    if (any && !needed && !(arch->takes & rule->group))
        return vki_fail(s->error, VKLM_UNSUPPORTED, "%s: %s with the tensor %s is not supported",
                        s->gguf->path, arch->name, s->name);
    if (!any && !needed) return VKLM_OK;
    vki_stacks *stacks = s->stacks;
    TRY(vki_grow(stacks->host, stacks->n + 1, sizeof *stacks->items, s->error, &stacks->items,
                 &stacks->capacity));
    vki_stack *stack = &stacks->items[stacks->n];
    *stack = (vki_stack){.rule = rule, .member = (char *)owner + rule->member};
    TRY(read_parts(s, fused, !needed && rule->is_vector, stack));
    stacks->n++;
    return VKLM_OK;
}

/* Known and rightly without use: scales of activations, frequencies that the rotary tables hold. */
static bool is_known(const vki_arch *arch, const char *name)
{
    return (arch->has_rope_factors && strncmp(name, "rope_f", 6) == 0) ||
           strstr(name, ".input_scale") || strstr(name, ".attn_rot_embd");
}

static void warn_of_unused(const vki_stacks *stacks, const vki_gguf *gguf, const vki_arch *arch)
{
    size_t n = 0, first = 0;
    for (size_t i = gguf->n_tensors; i-- > 0;) {
        if (stacks->used[i] || is_known(arch, gguf->tensors[i].name)) continue;
        first = i;
        n++;
    }
    if (n)
        vki_log(stacks->host, VKLM_LOG_WARNING, "%s: %zu tensors have no use in %s, %s first",
                gguf->path, n, arch->name, gguf->tensors[first].name);
}

vklm_status vki_stacks_find(vki_stacks *stacks, vki_weights *weights, const vki_gguf *gguf, vklm_error *error)
{
    *stacks = (vki_stacks){.host = &weights->device->host};
    TRY(vki_alloc(stacks->host, gguf->n_tensors, sizeof *stacks->used, error, &stacks->used));
    search s = {.stacks = stacks, .gguf = gguf, .hparams = &weights->hparams, .error = error};
    s.layer = NO_LAYER;
    for (size_t i = 0; i < vki_model_rule_count; i++) {
        s.rule = &vki_model_rules[i];
        TRY(apply_rule(&s, weights));
    }
    for (s.layer = 0; s.layer < (int)weights->hparams.n_layer; s.layer++)
        for (size_t i = 0; i < vki_layer_rule_count; i++) {
            s.rule = &vki_layer_rules[i];
            TRY(apply_rule(&s, &weights->layers[s.layer]));
        }
    warn_of_unused(stacks, gguf, weights->hparams.arch);
    return VKLM_OK;
}

void vki_stacks_free(vki_stacks *stacks)
{
    if (!stacks->host) return;
    vki_release(stacks->host, &stacks->items);
    vki_release(stacks->host, &stacks->used);
    *stacks = (vki_stacks){0};
}

uint32_t vki_part_file_row(const vki_part *part, const vki_hparams *hparams, uint32_t row)
{
    const uint32_t in_head = row % hparams->d_head;
    if (row >= part->n_halved || in_head >= hparams->n_rot) return row;
    return row - in_head + in_head / 2 + in_head % 2 * (hparams->n_rot / 2);
}
