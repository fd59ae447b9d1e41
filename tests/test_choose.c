/* test_choose.c - which device `select` means, on made-up devices. */
#include "support/gpu.h"
#include "support/suite.h"

#include <stdio.h>
#include <string.h>

#include "gpu/probe.h"

static vki_probe probes[5];
static vklm_error error;
static uint32_t chosen;
static char reason[256];

static void set_probe(uint32_t i, const char *name, vklm_device_type type, const char *missing)
{
    probes[i] = (vki_probe){.info.type = type};
    snprintf(probes[i].info.name, sizeof probes[i].info.name, "%s", name);
    snprintf(probes[i].info.missing, sizeof probes[i].info.missing, "%s", missing);
    memset(probes[i].info.uuid, (int)(0xa0 + i), sizeof probes[i].info.uuid);
}

static void setup(void)
{
    set_probe(0, "llvmpipe", VKLM_DEVICE_CPU, "");
    set_probe(1, "Old Radeon 5700", VKLM_DEVICE_DISCRETE, "Vulkan 1.2");
    set_probe(2, "Iris Xe", VKLM_DEVICE_INTEGRATED, "");
    set_probe(3, "GeForce RTX 4090", VKLM_DEVICE_DISCRETE, "");
    set_probe(4, "GeForce RTX 4060", VKLM_DEVICE_DISCRETE, "");
}

static vklm_status choose_by(vklm_device_params params, uint32_t count)
{
    return vki_choose_device(&params, probes, count, &error, &chosen, reason);
}

static vklm_status choose(const char *select, uint32_t count)
{
    return choose_by((vklm_device_params){.select = select}, count);
}

START_TEST(the_default_is_the_first_usable_one_of_the_best_type)
{
    const uint32_t wanted[] = {0, 0, 2, 3, 3}; /* of the first n + 1 */
    for (uint32_t n = 1; n <= 5; n++) {
        CHECK_OK(choose(NULL, n));
        ck_assert_uint_eq(chosen, wanted[n - 1]);
    }
    ck_assert_str_eq(reason, "the first usable discrete GPU of 5 devices");
    CHECK_OK(choose("", 5));
    ck_assert_uint_eq(chosen, 3);
}
END_TEST

START_TEST(a_number_is_an_index_or_part_of_a_name)
{
    CHECK_OK(choose("2", 5));
    ck_assert_uint_eq(chosen, 2);
    CHECK_OK(choose("04", 5));
    ck_assert_uint_eq(chosen, 4);
    CHECK_OK(choose("4060", 5));
    ck_assert_uint_eq(chosen, 4);
    CHECK_FAILS(choose("5", 5), VKLM_INVALID_ARGUMENT, "4: GeForce RTX 4060 (discrete GPU)");
}
END_TEST

START_TEST(a_part_of_a_name_finds_the_first_that_has_it_whatever_its_case)
{
    CHECK_OK(choose("geforce rtx", 5));
    ck_assert_uint_eq(chosen, 3);
    ck_assert_str_eq(reason, "its name is the first to contain \"geforce rtx\"");
    CHECK_FAILS(choose("voodoo", 5), VKLM_INVALID_ARGUMENT,
                "no device matches \"voodoo\". There is 0: llvmpipe");
    CHECK_FAILS(choose("llvmpipe llvmpipe", 5), VKLM_INVALID_ARGUMENT, "no device");
}
END_TEST

START_TEST(a_uuid_finds_its_device)
{
    CHECK_OK(choose("a4A4a4a4a4a4a4a4a4a4a4a4a4a4a4a4", 5));
    ck_assert_uint_eq(chosen, 4);
    CHECK_FAILS(choose("00a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4", 5), VKLM_INVALID_ARGUMENT, "no device");
    CHECK_FAILS(choose("a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a", 5), VKLM_INVALID_ARGUMENT, "no device");
}
END_TEST

START_TEST(a_luid_finds_its_device_where_the_driver_says_one)
{
    const uint8_t luid[8] = {1, 2, 3, 4, 0xaa, 0xbb, 0xcc, 0xdd};
    CHECK_FAILS(choose("01020304aabbccdd", 5), VKLM_INVALID_ARGUMENT, "no device");
    memcpy(probes[2].info.luid, luid, sizeof luid);
    CHECK_FAILS(choose_by((vklm_device_params){.luid = luid}, 5), VKLM_INVALID_ARGUMENT, "matches the LUID");
    probes[2].info.luid_valid = true;
    CHECK_OK(choose("01020304AAbbccdd", 5));
    ck_assert_uint_eq(chosen, 2);
    CHECK_OK(choose_by((vklm_device_params){.luid = luid}, 5));
    ck_assert_uint_eq(chosen, 2);
    ck_assert_str_eq(reason, "its LUID was asked for");
    CHECK_OK(choose_by((vklm_device_params){.luid = luid, .uuid = probes[2].info.uuid}, 5));
    CHECK_FAILS(choose_by((vklm_device_params){.luid = luid, .uuid = probes[3].info.uuid}, 5), VKLM_INVALID_ARGUMENT,
                "matches the UUID");
    CHECK_OK(choose_by((vklm_device_params){.uuid = probes[3].info.uuid}, 5));
    ck_assert_uint_eq(chosen, 3);
    CHECK_OK(choose_by((vklm_device_params){.luid = luid, .select = "4060"}, 5));
    ck_assert_uint_eq(chosen, 4);
}
END_TEST

START_TEST(power_says_which_type_and_size_come_first)
{
    probes[4].info.memory_bytes = 2;
    probes[3].info.memory_bytes = 1;
    CHECK_OK(choose_by((vklm_device_params){.power = VKLM_POWER_LOW}, 5));
    ck_assert_uint_eq(chosen, 2);
    CHECK_OK(choose_by((vklm_device_params){.power = VKLM_POWER_HIGH}, 5));
    ck_assert_uint_eq(chosen, 4);
    ck_assert_str_eq(reason, "the largest usable discrete GPU of 5 devices");
    CHECK_OK(choose_by((vklm_device_params){.power = VKLM_POWER_HIGH}, 1));
    ck_assert_uint_eq(chosen, 0);
    probes[2].info.type = VKLM_DEVICE_VIRTUAL;
    CHECK_OK(choose_by((vklm_device_params){.power = VKLM_POWER_LOW}, 5));
    ck_assert_uint_eq(chosen, 3);
}
END_TEST

START_TEST(of_two_drivers_of_a_gpu_the_usable_one_is_taken_and_the_list_names_them)
{
    memcpy(probes[4].info.uuid, probes[1].info.uuid, 16);
    snprintf(probes[1].info.driver, sizeof probes[1].info.driver, "old driver");
    snprintf(probes[4].info.driver, sizeof probes[4].info.driver, "new driver");
    CHECK_OK(choose_by((vklm_device_params){.uuid = probes[1].info.uuid}, 5));
    ck_assert_uint_eq(chosen, 4);
    CHECK_FAILS(choose("7", 5), VKLM_INVALID_ARGUMENT, "1: Old Radeon 5700 (discrete GPU, by old driver, lacks");
    ck_assert_ptr_nonnull(strstr(error.text, "4: GeForce RTX 4060 (discrete GPU, by new driver)"));
    CHECK_FAILS(choose("1", 5), VKLM_DEVICE_UNSUITABLE, "lacks Vulkan 1.2");
}
END_TEST

START_TEST(an_unusable_device_is_refused_by_what_it_lacks)
{
    CHECK_FAILS(choose("radeon", 5), VKLM_DEVICE_UNSUITABLE, "Old Radeon 5700 lacks Vulkan 1.2");
    snprintf(probes[0].info.missing, sizeof probes[0].info.missing,
             "shaderInt64, subgroup shuffle");
    CHECK_FAILS(choose(NULL, 2), VKLM_DEVICE_UNSUITABLE,
                "0: llvmpipe (software device, lacks shaderInt64, subgroup shuffle); "
                "1: Old Radeon 5700 (discrete GPU, lacks Vulkan 1.2)");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        the_default_is_the_first_usable_one_of_the_best_type,
        a_number_is_an_index_or_part_of_a_name,
        a_part_of_a_name_finds_the_first_that_has_it_whatever_its_case,
        a_uuid_finds_its_device,
        a_luid_finds_its_device_where_the_driver_says_one,
        power_says_which_type_and_size_come_first,
        of_two_drivers_of_a_gpu_the_usable_one_is_taken_and_the_list_names_them,
        an_unusable_device_is_refused_by_what_it_lacks,
    };
    return run_tests("choose", setup, NULL, tests, sizeof tests / sizeof *tests);
}
