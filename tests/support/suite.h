/* suite.h - the main of a test program: its tests by name, run one by one and without a time limit. */
#ifndef TEST_SUITE_H
#define TEST_SUITE_H

#include <check.h>
#include <stddef.h>

/* Adds a case whose every test runs between `before` and `after` (NULL: nothing to do there). */
TCase *add_case(Suite *suite, const char *name, SFun before, SFun after);

/* Runs the suite and frees it; returns the program's exit code. */
int run_suite(Suite *suite);

/* Runs a suite of one case. */
int run_tests(const char *name, SFun before, SFun after, const TTest *const *tests, size_t n_tests);

#endif
