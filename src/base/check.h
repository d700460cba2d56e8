/* SPDX-License-Identifier: Apache-2.0
 * check(): assertions that stay on in production. A failed check is a bug of ours, never bad input
 * (that is an enum status) and never a decision (that is an enum of the decision itself).
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

_Noreturn void check_failed(const char *condition, const char *file, int line);

#define check(condition)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) check_failed(#condition, __FILE__, __LINE__);       \
    } while (0)

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
