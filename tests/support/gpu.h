/* gpu.h - a Vulkan device for a test: the first usable one of those that VK_* variables leave. */
#ifndef TEST_GPU_H
#define TEST_GPU_H

#include <check.h>

#include "gpu/record.h"

/* Checks that a call on a `vklm_error error` in scope succeeds; fails with its text. */
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        const vklm_status check_status = (call);                                                   \
        ck_assert_msg(check_status == VKLM_OK, "%s: %s: %s", #call,                                \
                      vklm_status_name(check_status), error.text);                                 \
    } while (0)

/* Checks that it fails with this status, and that the text holds `part`. */
#define CHECK_FAILS(call, status_wanted, part)                                                     \
    do {                                                                                           \
        const vklm_status check_status = (call);                                                   \
        ck_assert_msg(check_status == (status_wanted), "%s: %s instead of " #status_wanted ": %s", \
                      #call, vklm_status_name(check_status), error.text);                          \
        ck_assert_int_eq(error.status, check_status);                                              \
        ck_assert_msg(strstr(error.text, part) != NULL, "no \"%s\" in: %s", part, error.text);     \
    } while (0)

/* params may be NULL. */
vklm_device *test_device(const vklm_device_params *params);

/* Whether what the device computes can be believed: false where VKLM_TEST_NO_RESULTS is set, for
 * real drivers on machines without their hardware. */
bool test_results_count(void);

#endif
