/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/money.h"

#include <stdio.h>
#include <string.h>

#define NANOS INT64_C(1000000000)
#define WHOLE_MAX INT64_C(9000000000)

static bool money_is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

bool money_read(const char *text, int64_t *nanos_out) {
    bool is_negative = *text == '-';
    int64_t whole = 0, part = 0, step = NANOS;
    const char *at = text + is_negative;
    if (!money_is_digit(*at)) return false;
    for (; money_is_digit(*at) && whole <= WHOLE_MAX; at++)
        whole = 10 * whole + (*at - '0');
    if (*at == '.' && !money_is_digit(at[1])) return false;
    if (*at == '.')
        for (at++; money_is_digit(*at) && step > 1; at++) {
            step /= 10;
            part += step * (*at - '0');
        }
    if (*at || whole > WHOLE_MAX) return false;
    *nanos_out = (is_negative ? -1 : 1) * (whole * NANOS + part);
    return true;
}

void money_write(int64_t nanos, char out[MONEY_BYTES]) {
    uint64_t size = nanos < 0 ? -(uint64_t)nanos : (uint64_t)nanos;
    size_t count = (size_t)snprintf(out, MONEY_BYTES, "%s%llu.%09llu", nanos < 0 ? "-" : "",
                                    (unsigned long long)(size / (uint64_t)NANOS),
                                    (unsigned long long)(size % (uint64_t)NANOS));
    while (out[count - 1] == '0')
        out[--count] = 0;
    if (out[count - 1] == '.') out[--count] = 0;
}
