/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/numerals.h"

#include <math.h>

#include "base/format.h"
#include "base/real.h"
#include "base/unicode.h"
#include "base/utf8.h"

#define TEXT_BYTES_MAX 1000
#define ROUNDED_DIGITS_MAX 323 /* finer than any double, and coarser */

/* A decimal digit of any script: its value; -1: it is none. Digits of a script stand in a row. */
static int numerals_digit_of(uint32_t character) {
    if (character < 0x80) return character >= '0' && character <= '9' ? (int)(character - '0') : -1;
    uint32_t first = character, last;
    if (unicode_run(character, &last) != UNICODE_ND) return -1;
    while (unicode_run(first - 1, &last) == UNICODE_ND)
        first--;
    return (int)((character - first) % 10);
}

/* Without white space around it, digits and spaces of other scripts in ASCII. */
static bool to_ascii(struct bytes text, char out[TEXT_BYTES_MAX + 1], size_t *count) {
    size_t end = 0;
    unsigned bytes;
    *count = 0;
    for (size_t at = 0; at < text.count; at += bytes) {
        uint32_t character = utf8_read(text.data + at, &bytes);
        bool space = unicode_is_space(character);
        if (space && *count == 0) continue;
        if (*count >= TEXT_BYTES_MAX) return false;
        int digit = numerals_digit_of(character);
        char c = digit >= 0 ? (char)('0' + digit) : character < 0x80 ? (char)character : '?';
        out[(*count)++] = space ? ' ' : c;
        if (!space) end = *count;
    }
    *count = end;
    return true;
}

static int symbol_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 99;
}

static int numerals_base_of(char letter) {
    letter |= 32;
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

enum numerals_result numerals_read_integer(struct bytes text, int64_t base, int64_t *out) {
    char digits[TEXT_BYTES_MAX + 1];
    size_t count, at = 0;
    if (base != 0 && (base < 2 || base > 36)) return NUMERALS_NONE;
    if (!to_ascii(text, digits, &count)) return NUMERALS_TOO_LARGE;
    bool negative = count > 0 && digits[0] == '-', too_large = false;
    if (count > 0 && (digits[0] == '-' || digits[0] == '+')) at++;
    int prefix = at + 1 < count && digits[at] == '0' ? numerals_base_of(digits[at + 1]) : 0;
    bool zeros_only = base == 0 && prefix == 0 && at < count && digits[at] == '0';
    if (prefix && (base == 0 || base == prefix)) {
        base = prefix;
        at += 2;
        if (at < count && digits[at] == '_') at++;
    }
    if (base == 0) base = 10;
    uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;
    bool digit_before = false, seen = false;
    for (; at < count; at++) {
        if (digits[at] == '_' && digit_before) {
            digit_before = false;
            continue;
        }
        int symbol = symbol_of(digits[at]);
        if (symbol >= base || (zeros_only && symbol > 0)) return NUMERALS_NONE;
        too_large = too_large || value > (most - (uint64_t)symbol) / (uint64_t)base;
        if (!too_large) value = value * (uint64_t)base + (uint64_t)symbol;
        digit_before = seen = true;
    }
    if (!seen || !digit_before) return NUMERALS_NONE;
    if (too_large) return NUMERALS_TOO_LARGE;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return NUMERALS_READ;
}

static bool numerals_is_word(const char *text, size_t count, const char *word) {
    if (strlen(word) != count) return false;
    for (size_t i = 0; i < count; i++)
        if ((text[i] | 32) != word[i]) return false;
    return true;
}

enum numerals_result numerals_read_real(struct bytes text, double *out) {
    char digits[TEXT_BYTES_MAX + 1];
    size_t count, kept = 0;
    if (!to_ascii(text, digits, &count)) return NUMERALS_TOO_LARGE;
    size_t sign = count > 0 && (digits[0] == '-' || digits[0] == '+');
    const char *word = digits + sign;
    double whole = numerals_is_word(word, count - sign, "inf") ||
                           numerals_is_word(word, count - sign, "infinity")
                       ? (double)INFINITY
                   : numerals_is_word(word, count - sign, "nan") ? (double)NAN
                                                                 : 0;
    if (whole != 0) {
        *out = sign && digits[0] == '-' ? -whole : whole;
        return NUMERALS_READ;
    }
    for (size_t i = 0; i < count; i++) {
        bool between = i > 0 && i + 1 < count && symbol_of(digits[i - 1]) < 10 &&
                       symbol_of(digits[i + 1]) < 10;
        if (digits[i] == '_' && !between) return NUMERALS_NONE;
        if (digits[i] != '_') digits[kept++] = digits[i];
    }
    return real_read((struct bytes){digits, kept}, out) ? NUMERALS_READ : NUMERALS_NONE;
}

double numerals_round(double value, int64_t digits) {
    char text[ROUNDED_DIGITS_MAX + 330];
    double rounded = 0;
    if (digits > ROUNDED_DIGITS_MAX || value == 0) return value;
    if (digits >= 0) {
        size_t count = format_text(text, sizeof text, "%.*f", (int)digits, value);
        return real_read((struct bytes){text, count}, &rounded) ? rounded : value;
    }
    if (digits < -ROUNDED_DIGITS_MAX) return 0.0 * value;
    size_t count = format_text(text, sizeof text, "%.20e", fabs(value));
    int exponent = 0;
    for (size_t at = (size_t)((char *)memchr(text, 'e', count) - text) + 2; at < count; at++)
        exponent = exponent * 10 + (text[at] - '0');
    if (fabs(value) < 1) return 0.0 * value;
    int precision = exponent + (int)digits; /* digits that stay behind the first one */
    if (precision < -1) return 0.0 * value;
    if (precision == -1) { /* all or nothing: one digit more decides */
        double unit = pow(10, (double)-digits);
        rounded = fabs(value) > unit / 2 ? unit : 0;
        return value < 0 ? -rounded : rounded;
    }
    count = format_text(text, sizeof text, "%.*e", precision, value);
    return real_read((struct bytes){text, count}, &rounded) ? rounded : value;
}

bool numerals_round_integer(int64_t value, int64_t digits, int64_t *out) {
    uint64_t unit = 1, size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    *out = 0;
    if (digits < -19) return true;
    for (; digits < 0; digits++)
        unit *= 10;
    uint64_t rest = size % unit, down = size - rest;
    bool up = rest > unit / 2 || (rest == unit / 2 && unit > 1 && (down / unit) % 2 == 1);
    if (up && down > UINT64_MAX - unit) return false;
    size = up ? down + unit : down;
    if (size > (uint64_t)INT64_MAX + (value < 0)) return false;
    *out = value < 0 ? (int64_t)(0 - size) : (int64_t)size;
    return true;
}
