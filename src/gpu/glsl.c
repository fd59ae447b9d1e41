/* glsl.c - compiles a shader of a folder at run time, through glslang's C interface.
 *
 * Includes are put in place by a textual pass of our own: the C interface takes include callbacks only after glslang
 * 12. Every change of file is marked with a #line directive, so that messages name the file and line that a person
 * would open. Names are relative to the shader folder. Definitions are put behind #version, which a shader begins
 * with: glslang's own preamble would stand before it.
 */
#include "gpu/glsl.h"

#if defined(VKLM_RUNTIME_GLSL)

#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

enum { MAX_INCLUDE_DEPTH = 16, MAX_PATH_BYTES = 1024 };

typedef struct text {
    const vki_host *host;
    const char *dir, *defines;
    char *bytes; /* terminated once anything was added */
    size_t len, capacity;
} text;

static vklm_status append(text *out, const char *bytes, size_t len, vklm_error *error)
{
    TRY(vki_grow(out->host, out->len + len + 1, 1, error, &out->bytes, &out->capacity));
    memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
    out->bytes[out->len] = '\0';
    return VKLM_OK;
}

static vklm_status append_line_mark(text *out, unsigned line, const char *name, vklm_error *error)
{
    char mark[MAX_PATH_BYTES + 32];
    const int len = snprintf(mark, sizeof mark, "#line %u \"%s\"\n", line, name);
    return append(out, mark, (size_t)len, error);
}

/* What comes behind #version: the extension that lets #line name a file, and the definitions. */
static vklm_status append_defines(text *out, vklm_error *error)
{
    const char *defines = out->defines;
    static const char extension[] = "#extension GL_GOOGLE_cpp_style_line_directive : require\n";
    TRY(append(out, extension, sizeof extension - 1, error));
    while (*defines) {
        const size_t len = strcspn(defines, "\n");
        const char *equals = memchr(defines, '=', len);
        const size_t name_len = equals ? (size_t)(equals - defines) : len;
        TRY(append(out, "#define ", 8, error));
        TRY(append(out, defines, name_len, error));
        TRY(append(out, " ", 1, error));
        if (equals) TRY(append(out, equals + 1, len - name_len - 1, error));
        TRY(append(out, "\n", 1, error));
        defines += len + (defines[len] == '\n');
    }
    return VKLM_OK;
}

/* Whether a line is an #include "name"; copies the name. */
static bool parse_include(const char *line, size_t len, char name[MAX_PATH_BYTES])
{
    static const char word[] = "#include \"";
    if (len < sizeof word || memcmp(line, word, sizeof word - 1) != 0) return false;
    const char *begin = line + sizeof word - 1;
    const char *end = memchr(begin, '"', len - (sizeof word - 1));
    if (!end || end - begin >= MAX_PATH_BYTES) return false;
    memcpy(name, begin, (size_t)(end - begin));
    name[end - begin] = '\0';
    return true;
}

static vklm_status append_file(text *out, const char *name, unsigned depth, vklm_error *error);

static vklm_status append_lines(text *out, const char *name, unsigned depth, const char *bytes,
                                size_t len, vklm_error *error)
{
    char included[MAX_PATH_BYTES];
    for (unsigned line = 1; len > 0; line++) {
        const char *end = memchr(bytes, '\n', len);
        const size_t line_len = end ? (size_t)(end - bytes) : len;
        const bool is_version = line_len > 8 && memcmp(bytes, "#version", 8) == 0;
        const bool is_include = parse_include(bytes, line_len, included);
        if (is_include) TRY(append_file(out, included, depth + 1, error));
        else TRY(append(out, bytes, line_len, error));
        TRY(append(out, "\n", 1, error));
        if (is_version) TRY(append_defines(out, error));
        if (is_include || is_version) TRY(append_line_mark(out, line + 1, name, error));
        bytes += line_len;
        len -= line_len;
        if (end) bytes++, len--;
    }
    return VKLM_OK;
}

static vklm_status append_file(text *out, const char *name, unsigned depth, vklm_error *error)
{
    char path[2 * MAX_PATH_BYTES];
    if (depth > MAX_INCLUDE_DEPTH)
        return vki_fail(error, VKLM_SHADER_ERROR, "%s/%s: included more than %d deep; is it a circle?", out->dir,
                        name, MAX_INCLUDE_DEPTH);
    if (snprintf(path, sizeof path, "%s/%s", out->dir, name) >= (int)sizeof path)
        return vki_fail(error, VKLM_SHADER_ERROR, "%s: the path of a shader is too long", name);
    vki_map map;
    TRY(vki_map_open(&map, path, error));
    vklm_status status = VKLM_OK;
    if (depth > 0) status = append_line_mark(out, 1, name, error);
    if (status == VKLM_OK && map.size_bytes)
        status = append_lines(out, name, depth, (const char *)map.bytes, (size_t)map.size_bytes, error);
    vki_map_close(&map);
    return status;
}

static vklm_status copy_words(const vki_host *host, glslang_program_t *program, vklm_error *error,
                              uint32_t **words, size_t *size_bytes)
{
    const size_t n_words = glslang_program_SPIRV_get_size(program);
    TRY(vki_alloc(host, n_words, sizeof **words, error, words));
    glslang_program_SPIRV_get(program, *words);
    *size_bytes = n_words * sizeof **words;
    return VKLM_OK;
}

/* Fails with what the compiler says, of which the first lines count. */
static vklm_status refuse(const vki_shader *shader, const char *says, vklm_error *error)
{
    return vki_fail(error, VKLM_SHADER_ERROR, "%s (%s): %.900s", shader->name, shader->source, says);
}

static vklm_status compile(const vki_host *host, const vki_shader *shader, const char *code,
                           vklm_error *error, uint32_t **words, size_t *size_bytes)
{
    const glslang_input_t input = {
        .language = GLSLANG_SOURCE_GLSL,
        .stage = GLSLANG_STAGE_COMPUTE,
        .client = GLSLANG_CLIENT_VULKAN,
        .client_version = GLSLANG_TARGET_VULKAN_1_2,
        .target_language = GLSLANG_TARGET_SPV,
        .target_language_version = GLSLANG_TARGET_SPV_1_5,
        .code = code,
        .default_version = 460,
        .default_profile = GLSLANG_NO_PROFILE,
        .messages = GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT,
        .resource = glslang_default_resource(),
    };
    glslang_shader_t *compiled = glslang_shader_create(&input);
    glslang_program_t *program = glslang_program_create();
    vklm_status status;
    if (!glslang_shader_preprocess(compiled, &input) || !glslang_shader_parse(compiled, &input)) {
        status = refuse(shader, glslang_shader_get_info_log(compiled), error);
    } else {
        glslang_program_add_shader(program, compiled);
        if (glslang_program_link(program, (int)input.messages)) {
            glslang_program_SPIRV_generate(program, GLSLANG_STAGE_COMPUTE);
            status = copy_words(host, program, error, words, size_bytes);
        } else {
            status = refuse(shader, glslang_program_get_info_log(program), error);
        }
    }
    glslang_program_delete(program);
    glslang_shader_delete(compiled);
    return status;
}

vklm_status vki_glsl_compile(const vki_host *host, const char *dir, const vki_shader *shader,
                             vklm_error *error, uint32_t **words, size_t *size_bytes)
{
    text code = {.host = host, .dir = dir, .defines = shader->defines};
    vklm_status status;
    *words = NULL;
    *size_bytes = 0;
    TRY_OR_FAIL(append_file(&code, shader->source, 0, error));
    if (!glslang_initialize_process()) {
        status = vki_fail(error, VKLM_SHADER_ERROR, "glslang does not start");
        goto fail;
    }
    status = compile(host, shader, code.bytes ? code.bytes : "", error, words, size_bytes);
    glslang_finalize_process();
fail:
    vki_release(host, &code.bytes);
    return status;
}

#endif
