/* gguf_split.c - models cut into several files, PREFIX-00001-of-0000N.gguf and so on.
 *
 * Each part is a GGUF file of its own. The first holds the keys of the model; of the others only
 * the keys split.* and the tensors count. All must agree on the number of parts, and their tensors
 * together must be as many as the first part says.
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

/* Opens part number `part` and moves its map and tensors into *gguf. */
static vklm_status join_part(vki_gguf *gguf, const char *path, const split *expected,
                             vklm_error *error)
{
    vki_gguf part;
    split found;
    TRY(vki_gguf_open_one(&part, gguf->host, path, error));
    vklm_status status;
    TRY_OR_FAIL(read_split(&part, error, &found));
    if (found.part != expected->part || found.n_parts != expected->n_parts) {
        status = vki_fail(
            error, VKLM_BAD_FILE,
            "%s: says it is part %" PRIu32 " of %" PRIu32 ", expected %" PRIu32 " of %" PRIu32,
            path, found.part + 1, found.n_parts, expected->part + 1, expected->n_parts);
        goto fail;
    }
    for (size_t i = 0; i < part.n_tensors; i++) {
        vki_gguf_tensor tensor = part.tensors[i];
        const size_t len = strlen(tensor.name);
        TRY_OR_FAIL(vki_arena_string(&gguf->arena, tensor.name, len, error, &tensor.name));
        TRY_OR_FAIL(vki_gguf_add_tensor(gguf, &tensor, path, error));
    }
    TRY_OR_FAIL(vki_grow(gguf->host, gguf->n_maps + 1, sizeof *gguf->maps, error, &gguf->maps,
                         &gguf->maps_capacity));
    gguf->maps[gguf->n_maps++] = part.maps[0];
    gguf->file_bytes += part.file_bytes;
    part.n_maps = 0;
fail: /* also the way out of success: what was moved is no longer the part's */
    vki_gguf_close(&part);
    return status;
}

static vklm_status join_all(vki_gguf *gguf, split *expected, vklm_error *error)
{
    const size_t len = strlen(gguf->path), suffix_len = SUFFIX_SIZE - 1;
    char suffix[SUFFIX_SIZE];
    write_suffix(suffix, 0, expected->n_parts);
    if (len < suffix_len || strcmp(gguf->path + len - suffix_len, suffix) != 0)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: the first of %" PRIu32
                        " parts; its name must end in %s, so that the others are found",
                        gguf->path, expected->n_parts, suffix);
    char *path;
    vklm_status status = vki_alloc(gguf->host, len + 1, 1, error, &path);
    if (status != VKLM_OK) return status;
    memcpy(path, gguf->path, len);
    for (uint32_t i = 1; i < expected->n_parts; i++) {
        write_suffix(path + len - suffix_len, i, expected->n_parts);
        expected->part = i;
        TRY_OR_FAIL(join_part(gguf, path, expected, error));
    }
fail:
    vki_release(gguf->host, &path);
    return status;
}

vklm_status vki_gguf_join_parts(vki_gguf *gguf, bool alone, vklm_error *error)
{
    split whole;
    TRY(read_split(gguf, error, &whole));
    if (whole.n_parts == 1) return VKLM_OK;
    if (whole.part != 0)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: part %" PRIu32 " of %" PRIu32
                        " of a model; open the first part (-00001-of-) instead",
                        gguf->path, whole.part + 1, whole.n_parts);
    if (alone)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: the first of %" PRIu32 " parts; expected a whole model", gguf->path,
                        whole.n_parts);
    TRY(join_all(gguf, &whole, error));
    if (gguf->n_tensors != whole.n_tensors)
        return vki_fail(
            error, VKLM_BAD_FILE,
            "%s: the parts hold %zu tensors together, split.tensors.count says %" PRIu64,
            gguf->path, gguf->n_tensors, whole.n_tensors);
    return VKLM_OK;
}
