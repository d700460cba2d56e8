/* SPDX-License-Identifier: Apache-2.0
 * strftime() as Python's datetime has it with glibc in the C locale, of a time in UTC that has no
 * zone ("%Z" and "%z" are empty) and whole seconds ("%f" is 000000).
 */
#ifndef SERVING_JINJA_CALENDAR_H
#define SERVING_JINJA_CALENDAR_H

#include "base/bytes.h"

struct calendar {
    int64_t unix_time;
    int64_t year, iso_year;
    int month, day;                         /* from 1 */
    int hour, minute, second;               /* from 0 */
    int weekday;                            /* 0 = Sunday */
    int year_day;                           /* from 0 */
    int sunday_week, monday_week, iso_week; /* of %U, %W, %V */
};

/* Times of the years 1 to 9999; others are taken for the nearest of these. */
void calendar_open(struct calendar *calendar, int64_t unix_time);

#define CALENDAR_BYTES 256

/* Writes what the directive at format[*at], a '%', stands for, and moves *at behind it. Returns the
 * bytes written, at most CALENDAR_BYTES: a wider field is cut there. */
size_t calendar_expand(const struct calendar *calendar, struct bytes format, size_t *at,
                       char out[CALENDAR_BYTES]);

#endif
