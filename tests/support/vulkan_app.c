#include "support/vulkan_app.h"

#include <stdio.h>
#include <string.h>

#include "support/driver_calls.h"
#include "support/gpu.h"

#define LAYER "VK_LAYER_KHRONOS_validation"

/* A function of the instance, for the few that only this file calls. */
#define INSTANCE_FN(app, name) ((PFN_##name)(void (*)(void))vki_loader_get()((app)->instance, #name))

static VKAPI_ATTR VkBool32 VKAPI_CALL note_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                   VkDebugUtilsMessageTypeFlagsEXT types,
                                                   const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    /* What the layer says of its own settings, and that SPIR-V of 1.2 has newer words in 1.3. */
    static const char *const passed[] = {"WARNING-Setting", "VALIDATION-SETTINGS", "WARNING-GPU-Assisted",
                                         "SpirvDeprecated_WorkgroupSize"};
    (void)severity;
    (void)types;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (data->pMessageIdName && strstr(data->pMessageIdName, passed[i])) return VK_FALSE;
    ((vulkan_app *)user)->messages++;
    fprintf(stderr, "validation: %s: %s\n", data->pMessageIdName, data->pMessage);
    return VK_FALSE;
}

static bool has_layer(void)
{
    VkLayerProperties layers[64];
    uint32_t n = 64;
    if (INSTANCE_FN(&(vulkan_app){0}, vkEnumerateInstanceLayerProperties)(&n, layers) < VK_SUCCESS) return false;
    while (n-- > 0)
        if (strcmp(layers[n].layerName, LAYER) == 0) return true;
    return false;
}

static void make_instance(vulkan_app *app)
{
    const bool validated = has_layer();
    const VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = note_message,
        .pUserData = app,
    };
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "a program", .apiVersion = app->api_version};
    const VkInstanceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validated ? &messenger : NULL,
        .pApplicationInfo = &application,
        .enabledLayerCount = validated,
        .ppEnabledLayerNames = &(const char *){LAYER},
        .enabledExtensionCount = validated,
        .ppEnabledExtensionNames = &(const char *){VK_EXT_DEBUG_UTILS_EXTENSION_NAME},
    };
    ck_assert_int_eq(INSTANCE_FN(app, vkCreateInstance)(&create, NULL, &app->instance), VK_SUCCESS);
    vki_instance_functions_of(vki_loader_get(), app->instance, &app->fn);
    if (!validated) return;
    ck_assert_int_eq(INSTANCE_FN(app, vkCreateDebugUtilsMessengerEXT)(app->instance, &messenger, NULL, &app->messenger),
                     VK_SUCCESS);
}

static void ask(vulkan_app *app)
{
    vklm_error error;
    app->needs.struct_size = sizeof app->needs;
    CHECK_OK(vklm_vulkan_get_requirements(vki_loader_get(), app->instance, app->api_version, app->physical, &error,
                                          &app->needs));
}

void app_open(vulkan_app *app, uint32_t api_version)
{
    *app = (vulkan_app){.api_version = api_version};
    ck_assert_uint_ge(vki_loader_open(), VK_API_VERSION_1_2);
    make_instance(app);
    VkPhysicalDevice all[16];
    uint32_t n = 16;
    ck_assert_int_ge(app->fn.EnumeratePhysicalDevices(app->instance, &n, all), VK_SUCCESS);
    for (uint32_t i = 0; i < n; i++) {
        app->physical = all[i];
        ask(app);
        if (app->needs.verdict == VKLM_OK || api_version < VK_API_VERSION_1_2) return;
    }
    ck_abort_msg("no device will do: %s", app->needs.reason);
}

void app_close(vulkan_app *app)
{
    if (app->messenger) INSTANCE_FN(app, vkDestroyDebugUtilsMessengerEXT)(app->instance, app->messenger, NULL);
    app->fn.DestroyInstance(app->instance, NULL);
    ck_assert_int_eq(app->messages, 0);
}

void app_ask(vulkan_app *app)
{
    ask(app);
    memcpy(app->extensions, app->needs.extensions, sizeof app->extensions);
    app->n_extensions = app->needs.n_extensions;
    app->features = app->needs.features;
    app->queue = (vklm_vulkan_queue){.family = app->needs.queue_family, .shared = true};
}

VkBool32 *app_feature(vulkan_app *app, const char *name)
{
    vki_features *f = (vki_features *)(void *)app->needs.storage;
    const struct { const char *name; VkBool32 *bit; } bits[] = {
        {"shaderInt64", &f->core.features.shaderInt64},
        {"bufferDeviceAddress", &f->address.bufferDeviceAddress},
        {"timelineSemaphore", &f->timeline.timelineSemaphore},
        {"shaderInt8", &f->float16_int8.shaderInt8},
        {"shaderFloat16", &f->float16_int8.shaderFloat16},
        {"hostQueryReset", &f->query_reset.hostQueryReset},
        {"vulkanMemoryModel", &f->memory_model.vulkanMemoryModel},
        {"subgroupSizeControl", &f->size_control.subgroupSizeControl},
        {"computeFullSubgroups", &f->size_control.computeFullSubgroups},
        {"shaderIntegerDotProduct", &f->integer_dot.shaderIntegerDotProduct},
        {"cooperativeMatrix", &f->coop.cooperativeMatrix},
    };
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        if (strcmp(bits[i].name, name) == 0) return *bits[i].bit ? bits[i].bit : NULL;
    ck_abort_msg("no feature %s", name);
    return NULL;
}

void app_drop_extension(vulkan_app *app, const char *name)
{
    for (uint32_t i = 0; i < app->n_extensions; i++)
        if (strcmp(app->extensions[i], name) == 0) app->extensions[i] = app->extensions[--app->n_extensions];
}

void app_make_device(vulkan_app *app)
{
    const VkPhysicalDeviceFeatures none = {0};
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = app->queue.family,
        .queueCount = 1,
        .pQueuePriorities = &(const float){1},
    };
    const VkDeviceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = app->features,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = app->n_extensions,
        .ppEnabledExtensionNames = app->extensions,
        .pEnabledFeatures = memcmp(&app->core, &none, sizeof none) ? &app->core : NULL,
    };
    ck_assert_int_eq(app->fn.CreateDevice(app->physical, &create, NULL, &app->device), VK_SUCCESS);
    vki_loader_device_functions(&app->fn, app->device, &app->table);
}

void app_end_device(vulkan_app *app)
{
    app->table.vkDestroyDevice(app->device, NULL);
    app->device = NULL;
    ck_assert_int_eq(app->messages, 0);
}

vklm_adopt_params app_params(const vulkan_app *app)
{
    return (vklm_adopt_params){
        .struct_size = sizeof(vklm_adopt_params),
        .get_instance_proc_addr = driver_get_proc,
        .instance = app->instance,
        .api_version = app->api_version,
        .physical_device = app->physical,
        .device = app->device,
        .extensions = app->extensions,
        .n_extensions = app->n_extensions,
        .features = app->features,
        .core_features = &app->core,
        .queues = &app->queue,
        .n_queues = 1,
        .lock_queue = driver_lock,
        .unlock_queue = driver_unlock,
    };
}

void app_submit(vulkan_app *app)
{
    const VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                               .queueFamilyIndex = app->queue.family};
    const VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandBufferCount = 1};
    VkQueue queue;
    VkFence fence;
    VkCommandBuffer command;
    const struct VolkDeviceTable *fn = &app->table;
    fn->vkGetDeviceQueue(app->device, app->queue.family, app->queue.index, &queue);
    ck_assert_int_eq(fn->vkCreateCommandPool(app->device, &pool_info, NULL, &info.commandPool), VK_SUCCESS);
    ck_assert_int_eq(fn->vkAllocateCommandBuffers(app->device, &info, &command), VK_SUCCESS);
    ck_assert_int_eq(fn->vkCreateFence(app->device, &fence_info, NULL, &fence), VK_SUCCESS);
    ck_assert_int_eq(fn->vkBeginCommandBuffer(command, &begin), VK_SUCCESS);
    ck_assert_int_eq(fn->vkEndCommandBuffer(command), VK_SUCCESS);
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &command};
    ck_assert_int_eq(fn->vkQueueSubmit(queue, 1, &submit, fence), VK_SUCCESS);
    ck_assert_int_eq(fn->vkWaitForFences(app->device, 1, &fence, VK_TRUE, UINT64_MAX), VK_SUCCESS);
    fn->vkDestroyFence(app->device, fence, NULL);
    fn->vkDestroyCommandPool(app->device, info.commandPool, NULL);
}
