/* arch.c - the supported architectures and the tensors they are made of.
 *
 * A new architecture of the same family is a row here. What differs in arithmetic is a flag that
 * hparams.c turns into numbers and the loader into a layout, so that the forward pass asks only
 * whether a vector is there, never for a name.
 */
#include "model/arch.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const vki_arch archs[] = {
    {
        .name = "llama",
        .needs = VKI_GROUP_CORE,
        .takes = VKI_GROUP_HEAD | VKI_GROUP_QKV_BIAS | VKI_GROUP_OTHER_BIAS,
        .factors = VKI_FACTORS_ATTENTION | VKI_FACTORS_FFN,
        .rotates_whole_head = true,
        .has_rope_factors = true,
        .activation = VKI_SILU,
        .refuses = {{"expert_count", "experts (Mixtral)"}},
    },
    {
        .name = "qwen2",
        .needs = VKI_GROUP_CORE | VKI_GROUP_QKV_BIAS,
        .takes = VKI_GROUP_HEAD | VKI_GROUP_HEAD_BIAS,
        .factors = VKI_FACTORS_ATTENTION,
        .halves = true,
        .activation = VKI_SILU,
        .refuses = {{"expert_count", "experts"}},
    },
    {
        .name = "qwen3",
        .needs = VKI_GROUP_CORE | VKI_GROUP_QK_NORM,
        .takes = VKI_GROUP_HEAD | VKI_GROUP_QKV_BIAS,
        .factors = VKI_FACTORS_ATTENTION | VKI_FACTORS_FFN,
        .halves = true,
        .activation = VKI_SILU,
        .refuses = {{"expert_count", "experts"}},
    },
    {
        .name = "gemma3",
        .needs = VKI_GROUP_CORE | VKI_GROUP_QK_NORM | VKI_GROUP_POST_NORM,
        .takes = VKI_GROUP_HEAD | VKI_GROUP_QKV_BIAS,
        .factors = VKI_FACTORS_ATTENTION,
        .halves = true,
        .scales_embedding = true,
        .activation = VKI_GELU,
        .window_period = 6,
        .wide_scale_layers = 62, /* the 27B */
        .refuses = {{"expert_count", "experts"},
                    {"final_logit_softcapping", "a soft cap on the logits"}},
    },
};

enum { ARCH_COUNT = sizeof archs / sizeof *archs };

const vki_arch *vki_arch_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARCH_COUNT; i++)
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    return NULL;
}

void vki_arch_names(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < ARCH_COUNT && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", archs[i].name);
}

#define LAYER(field) .member = offsetof(vki_layer, field)
#define MODEL(field) .member = offsetof(vki_weights, field)
#define VECTOR(tensor, length) .parts = {tensor}, .rows = {VKI_EXTENT_##length}, .is_vector = true
#define BIAS(tensor, length) VECTOR(tensor, length), .is_bias = true
#define MATRIX(tensor, out, in)                                                                    \
    .parts = {tensor}, .rows = {VKI_EXTENT_##out}, .cols = VKI_EXTENT_##in
#define CORE .group = VKI_GROUP_CORE
#define OF_ATTENTION .factors = VKI_FACTORS_ATTENTION
#define OF_FFN .factors = VKI_FACTORS_FFN
#define QKV                                                                                        \
    .parts = {"attn_q", "attn_k", "attn_v"}, .fused = "attn_qkv",                                  \
    .rows = {VKI_EXTENT_HE, VKI_EXTENT_KE, VKI_EXTENT_KE}, .n_rotary = 2

/* In the order of the forward pass: what is read together lies together on the device. */
const vki_rule vki_layer_rules[] = {
    {LAYER(attn_norm), VECTOR("attn_norm", D), CORE},
    {LAYER(qkv), QKV, .cols = VKI_EXTENT_D, CORE, OF_ATTENTION},
    {LAYER(qkv_bias), QKV, .is_vector = true, .is_bias = true, .group = VKI_GROUP_QKV_BIAS},
    {LAYER(q_norm), VECTOR("attn_q_norm", E), .n_rotary = 1, .group = VKI_GROUP_QK_NORM},
    {LAYER(k_norm), VECTOR("attn_k_norm", E), .n_rotary = 1, .group = VKI_GROUP_QK_NORM},
    {LAYER(o), MATRIX("attn_output", D, HE), CORE, OF_ATTENTION},
    {LAYER(o_bias), BIAS("attn_output", D), .group = VKI_GROUP_OTHER_BIAS},
    {LAYER(post_attn_norm), VECTOR("post_attention_norm", D), .group = VKI_GROUP_POST_NORM},
    {LAYER(ffn_norm), VECTOR("ffn_norm", D), CORE},
    {LAYER(gate), MATRIX("ffn_gate", F, D), CORE, OF_FFN},
    {LAYER(gate_bias), BIAS("ffn_gate", F), .group = VKI_GROUP_OTHER_BIAS, OF_FFN},
    {LAYER(up), MATRIX("ffn_up", F, D), CORE, OF_FFN},
    {LAYER(up_bias), BIAS("ffn_up", F), .group = VKI_GROUP_OTHER_BIAS, OF_FFN},
    {LAYER(down), MATRIX("ffn_down", D, F), CORE, OF_FFN},
    {LAYER(down_bias), BIAS("ffn_down", D), .group = VKI_GROUP_OTHER_BIAS, OF_FFN},
    {LAYER(post_ffn_norm), VECTOR("post_ffw_norm", D), .group = VKI_GROUP_POST_NORM},
};

const vki_rule vki_model_rules[] = {
    {MODEL(embedding), MATRIX("token_embd", V, D), CORE},
    {MODEL(output_norm), VECTOR("output_norm", D), CORE},
    {MODEL(head), MATRIX("output", V, D), .group = VKI_GROUP_HEAD},
    {MODEL(head_bias), BIAS("output", V), .group = VKI_GROUP_HEAD_BIAS},
};

const size_t vki_layer_rule_count = sizeof vki_layer_rules / sizeof *vki_layer_rules;
const size_t vki_model_rule_count = sizeof vki_model_rules / sizeof *vki_model_rules;
