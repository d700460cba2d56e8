/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/calendar.h"

#include "base/format.h"

#define DAY_SECONDS 86400
#define TIME_MIN (-62135596800) /* first second of year 1 */
#define TIME_MAX 253402300799   /* last second of year 9999 */

static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};

/* Converts days since 1970-01-01 to a date. Years begin in March here, so that a leap day is the
 * last day of a year. */
static void date_of(int64_t days, struct calendar *out) {
    int64_t shifted = days + 719468; /* days since 0000-03-01 */
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t in_era = shifted - era * 146097;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t from_march = (5 * in_year + 2) / 153;
    out->day = (int)(in_year - (153 * from_march + 2) / 5 + 1);
    out->month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
    out->year = year + era * 400 + (out->month <= 2);
}

void calendar_open(struct calendar *calendar, int64_t unix_time) {
    if (unix_time < TIME_MIN) unix_time = TIME_MIN;
    if (unix_time > TIME_MAX) unix_time = TIME_MAX;
    int64_t days = unix_time / DAY_SECONDS, seconds = unix_time % DAY_SECONDS;
    if (seconds < 0) {
        seconds += DAY_SECONDS;
        days--;
    }
    *calendar = (struct calendar){.hour = (int)(seconds / 3600),
                                  .minute = (int)(seconds / 60 % 60),
                                  .second = (int)(seconds % 60)};
    date_of(days, calendar);
    calendar->weekday = (int)((days % 7 + 7 + 4) % 7); /* 1970-01-01 was a Thursday */
}

static size_t number(char out[CALENDAR_BYTES], int64_t value, int width, char pad) {
    if (pad == '-') return format_text(out, CALENDAR_BYTES, "%lld", (long long)value);
    if (pad == ' ') return format_text(out, CALENDAR_BYTES, "%*lld", width, (long long)value);
    return format_text(out, CALENDAR_BYTES, "%0*lld", width, (long long)value);
}

size_t calendar_expand(const struct calendar *now, struct bytes format, size_t *at,
                       char out[CALENDAR_BYTES]) {
    size_t behind = *at + 1;
    char pad = behind < format.count && format.data[behind] == '-' ? '-' : '0';
    behind += pad == '-';
    char letter = behind < format.count ? format.data[behind] : '\0';
    *at = behind < format.count ? behind + 1 : format.count;
    int hour = now->hour % 12 ? now->hour % 12 : 12;
    switch (letter) {
    case 'a':
        return format_text(out, CALENDAR_BYTES, "%.3s", day_names[now->weekday]);
    case 'A':
        return format_text(out, CALENDAR_BYTES, "%s", day_names[now->weekday]);
    case 'b':
        return format_text(out, CALENDAR_BYTES, "%.3s", month_names[now->month - 1]);
    case 'B':
        return format_text(out, CALENDAR_BYTES, "%s", month_names[now->month - 1]);
    case 'd':
        return number(out, now->day, 2, pad);
    case 'e':
        return number(out, now->day, 2, pad == '-' ? pad : ' ');
    case 'H':
        return number(out, now->hour, 2, pad);
    case 'I':
        return number(out, hour, 2, pad);
    case 'm':
        return number(out, now->month, 2, pad);
    case 'M':
        return number(out, now->minute, 2, pad);
    case 'p':
        return format_text(out, CALENDAR_BYTES, "%s", now->hour < 12 ? "AM" : "PM");
    case 'S':
        return number(out, now->second, 2, pad);
    case 'y':
        return number(out, now->year % 100, 2, pad);
    case 'Y':
        return number(out, now->year, 1, pad);
    case '%':
        return format_text(out, CALENDAR_BYTES, "%%");
    default:
        return 0;
    }
}
