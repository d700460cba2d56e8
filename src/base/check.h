/* SPDX-License-Identifier: Apache-2.0
 * check(): an assertion that stays enabled in production. A failed check is a bug in Fathom. Bad
 * input is reported as an enum status instead.
 */
#pragma once

_Noreturn void check_failed(const char *condition, const char *file, int line);

#define check(condition)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) check_failed(#condition, __FILE__, __LINE__);       \
    } while (0)

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
