/* gguf_read.h - what the files of the GGUF reader share with one another and with nobody else. */
#ifndef VKI_GGUF_READ_H
#define VKI_GGUF_READ_H

#include "file/gguf.h"

enum { VKI_GGUF_TYPE_COUNT = VKI_GGUF_F64 + 1 };

/* type < VKI_GGUF_TYPE_COUNT. Bytes of one element; 0 for strings and arrays, which have no fixed
 * size. */
const char *vki_gguf_type_name(vki_gguf_type type);
uint32_t vki_gguf_type_bytes(vki_gguf_type type);

/* Begins a gguf over one source, which `open` opens under a name that the gguf keeps, and reads it, whatever
 * it says of parts. On failure *gguf is empty. */
vklm_status vki_gguf_open_path(vki_gguf *gguf, const vki_host *host, const char *path, vklm_error *error);
vklm_status vki_gguf_open_part(vki_gguf *gguf, const vki_host *host, const vki_input *input, uint32_t index,
                               vklm_error *error);

/* Reads the first source into the empty tables of *gguf. */
vklm_status vki_gguf_read(vki_gguf *gguf, vklm_error *error);

/* Append to the tables and refuse a name that is there already; `path` is for the error. */
vklm_status vki_gguf_add_value(vki_gguf *gguf, const vki_gguf_value *value, vklm_error *error);
vklm_status vki_gguf_add_tensor(vki_gguf *gguf, const vki_gguf_tensor *tensor, const char *path,
                                vklm_error *error);

/* Where *gguf, just opened, is the first part of a split model: opens the others and takes over
 * their sources and tensors. They are the input's, or files beside its path; INVALID_ARGUMENT where sources are too
 * many or too few. */
vklm_status vki_gguf_join_parts(vki_gguf *gguf, const vki_input *input, vklm_error *error);

#endif
