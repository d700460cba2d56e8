/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/calendar.h"

#include "base/format.h"

#define DAY_SECONDS 86400
#define TIME_MIN (-62135596800) /* the first second of year 1 */
#define TIME_MAX 253402300799   /* the last one of year 9999 */

static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};

static bool leap(int64_t year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int weeks_in(int64_t year, int january_1) { /* ISO weeks; the weekday counts from Sunday */
    return january_1 == 4 || (leap(year) && january_1 == 3) ? 53 : 52;
}

/* The civil date of a day since 1970-01-01: years begin in March, so that a leap day ends one. */
static void date_of(int64_t days, struct calendar *out) {
    int64_t shifted = days + 719468; /* since 0000-03-01 */
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
    static const int before_month[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    if (unix_time < TIME_MIN) unix_time = TIME_MIN;
    if (unix_time > TIME_MAX) unix_time = TIME_MAX;
    int64_t days = unix_time / DAY_SECONDS, seconds = unix_time % DAY_SECONDS;
    if (seconds < 0) {
        seconds += DAY_SECONDS;
        days--;
    }
    *calendar = (struct calendar){.unix_time = unix_time,
                                  .hour = (int)(seconds / 3600),
                                  .minute = (int)(seconds / 60 % 60),
                                  .second = (int)(seconds % 60)};
    date_of(days, calendar);
    calendar->weekday = (int)((days % 7 + 7 + 4) % 7); /* 1970 began on a Thursday */
    calendar->year_day = before_month[calendar->month - 1] + calendar->day - 1 +
                         (calendar->month > 2 && leap(calendar->year));
    int monday_based = (calendar->weekday + 6) % 7;
    calendar->sunday_week = (calendar->year_day + 7 - calendar->weekday) / 7;
    calendar->monday_week = (calendar->year_day + 7 - monday_based) / 7;
    int january_1 = (calendar->weekday - calendar->year_day % 7 + 7) % 7;
    int week = (calendar->year_day - monday_based + 10) / 7;
    int days_before = 365 + leap(calendar->year - 1);
    calendar->iso_year = calendar->year;
    if (week == 0) {
        calendar->iso_year--;
        week = weeks_in(calendar->iso_year, (january_1 - days_before % 7 + 7) % 7);
    } else if (week > weeks_in(calendar->year, january_1)) {
        calendar->iso_year++;
        week = 1;
    }
    calendar->iso_week = week;
}

/* The part between '%' and the directive's letter. */
struct field {
    char pad; /* '_', '-', '0'; 0: the directive's own */
    bool upper, change;
    int width; /* -1: none */
};

static size_t calendar_read_field(struct bytes format, size_t at, struct field *out) {
    *out = (struct field){.width = -1};
    for (; at < format.count; at++) {
        char flag = format.data[at];
        if (flag == '_' || flag == '-' || flag == '0')
            out->pad = flag;
        else if (flag == '^')
            out->upper = true;
        else if (flag == '#')
            out->change = true;
        else
            break;
    }
    for (; at < format.count && format.data[at] >= '0' && format.data[at] <= '9'; at++) {
        if (out->width < 0) out->width = 0;
        if (out->width < CALENDAR_BYTES) out->width = out->width * 10 + (format.data[at] - '0');
    }
    if (at < format.count && (format.data[at] == 'E' || format.data[at] == 'O')) at++;
    return at;
}

static size_t put(char out[CALENDAR_BYTES], struct bytes text, const struct field *field,
                  char filler) {
    size_t at = 0, width = field->width > 0 ? (size_t)field->width : 0;
    if (width > CALENDAR_BYTES) width = CALENDAR_BYTES;
    if (text.count > CALENDAR_BYTES) text.count = CALENDAR_BYTES;
    while (at + text.count < width)
        out[at++] = filler;
    for (size_t i = 0; i < text.count; i++) {
        char c = text.data[i];
        out[at++] = field->upper && c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    return at;
}

static size_t calendar_put_text(char out[CALENDAR_BYTES], const char *text, size_t count,
                                const struct field *field) {
    return put(out, (struct bytes){text, count}, field, field->pad == '0' ? '0' : ' ');
}

static size_t put_number(char out[CALENDAR_BYTES], int64_t number, int digits, char pad,
                         const struct field *field) {
    char text[24];
    struct field plain = *field;
    char how = field->pad ? field->pad : pad;
    size_t count = format_text(text, sizeof text, "%lld", (long long)number);
    if (how == '-' && field->width < 0) digits = 0;
    if (plain.width < digits) plain.width = digits;
    return put(out, (struct bytes){text, count}, &plain, how == '0' ? '0' : ' ');
}

/* Directives that stand for others, such as "%T". */
static size_t put_pattern(const struct calendar *calendar, const char *pattern,
                          const struct field *field, char out[CALENDAR_BYTES]) {
    char text[CALENDAR_BYTES], part[CALENDAR_BYTES];
    struct bytes format = bytes_of(pattern);
    size_t count = 0;
    for (size_t at = 0; at < format.count;) {
        if (format.data[at] != '%') {
            text[count++] = format.data[at++];
            continue;
        }
        size_t bytes = calendar_expand(calendar, format, &at, part);
        memcpy(text + count, part, bytes);
        count += bytes;
    }
    return calendar_put_text(out, text, count, field);
}

static size_t put_name(const struct calendar *calendar, char letter, struct field *field,
                       char out[CALENDAR_BYTES]) {
    const char *name = letter == 'a' || letter == 'A' ? day_names[calendar->weekday]
                                                      : month_names[calendar->month - 1];
    if (field->change) field->upper = true;
    return calendar_put_text(out, name, letter == 'A' || letter == 'B' ? strlen(name) : 3, field);
}

static size_t put_half(const struct calendar *calendar, char letter, struct field *field,
                       char out[CALENDAR_BYTES]) {
    bool small = letter == 'P' || field->change;
    if (small) field->upper = false;
    const char *name = calendar->hour < 12 ? (small ? "am" : "AM") : (small ? "pm" : "PM");
    return calendar_put_text(out, name, 2, field);
}

static const char *pattern_of(char letter) {
    switch (letter) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'r':
        return "%I:%M:%S %p";
    case 'R':
        return "%H:%M";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    default:
        return NULL;
    }
}

/* A directive with a number as its value; digits 0: it is none. */
struct number {
    int64_t value;
    int digits;
    char pad;
};

static struct number calendar_number_of(const struct calendar *c, char letter) {
    int hour_12 = c->hour % 12 == 0 ? 12 : c->hour % 12;
    switch (letter) {
    case 'C':
        return (struct number){c->year / 100, 2, '0'};
    case 'd':
        return (struct number){c->day, 2, '0'};
    case 'e':
        return (struct number){c->day, 2, '_'};
    case 'f':
        return (struct number){0, 6, '0'};
    case 'g':
        return (struct number){c->iso_year % 100, 2, '0'};
    case 'G':
        return (struct number){c->iso_year, 1, '0'};
    case 'H':
        return (struct number){c->hour, 2, '0'};
    case 'I':
        return (struct number){hour_12, 2, '0'};
    case 'j':
        return (struct number){c->year_day + 1, 3, '0'};
    case 'k':
        return (struct number){c->hour, 2, '_'};
    case 'l':
        return (struct number){hour_12, 2, '_'};
    case 'm':
        return (struct number){c->month, 2, '0'};
    case 'M':
        return (struct number){c->minute, 2, '0'};
    case 's':
        return (struct number){c->unix_time, 1, '0'};
    case 'S':
        return (struct number){c->second, 2, '0'};
    case 'u':
        return (struct number){(c->weekday + 6) % 7 + 1, 1, '0'};
    case 'U':
        return (struct number){c->sunday_week, 2, '0'};
    case 'V':
        return (struct number){c->iso_week, 2, '0'};
    case 'w':
        return (struct number){c->weekday, 1, '0'};
    case 'W':
        return (struct number){c->monday_week, 2, '0'};
    case 'y':
        return (struct number){c->year % 100, 2, '0'};
    case 'Y':
        return (struct number){c->year, 1, '0'};
    default:
        return (struct number){0, 0, 0};
    }
}

size_t calendar_expand(const struct calendar *calendar, struct bytes format, size_t *at,
                       char out[CALENDAR_BYTES]) {
    struct field field;
    size_t start = *at, letter_at = calendar_read_field(format, start + 1, &field);
    char letter = letter_at < format.count ? format.data[letter_at] : '\0';
    bool bare = letter_at == start + 1; /* Python itself replaces these, and only so */
    *at = letter_at < format.count ? letter_at + 1 : letter_at;
    struct number number = calendar_number_of(calendar, letter);
    const char *pattern = pattern_of(letter);
    if (letter == 'f' && !bare) number.digits = 0;
    if (number.digits > 0) return put_number(out, number.value, number.digits, number.pad, &field);
    if (pattern) return put_pattern(calendar, pattern, &field, out);
    switch (letter) {
    case 'a':
    case 'A':
    case 'b':
    case 'B':
    case 'h':
        return put_name(calendar, letter, &field, out);
    case 'p':
    case 'P':
        return put_half(calendar, letter, &field, out);
    case 'n':
        return calendar_put_text(out, "\n", 1, &field);
    case 't':
        return calendar_put_text(out, "\t", 1, &field);
    case '%':
        return calendar_put_text(out, "%", 1, &field);
    case 'z':
    case 'Z':
        return bare ? 0
                    : calendar_put_text(out, letter == 'z' ? "+0000" : "UTC", letter == 'z' ? 5 : 3,
                                        &field);
    default: /* not known: as it stands */
        return calendar_put_text(out, format.data + start, *at - start, &field);
    }
}
