/* adopt.c - a program with a Vulkan device of its own lends it to vklm for one answer.
 *
 *     vklm-adopt MODEL.gguf ["question"]
 *
 * What a renderer would do: make an instance, ask vklm what the device has to be made with, make it, lend it, take it
 * back. The program reaches Vulkan through volk, as many do; vklm's own copy has other names, so that both live in
 * one process. Left out is what a renderer has besides: features and extensions of its own
 * (vklm_vulkan_add_features merges the former) and a queue that it draws with.
 */
#define VOLK_IMPLEMENTATION
#include <volk.h>

#include <stdio.h>

#include <vklm/vklm_vulkan.h>

typedef struct app {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    vklm_vulkan_requirements needs; /* of `physical`; holds the chain of features */
} app;

static bool worked(VkResult result, const char *what)
{
    if (result < VK_SUCCESS) fprintf(stderr, "vklm-adopt: %s: VkResult %d\n", what, (int)result);
    return result >= VK_SUCCESS;
}

static bool make_instance(app *a)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "vklm-adopt",
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .pApplicationInfo = &application};
    if (!worked(volkInitialize(), "opening the Vulkan loader") ||
        !worked(vkCreateInstance(&create, NULL, &a->instance), "vkCreateInstance"))
        return false;
    volkLoadInstanceOnly(a->instance);
    return true;
}

/* The first physical device that vklm can use. */
static bool choose_physical(app *a, vklm_error *error)
{
    VkPhysicalDevice all[16];
    uint32_t n = 16;
    if (!worked(vkEnumeratePhysicalDevices(a->instance, &n, all), "vkEnumeratePhysicalDevices")) return false;
    for (uint32_t i = 0; i < n; i++) {
        a->physical = all[i];
        a->needs.struct_size = sizeof a->needs;
        if (vklm_vulkan_get_requirements(vkGetInstanceProcAddr, a->instance, VK_API_VERSION_1_2, all[i], error,
                                         &a->needs))
            break;
        if (a->needs.verdict == VKLM_OK) return true;
    }
    fprintf(stderr, "vklm-adopt: %s\n", error->text[0] ? error->text : n ? a->needs.reason : "no Vulkan device");
    return false;
}

/* With what vklm asks for and nothing else; one queue, which is vklm's until it is given back. */
static bool make_device(app *a)
{
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = a->needs.queue_family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &(const float){0.5f}};
    const VkDeviceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                       .pNext = a->needs.features,
                                       .queueCreateInfoCount = 1,
                                       .pQueueCreateInfos = &queue,
                                       .enabledExtensionCount = a->needs.n_extensions,
                                       .ppEnabledExtensionNames = a->needs.extensions};
    if (!worked(vkCreateDevice(a->physical, &create, NULL, &a->device), "vkCreateDevice")) return false;
    volkLoadDevice(a->device);
    return true;
}

static vklm_status lend(const app *a, vklm_error *error, vklm_device **lent)
{
    const vklm_vulkan_queue queue = {.family = a->needs.queue_family};
    const vklm_adopt_params params = {.struct_size = sizeof params,
                                      .get_instance_proc_addr = vkGetInstanceProcAddr,
                                      .instance = a->instance,
                                      .api_version = VK_API_VERSION_1_2,
                                      .physical_device = a->physical,
                                      .device = a->device,
                                      .extensions = a->needs.extensions,
                                      .n_extensions = a->needs.n_extensions,
                                      .features = a->needs.features,
                                      .queues = &queue,
                                      .n_queues = 1};
    return vklm_device_adopt(&params, error, lent);
}

static vklm_status answer(vklm_device *lent, const char *path, const char *question, vklm_error *error)
{
    const vklm_message ask = {"user", question};
    const vklm_model_params load = {.struct_size = sizeof load, .path = path};
    const vklm_generate_params generate = {.struct_size = sizeof generate, .max_tokens = 300};
    vklm_model *model = NULL;
    vklm_session *session = NULL;
    vklm_event event = {.kind = VKLM_EVENT_NONE};
    vklm_status status = vklm_model_load(lent, &load, error, &model);
    if (status == VKLM_OK) status = vklm_session_create(model, NULL, error, &session);
    if (status == VKLM_OK) status = vklm_session_set_chat(session, &ask, 1, error, NULL);
    if (status == VKLM_OK) status = vklm_session_generate(session, &generate, error);
    while (status == VKLM_OK && event.kind != VKLM_EVENT_DONE) {
        status = vklm_session_wait_event(session, error, &event);
        if (status == VKLM_OK && event.kind == VKLM_EVENT_TOKEN) fwrite(event.text, 1, event.text_len, stdout);
        fflush(stdout);
    }
    if (status == VKLM_OK && event.reason == VKLM_DONE_ERROR) status = event.status;
    putchar('\n');
    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    return status;
}

/* An empty submit, waited for: the queue and the device are the program's again. */
static bool still_works(const app *a)
{
    const VkFenceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkQueue queue;
    VkFence fence;
    vkGetDeviceQueue(a->device, a->needs.queue_family, 0, &queue);
    if (!worked(vkCreateFence(a->device, &create, NULL, &fence), "vkCreateFence")) return false;
    const bool works = worked(vkQueueSubmit(queue, 0, NULL, fence), "vkQueueSubmit") &&
                       worked(vkWaitForFences(a->device, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    vkDestroyFence(a->device, fence, NULL);
    return works;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: vklm-adopt MODEL.gguf [\"question\"]\n");
        return 2;
    }
    app a = {.instance = NULL};
    vklm_device *lent = NULL;
    vklm_error error = {.status = VKLM_OK};
    bool works = make_instance(&a) && choose_physical(&a, &error) && make_device(&a);
    if (works) {
        vklm_status status = lend(&a, &error, &lent);
        if (status == VKLM_OK) status = answer(lent, argv[1], argc > 2 ? argv[2] : "Why is the sky blue?", &error);
        if (status != VKLM_OK) fprintf(stderr, "vklm-adopt: %s\n", error.text);
        vklm_device_destroy(&lent);
        works = still_works(&a) && status == VKLM_OK;
        if (works) fprintf(stderr, "vklm-adopt: %s is the program's own again\n", a.needs.info.name);
    }
    if (a.device) vkDestroyDevice(a.device, NULL);
    if (a.instance) vkDestroyInstance(a.instance, NULL);
    return works ? 0 : 1;
}
