/* SPDX-License-Identifier: Apache-2.0
 * Protects the calendar: what Python's datetime with glibc writes for times of all centuries, and
 * for each directive that it knows.
 */

#include "serving/jinja/values/calendar.h"
#include "test_case.h"

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
    {0LL, "1970-01-01 00:00:00 Thu 70 12 AM"},
    {-1LL, "1969-12-31 23:59:59 Wed 69 11 PM"},
    {951782400LL, "2000-02-29 00:00:00 Tue 00 12 AM"},
    {951868799LL, "2000-02-29 23:59:59 Tue 00 11 PM"},
    {1709647629LL, "2024-03-05 14:07:09 Tue 24 02 PM"},
    {1735689599LL, "2024-12-31 23:59:59 Tue 24 11 PM"},
    {1735689600LL, "2025-01-01 00:00:00 Wed 25 12 AM"},
    {1703980800LL, "2023-12-31 00:00:00 Sun 23 12 AM"},
    {1230768000LL, "2009-01-01 00:00:00 Thu 09 12 AM"},
    {1293840000LL, "2011-01-01 00:00:00 Sat 11 12 AM"},
    {1104537600LL, "2005-01-01 00:00:00 Sat 05 12 AM"},
    {1609459199LL, "2020-12-31 23:59:59 Thu 20 11 PM"},
    {253402300799LL, "9999-12-31 23:59:59 Fri 99 11 PM"},
    {4102444800LL, "2100-01-01 00:00:00 Fri 00 12 AM"},
    {-2208988800LL, "1900-01-01 00:00:00 Mon 00 12 AM"},
    {155396257079LL, "6894-04-23 18:57:59 Fri 94 06 PM"},
    {-6158796757LL, "1774-11-01 15:07:23 Tue 74 03 PM"},
    {58143536885LL, "3812-06-30 14:28:05 Tue 12 02 PM"},
    {-12594317096LL, "1570-11-26 10:35:04 Thu 70 10 AM"},
    {169495760730LL, "7341-02-08 11:45:30 Wed 41 11 AM"},
    {69149045647LL, "4161-03-31 04:14:07 Tue 61 04 AM"},
    {241037320153LL, "9608-03-02 19:09:13 Sun 08 07 PM"},
    {-28111932890LL, "1079-03-03 09:45:10 Mon 79 09 AM"},
    {-25864850007LL, "1150-05-18 07:26:33 Thu 50 07 AM"},
    {64452068044LL, "4012-05-28 00:14:04 Mon 12 12 AM"},
    {245142749104LL, "9738-04-07 08:05:04 Mon 38 08 AM"},
    {16701537995LL, "2499-04-01 20:06:35 Wed 99 08 PM"},
    {168877129110LL, "7321-07-03 09:38:30 Thu 21 09 AM"},
    {236972314276LL, "9479-05-10 02:51:16 Sat 79 02 AM"},
    {246267597368LL, "9773-11-28 09:56:08 Sun 73 09 AM"},
    {-3389211253LL, "1862-08-08 00:25:47 Fri 62 12 AM"},
    {45823327559LL, "3422-01-31 14:05:59 Thu 22 02 PM"},
    {-6860957181LL, "1752-08-01 18:33:39 Tue 52 06 PM"},
    {249507321911LL, "9876-07-28 05:25:11 Fri 76 05 AM"},
    {211467525599LL, "8671-02-20 19:19:59 Mon 71 07 PM"},
    {234980071764LL, "9416-03-22 18:09:24 Fri 16 06 PM"},
    {194752322287LL, "8141-06-15 19:18:07 Thu 41 07 PM"},
};

static const struct {
    const char *format, *text;
} directives[] = {
    {"%A %B %a %b", "Tuesday March Tue Mar"},
    {"%e|%y|%Y", " 5|24|2024"},
    {"%d|%-d|%-m|%-H:%-I|%-e|%-y", "05|5|3|14:2|5|24"},
    {"%H:%M:%S %I %p", "14:07:09 02 PM"},
    {"%d %b %Y%%", "05 Mar 2024%"},
    {"é%Yü", "é2024ü"},
};
/* clang-format on */

TEST(days_of_all_centuries_have_their_dates) {
    for (size_t i = 0; i < sizeof days / sizeof days[0]; i++)
        writes(days[i].unix_time, "%Y-%m-%d %H:%M:%S %a %y %I %p", days[i].text);
}

TEST(directives_are_written_as_glibc_writes_them) {
    for (size_t i = 0; i < sizeof directives / sizeof directives[0]; i++)
        writes(1709647629, directives[i].format, directives[i].text);
}

TEST(times_beyond_the_calendar_are_its_ends) {
    writes(INT64_MAX, "%Y-%m-%d", "9999-12-31");
    writes(INT64_MIN, "%-Y-%m-%d", "1-01-01");
}

TEST(other_directives_are_none) {
    static const char *const others[] = {"%",   "%-",  "%c",  "%Z", "%U",
                                         "%5d", "%^a", "%_d", "%E", "%j"};
    struct calendar calendar;
    char out[CALENDAR_BYTES];
    calendar_open(&calendar, 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        size_t at = 0;
        assert_int_equal(calendar_expand(&calendar, bytes_of(others[i]), &at, out), 0);
        assert_in_range(at, 1, strlen(others[i]));
    }
}
