/* gguf.h - a bounds-checked GGUF reader (versions 2 and 3, split files included) over any source.
 *
 * Owns the sources, the key table and the tensor table. Nothing in the file is trusted: every length
 * is compared with the bytes that remain before anything is read or allocated. Values point into
 * the map, the caller's memory, or a copy of what lies before the tensors' data, and live until
 * vki_gguf_close. Knows nothing of Vulkan or of architectures.
 *
 * Refused: what gguf's own loader refuses, and bools that are neither 0 nor 1. Accepted as sound:
 * tensors without elements, types that vklm cannot run, bytes behind the last tensor.
 */
#ifndef VKI_GGUF_H
#define VKI_GGUF_H

#include "base/arena.h"
#include "file/source.h"

typedef enum vki_gguf_type {
    VKI_GGUF_U8, VKI_GGUF_I8, VKI_GGUF_U16, VKI_GGUF_I16, VKI_GGUF_U32, VKI_GGUF_I32, VKI_GGUF_F32,
    VKI_GGUF_BOOL, VKI_GGUF_STRING, VKI_GGUF_ARRAY, VKI_GGUF_U64, VKI_GGUF_I64, VKI_GGUF_F64,
} vki_gguf_type;

typedef struct vki_string {
    const char *text; /* borrowed, not terminated, may hold NUL and any bytes */
    size_t len;
} vki_string;

typedef struct vki_gguf_value {
    const char *key;      /* terminated, printable ASCII */
    vki_gguf_type type;   /* of the value; of the elements where is_array */
    bool is_array;
    uint64_t count;       /* elements; 1 for a scalar */
    const uint8_t *bytes; /* little-endian, unaligned; of strings: the first length field */
    const uint64_t *string_offsets; /* arrays of strings: byte offset of each element's length field
                                       from `bytes`; checked at open */
} vki_gguf_value;

typedef struct vki_gguf_tensor {
    const char *name; /* terminated, printable ASCII */
    uint32_t ggml_id; /* known to vki_ggml_type */
    uint32_t n_dims;
    uint64_t ne[4]; /* ne[0] = row length; missing dims are 1; any may be 0 */
    const uint8_t *data; /* NULL where the source is read: vki_gguf_read_tensor */
    uint64_t size_bytes;
    uint64_t offset;     /* of the data in its source */
    uint32_t source;
} vki_gguf_tensor;

/* Finds an element of an array by name: open addressing, element index + 1 in each slot or 0. */
typedef struct vki_name_table {
    uint32_t *slots; /* owned */
    size_t n_slots;
} vki_name_table;

typedef struct vki_gguf {
    const vki_host *host; /* borrowed */
    const char *path;     /* of the first file; owned by the arena */
    vki_arena arena;      /* names and string offsets */
    uint64_t seed;        /* of the hashes of names: no file can be made to have them collide */
    vki_source *sources;  /* owned: files, in the order of parts */
    uint8_t *header;      /* owned: what of a source that is read lies before the tensors' data */
    vki_gguf_value *values;   /* owned; keys of the first file */
    vki_gguf_tensor *tensors; /* owned; of all files, in listing order */
    size_t n_sources, n_values, n_tensors;
    size_t sources_capacity, header_bytes, values_capacity, tensors_capacity;
    vki_name_table value_table, tensor_table;
    uint64_t file_bytes; /* all files */
} vki_gguf;

/* Opens a whole model: a single file, or the first part of a split one, whose others are found by
 * their names, or are the sources that follow. Errors name the file, the field, key or tensor, and
 * what was expected: IO_ERROR, BAD_FILE, UNSUPPORTED (big-endian, a version unknown or obsolete),
 * OUT_OF_MEMORY, INVALID_ARGUMENT. On failure *gguf is empty. `host` must outlive it. */
vklm_status vki_gguf_open(vki_gguf *gguf, const vki_host *host, const vki_input *input, vklm_error *error);

/* Safe on a zeroed gguf. */
void vki_gguf_close(vki_gguf *gguf);

/* NULL where there is none. */
const vki_gguf_value *vki_gguf_find(const vki_gguf *gguf, const char *key);
const vki_gguf_tensor *vki_gguf_find_tensor(const vki_gguf *gguf, const char *name);

/* n bytes of a tensor's data, from byte `from` of it on, which it has. IO_ERROR. */
vklm_status vki_gguf_read_tensor(const vki_gguf *gguf, const vki_gguf_tensor *tensor, uint64_t from,
                                 uint64_t n, vklm_error *error, void *bytes);

/* Typed reads. Integers of any width and sign are accepted where the value fits, f32 and f64 alike
 * where it is finite. Absent key: *out is left as it was (the caller's default) and *found is false
 * (found may be NULL). Present with another type or out of range: BAD_FILE naming the key. */
vklm_status vki_gguf_u64(const vki_gguf *gguf, const char *key, uint64_t max, vklm_error *error,
                         uint64_t *out, bool *found);
vklm_status vki_gguf_u32(const vki_gguf *gguf, const char *key, vklm_error *error, uint32_t *out, bool *found);
vklm_status vki_gguf_f32(const vki_gguf *gguf, const char *key, vklm_error *error, float *out, bool *found);
vklm_status vki_gguf_bool(const vki_gguf *gguf, const char *key, vklm_error *error, bool *out, bool *found);
vklm_status vki_gguf_string(const vki_gguf *gguf, const char *key, vklm_error *error,
                            vki_string *out, bool *found);

/* Element reads; index < value->count (a scalar has one element), the type checked by the caller
 * through vki_gguf_array_of. Integers above INT64_MAX read as INT64_MAX. */
vki_string vki_gguf_string_at(const vki_gguf_value *value, uint64_t index);
int64_t vki_gguf_int_at(const vki_gguf_value *value, uint64_t index);
double vki_gguf_float_at(const vki_gguf_value *value, uint64_t index);

/* BAD_FILE unless the key is an array of strings / integers or bools / floats; *out NULL where
 * absent. */
typedef enum { VKI_GGUF_STRINGS, VKI_GGUF_INTS, VKI_GGUF_FLOATS } vki_gguf_kind;
vklm_status vki_gguf_array_of(const vki_gguf *gguf, const char *key, vki_gguf_kind kind,
                              vklm_error *error, const vki_gguf_value **out);

#endif
