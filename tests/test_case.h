/* SPDX-License-Identifier: Apache-2.0
 * A test program with cmocka. The file that includes this header is the program. Each
 *
 *     TEST(a_sentence_that_holds) {
 *         assert_true(...);
 *     }
 *
 * is a case, registered by itself, and the cases run in the order in which they are written.
 * TEST_AROUND calls two of cmocka's functions before and after its case, and TEST_GROUP before the
 * first case and after the last. A file with a main of its own defines TEST_OWN_MAIN before it
 * includes this. Tests get the C library's common headers from here.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEST_CASES_MAX = 64 };

static struct CMUnitTest test_cases[TEST_CASES_MAX];
static size_t test_case_count;
static CMFixtureFunction test_group_before, test_group_after;

static inline void test_case_add(struct CMUnitTest test_case) {
    if (test_case_count == TEST_CASES_MAX) abort(); /* raise the limit */
    test_cases[test_case_count++] = test_case;
}

/* `before` and `after`: int (void **); NULL: none. A failure is not 0. */
#define TEST_AROUND(name, before, after)                                                           \
    static void name(void **cmocka_state);                                                         \
    __attribute__((constructor)) static void name##_add(void) {                                    \
        test_case_add((struct CMUnitTest){#name, name, before, after, NULL});                      \
    }                                                                                              \
    static void name(void **cmocka_state)

#define TEST(name) TEST_AROUND(name, NULL, NULL)

#define TEST_GROUP(before, after)                                                                  \
    __attribute__((constructor)) static void test_group_set(void) {                                \
        test_group_before = before;                                                                \
        test_group_after = after;                                                                  \
    }

static inline int test_cases_run(void) {
    return _cmocka_run_group_tests("tests", test_cases, test_case_count, test_group_before,
                                   test_group_after);
}

#ifndef TEST_OWN_MAIN
int main(void) {
    return test_cases_run();
}
#endif
