/* gguf_split.c - models cut into several files, PREFIX-00001-of-0000N.gguf and so on, or sources in that order.
 *
 * Each part is a GGUF file of its own. The first holds the keys of the model; of the others only the keys split.* and
 * the tensors count. All must agree on the number of parts, and have as many tensors as the first part says.
 */
#include <inttypes.h>
#include <string.h>

#include "file/gguf_read.h"

typedef struct split {
    uint32_t part, n_parts; /* parts count from 0 */
    uint64_t n_tensors;     /* of all parts together */
} split;

static vklm_status require(const vki_gguf *gguf, const char *key, bool found, vklm_error *error)
{
    if (found) return VKLM_OK;
    return vki_fail(error, VKLM_BAD_FILE, "%s: key '%s' is missing from a part of a split model",
                    gguf->path, key);
}

/* A file that says nothing of parts is part 0 of 1. */
static vklm_status read_split(const vki_gguf *gguf, vklm_error *error, split *out)
{
    uint64_t part = 0, n_parts = 1;
    bool found = false;
    *out = (split){.n_parts = 1};
    TRY(vki_gguf_u64(gguf, "split.count", UINT16_MAX, error, &n_parts, NULL));
    if (n_parts <= 1) return VKLM_OK;
    TRY(vki_gguf_u64(gguf, "split.no", UINT16_MAX, error, &part, &found));
    TRY(require(gguf, "split.no", found, error));
    TRY(vki_gguf_u64(gguf, "split.tensors.count", INT32_MAX, error, &out->n_tensors, &found));
    TRY(require(gguf, "split.tensors.count", found, error));
    out->part = (uint32_t)part;
    out->n_parts = (uint32_t)n_parts;
    return VKLM_OK;
}

enum { SUFFIX_SIZE = sizeof "-00001-of-00002.gguf" };

/* Both numbers are at most 65535: five digits. */
static void write_digits(char *digits, uint32_t number)
{
    for (int i = 4; i >= 0; i--, number /= 10) digits[i] = (char)('0' + number % 10);
}

static void write_suffix(char suffix[SUFFIX_SIZE], uint32_t part, uint32_t n_parts)
{
    memcpy(suffix, "-00000-of-00000.gguf", SUFFIX_SIZE);
    write_digits(suffix + 1, part + 1);
    write_digits(suffix + 10, n_parts);
}

/* Moves the source and the tensors of a part that was opened into *gguf. */
static vklm_status take_part(vki_gguf *gguf, vki_gguf *part, const split *expected, vklm_error *error)
{
    split found;
    TRY(read_split(part, error, &found));
    if (found.part != expected->part || found.n_parts != expected->n_parts)
        return vki_fail(error, VKLM_BAD_FILE, "%s: says it is part %u of %u, expected %u of %u", part->path,
                        found.part + 1, found.n_parts, expected->part + 1, expected->n_parts);
    for (size_t i = 0; i < part->n_tensors; i++) {
        vki_gguf_tensor tensor = part->tensors[i];
        const size_t len = strlen(tensor.name);
        tensor.source = (uint32_t)gguf->n_sources;
        TRY(vki_arena_string(&gguf->arena, tensor.name, len, error, &tensor.name));
        TRY(vki_gguf_add_tensor(gguf, &tensor, part->path, error));
    }
    TRY(vki_grow(gguf->host, gguf->n_sources + 1, sizeof *gguf->sources, error, &gguf->sources,
                 &gguf->sources_capacity));
    vki_source *source = &gguf->sources[gguf->n_sources];
    *source = part->sources[0];
    TRY(vki_arena_string(&gguf->arena, source->name, strlen(source->name), error, &source->name));
    gguf->n_sources++;
    gguf->file_bytes += part->file_bytes;
    part->n_sources = 0;
    return VKLM_OK;
}

static vklm_status join_part(vki_gguf *gguf, const vki_input *input, const char *path, const split *expected,
                             vklm_error *error)
{
    vki_gguf part;
    TRY(path ? vki_gguf_open_path(&part, gguf->host, path, error)
             : vki_gguf_open_part(&part, gguf->host, input, expected->part, error));
    const vklm_status status = take_part(gguf, &part, expected, error);
    vki_gguf_close(&part);
    return status;
}

static vklm_status join_sources(vki_gguf *gguf, const vki_input *input, split *expected, vklm_error *error)
{
    const uint32_t n_sources = input->n_sources ? input->n_sources : 1;
    if (n_sources != expected->n_parts)
        return vki_fail(error, VKLM_INVALID_ARGUMENT,
                        "%s: the first of %u parts, and %u sources; give one for each part, in order",
                        gguf->path, expected->n_parts, n_sources);
    for (expected->part = 1; expected->part < expected->n_parts; expected->part++)
        TRY(join_part(gguf, input, NULL, expected, error));
    return VKLM_OK;
}

static vklm_status join_files(vki_gguf *gguf, split *expected, vklm_error *error)
{
    const size_t len = strlen(gguf->path), suffix_len = SUFFIX_SIZE - 1;
    char suffix[SUFFIX_SIZE];
    write_suffix(suffix, 0, expected->n_parts);
    if (len < suffix_len || strcmp(gguf->path + len - suffix_len, suffix) != 0)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: the first of %u parts; its name must end in %s, so that the others are found",
                        gguf->path, expected->n_parts, suffix);
    char *path;
    vklm_status status = vki_alloc(gguf->host, len + 1, 1, error, &path);
    if (status != VKLM_OK) return status;
    memcpy(path, gguf->path, len);
    for (uint32_t i = 1; i < expected->n_parts; i++) {
        write_suffix(path + len - suffix_len, i, expected->n_parts);
        expected->part = i;
        TRY_OR_FAIL(join_part(gguf, NULL, path, expected, error));
    }
fail:
    vki_release(gguf->host, &path);
    return status;
}

vklm_status vki_gguf_join_parts(vki_gguf *gguf, const vki_input *input, vklm_error *error)
{
    split whole;
    TRY(read_split(gguf, error, &whole));
    if (whole.part != 0)
        return vki_fail(error, VKLM_BAD_FILE, "%s: part %u of %u of a model; open the first part (-00001-of-) instead",
                        gguf->path, whole.part + 1, whole.n_parts);
    if (!input->path) TRY(join_sources(gguf, input, &whole, error));
    if (whole.n_parts == 1) return VKLM_OK;
    if (input->path) TRY(join_files(gguf, &whole, error));
    if (gguf->n_tensors != whole.n_tensors)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: the parts hold %zu tensors together, split.tensors.count says %" PRIu64,
                        gguf->path, gguf->n_tensors, whole.n_tensors);
    return VKLM_OK;
}
