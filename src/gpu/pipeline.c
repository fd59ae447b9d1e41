/* pipeline.c - finds or makes compute pipelines by shader name and constants, one by one or many at once.
 *
 * A model needs some dozens, so both tables are searched from the front. Pipelines are allocated
 * one by one: plans keep pointers to them while the table grows.
 */
#include "gpu/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "gpu/glsl.h"

struct vki_module {
    const vki_shader *shader;
    VkShaderModule module; /* owned */
};

void vki_pipelines_init(vki_pipelines *pipelines, vklm_device *device)
{
    *pipelines = (vki_pipelines){.device = device};
}

void vki_pipelines_free(vki_pipelines *pipelines)
{
    vklm_device *device = pipelines->device;
    if (!device) return;
    vki_crew_end(&pipelines->crew);
    for (size_t i = 0; i < pipelines->n_items; i++) {
        device->fn.vkDestroyPipeline(device->device, pipelines->items[i]->pipeline, device->callbacks);
        vki_release(&device->host, &pipelines->items[i]);
    }
    for (size_t i = 0; i < pipelines->n_modules; i++)
        device->fn.vkDestroyShaderModule(device->device, pipelines->modules[i].module, device->callbacks);
    vki_release(&device->host, &pipelines->items);
    vki_release(&device->host, &pipelines->modules);
    *pipelines = (vki_pipelines){0};
}

static vklm_status create_module(vklm_device *device, const vki_shader *shader, vklm_error *error,
                                 VkShaderModule *module)
{
    VkShaderModuleCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = shader->size_bytes,
        .pCode = shader->words,
    };
#if defined(VKLM_RUNTIME_GLSL)
    uint32_t *words = NULL;
    if (device->shader_dir) {
        TRY(vki_glsl_compile(&device->host, device->shader_dir, shader, error, &words, &create.codeSize));
        create.pCode = words;
    }
#endif
    const VkResult result = device->fn.vkCreateShaderModule(device->device, &create, device->callbacks, module);
#if defined(VKLM_RUNTIME_GLSL)
    vki_release(&device->host, &words);
#endif
    return vki_check(device, result, shader->name, error);
}

const vki_shader *vki_shader_find(const char *name)
{
    for (size_t i = 0; i < vki_shader_count; i++)
        if (strcmp(vki_shaders[i].name, name) == 0) return &vki_shaders[i];
    return NULL;
}

static vklm_status find_module(vki_pipelines *pipelines, const char *name, vklm_error *error,
                               VkShaderModule *module)
{
    for (size_t i = 0; i < pipelines->n_modules; i++) {
        *module = pipelines->modules[i].module;
        if (strcmp(pipelines->modules[i].shader->name, name) == 0) return VKLM_OK;
    }
    const vki_shader *shader = vki_shader_find(name);
    if (!shader)
        return vki_fail(error, VKLM_SHADER_ERROR, "this build has no shader named \"%s\"", name);
    TRY(vki_grow(&pipelines->device->host, pipelines->n_modules + 1, sizeof *pipelines->modules,
                 error, &pipelines->modules, &pipelines->modules_capacity));
    TRY(create_module(pipelines->device, shader, error, module));
    pipelines->modules[pipelines->n_modules++] = (struct vki_module){shader, *module};
    return VKLM_OK;
}

static bool same_key(const vki_pipeline_key *a, const vki_pipeline_key *b)
{
    return a->n_spec == b->n_spec && a->subgroup_size == b->subgroup_size &&
           memcmp(a->spec, b->spec, a->n_spec * sizeof a->spec[0]) == 0 &&
           strcmp(a->shader, b->shader) == 0;
}

/* Whether a pipeline of this key may require its subgroup size, full subgroups included. */
static bool can_require_size(const vki_limits *limits, const vki_pipeline_key *key)
{
    const uint32_t size = key->subgroup_size, local = key->n_spec ? key->spec[0] : 0;
    return limits->subgroup_control && size >= limits->subgroup_min &&
           size <= limits->subgroup_max && local >= size && local % size == 0 &&
           local / size <= limits->max_workgroup_subgroups;
}

/* Whether it may ask for full subgroups on a device of one size, which cooperative matrices must. */
static bool can_require_full(const vki_limits *limits, const vki_pipeline_key *key)
{
    const uint32_t local = key->n_spec ? key->spec[0] : 0;
    return limits->full_subgroups && limits->subgroup_fixed && local && local % limits->subgroup_size == 0;
}

/* On any thread: it calls the driver alone, with memory of its own. */
static void make_pipeline(const vklm_device *device, vki_pipeline *item)
{
    const vki_pipeline_key *key = &item->key;
    VkSpecializationMapEntry entries[VKI_MAX_SPEC];
    for (uint32_t i = 0; i < key->n_spec; i++)
        entries[i] =
            (VkSpecializationMapEntry){i, i * (uint32_t)sizeof key->spec[0], sizeof key->spec[0]};
    const VkSpecializationInfo constants = {key->n_spec, entries, key->n_spec * sizeof key->spec[0],
                                            key->spec};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = key->subgroup_size,
    };
    const bool require = can_require_size(&device->limits, key);
    const bool full = require || can_require_full(&device->limits, key);
    const VkComputePipelineCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = require ? &size : NULL,
                  .flags = full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = item->module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = device->pipeline_layout,
    };
    item->result = device->fn.vkCreateComputePipelines(device->device, device->pipeline_cache, 1, &create,
                                                       device->callbacks, &item->pipeline);
    if (item->result < VK_SUCCESS) item->pipeline = VK_NULL_HANDLE;
}

static vklm_status check_made(vklm_device *device, const vki_pipeline *item, vklm_error *error)
{
    char what[64];
    snprintf(what, sizeof what, "compiling shader %s", item->key.shader);
    return vki_check(device, item->result, what, error);
}

static vki_pipeline *find_item(const vki_pipelines *pipelines, const vki_pipeline_key *key)
{
    for (size_t i = 0; i < pipelines->n_items; i++)
        if (same_key(&pipelines->items[i]->key, key)) return pipelines->items[i];
    return NULL;
}

static vklm_status add_item(vki_pipelines *pipelines, const vki_pipeline_key *key, vklm_error *error,
                            vki_pipeline **added)
{
    const vki_host *host = &pipelines->device->host;
    VkShaderModule module;
    TRY(find_module(pipelines, key->shader, error, &module));
    TRY(vki_grow(host, pipelines->n_items + 1, sizeof *pipelines->items, error, &pipelines->items,
                 &pipelines->capacity));
    TRY(vki_alloc(host, 1, sizeof **added, error, added));
    **added = (vki_pipeline){.key = *key, .module = module};
    pipelines->items[pipelines->n_items++] = *added;
    return VKLM_OK;
}

vklm_status vki_pipeline_get(vki_pipelines *pipelines, const vki_pipeline_key *key,
                             vklm_error *error, const vki_pipeline **pipeline_out)
{
    *pipeline_out = NULL;
    vki_pipeline *item = find_item(pipelines, key);
    if (!item || !item->pipeline) {
        TRY(vki_device_usable(pipelines->device, error));
        if (!item) TRY(add_item(pipelines, key, error, &item));
        if (!pipelines->noting) {
            pipelines->n_late++;
            make_pipeline(pipelines->device, item);
            TRY(check_made(pipelines->device, item, error));
        }
    }
    *pipeline_out = item;
    return VKLM_OK;
}

/* ---- Many at once ---------------------------------------------------------------------------- */

void vki_pipelines_note(vki_pipelines *pipelines)
{
    pipelines->noting = true;
}

static void make_item(void *user, size_t index)
{
    const vki_pipelines *pipelines = user;
    vki_pipeline *item = pipelines->items[index];
    if (!item->pipeline) make_pipeline(pipelines->device, item);
}

void vki_pipelines_start(vki_pipelines *pipelines, uint32_t threads)
{
    pipelines->noting = false;
    pipelines->crew = (vki_crew){.job = make_item, .user = pipelines, .n = pipelines->n_items};
    vki_crew_start(&pipelines->crew, threads);
}

bool vki_pipelines_work(vki_pipelines *pipelines)
{
    return vki_crew_work(&pipelines->crew);
}

vklm_status vki_pipelines_finish(vki_pipelines *pipelines, vklm_error *error)
{
    while (vki_pipelines_work(pipelines)) continue;
    vki_crew_end(&pipelines->crew);
    for (size_t i = 0; i < pipelines->n_items; i++) TRY(check_made(pipelines->device, pipelines->items[i], error));
    return VKLM_OK;
}
