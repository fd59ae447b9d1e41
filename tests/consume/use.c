/* use.c - a program that includes the public headers alone and calls what works on any machine. */
#if defined(__has_include)
#if __has_include(<vulkan/vulkan_core.h>) /* not everybody who links vklm has Vulkan's headers */
#include <vklm/vklm_vulkan.h>
#endif
#endif
#include <vklm/vklm.h>
#include <vklm/vklm_profile.h>

#include <stdio.h>

int main(void)
{
    vklm_error error;
    uint32_t count = 0;
    const vklm_status status = vklm_device_list(&error, NULL, &count);
    printf("vklm %u: %s, %u devices\n", (unsigned)vklm_version(), vklm_status_name(status),
           (unsigned)count);
    return status != VKLM_OK && status != VKLM_NO_VULKAN;
}
