/* gguf_writer.h - builds GGUF files in memory: tiny models and vocabularies, and files that lie.
 *
 *     gguf_writer *w = gguf_writer_new();
 *     gguf_put_string(w, "general.architecture", "llama");
 *     gguf_put_tensor(w, "w", 0, 2, (uint64_t[]){3, 2}, weights, sizeof weights);
 *     gguf_writer_save(w, path);            or  gguf_writer_finish(w, &bytes, &size);
 *     gguf_writer_free(w);
 *
 * Keys and tensors appear in the order of the calls. Everything is copied at the call. Nothing is
 * checked: names, types and sizes go into the file as given. Aborts where memory runs out.
 */
#ifndef GGUF_WRITER_H
#define GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/gguf.h"

typedef struct gguf_writer gguf_writer;

gguf_writer *gguf_writer_new(void);
void gguf_writer_free(gguf_writer *w); /* NULL is fine */

/* Version of the header, 3 unless set. */
void gguf_writer_set_version(gguf_writer *w, uint32_t version);

/* Lays tensors out for this alignment (32 unless set) and puts the key general.alignment. */
void gguf_writer_set_alignment(gguf_writer *w, uint32_t alignment);

void gguf_put_u8(gguf_writer *w, const char *key, uint8_t value);
void gguf_put_i8(gguf_writer *w, const char *key, int8_t value);
void gguf_put_u16(gguf_writer *w, const char *key, uint16_t value);
void gguf_put_i16(gguf_writer *w, const char *key, int16_t value);
void gguf_put_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_put_i32(gguf_writer *w, const char *key, int32_t value);
void gguf_put_u64(gguf_writer *w, const char *key, uint64_t value);
void gguf_put_i64(gguf_writer *w, const char *key, int64_t value);
void gguf_put_f32(gguf_writer *w, const char *key, float value);
void gguf_put_f64(gguf_writer *w, const char *key, double value);
void gguf_put_bool(gguf_writer *w, const char *key, bool value);
void gguf_put_string(gguf_writer *w, const char *key, const char *value);
void gguf_put_string_n(gguf_writer *w, const char *key, const char *value, size_t len);

/* Arrays. gguf_put_strings takes terminated strings, gguf_put_strings_n any bytes. */
void gguf_put_strings(gguf_writer *w, const char *key, size_t n, const char *const *values);
void gguf_put_strings_n(gguf_writer *w, const char *key, size_t n, const char *const *values,
                        const size_t *lens);
void gguf_put_i32s(gguf_writer *w, const char *key, size_t n, const int32_t *values);
void gguf_put_u32s(gguf_writer *w, const char *key, size_t n, const uint32_t *values);
void gguf_put_f32s(gguf_writer *w, const char *key, size_t n, const float *values);
void gguf_put_bools(gguf_writer *w, const char *key, size_t n, const bool *values);

/* An array of any fixed-size type (ids of the format: 0 u8 ... 12 f64), elements little-endian. */
void gguf_put_array(gguf_writer *w, const char *key, uint32_t type, size_t n, const void *elements,
                    size_t size_bytes);

/* A key with any type id and any bytes behind it. */
void gguf_put_raw(gguf_writer *w, const char *key, uint32_t type, const void *bytes,
                  size_t size_bytes);

/* ne[0] is the row length. data: size_bytes bytes, laid out behind the last tensor; NULL: zeros. */
void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t ggml_id, uint32_t n_dims,
                     const uint64_t *ne, const void *data, size_t size_bytes);

/* A tensor whose offset is given; its data is nowhere. */
void gguf_put_tensor_info(gguf_writer *w, const char *name, uint32_t ggml_id, uint32_t n_dims,
                          const uint64_t *ne, uint64_t offset);

/* The whole file, in a buffer of exactly that size; it may be patched, and belongs to the writer:
 * valid until the next finish, save or free. More can be put afterwards. */
void gguf_writer_finish(gguf_writer *w, uint8_t **bytes, size_t *size_bytes);

/* Opens bytes in memory, borrowed; `name` stands for the path in errors. */
vklm_status gguf_parse(vki_gguf *gguf, const vki_host *host, const char *name, const uint8_t *bytes,
                       uint64_t size_bytes, vklm_error *error);

/* Finishes the file and opens it, as "tiny.gguf"; what is opened reads the writer's bytes. */
vklm_status gguf_writer_open(gguf_writer *w, const vki_host *host, vklm_error *error, vki_gguf *gguf);

/* False where the file cannot be written. */
bool gguf_writer_save(gguf_writer *w, const char *path);

/* Offset of the first occurrence of len bytes, for patching; SIZE_MAX where there is none. */
size_t gguf_find_bytes(const uint8_t *bytes, size_t size_bytes, const void *wanted, size_t len);

/* Overwrites a little-endian number. */
void gguf_patch_u32(uint8_t *bytes, size_t at, uint32_t value);
void gguf_patch_u64(uint8_t *bytes, size_t at, uint64_t value);

#endif
