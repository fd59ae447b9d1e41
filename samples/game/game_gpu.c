/* game_gpu.c - see game_gpu.h. */
#include "game_gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <GLFW/glfw3.h>

#include "game_cache.h"

enum { MOST_EXTENSIONS = 32, MOST_DEVICES = 16, MOST_FAMILIES = 32 };
static const char layer_name[] = "VK_LAYER_KHRONOS_validation";

bool gpu_fail(const char *format, ...)
{
    fprintf(stderr, "vklm-game: ");
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\n");
    return false;
}

static const char *name_result(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "out of memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "out of GPU memory";
    case VK_ERROR_DEVICE_LOST: return "the GPU was lost: its driver gave up";
    case VK_ERROR_SURFACE_LOST_KHR: return "the window's surface was lost";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no Vulkan driver here";
    case VK_ERROR_LAYER_NOT_PRESENT: return "a layer is missing";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "an extension is missing";
    case VK_ERROR_INITIALIZATION_FAILED: return "the driver could not start";
    default: return NULL;
    }
}

bool gpu_ok(VkResult result, const char *what)
{
    if (result >= 0) return true;
    const char *name = name_result(result);
    return name ? gpu_fail("%s: %s", what, name) : gpu_fail("%s: VkResult %d", what, (int)result);
}

/* ---- Instance ------------------------------------------------------------------------------------ */

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT type,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)severity;
    (void)type;
    gpu *gpu = user;
    atomic_fetch_add(&gpu->n_messages, 1);
    fprintf(stderr, "vklm-game: validation: %s\n", data->pMessage);
    return VK_FALSE;
}

static bool layer_is_here(void)
{
    uint32_t count = 0;
    vkEnumerateInstanceLayerProperties(&count, NULL);
    VkLayerProperties *layers = count ? malloc(count * sizeof *layers) : NULL;
    bool found = false;
    if (layers && vkEnumerateInstanceLayerProperties(&count, layers) >= 0)
        for (uint32_t i = 0; i < count; i++) found |= strcmp(layers[i].layerName, layer_name) == 0;
    free(layers);
    return found;
}

static VkDebugUtilsMessengerCreateInfoEXT describe_messenger(gpu *gpu)
{
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = gpu,
    };
}

static bool create_instance(gpu *gpu, const gpu_options *options)
{
    const char *extensions[MOST_EXTENSIONS], *layer = layer_name;
    uint32_t n_extensions = 0;
    if (options->window) {
        uint32_t count = 0;
        const char **needed = glfwGetRequiredInstanceExtensions(&count);
        if (!needed || count + 1 > MOST_EXTENSIONS)
            return gpu_fail("this window system cannot show Vulkan; --headless goes without a window");
        while (n_extensions < count) {
            extensions[n_extensions] = needed[n_extensions];
            n_extensions++;
        }
    }
    const bool validate = options->validate && layer_is_here();
    if (options->validate && !validate)
        gpu_fail("%s is not installed (Debian package vulkan-validationlayers); going on without", layer_name);
    if (validate) extensions[n_extensions++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    const VkDebugUtilsMessengerCreateInfoEXT messenger = describe_messenger(gpu);
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "vklm-game",
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pNext = validate ? &messenger : NULL,
                                       .pApplicationInfo = &application,
                                       .enabledLayerCount = validate,
                                       .ppEnabledLayerNames = &layer,
                                       .enabledExtensionCount = n_extensions,
                                       .ppEnabledExtensionNames = extensions};
    if (!gpu_ok(vkCreateInstance(&info, NULL, &gpu->instance), "a Vulkan instance")) return false;
    volkLoadInstance(gpu->instance);
    return !validate || gpu_ok(vkCreateDebugUtilsMessengerEXT(gpu->instance, &messenger, NULL, &gpu->messenger),
                               "the validation layer's messages");
}

/* ---- Choice of the device ------------------------------------------------------------------------ */

static uint32_t read_families(VkPhysicalDevice physical, VkQueueFamilyProperties families[MOST_FAMILIES])
{
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, NULL);
    if (count > MOST_FAMILIES) count = MOST_FAMILIES;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    return count;
}

/* The first family that draws, presents where it has to, and computes: the model's work goes there too. */
static bool find_family(VkInstance instance, VkPhysicalDevice physical, bool window, uint32_t *family)
{
    VkQueueFamilyProperties families[MOST_FAMILIES];
    const uint32_t count = read_families(physical, families);
    const VkQueueFlags needed = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    for (*family = 0; *family < count; ++*family)
        if ((families[*family].queueFlags & needed) == needed &&
            (!window || glfwGetPhysicalDevicePresentationSupport(instance, physical, *family)))
            return true;
    return false;
}

static int rank_type(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 1;
    default: return 0;
    }
}

static bool is_selected(const char *select, uint32_t index, const char *name)
{
    char *end = NULL;
    const unsigned long number = strtoul(select, &end, 10);
    return (end != select && !*end) ? number == index : strstr(name, select) != NULL;
}

static bool choose_physical(gpu *gpu, const gpu_options *options)
{
    VkPhysicalDevice devices[MOST_DEVICES];
    uint32_t count = MOST_DEVICES;
    if (!gpu_ok(vkEnumeratePhysicalDevices(gpu->instance, &count, devices), "the list of GPUs")) return false;
    int best = -1;
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        uint32_t family = 0;
        vkGetPhysicalDeviceProperties(devices[i], &properties);
        if (properties.apiVersion < VK_API_VERSION_1_2 ||
            !find_family(gpu->instance, devices[i], options->window, &family))
            continue;
        if (options->select && !is_selected(options->select, i, properties.deviceName)) continue;
        if (rank_type(properties.deviceType) <= best) continue;
        best = rank_type(properties.deviceType);
        gpu->physical = devices[i];
        gpu->properties = properties;
        gpu->family = family;
    }
    if (best >= 0) return true;
    if (options->select)
        return gpu_fail("none of the %u Vulkan devices here is '%s' and fit to draw", count, options->select);
    return gpu_fail("no Vulkan 1.2 device here that can draw; Mesa's software one is Debian package "
                    "mesa-vulkan-drivers");
}

static void read_properties(gpu *gpu)
{
    vkGetPhysicalDeviceMemoryProperties(gpu->physical, &gpu->memory);
    VkQueueFamilyProperties families[MOST_FAMILIES];
    read_families(gpu->physical, families);
    const uint32_t bits = families[gpu->family].timestampValidBits;
    gpu->timestamp_mask = bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
}

/* ---- The device, with what the model wants -------------------------------------------------------- */

/* Fills requirements, extensions and model_queue. */
static bool ask_vklm(gpu *gpu)
{
    vklm_error error;
    vklm_vulkan_requirements *wanted = &gpu->requirements;
    wanted->struct_size = sizeof *wanted;
    if (vklm_vulkan_get_requirements(vkGetInstanceProcAddr, gpu->instance, VK_API_VERSION_1_2, gpu->physical, &error,
                                     wanted) != VKLM_OK)
        return gpu_fail("%s", error.text);
    if (wanted->verdict != VKLM_OK) return true; /* the frames go on without; model_start says it */
    for (uint32_t i = 0; i < wanted->n_extensions; i++) gpu->extensions[gpu->n_extensions++] = wanted->extensions[i];
    gpu->model_queue.shared = wanted->queue_shared;
    gpu->model_queue.family = wanted->queue_shared ? gpu->family : wanted->queue_family;
    gpu->model_queue.index = !wanted->queue_shared && wanted->queue_family == gpu->family;
    return true;
}

static VkResult create_device_with(gpu *gpu, bool low_priority)
{
    const bool model = gpu->requirements.struct_size && gpu->requirements.verdict == VKLM_OK;
    const bool second = model && !gpu->model_queue.shared, same_family = gpu->model_queue.family == gpu->family;
    const float priorities[] = {1, 0};
    const VkDeviceQueueGlobalPriorityCreateInfoKHR low = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR,
        .globalPriority = VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR};
    const VkDeviceQueueCreateInfo queues[] = {
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = gpu->family,
         .queueCount = second && same_family ? 2 : 1,
         .pQueuePriorities = priorities},
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .pNext = low_priority ? &low : NULL,
         .queueFamilyIndex = gpu->model_queue.family,
         .queueCount = 1,
         .pQueuePriorities = priorities + 1},
    };
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = model ? gpu->requirements.features : NULL,
                                     .queueCreateInfoCount = second && !same_family ? 2 : 1,
                                     .pQueueCreateInfos = queues,
                                     .enabledExtensionCount = gpu->n_extensions + low_priority,
                                     .ppEnabledExtensionNames = gpu->extensions};
    return vkCreateDevice(gpu->physical, &info, NULL, &gpu->device);
}

static bool create_device(gpu *gpu, const gpu_options *options)
{
    if (options->model && !ask_vklm(gpu)) return false;
    if (options->window) gpu->extensions[gpu->n_extensions++] = VK_KHR_SWAPCHAIN_EXTENSION_NAME;
    gpu->extensions[gpu->n_extensions] = gpu->requirements.priority_extension;
    VkResult result = VK_ERROR_NOT_PERMITTED_KHR; /* a queue below all others where the driver grants it */
    if (gpu->requirements.priority_extension && gpu->requirements.queue_async) result = create_device_with(gpu, true);
    if (result == VK_ERROR_NOT_PERMITTED_KHR) result = create_device_with(gpu, false);
    if (!gpu_ok(result, "a Vulkan device")) return false;
    volkLoadDevice(gpu->device);
    vkGetDeviceQueue(gpu->device, gpu->family, 0, &gpu->queue);
    cache_open(gpu);
    return true;
}

bool gpu_create(gpu *gpu, const gpu_options *options)
{
    memset(gpu, 0, sizeof *gpu);
    pthread_mutex_init(&gpu->lock, NULL);
    if (volkInitialize() != VK_SUCCESS)
        return gpu_fail("no Vulkan loader on this machine; on Debian it is package libvulkan1");
    if (!create_instance(gpu, options) || !choose_physical(gpu, options)) return false;
    read_properties(gpu);
    return create_device(gpu, options);
}

void gpu_destroy(gpu *gpu)
{
    if (gpu->device) {
        cache_close(gpu);
        vkDestroyDevice(gpu->device, NULL);
    }
    if (gpu->messenger) vkDestroyDebugUtilsMessengerEXT(gpu->instance, gpu->messenger, NULL);
    if (gpu->instance) vkDestroyInstance(gpu->instance, NULL);
    pthread_mutex_destroy(&gpu->lock);
}

/* ---- Things ---------------------------------------------------------------------------------------- */

static bool allocate(gpu *gpu, const VkMemoryRequirements *needs, VkMemoryPropertyFlags wanted,
                     VkDeviceMemory *memory)
{
    for (uint32_t type = 0; type < gpu->memory.memoryTypeCount; type++) {
        const VkMemoryPropertyFlags has = gpu->memory.memoryTypes[type].propertyFlags;
        if (!(needs->memoryTypeBits >> type & 1u) || (has & wanted) != wanted) continue;
        const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .allocationSize = needs->size,
                                           .memoryTypeIndex = type};
        return gpu_ok(vkAllocateMemory(gpu->device, &info, NULL, memory), "GPU memory for the scene");
    }
    return gpu_fail("the GPU has no memory of a kind that the scene needs");
}

bool gpu_make_buffer(gpu *gpu, VkDeviceSize size, VkBufferUsageFlags usage, gpu_buffer *buffer)
{
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = usage};
    if (!gpu_ok(vkCreateBuffer(gpu->device, &info, NULL, &buffer->buffer), "a buffer")) return false;
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(gpu->device, buffer->buffer, &needs);
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    return allocate(gpu, &needs, host, &buffer->memory) &&
           gpu_ok(vkBindBufferMemory(gpu->device, buffer->buffer, buffer->memory, 0), "vkBindBufferMemory") &&
           gpu_ok(vkMapMemory(gpu->device, buffer->memory, 0, VK_WHOLE_SIZE, 0, &buffer->mapped), "vkMapMemory");
}

bool gpu_make_view(gpu *gpu, VkImage image, VkFormat format, VkImageView *view)
{
    const VkImageViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                        .image = image,
                                        .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                        .format = format,
                                        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    return gpu_ok(vkCreateImageView(gpu->device, &info, NULL, view), "an image view");
}

bool gpu_make_image(gpu *gpu, VkExtent2D size, VkFormat format, VkImageUsageFlags usage, gpu_image *image)
{
    const VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                    .imageType = VK_IMAGE_TYPE_2D,
                                    .format = format,
                                    .extent = {size.width, size.height, 1},
                                    .mipLevels = 1,
                                    .arrayLayers = 1,
                                    .samples = VK_SAMPLE_COUNT_1_BIT,
                                    .tiling = VK_IMAGE_TILING_OPTIMAL,
                                    .usage = usage};
    if (!gpu_ok(vkCreateImage(gpu->device, &info, NULL, &image->image), "an image")) return false;
    VkMemoryRequirements needs;
    vkGetImageMemoryRequirements(gpu->device, image->image, &needs);
    return allocate(gpu, &needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &image->memory) &&
           gpu_ok(vkBindImageMemory(gpu->device, image->image, image->memory, 0), "vkBindImageMemory") &&
           gpu_make_view(gpu, image->image, format, &image->view);
}

bool gpu_make_semaphore(gpu *gpu, VkSemaphore *semaphore)
{
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    return gpu_ok(vkCreateSemaphore(gpu->device, &info, NULL, semaphore), "a semaphore");
}

void gpu_free_buffer(gpu *gpu, gpu_buffer *buffer)
{
    vkDestroyBuffer(gpu->device, buffer->buffer, NULL);
    vkFreeMemory(gpu->device, buffer->memory, NULL);
    memset(buffer, 0, sizeof *buffer);
}

void gpu_free_image(gpu *gpu, gpu_image *image)
{
    vkDestroyImageView(gpu->device, image->view, NULL);
    vkDestroyImage(gpu->device, image->image, NULL);
    vkFreeMemory(gpu->device, image->memory, NULL);
    memset(image, 0, sizeof *image);
}

bool gpu_wait(gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    const VkResult result = vkQueueWaitIdle(gpu->queue);
    pthread_mutex_unlock(&gpu->lock);
    return gpu_ok(result, "waiting for the GPU");
}
