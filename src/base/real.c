/* SPDX-License-Identifier: Apache-2.0 */
#include "base/real.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DIGITS_MAX 17
#define READ_BYTES_MAX 1000

/* Splits "d.ddde+xx" into digits and exponent. */
static int digits_of(const char *text, char digits[DIGITS_MAX + 1], int *exponent) {
    int count = 0;
    for (; *text != 'e'; text++)
        if (*text != '.') digits[count++] = *text;
    digits[count] = '\0';
    *exponent = (int)strtol(text + 1, NULL, 10);
    return count;
}

static double value_of_digits(const char *digits, int count, int exponent) {
    char text[48];
    snprintf(text, sizeof text, "%se%d", digits, exponent - (count - 1));
    return strtod(text, NULL);
}

/* Increments the last digit. At a power of two, the neighbour below is nearer than the one above.
 * The next larger number with as many digits may then parse to the value although the nearest does
 * not. */
static bool raise_last(char *digits, int count) {
    for (int i = count - 1; i >= 0; i--) {
        if (digits[i] != '9') {
            digits[i]++;
            return true;
        }
        digits[i] = '0';
    }
    return false;
}

/* The fewest digits that parse to `value` (finite, positive). */
static int shortest(double value, char digits[DIGITS_MAX + 1], int *exponent) {
    char text[48];
    for (int wanted = 1; wanted < DIGITS_MAX; wanted++) {
        snprintf(text, sizeof text, "%.*e", wanted - 1, value);
        int count = digits_of(text, digits, exponent);
        if (value_of_digits(digits, count, *exponent) == value) return count;
        if (raise_last(digits, count) && value_of_digits(digits, count, *exponent) == value)
            return count;
    }
    snprintf(text, sizeof text, "%.*e", DIGITS_MAX - 1, value);
    return digits_of(text, digits, exponent);
}

size_t real_write(double value, char out[REAL_TEXT_BYTES]) {
    char digits[DIGITS_MAX + 1];
    int exponent, sign = signbit(value) != 0;
    if (isnan(value)) return (size_t)snprintf(out, REAL_TEXT_BYTES, "nan");
    if (isinf(value)) return (size_t)snprintf(out, REAL_TEXT_BYTES, sign ? "-inf" : "inf");
    if (value == 0) return (size_t)snprintf(out, REAL_TEXT_BYTES, sign ? "-0.0" : "0.0");
    int count = shortest(fabs(value), digits, &exponent);
    while (count > 1 && digits[count - 1] == '0')
        digits[--count] = '\0';
    size_t at = 0;
    if (sign) out[at++] = '-';
    if (exponent < -4 || exponent >= 16)
        return at + (size_t)snprintf(out + at, REAL_TEXT_BYTES - at, "%c%s%se%c%02d", digits[0],
                                     count > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                                     abs(exponent));
    if (exponent < 0)
        return at + (size_t)snprintf(out + at, REAL_TEXT_BYTES - at, "0.%.*s%s", -exponent - 1,
                                     "0000", digits);
    for (int i = 0; i <= exponent || i < count; i++) {
        if (i == exponent + 1) out[at++] = '.';
        out[at++] = i < count ? digits[i] : '0';
    }
    if (count <= exponent + 1) {
        out[at++] = '.';
        out[at++] = '0';
    }
    out[at] = '\0';
    return at;
}

static size_t digits_at(struct bytes text, size_t at) {
    size_t start = at;
    while (at < text.count && text.data[at] >= '0' && text.data[at] <= '9')
        at++;
    return at - start;
}

bool real_read(struct bytes text, double *out) {
    char copy[READ_BYTES_MAX + 1];
    size_t at = 0;
    if (text.count > READ_BYTES_MAX) return false;
    if (at < text.count && (text.data[at] == '-' || text.data[at] == '+')) at++;
    size_t whole = digits_at(text, at), part = 0;
    at += whole;
    if (at < text.count && text.data[at] == '.') {
        part = digits_at(text, at + 1);
        at += 1 + part;
    }
    if (whole + part == 0) return false;
    if (at < text.count && (text.data[at] == 'e' || text.data[at] == 'E')) {
        at++;
        if (at < text.count && (text.data[at] == '-' || text.data[at] == '+')) at++;
        size_t power = digits_at(text, at);
        if (power == 0) return false;
        at += power;
    }
    if (at != text.count) return false;
    memcpy(copy, text.data, text.count);
    copy[text.count] = '\0';
    *out = strtod(copy, NULL);
    return true;
}
