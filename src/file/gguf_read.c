/* gguf_read.c - one GGUF file from its first byte to its tensors' data, checked on the way.
 *
 * A reader walks the bytes once. Whatever it takes, it first compares with what is left, and what a
 * count promises must fit into the bytes behind it before memory is asked for. Tensor data must lie
 * as every writer lays it: in listing order, aligned, without gaps; so each offset has one sound
 * value, and overlaps cannot be. Padding behind the last tensor may be missing, more may follow.
 *
 * Of a source that shows no bytes, a growing copy of the beginning stands for them.
 */
#include "file/gguf_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "file/format.h"
#include "file/little.h"

enum {
    MAX_KEY_BYTES = 65535,
    MAX_TENSOR_NAME_BYTES = 63,
    MAX_STRING_BYTES = 1 << 30,
    MAX_COUNT = 1 << 30,   /* of keys, tensors, and elements of an array */
    MIN_KEY_BYTES = 14,    /* a key of one byte, its type, a value of one byte */
    MIN_TENSOR_BYTES = 25, /* a name of one byte, no dimensions, type, offset */
    MIN_STRING_BYTES = 8,
    FIRST_READ_BYTES = 256 << 10, /* of a source that is read */
    DEFAULT_ALIGNMENT = 32,
};

typedef struct reader {
    vki_gguf *gguf;
    vklm_error *error;
    const uint8_t *bytes; /* the first n_there are */
    uint64_t size, n_there, at;
    const char *noun; /* what is being read, for errors: "header", "key", "tensor" */
    uint64_t index;   /* which one, from 1; 0 where there is one only */
    const char *name; /* NULL until it is known */
} reader;

static void begin(reader *r, const char *noun, uint64_t index)
{
    r->noun = noun;
    r->index = index;
    r->name = NULL;
}

static vklm_status VKI_PRINTF(2, 3) refuse(const reader *r, const char *format, ...)
{
    char subject[128], sentence[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (r->name)
        snprintf(subject, sizeof subject, "%s '%.100s'", r->noun, r->name);
    else if (r->index)
        snprintf(subject, sizeof subject, "%s number %" PRIu64, r->noun, r->index);
    else
        snprintf(subject, sizeof subject, "%s", r->noun);
    return vki_fail(r->error, VKLM_BAD_FILE, "%s: %s: %s", r->gguf->path, subject, sentence);
}

static uint64_t remaining(const reader *r)
{
    return r->size - r->at;
}

/* Reads on, so that the first `end` bytes are there, and moves what points to them. */
static vklm_status read_on(reader *r, uint64_t end)
{
    vki_gguf *gguf = r->gguf;
    const uint64_t n = vki_min(r->size, vki_max(end, vki_max(2 * r->n_there, FIRST_READ_BYTES)));
    if ((size_t)n != n) return vki_fail(r->error, VKLM_OUT_OF_MEMORY, "%s: no memory for its keys", gguf->path);
    uint8_t *longer;
    TRY(vki_alloc(gguf->host, (size_t)n, 1, r->error, &longer));
    if (r->n_there) memcpy(longer, gguf->header, (size_t)r->n_there);
    for (size_t i = 0; i < gguf->n_values; i++)
        gguf->values[i].bytes = longer + (gguf->values[i].bytes - gguf->header);
    vki_release(gguf->host, &gguf->header);
    gguf->header = longer;
    gguf->header_bytes = (size_t)n;
    TRY(vki_source_read(&gguf->sources[0], r->n_there, longer + r->n_there, n - r->n_there, r->error));
    r->bytes = longer;
    r->n_there = n;
    return VKLM_OK;
}

static vklm_status take(reader *r, uint64_t n, const char *field, const uint8_t **out)
{
    *out = NULL;
    if (n > remaining(r))
        return refuse(r,
                      "truncated: %s needs %" PRIu64 " bytes and the file ends after %" PRIu64
                      "; is the download complete?",
                      field, n, remaining(r));
    if (n > r->n_there - r->at) TRY(read_on(r, r->at + n));
    *out = r->bytes + r->at;
    r->at += n;
    return VKLM_OK;
}

static vklm_status take_u32(reader *r, const char *field, uint32_t *out)
{
    const uint8_t *bytes;
    TRY(take(r, 4, field, &bytes));
    *out = vki_load32(bytes);
    return VKLM_OK;
}

static vklm_status take_u64(reader *r, const char *field, uint64_t *out)
{
    const uint8_t *bytes;
    TRY(take(r, 8, field, &bytes));
    *out = vki_load64(bytes);
    return VKLM_OK;
}

/* A number of things of at least `least` bytes each, all of which lie behind it. */
static vklm_status take_count(reader *r, const char *field, uint64_t least, uint64_t *out)
{
    TRY(take_u64(r, field, out));
    if (*out > INT64_MAX) return refuse(r, "%s is negative (%" PRId64 ")", field, (int64_t)*out);
    const uint64_t most = vki_min(MAX_COUNT, remaining(r) / least);
    if (*out > most)
        return refuse(r,
                      "%s is %" PRIu64 ", at most %" PRIu64 " fit into the %" PRIu64
                      " bytes left: corrupt or truncated",
                      field, *out, most, remaining(r));
    return VKLM_OK;
}

/* A key or a tensor's name: printable ASCII, so that it can be shown and compared as a C string. */
static vklm_status take_name(reader *r, uint64_t max_bytes, const char **out)
{
    uint64_t len;
    const uint8_t *text;
    TRY(take_u64(r, "the length of the name", &len));
    if (len == 0) return refuse(r, "its name is empty");
    if (len > max_bytes)
        return refuse(r, "its name has %" PRIu64 " bytes, at most %" PRIu64 " are allowed", len, max_bytes);
    TRY(take(r, len, "the name", &text));
    for (uint64_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return refuse(r, "byte 0x%02x in its name, expected printable ASCII", text[i]);
    return vki_arena_string(&r->gguf->arena, (const char *)text, (size_t)len, r->error, out);
}

static vklm_status check_version(const reader *r, uint32_t version)
{
    const char *path = r->gguf->path;
    if (version == 0) return refuse(r, "version 0 does not exist; expected 2 or 3");
    if ((version & 0xffff) == 0)
        return vki_fail(r->error, VKLM_UNSUPPORTED,
                        "%s: big-endian GGUF; expected a little-endian file", path);
    if (version == 1)
        return vki_fail(r->error, VKLM_UNSUPPORTED,
                        "%s: GGUF version 1 is obsolete; convert the model again (version 3)",
                        path);
    if (version > 3)
        return vki_fail(r->error, VKLM_UNSUPPORTED,
                        "%s: GGUF version %" PRIu32 " is newer than this vklm, which reads 2 and 3",
                        path, version);
    return VKLM_OK;
}

static vklm_status read_header(reader *r, uint64_t *n_tensors, uint64_t *n_values)
{
    const uint8_t *magic = NULL;
    uint32_t version;
    begin(r, "header", 0);
    if (r->size >= 4) TRY(take(r, 4, "magic", &magic));
    if (r->size < 4 || memcmp(magic, "GGUF", 4) != 0)
        return vki_fail(r->error, VKLM_BAD_FILE, "%s: not a GGUF file%s", r->gguf->path,
                        r->size ? "" : " (it is empty)");
    TRY(take_u32(r, "version", &version));
    TRY(check_version(r, version));
    TRY(take_count(r, "tensor_count", MIN_TENSOR_BYTES, n_tensors));
    return take_count(r, "metadata_kv_count", MIN_KEY_BYTES, n_values);
}

static vklm_status read_strings(reader *r, vki_gguf_value *value)
{
    uint64_t *offsets = NULL;
    const uint64_t start = r->at;
    if (value->is_array) {
        TRY(vki_arena_alloc(&r->gguf->arena, (size_t)value->count, sizeof *offsets, r->error, &offsets));
        value->string_offsets = offsets;
    }
    for (uint64_t i = 0; i < value->count; i++) {
        uint64_t len;
        const uint8_t *text;
        if (offsets) offsets[i] = r->at - start;
        TRY(take_u64(r, "the length of a string", &len));
        if (len > MAX_STRING_BYTES)
            return refuse(r, "string %" PRIu64 " has %" PRIu64 " bytes, at most 2^30 are allowed", i, len);
        TRY(take(r, len, "a string", &text));
    }
    return VKLM_OK;
}

static vklm_status read_numbers(reader *r, const vki_gguf_value *value)
{
    const uint8_t *bytes;
    TRY(take(r, value->count * vki_gguf_type_bytes(value->type), "the value", &bytes));
    for (uint64_t i = 0; value->type == VKI_GGUF_BOOL && i < value->count; i++)
        if (bytes[i] > 1) return refuse(r, "a bool is %d, expected 0 or 1", bytes[i]);
    return VKLM_OK;
}

static vklm_status take_type(reader *r, const char *field, vki_gguf_type *out)
{
    uint32_t type;
    TRY(take_u32(r, field, &type));
    if (type >= VKI_GGUF_TYPE_COUNT)
        return refuse(r, "%s %" PRIu32 " is unknown; expected 0 to 12", field, type);
    *out = (vki_gguf_type)type;
    return VKLM_OK;
}

static vklm_status read_key(reader *r)
{
    vki_gguf_value value = {.count = 1};
    TRY(take_name(r, MAX_KEY_BYTES, &value.key));
    r->name = value.key;
    TRY(take_type(r, "value type", &value.type));
    if (value.type == VKI_GGUF_ARRAY) {
        value.is_array = true;
        TRY(take_type(r, "element type", &value.type));
        if (value.type == VKI_GGUF_ARRAY) return refuse(r, "arrays of arrays are not allowed");
        const bool strings = value.type == VKI_GGUF_STRING;
        const uint64_t least = strings ? MIN_STRING_BYTES : vki_gguf_type_bytes(value.type);
        TRY(take_count(r, "the number of elements", least, &value.count));
    }
    const uint64_t start = r->at;
    TRY(value.type == VKI_GGUF_STRING ? read_strings(r, &value) : read_numbers(r, &value));
    value.bytes = r->bytes + start; /* now, because reading on moves them */
    return vki_gguf_add_value(r->gguf, &value, r->error);
}

static vklm_status read_alignment(reader *r, uint64_t *alignment)
{
    const vki_gguf_value *value = vki_gguf_find(r->gguf, "general.alignment");
    *alignment = DEFAULT_ALIGNMENT;
    if (!value) return VKLM_OK;
    begin(r, "key", 0);
    r->name = value->key;
    if (value->type != VKI_GGUF_U32 || value->is_array)
        return refuse(r, "its type is %s%s, expected u32", value->is_array ? "array of " : "",
                      vki_gguf_type_name(value->type));
    *alignment = vki_load32(value->bytes);
    if (*alignment == 0 || (*alignment & (*alignment - 1)) != 0)
        return refuse(r, "%" PRIu64 " is not a power of two", *alignment);
    return VKLM_OK;
}

static vklm_status read_shape(reader *r, vki_gguf_tensor *tensor)
{
    uint64_t n = 1;
    TRY(take_u32(r, "the number of dimensions", &tensor->n_dims));
    if (tensor->n_dims > 4)
        return refuse(r, "%" PRIu32 " dimensions, at most 4 are allowed", tensor->n_dims);
    for (uint32_t i = 0; i < 4; i++) {
        tensor->ne[i] = 1;
        if (i < tensor->n_dims) TRY(take_u64(r, "a dimension", &tensor->ne[i]));
        if (tensor->ne[i] > INT64_MAX)
            return refuse(r, "dimension %" PRIu32 " is negative (%" PRId64 ")", i, (int64_t)tensor->ne[i]);
        if (!vki_mul(n, tensor->ne[i], &n) || n > INT64_MAX)
            return refuse(r, "its number of elements overflows 63 bits");
    }
    return VKLM_OK;
}

static vklm_status read_type(reader *r, vki_gguf_tensor *tensor)
{
    const char *type;
    uint32_t block_weights, block_bytes;
    TRY(take_u32(r, "the type", &tensor->ggml_id));
    if (!vki_ggml_type(tensor->ggml_id, &type, &block_weights, &block_bytes))
        return refuse(r, "type id %" PRIu32 " is unknown or was removed from the format", tensor->ggml_id);
    if (tensor->ne[0] % block_weights != 0)
        return refuse(r, "rows of %" PRIu64 " weights are not whole %s blocks of %" PRIu32,
                      tensor->ne[0], type, block_weights);
    uint64_t size = block_bytes;
    bool fits = vki_mul(size, tensor->ne[0] / block_weights, &size);
    for (int i = 1; i < 4; i++) fits = fits && vki_mul(size, tensor->ne[i], &size);
    if (!fits || size > INT64_MAX) return refuse(r, "its size in bytes overflows 63 bits");
    tensor->size_bytes = size;
    return VKLM_OK;
}

/* *end: where the data of the tensors so far ends, from the start of all data; moved on. */
static vklm_status read_tensor(reader *r, uint64_t alignment, uint64_t *end)
{
    vki_gguf_tensor tensor = {0};
    uint64_t offset;
    TRY(take_name(r, MAX_TENSOR_NAME_BYTES, &tensor.name));
    r->name = tensor.name;
    TRY(read_shape(r, &tensor));
    TRY(read_type(r, &tensor));
    TRY(take_u64(r, "the offset", &offset));
    if (offset % alignment != 0)
        return refuse(r, "offset %" PRIu64 " is not a multiple of the alignment %" PRIu64, offset, alignment);
    if (offset != *end)
        return refuse(r, "offset %" PRIu64 ", expected %" PRIu64 ": tensors %s", offset, *end,
                      offset < *end ? "overlap or are out of order"
                                    : "leave a gap or are out of order");
    if (!vki_add(*end, vki_round_up(tensor.size_bytes, alignment), end))
        return refuse(r, "the size of all tensors overflows 64 bits");
    return vki_gguf_add_tensor(r->gguf, &tensor, r->gguf->path, r->error);
}

/* Points every tensor at its data, behind what has been read. */
static vklm_status place_tensors(reader *r, uint64_t alignment)
{
    const uint64_t start = vki_round_up(r->at, alignment);
    begin(r, "tensor data", 0);
    if (r->gguf->n_tensors > 0 && start > r->size)
        return refuse(r,
                      "truncated: begins at byte %" PRIu64 " and the file ends at %" PRIu64
                      "; is the download complete?",
                      start, r->size);
    uint64_t at = start;
    begin(r, "tensor", 0);
    for (size_t i = 0; i < r->gguf->n_tensors; i++) {
        vki_gguf_tensor *tensor = &r->gguf->tensors[i];
        const uint64_t from = vki_min(at, r->size); /* past the end only where it is empty */
        tensor->data = r->gguf->sources[0].bytes ? r->bytes + from : NULL;
        tensor->offset = from;
        r->name = tensor->name;
        if (tensor->size_bytes > r->size - from)
            return refuse(r,
                          "truncated: its data needs %" PRIu64 " bytes from byte %" PRIu64
                          " and the file ends at %" PRIu64 "; is the download complete?",
                          tensor->size_bytes, at, r->size);
        at += vki_round_up(tensor->size_bytes, alignment);
    }
    return VKLM_OK;
}

vklm_status vki_gguf_read(vki_gguf *gguf, vklm_error *error)
{
    const vki_source *source = &gguf->sources[0];
    reader r = {.gguf = gguf, .error = error, .bytes = source->bytes, .size = source->size_bytes,
                .n_there = source->bytes ? source->size_bytes : 0};
    uint64_t n_tensors = 0, n_values = 0, alignment, end = 0;
    gguf->file_bytes = source->size_bytes;
    TRY(read_header(&r, &n_tensors, &n_values));
    for (uint64_t i = 1; i <= n_values; i++) {
        begin(&r, "key", i);
        TRY(read_key(&r));
    }
    TRY(read_alignment(&r, &alignment));
    for (uint64_t i = 1; i <= n_tensors; i++) {
        begin(&r, "tensor", i);
        TRY(read_tensor(&r, alignment, &end));
    }
    return place_tensors(&r, alignment);
}
