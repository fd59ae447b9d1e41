/* game_target.c - see game_target.h. */
#include "game_target.h"

#include <string.h>

#include <GLFW/glfw3.h>

/* ---- Surface -------------------------------------------------------------------------------------- */

/* An 8-bit format that takes colours as they are: the shaders write what the eye shall see. */
static bool choose_format(target *target)
{
    VkSurfaceFormatKHR formats[64];
    uint32_t count = 64;
    const VkResult result =
        vkGetPhysicalDeviceSurfaceFormatsKHR(target->gpu->physical, target->surface, &count, formats);
    if (!gpu_ok(result, "the window's formats")) return false;
    for (uint32_t i = 0; i < count; i++)
        if (formats[i].colorSpace == VK_COLOR_SPACE_SRGB_NONLINEAR_KHR &&
            (formats[i].format == VK_FORMAT_B8G8R8A8_UNORM || formats[i].format == VK_FORMAT_R8G8B8A8_UNORM)) {
            target->format = formats[i].format;
            return true;
        }
    return gpu_fail("the window has no 8-bit format that the game can draw to; --headless goes without");
}

static bool make_surface(target *target)
{
    const VkResult result = glfwCreateWindowSurface(target->gpu->instance, target->window, NULL, &target->surface);
    if (!gpu_ok(result, "the window's surface")) return false;
    VkBool32 presents = VK_FALSE;
    const VkResult asked = vkGetPhysicalDeviceSurfaceSupportKHR(target->gpu->physical, target->gpu->family,
                                                                target->surface, &presents);
    if (!gpu_ok(asked, "asking whether the GPU can present")) return false;
    return presents || gpu_fail("%s cannot show pictures in this window; choose another with --device",
                                target->gpu->properties.deviceName);
}

bool target_open_window(target *target, gpu *gpu, struct GLFWwindow *window)
{
    *target = (struct target){.gpu = gpu, .window = window, .stale = true};
    return make_surface(target) && choose_format(target);
}

bool target_open_offscreen(target *target, gpu *gpu, VkExtent2D size)
{
    *target = (struct target){.gpu = gpu, .format = VK_FORMAT_R8G8B8A8_UNORM, .size = size, .n_images = 1};
    return gpu_make_image(gpu, size, target->format,
                          VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT,
                          &target->offscreen) &&
           gpu_make_buffer(gpu, (VkDeviceSize)size.width * size.height * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                           &target->pixels);
}

/* ---- Images --------------------------------------------------------------------------------------- */

static void free_images(target *target)
{
    for (uint32_t i = 0; i < TARGET_MOST_IMAGES; i++) {
        vkDestroyFramebuffer(target->gpu->device, target->framebuffers[i], NULL);
        vkDestroySemaphore(target->gpu->device, target->finished[i], NULL);
        if (target->window) vkDestroyImageView(target->gpu->device, target->views[i], NULL);
        target->framebuffers[i] = VK_NULL_HANDLE;
        target->finished[i] = VK_NULL_HANDLE;
        target->views[i] = VK_NULL_HANDLE;
    }
}

static bool make_framebuffers(target *target)
{
    for (uint32_t i = 0; i < target->n_images; i++) {
        const VkFramebufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                              .renderPass = target->pass,
                                              .attachmentCount = 1,
                                              .pAttachments = &target->views[i],
                                              .width = target->size.width,
                                              .height = target->size.height,
                                              .layers = 1};
        const VkResult made = vkCreateFramebuffer(target->gpu->device, &info, NULL, &target->framebuffers[i]);
        if (!gpu_ok(made, "a framebuffer")) return false;
    }
    return true;
}

/* The extent of the swapchain to make; 0 wide while the window is minimised. */
static VkExtent2D wanted_size(const target *target, const VkSurfaceCapabilitiesKHR *able)
{
    if (able->currentExtent.width != UINT32_MAX) return able->currentExtent;
    int width = 0, height = 0;
    glfwGetFramebufferSize(target->window, &width, &height);
    VkExtent2D size = {(uint32_t)width, (uint32_t)height};
    if (size.width > able->maxImageExtent.width) size.width = able->maxImageExtent.width;
    if (size.height > able->maxImageExtent.height) size.height = able->maxImageExtent.height;
    return size;
}

static VkResult create_swapchain(target *target, const VkSurfaceCapabilitiesKHR *able)
{
    uint32_t n_images = able->minImageCount + 1;
    if (able->maxImageCount && n_images > able->maxImageCount) n_images = able->maxImageCount;
    const VkSwapchainKHR old = target->swapchain;
    const VkSwapchainCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
                                           .surface = target->surface,
                                           .minImageCount = n_images,
                                           .imageFormat = target->format,
                                           .imageColorSpace = VK_COLOR_SPACE_SRGB_NONLINEAR_KHR,
                                           .imageExtent = target->size,
                                           .imageArrayLayers = 1,
                                           .imageUsage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
                                           .preTransform = able->currentTransform,
                                           .compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                                           .presentMode = VK_PRESENT_MODE_FIFO_KHR,
                                           .clipped = VK_TRUE,
                                           .oldSwapchain = old};
    target->swapchain = VK_NULL_HANDLE;
    const VkResult result = vkCreateSwapchainKHR(target->gpu->device, &info, NULL, &target->swapchain);
    if (old) vkDestroySwapchainKHR(target->gpu->device, old, NULL);
    return result;
}

static bool take_images(target *target)
{
    target->n_images = TARGET_MOST_IMAGES;
    const VkResult listed =
        vkGetSwapchainImagesKHR(target->gpu->device, target->swapchain, &target->n_images, target->images);
    if (listed == VK_INCOMPLETE) return gpu_fail("the window has more than %d images", TARGET_MOST_IMAGES);
    if (!gpu_ok(listed, "the window's images")) return false;
    for (uint32_t i = 0; i < target->n_images; i++)
        if (!gpu_make_view(target->gpu, target->images[i], target->format, &target->views[i]) ||
            !gpu_make_semaphore(target->gpu, &target->finished[i]))
            return false;
    return make_framebuffers(target);
}

/* The window system took the surface away: another one for the same window. */
static target_state renew_surface(target *target)
{
    vkDestroySwapchainKHR(target->gpu->device, target->swapchain, NULL);
    vkDestroySurfaceKHR(target->gpu->instance, target->surface, NULL);
    target->swapchain = VK_NULL_HANDLE;
    target->surface = VK_NULL_HANDLE;
    target->stale = true;
    return make_surface(target) ? TARGET_NOT_NOW : TARGET_FAILED;
}

static target_state renew(target *target)
{
    if (!gpu_wait(target->gpu)) return TARGET_FAILED;
    free_images(target);
    VkSurfaceCapabilitiesKHR able;
    VkResult result = vkGetPhysicalDeviceSurfaceCapabilitiesKHR(target->gpu->physical, target->surface, &able);
    if (result == VK_ERROR_SURFACE_LOST_KHR) return renew_surface(target);
    if (!gpu_ok(result, "the window's properties")) return TARGET_FAILED;
    target->size = wanted_size(target, &able);
    if (target->size.width == 0 || target->size.height == 0) return TARGET_NOT_NOW; /* minimised */
    result = create_swapchain(target, &able);
    if (result == VK_ERROR_SURFACE_LOST_KHR) return renew_surface(target);
    if (!gpu_ok(result, "the window's swapchain") || !take_images(target)) return TARGET_FAILED;
    target->stale = false;
    return TARGET_READY;
}

bool target_build(target *target, VkRenderPass pass)
{
    target->pass = pass;
    if (target->window) return renew(target) != TARGET_FAILED;
    target->images[0] = target->offscreen.image;
    target->views[0] = target->offscreen.view;
    return make_framebuffers(target);
}

void target_close(target *target)
{
    if (!target->gpu || !target->gpu->device) return;
    free_images(target);
    gpu_free_image(target->gpu, &target->offscreen);
    gpu_free_buffer(target->gpu, &target->pixels);
    if (target->swapchain) vkDestroySwapchainKHR(target->gpu->device, target->swapchain, NULL);
    if (target->surface) vkDestroySurfaceKHR(target->gpu->instance, target->surface, NULL);
    memset(target, 0, sizeof *target);
}

/* ---- A frame ---------------------------------------------------------------------------------------- */

target_state target_acquire(target *target, VkSemaphore ready, uint32_t *image)
{
    *image = 0;
    if (!target->window) return TARGET_READY;
    if (target->stale) {
        const target_state state = renew(target);
        if (state != TARGET_READY) return state;
    }
    const uint64_t second_ns = 1000000000;
    const VkResult result =
        vkAcquireNextImageKHR(target->gpu->device, target->swapchain, second_ns, ready, VK_NULL_HANDLE, image);
    if (result == VK_SUCCESS || result == VK_SUBOPTIMAL_KHR) {
        target->stale = result == VK_SUBOPTIMAL_KHR;
        return TARGET_READY;
    }
    if (result == VK_TIMEOUT || result == VK_NOT_READY) return TARGET_NOT_NOW; /* an occluded window may */
    if (result == VK_ERROR_OUT_OF_DATE_KHR) {
        target->stale = true;
        return TARGET_NOT_NOW;
    }
    if (result == VK_ERROR_SURFACE_LOST_KHR) {
        if (!gpu_wait(target->gpu)) return TARGET_FAILED;
        free_images(target);
        return renew_surface(target);
    }
    gpu_ok(result, "the window's next image");
    return TARGET_FAILED;
}

bool target_present(target *target, uint32_t image)
{
    if (!target->window) return true;
    const VkPresentInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR,
                                   .waitSemaphoreCount = 1,
                                   .pWaitSemaphores = &target->finished[image],
                                   .swapchainCount = 1,
                                   .pSwapchains = &target->swapchain,
                                   .pImageIndices = &image};
    pthread_mutex_lock(&target->gpu->lock);
    const VkResult result = vkQueuePresentKHR(target->gpu->queue, &info);
    pthread_mutex_unlock(&target->gpu->lock);
    if (result == VK_SUBOPTIMAL_KHR || result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_ERROR_SURFACE_LOST_KHR) {
        target->stale = true; /* a lost surface shows again when the swapchain is made anew */
        return true;
    }
    return gpu_ok(result, "showing a picture");
}
