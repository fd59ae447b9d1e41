/* source.h - where the bytes of a GGUF come from: a mapped file, the caller's memory, or the caller's reads.
 *
 * A source that is mapped or in memory shows all its bytes. One that is read shows none: whoever wants some
 * asks for them, on the thread that called the library.
 */
#ifndef VKI_SOURCE_H
#define VKI_SOURCE_H

#include "base/os.h"

typedef struct vki_source {
    const char *name;     /* for errors; borrowed */
    const uint8_t *bytes; /* NULL where they are read, and of an empty source */
    uint64_t size_bytes;
    vki_map map;          /* owned */
    bool (*read)(void *user, uint64_t offset, void *bytes, size_t n);
    void *user;
} vki_source;

/* What a caller gives, read during the call only: a path, or else sources, one for each part of a model. */
typedef struct vki_input {
    const char *path;
    const vklm_source *sources;
    uint32_t n_sources;   /* 0 means 1 */
} vki_input;

/* INVALID_ARGUMENT unless it is one of the two. `noun`: "a model". */
vklm_status vki_input_check(const vki_input *input, const char *noun, vklm_error *error);

/* Part `index` of sources, as the header that we know has it. */
vklm_status vki_input_part(const vki_input *input, uint32_t index, vklm_error *error, vklm_source *part);

/* What errors call it. */
const char *vki_source_name(const vklm_source *given);

/* name: as the source keeps it. IO_ERROR, INVALID_ARGUMENT. On failure *source is empty. */
vklm_status vki_source_open(vki_source *source, const vklm_source *given, const char *name, vklm_error *error);
vklm_status vki_source_open_path(vki_source *source, const char *path, vklm_error *error);
/* Safe on a zeroed source. */
void vki_source_close(vki_source *source);

/* n bytes from `offset` on, which the source has. IO_ERROR names the source and the offset. */
vklm_status vki_source_read(const vki_source *source, uint64_t offset, void *bytes, uint64_t n, vklm_error *error);

#endif
