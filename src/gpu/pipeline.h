/* pipeline.h - compute pipelines by shader name and specialisation constants.
 *
 * A shader is one entry of the generated table (`shaders` target): embedded SPIR-V, or, where the
 * device has a shader_dir, GLSL of the same name compiled from there at run time.
 */
#ifndef VKI_PIPELINE_H
#define VKI_PIPELINE_H

#include "base/os.h"
#include "gpu/device.h"

enum { VKI_MAX_SPEC = 17, VKI_PUSH_BYTES = 128 };

/* The generated table of what is built in. */
typedef struct vki_shader {
    const char *name;         /* "matmul_q4_k" */
    const uint32_t *words;
    size_t size_bytes;
    const char *source;       /* "matmul.comp", relative to the shader folder */
    const char *defines;      /* "FORMAT_FILE=\"format/q4_k.glsl\"": one NAME=VALUE per line */
} vki_shader;
extern const vki_shader vki_shaders[];
extern const size_t vki_shader_count;

/* NULL where this build left it out. */
const vki_shader *vki_shader_find(const char *name);

typedef struct vki_pipeline_key {
    char shader[32];
    uint32_t spec[VKI_MAX_SPEC];   /* constant_id i = spec[i]; id 0 is the local size x */
    uint32_t n_spec;
    uint32_t subgroup_size;        /* required size, 0: the driver's choice */
} vki_pipeline_key;

typedef struct vki_pipeline {
    vki_pipeline_key key;
    VkPipeline pipeline;           /* null: noted, and not made yet */
    VkShaderModule module;         /* borrowed */
    VkResult result;               /* of its making */
} vki_pipeline;

/* The pipelines of one model. Pointers handed out stay good until vki_pipelines_free. */
typedef struct vki_pipelines {
    vklm_device *device;
    vki_pipeline **items;          /* owned */
    size_t n_items, capacity;
    struct vki_module *modules;    /* owned: shader modules by name */
    size_t n_modules, modules_capacity;
    size_t n_late;                 /* made one by one: nobody had noted them */
    bool noting;
    vki_crew crew;                 /* at work between start and finish */
} vki_pipelines;

void vki_pipelines_init(vki_pipelines *pipelines, vklm_device *device);
void vki_pipelines_free(vki_pipelines *pipelines);

/* Finds or makes it. SHADER_ERROR carries the compiler's text; unknown names are our own mistake
 * (SHADER_ERROR too, naming the shader). With subgroup_size set and limits.subgroup_control, the
 * pipeline requires that size and full subgroups; without control the field is ignored. */
vklm_status vki_pipeline_get(vki_pipelines *pipelines, const vki_pipeline_key *key,
                             vklm_error *error, const vki_pipeline **pipeline_out);

/* Several at once: after `note`, vki_pipeline_get only writes down what is missing (for plans that are thrown
 * away). `start` has up to `threads` threads make it in the background, in the order of notes; until `finish` no
 * other function of this file may be called but vki_pipelines_work, which makes one more on the caller's thread
 * and returns false where none is left, and vki_pipelines_free, which drops what was not begun. A pipeline that
 * fails is what `finish` fails with, and it is tried anew by the next get. */
void vki_pipelines_note(vki_pipelines *pipelines);
void vki_pipelines_start(vki_pipelines *pipelines, uint32_t threads);
bool vki_pipelines_work(vki_pipelines *pipelines);
vklm_status vki_pipelines_finish(vki_pipelines *pipelines, vklm_error *error);

#endif
