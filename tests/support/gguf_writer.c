/* gguf_writer.c - growing byte buffers: keys, tensor infos, tensor data, the finished file. */
#include "gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffer {
    uint8_t *bytes;
    size_t size, capacity;
} buffer;

struct gguf_writer {
    uint32_t version, alignment;
    uint64_t n_keys, n_tensors;
    buffer keys, infos, data;
    uint8_t *file;
};

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static void append(buffer *b, const void *bytes, size_t size)
{
    if (b->capacity - b->size < size) {
        b->capacity = (b->size + size) * 2;
        b->bytes = realloc(b->bytes, b->capacity);
        if (!b->bytes) abort();
    }
    if (size && bytes)
        memcpy(b->bytes + b->size, bytes, size);
    else if (size)
        memset(b->bytes + b->size, 0, size);
    b->size += size;
}

static void append_number(buffer *b, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> 8 * i);
    append(b, bytes, size);
}

static void append_string(buffer *b, const char *text, size_t len)
{
    append_number(b, len, 8);
    append(b, text, len);
}

static void pad(buffer *b, size_t alignment)
{
    if (alignment && b->size % alignment) append(b, NULL, alignment - b->size % alignment);
}

gguf_writer *gguf_writer_new(void)
{
    gguf_writer *w = calloc(1, sizeof *w);
    if (!w) abort();
    w->version = 3;
    w->alignment = 32;
    return w;
}

void gguf_writer_free(gguf_writer *w)
{
    if (!w) return;
    free(w->keys.bytes);
    free(w->infos.bytes);
    free(w->data.bytes);
    free(w->file);
    free(w);
}

void gguf_writer_set_version(gguf_writer *w, uint32_t version)
{
    w->version = version;
}

void gguf_writer_set_alignment(gguf_writer *w, uint32_t alignment)
{
    w->alignment = alignment;
    gguf_put_u32(w, "general.alignment", alignment);
}

static void put_key(gguf_writer *w, const char *key, uint32_t type)
{
    append_string(&w->keys, key, strlen(key));
    append_number(&w->keys, type, 4);
    w->n_keys++;
}

static void put_number(gguf_writer *w, const char *key, uint32_t type, uint64_t value, size_t size)
{
    put_key(w, key, type);
    append_number(&w->keys, value, size);
}

void gguf_put_u8(gguf_writer *w, const char *key, uint8_t value)
{
    put_number(w, key, U8, value, 1);
}

void gguf_put_u16(gguf_writer *w, const char *key, uint16_t value)
{
    put_number(w, key, U16, value, 2);
}

void gguf_put_u32(gguf_writer *w, const char *key, uint32_t value)
{
    put_number(w, key, U32, value, 4);
}

void gguf_put_u64(gguf_writer *w, const char *key, uint64_t value)
{
    put_number(w, key, U64, value, 8);
}

void gguf_put_bool(gguf_writer *w, const char *key, bool value)
{
    put_number(w, key, BOOL, value, 1);
}

void gguf_put_i8(gguf_writer *w, const char *key, int8_t value)
{
    put_number(w, key, I8, (uint64_t)value, 1);
}

void gguf_put_i16(gguf_writer *w, const char *key, int16_t value)
{
    put_number(w, key, I16, (uint64_t)value, 2);
}

void gguf_put_i32(gguf_writer *w, const char *key, int32_t value)
{
    put_number(w, key, I32, (uint64_t)value, 4);
}

void gguf_put_i64(gguf_writer *w, const char *key, int64_t value)
{
    put_number(w, key, I64, (uint64_t)value, 8);
}

void gguf_put_f32(gguf_writer *w, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(w, key, F32, bits, 4);
}

void gguf_put_f64(gguf_writer *w, const char *key, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(w, key, F64, bits, 8);
}

void gguf_put_string(gguf_writer *w, const char *key, const char *value)
{
    gguf_put_string_n(w, key, value, strlen(value));
}

void gguf_put_string_n(gguf_writer *w, const char *key, const char *value, size_t len)
{
    put_key(w, key, STRING);
    append_string(&w->keys, value, len);
}

static void put_array_head(gguf_writer *w, const char *key, uint32_t type, size_t n)
{
    put_key(w, key, ARRAY);
    append_number(&w->keys, type, 4);
    append_number(&w->keys, n, 8);
}

void gguf_put_strings(gguf_writer *w, const char *key, size_t n, const char *const *values)
{
    put_array_head(w, key, STRING, n);
    for (size_t i = 0; i < n; i++) append_string(&w->keys, values[i], strlen(values[i]));
}

void gguf_put_strings_n(gguf_writer *w, const char *key, size_t n, const char *const *values,
                        const size_t *lens)
{
    put_array_head(w, key, STRING, n);
    for (size_t i = 0; i < n; i++) append_string(&w->keys, values[i], lens[i]);
}

/* The tests run on little-endian machines only, so arrays are copied as they lie in memory. */
void gguf_put_array(gguf_writer *w, const char *key, uint32_t type, size_t n, const void *elements,
                    size_t size_bytes)
{
    put_array_head(w, key, type, n);
    append(&w->keys, elements, size_bytes);
}

void gguf_put_i32s(gguf_writer *w, const char *key, size_t n, const int32_t *values)
{
    gguf_put_array(w, key, I32, n, values, n * sizeof *values);
}

void gguf_put_u32s(gguf_writer *w, const char *key, size_t n, const uint32_t *values)
{
    gguf_put_array(w, key, U32, n, values, n * sizeof *values);
}

void gguf_put_f32s(gguf_writer *w, const char *key, size_t n, const float *values)
{
    gguf_put_array(w, key, F32, n, values, n * sizeof *values);
}

void gguf_put_bools(gguf_writer *w, const char *key, size_t n, const bool *values)
{
    gguf_put_array(w, key, BOOL, n, values, n * sizeof *values);
}

void gguf_put_raw(gguf_writer *w, const char *key, uint32_t type, const void *bytes,
                  size_t size_bytes)
{
    put_key(w, key, type);
    append(&w->keys, bytes, size_bytes);
}

void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t ggml_id, uint32_t n_dims,
                     const uint64_t *ne, const void *data, size_t size_bytes)
{
    pad(&w->data, w->alignment);
    gguf_put_tensor_info(w, name, ggml_id, n_dims, ne, w->data.size);
    append(&w->data, data, size_bytes);
}

void gguf_put_tensor_info(gguf_writer *w, const char *name, uint32_t ggml_id, uint32_t n_dims,
                          const uint64_t *ne, uint64_t offset)
{
    append_string(&w->infos, name, strlen(name));
    append_number(&w->infos, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) append_number(&w->infos, ne[i], 8);
    append_number(&w->infos, ggml_id, 4);
    append_number(&w->infos, offset, 8);
    w->n_tensors++;
}

void gguf_writer_finish(gguf_writer *w, uint8_t **bytes, size_t *size_bytes)
{
    buffer out = {0};
    append(&out, "GGUF", 4);
    append_number(&out, w->version, 4);
    append_number(&out, w->n_tensors, 8);
    append_number(&out, w->n_keys, 8);
    append(&out, w->keys.bytes, w->keys.size);
    append(&out, w->infos.bytes, w->infos.size);
    if (w->n_tensors) pad(&out, w->alignment);
    append(&out, w->data.bytes, w->data.size);
    if (w->n_tensors) pad(&out, w->alignment);
    free(w->file);
    w->file = realloc(out.bytes, out.size); /* exact, so that a sanitiser sees any overrun */
    if (!w->file) abort();
    *bytes = w->file;
    *size_bytes = out.size;
}

vklm_status gguf_parse(vki_gguf *gguf, const vki_host *host, const char *name, const uint8_t *bytes,
                       uint64_t size_bytes, vklm_error *error)
{
    const vklm_source source = {.struct_size = sizeof source, .kind = VKLM_SOURCE_MEMORY, .name = name,
                                .bytes = bytes, .size = size_bytes};
    return vki_gguf_open(gguf, host, &(vki_input){.sources = &source}, error);
}

vklm_status gguf_writer_open(gguf_writer *w, const vki_host *host, vklm_error *error, vki_gguf *gguf)
{
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(w, &bytes, &size);
    return gguf_parse(gguf, host, "tiny.gguf", bytes, size, error);
}

bool gguf_writer_save(gguf_writer *w, const char *path)
{
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(w, &bytes, &size);
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const bool written = fwrite(bytes, 1, size, file) == size;
    return fclose(file) == 0 && written;
}

size_t gguf_find_bytes(const uint8_t *bytes, size_t size_bytes, const void *wanted, size_t len)
{
    for (size_t at = 0; len <= size_bytes && at <= size_bytes - len; at++)
        if (memcmp(bytes + at, wanted, len) == 0) return at;
    return SIZE_MAX;
}

void gguf_patch_u32(uint8_t *bytes, size_t at, uint32_t value)
{
    for (size_t i = 0; i < 4; i++) bytes[at + i] = (uint8_t)(value >> 8 * i);
}

void gguf_patch_u64(uint8_t *bytes, size_t at, uint64_t value)
{
    for (size_t i = 0; i < 8; i++) bytes[at + i] = (uint8_t)(value >> 8 * i);
}
