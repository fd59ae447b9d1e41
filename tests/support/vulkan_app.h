/* vulkan_app.h - a program that has a Vulkan device of its own, for tests of adoption.
 *
 * Its instance has the validation layer and a messenger where the layer is installed; every message is counted and
 * printed.
 */
#ifndef VULKAN_APP_H
#define VULKAN_APP_H

#include "gpu/probe.h"
#include "vklm/vklm_vulkan.h"

typedef struct vulkan_app {
    VkInstance instance;
    uint32_t api_version;
    vki_instance_functions fn;
    VkDebugUtilsMessengerEXT messenger;
    int messages;                       /* of the validation layer */
    VkPhysicalDevice physical;
    vklm_vulkan_requirements needs;     /* of physical, fresh with each device */
    VkDevice device;
    struct VolkDeviceTable table;
    VkPhysicalDeviceFeatures core;      /* pEnabledFeatures where the test used it */
    const char *extensions[VKLM_VULKAN_MAX_EXTENSIONS];
    uint32_t n_extensions;
    const void *features;
    vklm_vulkan_queue queue;
} vulkan_app;

/* The instance, and the first physical device that will do. */
void app_open(vulkan_app *app, uint32_t api_version);
void app_close(vulkan_app *app);

/* needs anew, device params as they say; change them before app_make_device. */
void app_ask(vulkan_app *app);
/* The bit of this name in needs.features, for tests that switch one off. NULL: the device lacks it. */
VkBool32 *app_feature(vulkan_app *app, const char *name);
void app_drop_extension(vulkan_app *app, const char *name);
void app_make_device(vulkan_app *app);
void app_end_device(vulkan_app *app);

/* Params that adopt the device through driver_get_proc, with counted locks. */
vklm_adopt_params app_params(const vulkan_app *app);

/* A submit of the program's own, waited for. */
void app_submit(vulkan_app *app);

#endif
