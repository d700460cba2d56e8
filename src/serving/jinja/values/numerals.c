/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/numerals.h"

#include "base/format.h"
#include "base/real.h"

#define TEXT_BYTES_MAX 1000
#define ROUNDED_DIGITS_MAX 323 /* finer than any double */

static struct bytes numerals_trim(struct bytes text) {
    while (text.count > 0 && strchr(" \t\n\v\f\r", text.data[0]) && text.data[0]) {
        text.data++;
        text.count--;
    }
    while (text.count > 0 && strchr(" \t\n\v\f\r", text.data[text.count - 1]) &&
           text.data[text.count - 1])
        text.count--;
    return text;
}

enum numerals_result numerals_read_integer(struct bytes text, int64_t *out) {
    text = numerals_trim(text);
    size_t at = text.count > 0 && (text.data[0] == '-' || text.data[0] == '+');
    bool negative = at && text.data[0] == '-', too_large = false;
    int64_t value = 0;
    if (at == text.count) return NUMERALS_NONE;
    for (; at < text.count; at++) {
        int digit = text.data[at] - '0';
        bool joint = text.data[at] == '_' && at > 0 && at + 1 < text.count;
        if (joint && text.data[at - 1] != '_' && text.data[at - 1] >= '0') continue;
        if (digit < 0 || digit > 9) return NUMERALS_NONE;
        too_large = too_large || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, negative ? -digit : digit, &value);
    }
    *out = value;
    return too_large ? NUMERALS_TOO_LARGE : NUMERALS_READ;
}

enum numerals_result numerals_read_real(struct bytes text, double *out) {
    text = numerals_trim(text);
    if (text.count > TEXT_BYTES_MAX) return NUMERALS_TOO_LARGE;
    return real_read(text, out) ? NUMERALS_READ : NUMERALS_NONE;
}

double numerals_round(double value, int64_t digits) {
    char text[ROUNDED_DIGITS_MAX + 330];
    double rounded = 0;
    if (digits > ROUNDED_DIGITS_MAX || value == 0) return value;
    size_t count = format_text(text, sizeof text, "%.*f", (int)digits, value);
    return real_read((struct bytes){text, count}, &rounded) ? rounded : value;
}
