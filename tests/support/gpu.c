#include "support/gpu.h"

#include <stdlib.h>

vklm_device *test_device(const vklm_device_params *params)
{
    vklm_error error;
    vklm_device *device;
    CHECK_OK(vklm_device_create(params, &error, &device));
    return device;
}

bool test_results_count(void)
{
    return getenv("VKLM_TEST_NO_RESULTS") == NULL;
}
