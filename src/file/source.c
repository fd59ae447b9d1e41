/* source.c - paths, file descriptors, memory and read functions behind one struct. */
#include "file/source.h"

#include <string.h>

vklm_status vki_input_check(const vki_input *input, const char *noun, vklm_error *error)
{
    if (input->path && !*input->path) return vki_fail(error, VKLM_INVALID_ARGUMENT, "%s needs a path: it is empty", noun);
    if (input->path && !input->sources && input->n_sources == 0) return VKLM_OK;
    if (!input->path && input->sources && input->n_sources <= UINT16_MAX) return VKLM_OK;
    return vki_fail(error, VKLM_INVALID_ARGUMENT, "%s needs %s", noun,
                    input->path ? "a path or sources, not both" : "a path, or sources (at most 65535)");
}

vklm_status vki_input_part(const vki_input *input, uint32_t index, vklm_error *error, vklm_source *part)
{
    size_t stride; /* the caller's idea of the struct's size */
    memcpy(&stride, input->sources, sizeof stride);
    return vki_params(part, sizeof *part, (const char *)input->sources + index * stride, "vklm_source", error);
}

const char *vki_source_name(const vklm_source *given)
{
    if (given->name) return given->name;
    return given->kind == VKLM_SOURCE_FILE   ? "the model's open file"
           : given->kind == VKLM_SOURCE_READ ? "the model's read function"
                                             : "the model in memory";
}

static vklm_status open_given(vki_source *source, const vklm_source *given, vklm_error *error)
{
    if (given->kind == VKLM_SOURCE_FILE)
        return vki_map_open_file(&source->map, given->file, given->offset, given->size, source->name, error);
    if (given->kind == VKLM_SOURCE_MEMORY && given->bytes && (size_t)given->size == given->size) {
        source->bytes = given->bytes;
        source->size_bytes = given->size;
        return VKLM_OK;
    }
    if (given->kind == VKLM_SOURCE_READ && given->read) {
        source->read = given->read;
        source->user = given->user;
        source->size_bytes = given->size;
        return VKLM_OK;
    }
    return vki_fail(error, VKLM_INVALID_ARGUMENT,
                    "%s: a source of kind %d without what it needs: bytes for VKLM_SOURCE_MEMORY, read for "
                    "VKLM_SOURCE_READ", source->name, (int)given->kind);
}

static vklm_status opened(vki_source *source, vklm_status status)
{
    if (status != VKLM_OK) *source = (vki_source){0};
    if (source->map.bytes) source->bytes = source->map.bytes;
    if (source->map.bytes) source->size_bytes = source->map.size_bytes;
    return status;
}

vklm_status vki_source_open(vki_source *source, const vklm_source *given, const char *name, vklm_error *error)
{
    *source = (vki_source){.name = name};
    return opened(source, open_given(source, given, error));
}

vklm_status vki_source_open_path(vki_source *source, const char *path, vklm_error *error)
{
    *source = (vki_source){.name = path};
    return opened(source, vki_map_open(&source->map, path, error));
}

void vki_source_close(vki_source *source)
{
    vki_map_close(&source->map);
    *source = (vki_source){0};
}

vklm_status vki_source_read(const vki_source *source, uint64_t offset, void *bytes, uint64_t n, vklm_error *error)
{
    if (n == 0) return VKLM_OK;
    if (source->bytes) memcpy(bytes, source->bytes + offset, (size_t)n);
    else if (!source->read(source->user, offset, bytes, (size_t)n))
        return vki_fail(error, VKLM_IO_ERROR, "%s: %llu bytes from byte %llu on could not be read", source->name,
                        (unsigned long long)n, (unsigned long long)offset);
    return VKLM_OK;
}
