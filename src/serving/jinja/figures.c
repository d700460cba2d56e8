/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/figures.h"

#include <math.h>

#include "base/format.h"
#include "base/real.h"
#include "base/utf8.h"

#define DIGITS_MAX 1400 /* 309 before the point, the precision behind it */

static bool is_align(uint32_t character) {
    return character == '<' || character == '>' || character == '=' || character == '^';
}

static bool figures_read_number(struct bytes text, size_t *at, int most, int *out) {
    if (*at >= text.count || text.data[*at] < '0' || text.data[*at] > '9') return true;
    *out = 0;
    for (; *at < text.count && text.data[*at] >= '0' && text.data[*at] <= '9'; ++*at) {
        *out = *out * 10 + (text.data[*at] - '0');
        if (*out > most) return false;
    }
    return true;
}

static bool figures_take(struct bytes text, size_t *at, char wanted) {
    if (*at >= text.count || text.data[*at] != wanted) return false;
    ++*at;
    return true;
}

static size_t read_align(struct bytes text, struct figures_format *out) {
    unsigned bytes = 0;
    uint32_t first = text.count ? utf8_read(text.data, &bytes) : 0;
    if (bytes && bytes < text.count && is_align((uint8_t)text.data[bytes])) {
        out->fill = first;
        out->align = text.data[bytes];
        return bytes + 1;
    }
    if (!is_align(first)) return 0;
    out->align = (char)first;
    return 1;
}

const char *figures_read(struct bytes text, char align, struct figures_format *out) {
    *out = (struct figures_format){.fill = ' ', .width = -1, .precision = -1};
    size_t at = read_align(text, out);
    bool filled = at > 1;
    if (at < text.count && strchr("+- ", text.data[at]) && text.data[at])
        out->sign = text.data[at++];
    out->not_negative_zero = figures_take(text, &at, 'z');
    out->alternate = figures_take(text, &at, '#');
    if (!filled && figures_take(text, &at, '0')) {
        out->fill = '0';
        out->zero = true;
        if (!out->align && align == '>') out->align = '=';
    }
    if (!figures_read_number(text, &at, FIGURES_WIDTH_MAX, &out->width))
        return "the width is too large";
    if (figures_take(text, &at, ',')) out->grouping = ',';
    if (figures_take(text, &at, '_')) {
        if (out->grouping) return "Cannot specify both ',' and '_'.";
        out->grouping = '_';
    }
    if (figures_take(text, &at, ',')) return "Cannot specify ',' with another one.";
    if (figures_take(text, &at, '.')) {
        if (!figures_read_number(text, &at, FIGURES_PRECISION_MAX, &out->precision))
            return "the precision is too large";
        if (out->precision < 0) return "Format specifier missing precision";
    }
    if (text.count - at > 1) return "Invalid format specifier";
    if (at < text.count) out->type = text.data[at];
    if (out->grouping && out->type && !strchr("deEfFgG%", out->type) &&
        !(out->grouping == '_' && strchr("boxX", out->type)))
        return "Cannot specify ',' or '_' with this type.";
    return NULL;
}

/* A number taken apart. */
struct figure {
    bool negative;
    const char *prefix;
    const char *digits, *rest; /* whole digits; what follows: a fraction, an exponent */
    size_t digit_count, rest_count;
    size_t group; /* digits in one */
};

/* Digits from the right, in groups; zeros in front until `wanted` bytes are there. Returns the
 * bytes, which end at `end`. */
static size_t group_digits(const struct figure *figure, char mark, size_t wanted, char *end) {
    size_t left = figure->digit_count, in_group = 0;
    char *at = end;
    while (left > 0 || (size_t)(end - at) < wanted) {
        if (mark && in_group == figure->group) {
            *--at = mark;
            in_group = 0;
            if (left == 0 && (size_t)(end - at) >= wanted) wanted = (size_t)(end - at) + 1;
        }
        *--at = left > 0 ? figure->digits[--left] : '0';
        in_group++;
    }
    return (size_t)(end - at);
}

static const char *figures_lay_out(const struct figure *figure, const struct figures_format *format,
                                   char out[FIGURES_BYTES], size_t *count, size_t *prefix) {
    char digits[FIGURES_BYTES];
    size_t at = 0, width = 0;
    if (figure->negative)
        out[at++] = '-';
    else if (format->sign == '+' || format->sign == ' ')
        out[at++] = format->sign;
    for (const char *c = figure->prefix; *c; c++)
        out[at++] = *c;
    *prefix = at;
    if (format->fill == '0' && format->align == '=' && figure->digit_count > 0 &&
        format->width > 0 && (size_t)format->width > at + figure->rest_count)
        width = (size_t)format->width - at - figure->rest_count;
    if (width > FIGURES_PRECISION_MAX) return "the width is too large";
    size_t grouped = group_digits(figure, format->grouping, width, digits + sizeof digits);
    if (at + grouped + figure->rest_count > FIGURES_BYTES) return "the number is too long";
    memcpy(out + at, digits + sizeof digits - grouped, grouped);
    memcpy(out + at + grouped, figure->rest, figure->rest_count);
    *count = at + grouped + figure->rest_count;
    return NULL;
}

const char *figures_of_integer(int64_t value, const struct figures_format *format,
                               char out[FIGURES_BYTES], size_t *count, size_t *prefix) {
    char text[80];
    size_t at = sizeof text;
    struct figure figure = {.negative = value < 0, .prefix = "", .rest = "", .group = 3};
    if (format->type && strchr("eEfFgG%", format->type))
        return figures_of_real((double)value, format, out, count, prefix);
    if (format->precision >= 0) return "Precision not allowed in integer format specifier";
    if (format->not_negative_zero)
        return "Negative zero coercion (z) not allowed in format specifier with integer";
    if (format->type && !strchr("bdnoxX", format->type))
        return "Unknown format code for object of type 'int'";
    unsigned base = format->type == 'b'                          ? 2
                    : format->type == 'o'                        ? 8
                    : format->type == 'x' || format->type == 'X' ? 16
                                                                 : 10;
    const char *symbols = format->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        text[--at] = symbols[left % base];
    while ((left /= base) > 0);
    figure.digits = text + at;
    figure.digit_count = sizeof text - at;
    if (base != 10) figure.group = 4;
    if (format->alternate && base != 10)
        figure.prefix = base == 2 ? "0b" : base == 8 ? "0o" : format->type == 'X' ? "0X" : "0x";
    return figures_lay_out(&figure, format, out, count, prefix);
}

/* A precision without a type: as "%g", but what looks whole gets ".0", and an exponent comes one
 * digit earlier. `zeros` at the end stay if they are wanted. */
static size_t write_general(double value, int precision, bool zeros, char out[DIGITS_MAX]) {
    char text[DIGITS_MAX];
    if (precision == 0) precision = 1;
    size_t count = zeros ? format_text(text, sizeof text, "%#.*e", precision - 1, value)
                         : format_text(text, sizeof text, "%.*e", precision - 1, value);
    const char *mark = memchr(text, 'e', count);
    int exponent = 0;
    for (const char *c = mark + 2; *c; c++)
        exponent = exponent * 10 + (*c - '0');
    if (mark[1] == '-') exponent = -exponent;
    size_t digits = (size_t)(mark - text); /* with the point, if there is one */
    while (!zeros && digits > 1 && memchr(text, '.', digits) &&
           (text[digits - 1] == '0' || text[digits - 1] == '.'))
        digits--;
    if (exponent < -4 || exponent >= precision - 1)
        return format_text(out, DIGITS_MAX, "%.*s%s", (int)digits, text, mark);
    int fraction = (int)digits - (digits > 1 ? 2 : 1) - exponent;
    return format_text(out, DIGITS_MAX, "%.*f", fraction < 1 ? 1 : fraction, value);
}

static size_t write_real(double value, const struct figures_format *format, char out[DIGITS_MAX]) {
    int precision = format->precision < 0 ? 6 : format->precision;
    char type = format->type == 'n' ? 'g' : format->type;
    if (type == 0 && format->precision < 0) return real_write(value, out);
    if (type == 0) return write_general(value, precision, format->alternate, out);
    if (type == '%') type = 'f';
    switch (format->alternate ? type + 256 : type) {
    case 'e' + 256:
        return format_text(out, DIGITS_MAX, "%#.*e", precision, value);
    case 'E' + 256:
        return format_text(out, DIGITS_MAX, "%#.*E", precision, value);
    case 'f' + 256:
    case 'F' + 256:
        return format_text(out, DIGITS_MAX, "%#.*f", precision, value);
    case 'g' + 256:
        return format_text(out, DIGITS_MAX, "%#.*g", precision, value);
    case 'G' + 256:
        return format_text(out, DIGITS_MAX, "%#.*G", precision, value);
    case 'e':
        return format_text(out, DIGITS_MAX, "%.*e", precision, value);
    case 'E':
        return format_text(out, DIGITS_MAX, "%.*E", precision, value);
    case 'g':
        return format_text(out, DIGITS_MAX, "%.*g", precision, value);
    case 'G':
        return format_text(out, DIGITS_MAX, "%.*G", precision, value);
    default:
        return format_text(out, DIGITS_MAX, "%.*f", precision, value);
    }
}

static bool figures_is_zero(const char *text, size_t count) {
    for (size_t i = 0; i < count && text[i] != 'e' && text[i] != 'E'; i++)
        if (text[i] >= '1' && text[i] <= '9') return false;
    return true;
}

const char *figures_of_real(double value, const struct figures_format *format,
                            char out[FIGURES_BYTES], size_t *count, size_t *prefix) {
    char text[DIGITS_MAX + 1];
    bool negative = signbit(value) && !isnan(value);
    if (format->type && !strchr("eEfFgGn%", format->type))
        return "Unknown format code for object of type 'float'";
    bool capitals = format->type && strchr("EFG", format->type);
    size_t bytes;
    if (format->type == '%') value *= 100;
    if (isnan(value) || isinf(value)) {
        bytes = 3;
        memcpy(text, isnan(value) ? (capitals ? "NAN" : "nan") : (capitals ? "INF" : "inf"), 3);
    } else {
        bytes = write_real(fabs(value), format, text);
        if (format->not_negative_zero && figures_is_zero(text, bytes)) negative = false;
    }
    if (format->type == '%') text[bytes++] = '%';
    size_t whole = 0;
    while (whole < bytes && text[whole] >= '0' && text[whole] <= '9')
        whole++;
    struct figure figure = {.negative = negative,
                            .prefix = "",
                            .digits = text,
                            .digit_count = whole,
                            .rest = text + whole,
                            .rest_count = bytes - whole,
                            .group = 3};
    return figures_lay_out(&figure, format, out, count, prefix);
}
