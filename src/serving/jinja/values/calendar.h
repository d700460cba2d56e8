/* SPDX-License-Identifier: Apache-2.0
 * Dates and times of day as strftime() writes them, in UTC and in English.
 */
#pragma once

#include "base/bytes.h"

struct calendar {
    int64_t year;
    int month, day;           /* from 1 */
    int hour, minute, second; /* from 0 */
    int weekday;              /* 0 = Sunday */
};

/* Converts seconds since 1970, clamped to the years 1 to 9999. */
void calendar_open(struct calendar *calendar, int64_t unix_time);

#define CALENDAR_BYTES 32

/* Expands the directive that starts with the '%' at format[*at], and advances *at past it. Returns
 * the number of bytes written. Returns 0 for directives other than %a %A %b %B %d %e %H %I %m %M %p
 * %S %y %Y %% and their forms without padding (%-d). */
size_t calendar_expand(const struct calendar *calendar, struct bytes format, size_t *at,
                       char out[CALENDAR_BYTES]);
