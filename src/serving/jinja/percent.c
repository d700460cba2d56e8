/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/percent.h"

#include <math.h>

#include "serving/jinja/figures.h"
#include "serving/jinja/markup.h"
#include "serving/jinja/numerals.h"
#include "serving/jinja/pieces.h"
#include "serving/jinja/routine.h"

/* A format under way. */
struct percent {
    struct jinja_machine *machine;
    const struct value_text *format;
    size_t at;
    struct text_builder builder;
    const struct value *values; /* what is asked for next */
    uint32_t value_count, used; /* of a tuple; else 1 */
    bool is_tuple, is_mapping;
};

/* One directive: "%(key)-08.3f". */
struct directive {
    bool left, sign, blank, alternate, zero;
    int width, precision; /* -1: none */
    char type;
};

static bool next_value(struct percent *percent, const struct value **out) {
    if (percent->used >= percent->value_count)
        return machine_fail(percent->machine, "not enough arguments for format string");
    *out = percent->is_tuple ? &percent->values->list->items[percent->used] : percent->values;
    percent->used++;
    return true;
}

static char current(const struct percent *percent) {
    return percent->at < percent->format->count ? percent->format->data[percent->at] : '\0';
}

/* "(key)": the directive is for a dict's value. */
static bool percent_read_key(struct percent *percent, const struct value **out) {
    size_t start = percent->at + 1, at = start;
    struct jinja_machine *machine = percent->machine;
    struct value key, *found = NULL;
    if (percent->values->kind == VALUE_UNDEFINED) return value_complain(machine, percent->values);
    if (!percent->is_mapping) return machine_fail(machine, "format requires a mapping");
    for (unsigned open = 1; at < percent->format->count; at++) {
        if (percent->format->data[at] == '(') open++;
        if (percent->format->data[at] == ')' && --open == 0) break;
    }
    if (at == percent->format->count) return machine_fail(machine, "incomplete format key");
    if (!value_make_part(machine, percent->format, start, at - start, &key)) return false;
    if (percent->values->kind != VALUE_DICT)
        return machine_fail(machine, "indices must be integers or slices, not str");
    if (!value_dict_find(machine, percent->values->dict, &key, &found)) return false;
    if (!found)
        return machine_fail(machine, "KeyError: '%.*s'", (int)(at - start < 80 ? at - start : 80),
                            percent->format->data + start);
    percent->at = at + 1;
    *out = found;
    return true;
}

static bool percent_read_count(struct percent *percent, int *out) {
    int64_t count = 0;
    if (current(percent) == '*') {
        const struct value *value;
        percent->at++;
        if (!next_value(percent, &value)) return false;
        if (!value_is_whole(value) || percent->format->markup)
            return machine_fail(percent->machine, "* wants int");
        count = value_whole(value);
    } else {
        for (; current(percent) >= '0' && current(percent) <= '9'; percent->at++)
            if (count <= FIGURES_WIDTH_MAX) count = count * 10 + (current(percent) - '0');
    }
    if (count > FIGURES_WIDTH_MAX || count < -FIGURES_WIDTH_MAX)
        return machine_fail(percent->machine, "width or precision too big");
    *out = (int)count;
    return true;
}

static bool read_directive(struct percent *percent, struct directive *out) {
    *out = (struct directive){.width = -1, .precision = -1};
    for (;; percent->at++) {
        char flag = current(percent);
        if (flag == '-')
            out->left = true;
        else if (flag == '+')
            out->sign = true;
        else if (flag == ' ')
            out->blank = true;
        else if (flag == '#')
            out->alternate = true;
        else if (flag == '0')
            out->zero = true;
        else
            break;
    }
    char next = current(percent);
    if (next == '*' || (next >= '0' && next <= '9')) {
        if (!percent_read_count(percent, &out->width)) return false;
        if (out->width < 0) {
            out->left = true;
            out->width = -out->width;
        }
    }
    if (current(percent) == '.') {
        percent->at++;
        if (!percent_read_count(percent, &out->precision)) return false;
        if (out->precision < 0) out->precision = 0;
    }
    next = current(percent);
    if (next == 'h' || next == 'l' || next == 'L') percent->at++;
    if (percent->at >= percent->format->count)
        return machine_fail(percent->machine, "incomplete format");
    out->type = percent->format->data[percent->at++];
    return true;
}

static bool add_filled(struct percent *percent, char filler, int64_t count) {
    char spaces[64];
    memset(spaces, filler, sizeof spaces);
    if (count > 0 && !machine_spend(percent->machine, (uint64_t)count / 16)) return false;
    for (; count > 0; count -= (int64_t)sizeof spaces) {
        size_t bytes = count < (int64_t)sizeof spaces ? (size_t)count : sizeof spaces;
        if (!jinja_machine_text_builder_add(&percent->builder, spaces, bytes, VALUE_TRUSTED))
            return false;
    }
    return true;
}

static bool add_padded(struct percent *percent, const struct directive *directive,
                       const struct value_text *text) {
    size_t end = text->count, length = text->length;
    if (directive->precision >= 0 && (size_t)directive->precision < length) {
        length = (size_t)directive->precision;
        end = pieces_offset(text, length);
    }
    int64_t padding = (int64_t)directive->width - (int64_t)length;
    return (directive->left || add_filled(percent, ' ', padding)) &&
           jinja_machine_text_builder_add_part(&percent->builder, text, 0, end) &&
           (!directive->left || add_filled(percent, ' ', padding));
}

static bool percent_add_text(struct percent *percent, const struct directive *directive,
                             const struct value *value) {
    struct text_builder builder;
    struct value text;
    jinja_machine_text_builder_open(&builder, percent->machine);
    bool shown = directive->type == 's';
    if (shown && !percent->format->markup) {
        if (value->kind == VALUE_TEXT) return add_padded(percent, directive, value->text);
        if (!value_print_text_builder_add_value(&builder, value)) return false;
    } else if (shown) {
        if (!markup_add(&builder, value)) return false;
    } else if (!value_print_text_builder_add_repr(&builder, value)) {
        return false;
    }
    if (!jinja_machine_text_builder_finish(&builder, false, &text) ||
        (directive->type == 'a' && !pieces_to_ascii(percent->machine, text.text, &text)))
        return false;
    if (!shown && percent->format->markup && !markup_value_escape(percent->machine, &text, &text))
        return false;
    return add_padded(percent, directive, text.text);
}

static bool percent_add_character(struct percent *percent, const struct directive *directive,
                                  const struct value *value) {
    struct text_builder builder;
    struct value text;
    if (percent->format->markup) return machine_fail(percent->machine, "%%c requires int or char");
    if (value->kind == VALUE_TEXT && value->text->length == 1)
        return add_padded(percent,
                          &(struct directive){
                              .left = directive->left, .width = directive->width, .precision = -1},
                          value->text);
    if (!value_is_whole(value)) return machine_fail(percent->machine, "%%c requires int or char");
    int64_t character = value_whole(value);
    if (character < 0 || character > 0x10FFFF)
        return machine_fail(percent->machine, "%%c arg not in range(0x110000)");
    if (character >= 0xD800 && character < 0xE000)
        return machine_fail(percent->machine, "a surrogate is no character of a text");
    jinja_machine_text_builder_open(&builder, percent->machine);
    return jinja_machine_text_builder_add_character(&builder, (uint32_t)character, VALUE_TRUSTED) &&
           jinja_machine_text_builder_finish(&builder, false, &text) &&
           add_padded(percent,
                      &(struct directive){
                          .left = directive->left, .width = directive->width, .precision = -1},
                      text.text);
}

static bool is_real(const struct directive *directive) {
    return strchr("eEfFgG", directive->type) != NULL;
}

static const char *percent_write_number(const struct directive *directive,
                                        const struct value *value, char out[FIGURES_BYTES],
                                        size_t *count, size_t *prefix) {
    bool real = is_real(directive);
    struct figures_format format = {.fill = ' ',
                                    .align = '>',
                                    .sign = directive->sign    ? '+'
                                            : directive->blank ? ' '
                                                               : 0,
                                    .alternate = directive->alternate &&
                                                 strchr("oxXeEfFgG", directive->type),
                                    .type = directive->type,
                                    .width = -1,
                                    .precision = real ? directive->precision : -1};
    if (real) return figures_of_real(value_number(value), &format, out, count, prefix);
    if (strchr("diu", directive->type)) format.type = 'd';
    if (value->kind == VALUE_REAL && fabs(value->real) >= 9.2e18) {
        format.type = 'f';
        format.precision = 0;
        return figures_of_real(trunc(value->real), &format, out, count, prefix);
    }
    int64_t number = value->kind == VALUE_REAL ? (int64_t)value->real : value_whole(value);
    return figures_of_integer(number, &format, out, count, prefix);
}

/* markupsafe wraps values that markup formats: a text that is a number is one then. */
static bool unwrap_text(struct jinja_machine *machine, const struct directive *directive,
                        const struct value_text *text, struct value *out) {
    struct bytes digits = value_text_bytes(text);
    int64_t whole = 0;
    double real = 0;
    enum numerals_result result = is_real(directive) ? numerals_read_real(digits, &real)
                                                     : numerals_read_integer(digits, 10, &whole);
    if (result == NUMERALS_TOO_LARGE)
        return machine_fail(machine, "integers beyond 64 bits are not supported");
    if (result == NUMERALS_NONE)
        return machine_fail(machine, "invalid literal for a number in a format");
    *out = is_real(directive) ? value_real(real) : value_integer(whole);
    return true;
}

static bool percent_read_value(struct percent *percent, const struct directive *directive,
                               const struct value *value, struct value *out) {
    struct jinja_machine *machine = percent->machine;
    bool wrapped = percent->format->markup;
    if (value->kind == VALUE_UNDEFINED) return value_complain(machine, value);
    if (directive->precision > FIGURES_PRECISION_MAX)
        return machine_fail(machine, "the precision is too large");
    if (wrapped && value->kind == VALUE_TEXT && !strchr("oxX", directive->type))
        return unwrap_text(machine, directive, value->text, out);
    if (!value_is_number(value))
        return machine_fail(machine, "%%%c format: a number is required, not %s", directive->type,
                            value_type_name(value));
    *out = *value;
    if (strchr("oxX", directive->type) && (wrapped || value->kind == VALUE_REAL))
        return machine_fail(machine, "%%%c format: an integer is required", directive->type);
    if (!is_real(directive) && value->kind == VALUE_REAL && !(fabs(value->real) <= 1e308))
        return machine_fail(machine, "cannot convert float infinity or NaN to integer");
    return true;
}

static bool percent_add_number(struct percent *percent, const struct directive *directive,
                               const struct value *value) {
    char text[FIGURES_BYTES];
    size_t count = 0, prefix = 0;
    struct value number = value_none();
    if (!percent_read_value(percent, directive, value, &number)) return false;
    const char *reason = percent_write_number(directive, &number, text, &count, &prefix);
    if (reason) return machine_fail(percent->machine, "%s", reason);
    int64_t digits = (int64_t)(count - prefix), zeros = 0;
    if (!is_real(directive) && directive->precision > digits) zeros = directive->precision - digits;
    int64_t padding = (int64_t)directive->width - (int64_t)count - zeros;
    if (directive->zero && !directive->left && padding > 0) {
        zeros += padding;
        padding = 0;
    }
    return (directive->left || add_filled(percent, ' ', padding)) &&
           jinja_machine_text_builder_add(&percent->builder, text, prefix, VALUE_TRUSTED) &&
           add_filled(percent, '0', zeros) &&
           jinja_machine_text_builder_add(&percent->builder, text + prefix, count - prefix,
                                          VALUE_TRUSTED) &&
           (!directive->left || add_filled(percent, ' ', padding));
}

static bool add_directive(struct percent *percent) {
    struct directive directive;
    const struct value *value, *whole = percent->values;
    if (current(percent) == '(') {
        if (!percent_read_key(percent, &value)) return false;
        percent->values = value;
        percent->used = 0;
    }
    if (!read_directive(percent, &directive)) return false;
    if (directive.type == '\0' || !strchr("sracdiuoxXeEfFgG", directive.type))
        return machine_fail(percent->machine, "unsupported format character");
    bool good = next_value(percent, &value);
    if (good && strchr("sra", directive.type))
        good = percent_add_text(percent, &directive, value);
    else if (good && directive.type == 'c')
        good = percent_add_character(percent, &directive, value);
    else if (good)
        good = percent_add_number(percent, &directive, value);
    percent->values = whole;
    return good;
}

bool percent_format(struct jinja_machine *machine, const struct value_text *format,
                    const struct value *values, struct value *out) {
    enum value_kind kind = values->kind;
    struct percent percent = {.machine = machine,
                              .format = format,
                              .values = values,
                              .value_count = 1,
                              .is_tuple = kind == VALUE_TUPLE,
                              .is_mapping = kind == VALUE_DICT || kind == VALUE_LIST ||
                                            kind == VALUE_RANGE || kind == VALUE_UNDEFINED};
    if (percent.is_tuple) percent.value_count = values->list->count;
    jinja_machine_text_builder_open(&percent.builder, machine);
    while (percent.at < format->count) {
        const char *mark = memchr(format->data + percent.at, '%', format->count - percent.at);
        size_t next = mark ? (size_t)(mark - format->data) : format->count;
        if (!machine_spend(machine, 1) ||
            !jinja_machine_text_builder_add_part(&percent.builder, format, percent.at,
                                                 next - percent.at))
            return false;
        percent.at = next + 1;
        bool doubled = mark && current(&percent) == '%';
        percent.at += doubled;
        if (mark &&
            !(doubled ? jinja_machine_text_builder_add_part(&percent.builder, format, next, 1)
                      : add_directive(&percent)))
            return false;
    }
    if (percent.used < percent.value_count && !percent.is_mapping)
        return machine_fail(machine, "not all arguments converted during string formatting");
    return jinja_machine_text_builder_finish(&percent.builder, format->markup, out);
}
