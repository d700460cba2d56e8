/* SPDX-License-Identifier: Apache-2.0
 * Protects the calendar: what Python's datetime with glibc writes for times of all centuries, and
 * for each directive with its flags and widths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serving/jinja/calendar.h"

/* Expands a whole format. */
static void writes(int64_t unix_time, const char *format, const char *expected) {
    char text[1024], part[CALENDAR_BYTES];
    struct calendar calendar;
    size_t count = 0;
    struct bytes whole = bytes_of(format);
    calendar_open(&calendar, unix_time);
    for (size_t at = 0; at < whole.count;) {
        if (whole.data[at] != '%') {
            text[count++] = whole.data[at++];
            continue;
        }
        size_t bytes = calendar_expand(&calendar, whole, &at, part);
        memcpy(text + count, part, bytes);
        count += bytes;
    }
    text[count] = '\0';
    assert_string_equal(text, expected);
}

/* clang-format off */
static const struct {
    int64_t unix_time;
    const char *text;
} days[] = {
    {0LL, "1970-01-01 00:00:00 001 Thu 44 00 00 01 1970 70 19 70 12 AM"},
    {-1LL, "1969-12-31 23:59:59 365 Wed 33 52 52 01 1970 70 19 69 11 PM"},
    {951782400LL, "2000-02-29 00:00:00 060 Tue 22 09 09 09 2000 00 20 00 12 AM"},
    {951868799LL, "2000-02-29 23:59:59 060 Tue 22 09 09 09 2000 00 20 00 11 PM"},
    {1709647629LL, "2024-03-05 14:07:09 065 Tue 22 09 10 10 2024 24 20 24 02 PM"},
    {1735689599LL, "2024-12-31 23:59:59 366 Tue 22 52 53 01 2025 25 20 24 11 PM"},
    {1735689600LL, "2025-01-01 00:00:00 001 Wed 33 00 00 01 2025 25 20 25 12 AM"},
    {1703980800LL, "2023-12-31 00:00:00 365 Sun 70 53 52 52 2023 23 20 23 12 AM"},
    {1230768000LL, "2009-01-01 00:00:00 001 Thu 44 00 00 01 2009 09 20 09 12 AM"},
    {1293840000LL, "2011-01-01 00:00:00 001 Sat 66 00 00 52 2010 10 20 11 12 AM"},
    {1104537600LL, "2005-01-01 00:00:00 001 Sat 66 00 00 53 2004 04 20 05 12 AM"},
    {1609459199LL, "2020-12-31 23:59:59 366 Thu 44 52 52 53 2020 20 20 20 11 PM"},
    {253402300799LL, "9999-12-31 23:59:59 365 Fri 55 52 52 52 9999 99 99 99 11 PM"},
    {4102444800LL, "2100-01-01 00:00:00 001 Fri 55 00 00 53 2099 99 21 00 12 AM"},
    {-2208988800LL, "1900-01-01 00:00:00 001 Mon 11 00 01 01 1900 00 19 00 12 AM"},
    {155396257079LL, "6894-04-23 18:57:59 113 Fri 55 16 16 16 6894 94 68 94 06 PM"},
    {-6158796757LL, "1774-11-01 15:07:23 305 Tue 22 44 44 44 1774 74 17 74 03 PM"},
    {58143536885LL, "3812-06-30 14:28:05 182 Tue 22 26 26 27 3812 12 38 12 02 PM"},
    {-12594317096LL, "1570-11-26 10:35:04 330 Thu 44 47 47 48 1570 70 15 70 10 AM"},
    {169495760730LL, "7341-02-08 11:45:30 039 Wed 33 06 06 06 7341 41 73 41 11 AM"},
    {69149045647LL, "4161-03-31 04:14:07 090 Tue 22 13 13 14 4161 61 41 61 04 AM"},
    {241037320153LL, "9608-03-02 19:09:13 062 Sun 70 09 08 09 9608 08 96 08 07 PM"},
    {-28111932890LL, "1079-03-03 09:45:10 062 Mon 11 09 09 10 1079 79 10 79 09 AM"},
    {-25864850007LL, "1150-05-18 07:26:33 138 Thu 44 20 20 20 1150 50 11 50 07 AM"},
    {64452068044LL, "4012-05-28 00:14:04 149 Mon 11 22 22 22 4012 12 40 12 12 AM"},
    {245142749104LL, "9738-04-07 08:05:04 097 Mon 11 14 14 15 9738 38 97 38 08 AM"},
    {16701537995LL, "2499-04-01 20:06:35 091 Wed 33 13 13 14 2499 99 24 99 08 PM"},
    {168877129110LL, "7321-07-03 09:38:30 184 Thu 44 26 26 27 7321 21 73 21 09 AM"},
    {236972314276LL, "9479-05-10 02:51:16 130 Sat 66 18 18 19 9479 79 94 79 02 AM"},
    {246267597368LL, "9773-11-28 09:56:08 332 Sun 70 48 47 47 9773 73 97 73 09 AM"},
    {-3389211253LL, "1862-08-08 00:25:47 220 Fri 55 31 31 32 1862 62 18 62 12 AM"},
    {45823327559LL, "3422-01-31 14:05:59 031 Thu 44 04 04 05 3422 22 34 22 02 PM"},
    {-6860957181LL, "1752-08-01 18:33:39 214 Tue 22 31 31 31 1752 52 17 52 06 PM"},
    {249507321911LL, "9876-07-28 05:25:11 210 Fri 55 30 30 30 9876 76 98 76 05 AM"},
    {211467525599LL, "8671-02-20 19:19:59 051 Mon 11 08 08 08 8671 71 86 71 07 PM"},
    {234980071764LL, "9416-03-22 18:09:24 082 Fri 55 11 12 12 9416 16 94 16 06 PM"},
    {194752322287LL, "8141-06-15 19:18:07 166 Thu 44 24 24 24 8141 41 81 41 07 PM"},
};

static const struct {
    const char *format, *text;
} directives[] = {
    {"%A %B %b %h", "Tuesday March Mar Mar"},
    {"%c|%x|%X|%r|%R|%T|%D|%F", "Tue Mar  5 14:07:09 2024|03/05/24|14:07:09|02:07:09 PM|14:07|14:07:09|03/05/24|2024-03-05"},
    {"%e|%k|%l", " 5|14| 2"},
    {"%p%P%#p%^p%^P", "PMpmpmPMpm"},
    {"%n%t%", "\n\t%"},
    {"%z|%Z|%f", "||000000"},
    {"%5d|%-d|%_d|%05Y|%3j", "00005|5| 5|02024|065"},
    {"%^a|%#a|%10A|%-10A|%010A", "TUE|TUE|   Tuesday|   Tuesday|000Tuesday"},
    {"%Ey|%Od|%EQ|%Q|%5Q|%:z", "24|05|%EQ|%Q|  %5Q|%:z"},
    {"%-e|%-5e|%_5d|%_C", "5|    5|    5|20"},
    {"%30F|%^c|%5%|%-%", "                    2024-03-05|TUE MAR  5 14:07:09 2024|    %|%"},
    {"%s|%0e|%-H:%-I", "1709647629|05|14:2"},
    {"%", "%"},
    {"%5", "   %5"},
    {"é%Yü", "é2024ü"},
};
/* clang-format on */

static void days_of_all_centuries_have_their_weeks(void **state) {
    for (size_t i = 0; i < sizeof days / sizeof days[0]; i++)
        writes(days[i].unix_time, "%Y-%m-%d %H:%M:%S %j %a %u%w %U %W %V %G %g %C %y %I %p",
               days[i].text);
}

static void directives_are_written_as_glibc_writes_them(void **state) {
    for (size_t i = 0; i < sizeof directives / sizeof directives[0]; i++)
        writes(1709647629, directives[i].format, directives[i].text);
}

static void times_beyond_the_calendar_are_its_ends(void **state) {
    writes(INT64_MAX, "%Y-%m-%d", "9999-12-31");
    writes(INT64_MIN, "%-Y-%m-%d", "1-01-01");
}

static void a_field_too_wide_is_cut(void **state) {
    struct calendar calendar;
    char out[CALENDAR_BYTES];
    size_t at = 0;
    calendar_open(&calendar, 0);
    assert_in_range(calendar_expand(&calendar, bytes_of("%99999999999A"), &at, out), 1,
                    CALENDAR_BYTES);
    assert_int_equal(at, 13);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_of_all_centuries_have_their_weeks),
        cmocka_unit_test(directives_are_written_as_glibc_writes_them),
        cmocka_unit_test(times_beyond_the_calendar_are_its_ends),
        cmocka_unit_test(a_field_too_wide_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
