#include "support/gpu.h"

#include <stdlib.h>

vklm_device *test_device(const vklm_device_params *params)
{
    vklm_device_params with = params ? *params : (vklm_device_params){.struct_size = sizeof with};
#if defined(VKLM_RUNTIME_GLSL)
    /* Such a build runs every test on shaders compiled at run time. */
    if (!with.shader_dir) with.shader_dir = VKLM_SOURCE_DIR "/shaders";
#endif
    vklm_error error;
    vklm_device *device;
    CHECK_OK(vklm_device_create(&with, &error, &device));
    return device;
}

bool test_results_count(void)
{
    return getenv("VKLM_TEST_NO_RESULTS") == NULL;
}
