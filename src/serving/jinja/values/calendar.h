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

/* Times of the years 1 to 9999; others are taken for the nearest of these. */
void calendar_open(struct calendar *calendar, int64_t unix_time);

#define CALENDAR_BYTES 32

/* Writes what the directive at format[*at], a '%', stands for, and moves *at behind it. Returns the
 * count of bytes; 0: the directive is none of %a %A %b %B %d %e %H %I %m %M %p %S %y %Y %%
 * (also without padding: %-d). */
size_t calendar_expand(const struct calendar *calendar, struct bytes format, size_t *at,
                       char out[CALENDAR_BYTES]);
