/* glsl.h - GLSL from a folder to SPIR-V at run time; only in builds with VKLM_RUNTIME_GLSL. */
#ifndef VKI_GLSL_H
#define VKI_GLSL_H

#include "gpu/pipeline.h"

/* Compiles dir/shader->source with shader->defines. *words is the caller's, released through
 * `host`. SHADER_ERROR carries the compiler's text with file and line. */
vklm_status vki_glsl_compile(const vki_host *host, const char *dir, const vki_shader *shader,
                             vklm_error *error, uint32_t **words, size_t *size_bytes);

#endif
