/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <string.h>
#include <unistd.h>

/* Async-signal-safe: calls only strlen(), write() and abort(), so it works in any state and on any
 * thread. */
_Noreturn void check_failed(const char *condition, const char *file, int line) {
    char digits[16];
    int at = (int)sizeof digits;
    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0);
    ssize_t ignored = write(2, "fathom: bug: check failed: ", 27);
    ignored += write(2, condition, strlen(condition));
    ignored += write(2, " at ", 4);
    ignored += write(2, file, strlen(file));
    ignored += write(2, ":", 1);
    ignored += write(2, digits + at, sizeof digits - (size_t)at);
    (void)ignored;
    __builtin_abort();
}
