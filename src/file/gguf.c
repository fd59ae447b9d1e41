/* gguf.c - life of an opened GGUF file, and the two tables that find keys and tensors by name.
 *
 * gguf_read.c fills the tables from the bytes of one file, gguf_split.c adds the other parts of a
 * split model, gguf_value.c reads values. Tables grow as entries are read and proven sound, never
 * by a count that the file claims. Both arrays hold structs whose first member is the name.
 */
#include "file/gguf.h"

#include <string.h>

#include "base/hash.h"
#include "file/gguf_read.h"

static const char *name_at(const void *items, size_t stride, size_t index)
{
    const char *name;
    memcpy(&name, (const char *)items + index * stride, sizeof name);
    return name;
}

/* The slot that holds `name`, or the empty one where it belongs. A table is at most half full. */
static size_t find_slot(uint64_t seed, const vki_name_table *table, const void *items, size_t stride,
                        const char *name)
{
    const size_t mask = table->n_slots - 1;
    size_t slot = (size_t)vki_hash(name, strlen(name), seed) & mask;
    while (table->slots[slot] && strcmp(name_at(items, stride, table->slots[slot] - 1), name) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

/* Makes room for one name more than the n_items that the table holds. */
static vklm_status grow_table(const vki_gguf *gguf, vki_name_table *table, const void *items,
                              size_t stride, size_t n_items, vklm_error *error)
{
    const vki_host *host = gguf->host;
    if ((n_items + 1) * 2 <= table->n_slots) return VKLM_OK;
    vki_name_table larger = {.n_slots = table->n_slots ? table->n_slots * 4 : 64};
    TRY(vki_alloc(host, larger.n_slots, sizeof *larger.slots, error, &larger.slots));
    for (size_t i = 0; i < n_items; i++)
        larger.slots[find_slot(gguf->seed, &larger, items, stride, name_at(items, stride, i))] =
            (uint32_t)i + 1;
    vki_release(host, &table->slots);
    *table = larger;
    return VKLM_OK;
}

vklm_status vki_gguf_add_value(vki_gguf *gguf, const vki_gguf_value *value, vklm_error *error)
{
    const size_t n = gguf->n_values, stride = sizeof *value;
    TRY(vki_grow(gguf->host, n + 1, stride, error, &gguf->values, &gguf->values_capacity));
    TRY(grow_table(gguf, &gguf->value_table, gguf->values, stride, n, error));
    const size_t slot = find_slot(gguf->seed, &gguf->value_table, gguf->values, stride, value->key);
    if (gguf->value_table.slots[slot])
        return vki_fail(error, VKLM_BAD_FILE, "%s: key '%.100s' occurs twice", gguf->path, value->key);
    gguf->values[n] = *value;
    gguf->value_table.slots[slot] = (uint32_t)++gguf->n_values;
    return VKLM_OK;
}

vklm_status vki_gguf_add_tensor(vki_gguf *gguf, const vki_gguf_tensor *tensor, const char *path,
                                vklm_error *error)
{
    const size_t n = gguf->n_tensors, stride = sizeof *tensor;
    TRY(vki_grow(gguf->host, n + 1, stride, error, &gguf->tensors, &gguf->tensors_capacity));
    TRY(grow_table(gguf, &gguf->tensor_table, gguf->tensors, stride, n, error));
    const size_t slot = find_slot(gguf->seed, &gguf->tensor_table, gguf->tensors, stride, tensor->name);
    if (gguf->tensor_table.slots[slot])
        return vki_fail(error, VKLM_BAD_FILE, "%s: tensor '%s' occurs twice", path, tensor->name);
    gguf->tensors[n] = *tensor;
    gguf->tensor_table.slots[slot] = (uint32_t)++gguf->n_tensors;
    return VKLM_OK;
}

const vki_gguf_value *vki_gguf_find(const vki_gguf *gguf, const char *key)
{
    if (gguf->n_values == 0) return NULL;
    const size_t slot = find_slot(gguf->seed, &gguf->value_table, gguf->values, sizeof *gguf->values, key);
    const uint32_t entry = gguf->value_table.slots[slot];
    return entry ? &gguf->values[entry - 1] : NULL;
}

const vki_gguf_tensor *vki_gguf_find_tensor(const vki_gguf *gguf, const char *name)
{
    if (gguf->n_tensors == 0) return NULL;
    const size_t slot = find_slot(gguf->seed, &gguf->tensor_table, gguf->tensors, sizeof *gguf->tensors, name);
    const uint32_t entry = gguf->tensor_table.slots[slot];
    return entry ? &gguf->tensors[entry - 1] : NULL;
}

vklm_status vki_gguf_read_tensor(const vki_gguf *gguf, const vki_gguf_tensor *tensor, uint64_t from,
                                 uint64_t n, vklm_error *error, void *bytes)
{
    return vki_source_read(&gguf->sources[tensor->source], tensor->offset + from, bytes, n, error);
}

void vki_gguf_close(vki_gguf *gguf)
{
    if (!gguf->host) return;
    for (size_t i = 0; i < gguf->n_sources; i++) vki_source_close(&gguf->sources[i]);
    vki_release(gguf->host, &gguf->sources);
    vki_release(gguf->host, &gguf->header);
    vki_release(gguf->host, &gguf->values);
    vki_release(gguf->host, &gguf->tensors);
    vki_release(gguf->host, &gguf->value_table.slots);
    vki_release(gguf->host, &gguf->tensor_table.slots);
    vki_arena_free(&gguf->arena);
    *gguf = (vki_gguf){0};
}

/* An empty gguf with a name and a place for its source. */
static vklm_status begin(vki_gguf *gguf, const vki_host *host, const char *name, vklm_error *error)
{
    *gguf = (vki_gguf){.host = host, .seed = vki_random_seed()};
    vki_arena_init(&gguf->arena, host);
    TRY(vki_arena_string(&gguf->arena, name, strlen(name), error, &gguf->path));
    TRY(vki_grow(host, 1, sizeof *gguf->sources, error, &gguf->sources, &gguf->sources_capacity));
    gguf->n_sources = 1;
    return VKLM_OK;
}

vklm_status vki_gguf_open_path(vki_gguf *gguf, const vki_host *host, const char *path, vklm_error *error)
{
    vklm_status status;
    TRY_OR_FAIL(begin(gguf, host, path, error));
    TRY_OR_FAIL(vki_source_open_path(&gguf->sources[0], gguf->path, error));
    TRY_OR_FAIL(vki_gguf_read(gguf, error));
    return VKLM_OK;
fail:
    vki_gguf_close(gguf);
    return status;
}

vklm_status vki_gguf_open_part(vki_gguf *gguf, const vki_host *host, const vki_input *input, uint32_t index,
                               vklm_error *error)
{
    vklm_status status;
    vklm_source given;
    *gguf = (vki_gguf){0};
    TRY(vki_input_part(input, index, error, &given));
    TRY_OR_FAIL(begin(gguf, host, vki_source_name(&given), error));
    TRY_OR_FAIL(vki_source_open(&gguf->sources[0], &given, gguf->path, error));
    TRY_OR_FAIL(vki_gguf_read(gguf, error));
    return VKLM_OK;
fail:
    vki_gguf_close(gguf);
    return status;
}

vklm_status vki_gguf_open(vki_gguf *gguf, const vki_host *host, const vki_input *input, vklm_error *error)
{
    TRY(input->path ? vki_gguf_open_path(gguf, host, input->path, error)
                    : vki_gguf_open_part(gguf, host, input, 0, error));
    const vklm_status status = vki_gguf_join_parts(gguf, input, error);
    if (status != VKLM_OK) vki_gguf_close(gguf);
    return status;
}
