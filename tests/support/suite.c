#include "support/suite.h"

TCase *add_case(Suite *suite, const char *name, SFun before, SFun after)
{
    TCase *made = tcase_create(name);
    tcase_set_timeout(made, 0); /* software Vulkan on a busy machine takes its time */
    tcase_add_checked_fixture(made, before, after);
    suite_add_tcase(suite, made);
    return made;
}

int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

int run_tests(const char *name, SFun before, SFun after, const TTest *const *tests, size_t n_tests)
{
    Suite *suite = suite_create(name);
    TCase *all = add_case(suite, name, before, after);
    for (size_t i = 0; i < n_tests; i++) tcase_add_test(all, tests[i]);
    return run_suite(suite);
}
