/* test_glsl.c - shaders compiled at run time from a folder, or refused by builds that cannot. */
#include "support/gpu.h"

#include <stdio.h>
#include <string.h>

#include "support/suite.h"
#include "support/temp.h"

static vklm_error error;

#if defined(VKLM_RUNTIME_GLSL)

#include "gpu/glsl.h"

static vki_host host;
static char folder[TEMP_FOLDER_SIZE];

static void make_folder(void)
{
    vki_host_init(&host, NULL, NULL);
    temp_folder(folder);
}

static const char *const names[] = {"main.comp", "lib.glsl", "circle.glsl"};

static void remove_folder(void)
{
    char path[TEMP_FOLDER_SIZE + 64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    temp_folder_remove(folder);
}

static void write_file(const char *name, const char *content)
{
    char path[TEMP_FOLDER_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(content, file);
    fclose(file);
}

static vklm_status compile(const char *defines)
{
    const vki_shader shader = {.name = "thing", .source = "main.comp", .defines = defines};
    uint32_t *words;
    size_t size_bytes;
    const vklm_status status =
        vki_glsl_compile(&host, folder, &shader, &error, &words, &size_bytes);
    ck_assert((status == VKLM_OK) == (words != NULL));
    if (words) ck_assert_uint_eq(words[0], 0x07230203);
    vki_release(&host, &words);
    return status;
}

START_TEST(every_shader_of_the_project_compiles)
{
    for (size_t i = 0; i < vki_shader_count; i++) {
        uint32_t *words;
        size_t size_bytes;
        CHECK_OK(vki_glsl_compile(&host, VKLM_SOURCE_DIR "/shaders", &vki_shaders[i], &error,
                                  &words, &size_bytes));
        ck_assert_uint_gt(size_bytes, 100);
        ck_assert_uint_eq(words[0], 0x07230203);
        vki_release(&host, &words);
    }
}
END_TEST

START_TEST(a_device_compiles_from_its_folder)
{
    vklm_device *device = test_device(&(vklm_device_params){
        .struct_size = sizeof(vklm_device_params), .shader_dir = VKLM_SOURCE_DIR "/shaders"});
    vki_pipelines pipelines;
    vki_pipelines_init(&pipelines, device);
    const vki_pipeline_key key = {.shader = "sample", .spec = {32}, .n_spec = 1};
    const vki_pipeline *pipeline;
    CHECK_OK(vki_pipeline_get(&pipelines, &key, &error, &pipeline));
    vki_pipelines_free(&pipelines);
    vklm_device_destroy(&device);
    device = test_device(
        &(vklm_device_params){.struct_size = sizeof(vklm_device_params), .shader_dir = folder});
    vki_pipelines_init(&pipelines, device);
    CHECK_FAILS(vki_pipeline_get(&pipelines, &key, &error, &pipeline), VKLM_IO_ERROR,
                "sample.comp");
    vki_pipelines_free(&pipelines);
    vklm_device_destroy(&device);
}
END_TEST

START_TEST(definitions_and_includes_reach_the_shader)
{
    write_file("lib.glsl", "const int from_lib = VALUE;\n#if FLAG != 1\n#error no flag\n#endif");
    write_file("main.comp", "#version 460\n#include \"lib.glsl\"\nlayout(local_size_x = from_lib) "
                            "in;\nvoid main() {}\n");
    CHECK_OK(compile("VALUE=4\nFLAG=1"));
    CHECK_FAILS(compile("VALUE=4\nFLAG=2"), VKLM_SHADER_ERROR, "no flag");
    CHECK_FAILS(compile("FLAG=1"), VKLM_SHADER_ERROR, "VALUE");
}
END_TEST

START_TEST(messages_name_file_and_line)
{
    write_file("lib.glsl", "\n\nfloat half_of(float x) { return x / two; }\n");
    write_file("main.comp", "#version 460\n\n#include \"lib.glsl\"\nvoid main() {}\n");
    CHECK_FAILS(compile(""), VKLM_SHADER_ERROR, "lib.glsl:3: 'two'");
    ck_assert(strstr(error.text, "thing (main.comp)") != NULL);
    write_file("lib.glsl", "const float two = 2;\n");
    write_file("main.comp", "#version 460\n\n#include \"lib.glsl\"\n\nvoid main() { three; }\n");
    CHECK_FAILS(compile(""), VKLM_SHADER_ERROR, "main.comp:5: 'three'");
    write_file("main.comp", "#version 460\nvoid main() { four; }\n");
    CHECK_FAILS(compile(""), VKLM_SHADER_ERROR, "main.comp:2: 'four'");
}
END_TEST

START_TEST(files_that_are_missing_or_include_themselves_are_named)
{
    CHECK_FAILS(compile(""), VKLM_IO_ERROR, "main.comp");
    write_file("main.comp", "#version 460\n#include \"lib.glsl\"\nvoid main() {}\n");
    CHECK_FAILS(compile(""), VKLM_IO_ERROR, "lib.glsl");
    write_file("lib.glsl", "#include \"circle.glsl\"\n");
    write_file("circle.glsl", "#include \"lib.glsl\"\n");
    CHECK_FAILS(compile(""), VKLM_SHADER_ERROR, "circle");
    write_file("main.comp", "");
    CHECK_FAILS(compile(""), VKLM_SHADER_ERROR, "main.comp");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        every_shader_of_the_project_compiles,
        a_device_compiles_from_its_folder,
        definitions_and_includes_reach_the_shader,
        messages_name_file_and_line,
        files_that_are_missing_or_include_themselves_are_named,
    };
    return run_tests("glsl", make_folder, remove_folder, tests, sizeof tests / sizeof *tests);
}

#else

START_TEST(a_shader_folder_needs_a_build_with_a_compiler)
{
    vklm_device *device;
    const vklm_device_params params = {.struct_size = sizeof params, .shader_dir = "shaders"};
    CHECK_FAILS(vklm_device_create(&params, &error, &device), VKLM_UNSUPPORTED,
                "VKLM_RUNTIME_GLSL");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {a_shader_folder_needs_a_build_with_a_compiler};
    return run_tests("glsl", NULL, NULL, tests, 1);
}

#endif
