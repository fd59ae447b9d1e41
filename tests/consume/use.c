/* use.c - a program that includes the public headers alone and calls what works on any machine.
 * PACKAGE_VERSION: what the package said of itself, where it was a package. */
#if defined(__has_include)
#if __has_include(<vulkan/vulkan_core.h>) /* not everybody who links vklm has Vulkan's headers */
#include <vklm/vklm_vulkan.h>
#endif
#endif
#include <vklm/vklm.h>
#include <vklm/vklm_profile.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    vklm_error error;
    uint32_t count = 0;
    char version[32];
    const vklm_status status = vklm_device_list(&error, NULL, &count);
    printf("vklm %u: %s, %u devices\n", (unsigned)vklm_version(), vklm_status_name(status),
           (unsigned)count);
    if (vklm_version() != VKLM_VERSION_MAJOR * 10000 + VKLM_VERSION_MINOR * 100 + VKLM_VERSION_PATCH) return 2;
    snprintf(version, sizeof version, "%d.%d.%d", VKLM_VERSION_MAJOR, VKLM_VERSION_MINOR, VKLM_VERSION_PATCH);
#ifdef PACKAGE_VERSION
    if (strcmp(version, PACKAGE_VERSION) != 0) return 3;
#endif
    return status != VKLM_OK && status != VKLM_NO_VULKAN;
}
