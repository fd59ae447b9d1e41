/* pipeline.c - finds or makes compute pipelines by shader name and constants.
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
    for (size_t i = 0; i < pipelines->n_items; i++) {
        device->fn.vkDestroyPipeline(device->device, pipelines->items[i]->pipeline, NULL);
        vki_release(&device->host, &pipelines->items[i]);
    }
    for (size_t i = 0; i < pipelines->n_modules; i++)
        device->fn.vkDestroyShaderModule(device->device, pipelines->modules[i].module, NULL);
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
        TRY(vki_glsl_compile(&device->host, device->shader_dir, shader, error, &words,
                             &create.codeSize));
        create.pCode = words;
    }
#endif
    const VkResult result = device->fn.vkCreateShaderModule(device->device, &create, NULL, module);
#if defined(VKLM_RUNTIME_GLSL)
    vki_release(&device->host, &words);
#endif
    return vki_check(device, result, shader->name, error);
}

static vklm_status find_module(vki_pipelines *pipelines, const char *name, vklm_error *error,
                               VkShaderModule *module)
{
    for (size_t i = 0; i < pipelines->n_modules; i++) {
        *module = pipelines->modules[i].module;
        if (strcmp(pipelines->modules[i].shader->name, name) == 0) return VKLM_OK;
    }
    size_t i = 0;
    while (i < vki_shader_count && strcmp(vki_shaders[i].name, name) != 0) i++;
    if (i == vki_shader_count)
        return vki_fail(error, VKLM_SHADER_ERROR, "this build has no shader named \"%s\"", name);
    TRY(vki_grow(&pipelines->device->host, pipelines->n_modules + 1, sizeof *pipelines->modules,
                 error, &pipelines->modules, &pipelines->modules_capacity));
    TRY(create_module(pipelines->device, &vki_shaders[i], error, module));
    pipelines->modules[pipelines->n_modules++] = (struct vki_module){&vki_shaders[i], *module};
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

static vklm_status create_pipeline(vklm_device *device, VkShaderModule module,
                                   const vki_pipeline_key *key, vklm_error *error,
                                   VkPipeline *pipeline)
{
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
    const VkComputePipelineCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = require ? &size : NULL,
                  .flags = require ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = device->pipeline_layout,
    };
    const VkResult result = device->fn.vkCreateComputePipelines(
        device->device, device->pipeline_cache, 1, &create, NULL, pipeline);
    char what[64];
    snprintf(what, sizeof what, "compiling shader %s", key->shader);
    return vki_check(device, result, what, error);
}

vklm_status vki_pipeline_get(vki_pipelines *pipelines, const vki_pipeline_key *key,
                             vklm_error *error, const vki_pipeline **pipeline_out)
{
    for (size_t i = 0; i < pipelines->n_items; i++) {
        *pipeline_out = pipelines->items[i];
        if (same_key(&pipelines->items[i]->key, key)) return VKLM_OK;
    }
    *pipeline_out = NULL;
    const vki_host *host = &pipelines->device->host;
    vklm_status status;
    VkShaderModule module;
    vki_pipeline *item = NULL;
    TRY_OR_FAIL(vki_device_usable(pipelines->device, error));
    TRY_OR_FAIL(find_module(pipelines, key->shader, error, &module));
    TRY_OR_FAIL(vki_grow(host, pipelines->n_items + 1, sizeof *pipelines->items, error,
                         &pipelines->items, &pipelines->capacity));
    TRY_OR_FAIL(vki_alloc(host, 1, sizeof *item, error, &item));
    item->key = *key;
    TRY_OR_FAIL(create_pipeline(pipelines->device, module, key, error, &item->pipeline));
    pipelines->items[pipelines->n_items++] = item;
    *pipeline_out = item;
    return VKLM_OK;
fail:
    vki_release(host, &item);
    return status;
}
