/* tune_values.c - what to try for each field of the tuning table: data, and which of it a device can run.
 *
 * The values of a field stand together. What a kernel cannot take is listed nowhere; what only some devices
 * cannot is left out for them by is_sound.
 */
#include "kernel/tune_values.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "kernel/kernels.h"

#define NUMBER(field, value) {#field, offsetof(vki_tuning, field), 1, {value}}
#define TILE(field, ...) {#field, offsetof(vki_tuning, field), sizeof(vki_tile) / 4, {__VA_ARGS__}}

#define BLOCK(field, ...) {#field, offsetof(vki_tuning, field), offsetof(vki_block, size) / 4, {__VA_ARGS__}}

static const vki_tune_value values[] = {
    NUMBER(subgroup, 8), NUMBER(subgroup, 16), NUMBER(subgroup, 32), NUMBER(subgroup, 64),
    TILE(matvec, 32, 1, 1, 1), TILE(matvec, 64, 1, 1, 1), TILE(matvec, 32, 4, 1, 1), TILE(matvec, 64, 2, 4, 1),
    TILE(matvec, 64, 4, 8, 1), TILE(matvec, 64, 4, 16, 1), TILE(matvec, 128, 2, 8, 1),
    TILE(matvec8, 32, 1, 1, 1), TILE(matvec8, 64, 1, 1, 1), TILE(matvec8, 32, 4, 1, 1), TILE(matvec8, 64, 2, 4, 1),
    TILE(matvec8, 64, 4, 8, 1), TILE(matvec8, 64, 4, 16, 1), TILE(matvec8, 128, 2, 8, 1),
    TILE(matmul, 32, 1, 1, 8), TILE(matmul, 64, 1, 1, 8), TILE(matmul, 128, 1, 1, 8), TILE(matmul, 32, 2, 1, 8),
    TILE(matmul, 64, 2, 1, 4), TILE(matmul, 32, 1, 1, 16), TILE(matmul, 32, 1, 1, 32), TILE(matmul, 32, 1, 1, 64),
    TILE(matmul8, 32, 1, 1, 8), TILE(matmul8, 64, 1, 1, 8), TILE(matmul8, 128, 1, 1, 8), TILE(matmul8, 32, 2, 1, 8),
    TILE(matmul8, 64, 2, 1, 8), TILE(matmul8, 32, 4, 1, 4), TILE(matmul8, 32, 1, 1, 16),
    BLOCK(block, VKI_DIRECT), BLOCK(block, VKI_COOP, 128, 64, 64, 32), BLOCK(block, VKI_COOP, 128, 128, 64, 32),
    BLOCK(block, VKI_COOP, 128, 128, 64, 64), BLOCK(block, VKI_COOP, 64, 64, 32, 32),
    BLOCK(block, VKI_COOP, 64, 64, 32, 16), BLOCK(block, VKI_COOP, 64, 64, 32, 8), BLOCK(block, VKI_COOP, 64, 64, 16, 16),
    BLOCK(block8, VKI_DIRECT), BLOCK(block8, VKI_TILE, 128, 64, 8, 4), BLOCK(block8, VKI_TILE, 64, 64, 8, 4),
    BLOCK(block8, VKI_TILE, 64, 64, 4, 4), BLOCK(block8, VKI_TILE, 128, 128, 8, 8),
    BLOCK(block8, VKI_COOP, 128, 64, 64, 32), BLOCK(block8, VKI_COOP, 128, 128, 64, 32),
    BLOCK(block8, VKI_COOP, 128, 128, 64, 64), BLOCK(block8, VKI_COOP, 64, 64, 32, 32),
    BLOCK(block8, VKI_COOP, 64, 64, 32, 16), BLOCK(block8, VKI_COOP, 64, 64, 32, 8),
    BLOCK(block8, VKI_COOP, 64, 64, 16, 16),
    NUMBER(block_columns, 2), NUMBER(block_columns, 9), NUMBER(block_columns, 17), NUMBER(block_columns, 33),
    NUMBER(matvec_subgroups, 1), NUMBER(matvec_subgroups, 64), NUMBER(matvec_subgroups, 128),
    NUMBER(matvec_subgroups, 256), NUMBER(matvec_subgroups, 512), NUMBER(matvec_subgroups, 1024),
    NUMBER(matvec_subgroups, 2048),
    NUMBER(matvec_most, 64), NUMBER(matvec_most, 128), NUMBER(matvec_most, 256), NUMBER(matvec_most, 512),
    NUMBER(unit_local, 16), NUMBER(unit_local, 32), NUMBER(unit_local, 64), NUMBER(unit_local, 128),
    NUMBER(row_local, 32), NUMBER(row_local, 64), NUMBER(row_local, 128), NUMBER(row_local, 256),
    NUMBER(attention_local, 16), NUMBER(attention_local, 32), NUMBER(attention_local, 64),
    NUMBER(attention_local, 128), NUMBER(attention_local, 256),
    NUMBER(attention_queries, 4), NUMBER(attention_queries, 8), NUMBER(attention_queries, 16),
    NUMBER(attention_queries, 24),
    NUMBER(attention_values, 16), NUMBER(attention_values, 32), NUMBER(attention_values, 64),
    NUMBER(attention_values, 128),
    NUMBER(attention_coop, 0), NUMBER(attention_coop, 17), NUMBER(attention_coop, 65),
    NUMBER(attention_subgroups, 4), NUMBER(attention_subgroups, 8),
    NUMBER(attention_sums, 640), NUMBER(attention_sums, 1280), NUMBER(attention_sums, 2560),
    NUMBER(split_keys, 64), NUMBER(split_keys, 128), NUMBER(split_keys, 256), NUMBER(split_keys, 512),
    NUMBER(split_keys, 1024),
};

const vki_tune_value *vki_tune_values(size_t *n)
{
    *n = sizeof values / sizeof *values;
    return values;
}

static bool is_sound(vki_tuning *t, const vki_limits *limits)
{
    const uint32_t subgroup = t->subgroup ? t->subgroup : limits->subgroup_size;
    const uint32_t narrowest = t->subgroup ? t->subgroup : limits->subgroup_min;
    const uint32_t locals[] = {t->matvec.local, t->matvec8.local, t->matmul.local, t->matmul8.local, t->unit_local,
                               t->row_local, t->attention_local};
    for (size_t i = 0; i < sizeof locals / sizeof *locals; i++)
        if (locals[i] % subgroup != 0 || locals[i] > limits->max_workgroup_invocations) return false;
    if (!vki_block_fits(&t->block, false, t->subgroup, limits) || !vki_block_fits(&t->block8, true, t->subgroup, limits))
        return false;
    return (t->subgroup == 0 || (subgroup >= limits->subgroup_min && subgroup <= limits->subgroup_max)) &&
           t->matvec.lanes <= narrowest && t->matvec8.lanes <= narrowest &&
           t->matvec_most <= limits->max_workgroup_invocations && VKI_KV_PAGE_KEYS % t->attention_local == 0 &&
           t->attention_local / narrowest <= 16 && t->row_local / narrowest <= 64; /* MAX_SUBGROUPS of the shaders */
}

bool vki_tune_apply(const vki_tune_value *value, const vki_tuning *base, const vki_limits *limits,
                         vki_tuning *tuning)
{
    *tuning = *base;
    memcpy((char *)tuning + value->offset, value->words, value->n_words * sizeof *value->words);
    return is_sound(tuning, limits);
}

void vki_tune_text(const vki_tune_value *value, const vki_tuning *tuning, char text[VKI_TUNE_TEXT])
{
    static const char *const structures[] = {
        [VKI_DIRECT] = "VKI_DIRECT", [VKI_TILE] = "VKI_TILE", [VKI_COOP] = "VKI_COOP"};
    const bool block = value->n_words == offsetof(vki_block, size) / 4;
    uint32_t words[VKI_TUNE_WORDS];
    memcpy(words, (const char *)tuning + value->offset, value->n_words * sizeof *words);
    int n = value->n_words == 1 ? snprintf(text, VKI_TUNE_TEXT, "%u", words[0])
            : block             ? snprintf(text, VKI_TUNE_TEXT, "{%s", structures[words[0]])
                                : snprintf(text, VKI_TUNE_TEXT, "{%u", words[0]);
    for (uint32_t i = 1; i < value->n_words; i++)
        n += snprintf(text + n, VKI_TUNE_TEXT - (size_t)n, ", %u", words[i]);
    if (value->n_words > 1) snprintf(text + n, VKI_TUNE_TEXT - (size_t)n, block ? ", {0}}" : "}");
}
