/* game_pipelines.c - see game_pipelines.h. The shaders are in game/shaders; the build makes headers of them. */
#include "game_pipelines.h"

#include <stddef.h>

#include "canvas_frag.h"
#include "canvas_vert.h"
#include "scene_frag.h"
#include "scene_vert.h"

static bool create_pass(renderer *renderer, VkFormat format, bool window)
{
    const VkAttachmentDescription colour = {
        .format = format,
        .samples = VK_SAMPLE_COUNT_1_BIT,
        .loadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE, /* the scene covers all */
        .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
        .stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE,
        .stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE,
        .finalLayout = window ? VK_IMAGE_LAYOUT_PRESENT_SRC_KHR : VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
    };
    const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    const VkSubpassDescription subpass = {.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS,
                                          .colorAttachmentCount = 1,
                                          .pColorAttachments = &reference};
    const VkSubpassDependency dependencies[] = {
        /* The image comes from the window system (which the colour stage waits for) or was read by a copy. */
        {.srcSubpass = VK_SUBPASS_EXTERNAL,
         .srcStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
         .dstStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
         .srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
         .dstAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT},
        {.dstSubpass = VK_SUBPASS_EXTERNAL,
         .srcStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
         .dstStageMask = VK_PIPELINE_STAGE_TRANSFER_BIT,
         .srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
         .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT},
    };
    const VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                         .attachmentCount = 1,
                                         .pAttachments = &colour,
                                         .subpassCount = 1,
                                         .pSubpasses = &subpass,
                                         .dependencyCount = 2,
                                         .pDependencies = dependencies};
    return gpu_ok(vkCreateRenderPass(renderer->gpu->device, &info, NULL, &renderer->pass), "a render pass");
}

/* ---- The atlas ------------------------------------------------------------------------------------ */

static bool create_atlas_set(renderer *renderer)
{
    const VkDevice device = renderer->gpu->device;
    const VkSamplerCreateInfo sampler = {.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO};
    const VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
                                                  .descriptorCount = 1,
                                                  .stageFlags = VK_SHADER_STAGE_FRAGMENT_BIT};
    const VkDescriptorSetLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1};
    const VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                             .maxSets = 1,
                                             .poolSizeCount = 1,
                                             .pPoolSizes = &size};
    if (!gpu_ok(vkCreateSampler(device, &sampler, NULL, &renderer->sampler), "a sampler") ||
        !gpu_ok(vkCreateDescriptorSetLayout(device, &layout, NULL, &renderer->set_layout), "a set's layout") ||
        !gpu_ok(vkCreateDescriptorPool(device, &pool, NULL, &renderer->descriptors), "a descriptor pool"))
        return false;
    const VkDescriptorSetAllocateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                             .descriptorPool = renderer->descriptors,
                                             .descriptorSetCount = 1,
                                             .pSetLayouts = &renderer->set_layout};
    return gpu_ok(vkAllocateDescriptorSets(device, &set, &renderer->atlas_set), "a descriptor set");
}

static bool create_atlas(renderer *renderer)
{
    const VkExtent2D size = {TEXT_ATLAS_SIZE, TEXT_ATLAS_SIZE};
    if (!gpu_make_image(renderer->gpu, size, VK_FORMAT_R8_UNORM,
                        VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT, &renderer->atlas) ||
        !create_atlas_set(renderer))
        return false;
    const VkDescriptorImageInfo image = {renderer->sampler, renderer->atlas.view,
                                         VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
    const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                        .dstSet = renderer->atlas_set,
                                        .descriptorCount = 1,
                                        .descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
                                        .pImageInfo = &image};
    vkUpdateDescriptorSets(renderer->gpu->device, 1, &write, 0, NULL);
    return true;
}

/* ---- Pipelines ------------------------------------------------------------------------------------ */

static bool create_layout(renderer *renderer, VkShaderStageFlags stage, uint32_t push_bytes, bool atlas,
                          VkPipelineLayout *layout)
{
    const VkPushConstantRange push = {stage, 0, push_bytes};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = atlas,
                                             .pSetLayouts = &renderer->set_layout,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &push};
    return gpu_ok(vkCreatePipelineLayout(renderer->gpu->device, &info, NULL, layout), "a pipeline layout");
}

typedef struct spirv {
    const uint32_t *words;
    size_t size_bytes;
} spirv;

static bool create_module(gpu *gpu, const spirv *code, VkShaderModule *module)
{
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = code->size_bytes,
                                           .pCode = code->words};
    return gpu_ok(vkCreateShaderModule(gpu->device, &info, NULL, module), "a shader");
}

static const VkVertexInputBindingDescription per_shape = {0, sizeof(shape), VK_VERTEX_INPUT_RATE_INSTANCE};
static const VkVertexInputAttributeDescription shape_members[] = {
    {0, 0, VK_FORMAT_R32G32B32A32_SFLOAT, offsetof(shape, box)},
    {1, 0, VK_FORMAT_R32G32B32A32_SFLOAT, offsetof(shape, more)},
    {2, 0, VK_FORMAT_R8G8B8A8_UNORM, offsetof(shape, colour)},
    {3, 0, VK_FORMAT_R32_UINT, offsetof(shape, kind)},
};

/* A pipeline of triangles without culling or depth; shapes: instances are read, and blended over what is there. */
static bool link_pipeline(renderer *renderer, const VkPipelineShaderStageCreateInfo stages[2], bool shapes,
                          VkPipelineLayout layout, VkPipeline *pipeline)
{
    static const VkDynamicState dynamic_states[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    const VkPipelineVertexInputStateCreateInfo vertices = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
        .vertexBindingDescriptionCount = shapes ? 1 : 0,
        .pVertexBindingDescriptions = &per_shape,
        .vertexAttributeDescriptionCount = shapes ? 4 : 0,
        .pVertexAttributeDescriptions = shape_members};
    const VkPipelineInputAssemblyStateCreateInfo assembly = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
        .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
    const VkPipelineViewportStateCreateInfo viewport = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, .viewportCount = 1, .scissorCount = 1};
    const VkPipelineRasterizationStateCreateInfo raster = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO, .lineWidth = 1};
    const VkPipelineMultisampleStateCreateInfo samples = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
        .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
    const VkPipelineColorBlendAttachmentState blend = {
        .blendEnable = shapes,
        .srcColorBlendFactor = VK_BLEND_FACTOR_SRC_ALPHA,
        .dstColorBlendFactor = VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA,
        .srcAlphaBlendFactor = VK_BLEND_FACTOR_ZERO,
        .dstAlphaBlendFactor = VK_BLEND_FACTOR_ONE,
        .colorWriteMask = 0xF};
    const VkPipelineColorBlendStateCreateInfo blends = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO, .attachmentCount = 1, .pAttachments = &blend};
    const VkPipelineDynamicStateCreateInfo dynamic = {.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                      .dynamicStateCount = 2,
                                                      .pDynamicStates = dynamic_states};
    const VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                               .stageCount = 2,
                                               .pStages = stages,
                                               .pVertexInputState = &vertices,
                                               .pInputAssemblyState = &assembly,
                                               .pViewportState = &viewport,
                                               .pRasterizationState = &raster,
                                               .pMultisampleState = &samples,
                                               .pColorBlendState = &blends,
                                               .pDynamicState = &dynamic,
                                               .layout = layout,
                                               .renderPass = renderer->pass};
    return gpu_ok(vkCreateGraphicsPipelines(renderer->gpu->device, renderer->gpu->cache, 1, &info, NULL, pipeline),
                  "a pipeline");
}

static bool create_pipeline(renderer *renderer, const spirv *vertex, const spirv *fragment, bool shapes,
                            VkPipelineLayout layout, VkPipeline *pipeline)
{
    gpu *gpu = renderer->gpu;
    VkPipelineShaderStageCreateInfo stages[2] = {
        {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
         .stage = VK_SHADER_STAGE_VERTEX_BIT,
         .pName = "main"},
        {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
         .stage = VK_SHADER_STAGE_FRAGMENT_BIT,
         .pName = "main"},
    };
    const bool made = create_module(gpu, vertex, &stages[0].module) &&
                      create_module(gpu, fragment, &stages[1].module) &&
                      link_pipeline(renderer, stages, shapes, layout, pipeline);
    vkDestroyShaderModule(gpu->device, stages[0].module, NULL);
    vkDestroyShaderModule(gpu->device, stages[1].module, NULL);
    return made;
}

bool pipelines_create(renderer *renderer, VkFormat format, bool window)
{
    const spirv scene_vertex = {scene_vert, sizeof scene_vert}, scene_fragment = {scene_frag, sizeof scene_frag};
    const spirv canvas_vertex = {canvas_vert, sizeof canvas_vert},
                canvas_fragment = {canvas_frag, sizeof canvas_frag};
    return create_pass(renderer, format, window) && create_atlas(renderer) &&
           create_layout(renderer, VK_SHADER_STAGE_FRAGMENT_BIT, sizeof(scene), false, &renderer->scene_layout) &&
           create_layout(renderer, VK_SHADER_STAGE_VERTEX_BIT, 2 * sizeof(float), true, &renderer->canvas_layout) &&
           create_pipeline(renderer, &scene_vertex, &scene_fragment, false, renderer->scene_layout,
                           &renderer->scene_pipeline) &&
           create_pipeline(renderer, &canvas_vertex, &canvas_fragment, true, renderer->canvas_layout,
                           &renderer->canvas_pipeline);
}

void pipelines_destroy(renderer *renderer)
{
    const VkDevice device = renderer->gpu->device;
    vkDestroyPipeline(device, renderer->canvas_pipeline, NULL);
    vkDestroyPipeline(device, renderer->scene_pipeline, NULL);
    vkDestroyPipelineLayout(device, renderer->canvas_layout, NULL);
    vkDestroyPipelineLayout(device, renderer->scene_layout, NULL);
    vkDestroyDescriptorPool(device, renderer->descriptors, NULL);
    vkDestroyDescriptorSetLayout(device, renderer->set_layout, NULL);
    vkDestroySampler(device, renderer->sampler, NULL);
    gpu_free_image(renderer->gpu, &renderer->atlas);
    vkDestroyRenderPass(device, renderer->pass, NULL);
}
