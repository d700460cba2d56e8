/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters of numbers and of any value, and the way to all others.
 */
#include <math.h>

#include "base/check.h"
#include "serving/jinja/values/item_filters.h"
#include "serving/jinja/values/numerals.h"
#include "serving/jinja/values/pieces.h"
#include "serving/jinja/values/routine.h"
#include "serving/jinja/values/text_filters.h"

#define INDENT_MAX 1000

static bool filters_too_large(struct jinja_machine *machine) {
    return machine_fail(machine, "integers beyond 64 bits are not supported");
}

static bool filters_absolute(struct jinja_machine *machine, const struct call *call,
                             struct value *out) {
    const struct value *subject = &call->subject;
    if (subject->kind == VALUE_REAL) {
        *out = value_real(fabs(subject->real));
        return true;
    }
    if (!value_is_whole(subject)) return routine_refuse(machine, subject, "has no absolute value");
    int64_t whole = value_whole(subject);
    if (whole == INT64_MIN) return filters_too_large(machine);
    *out = value_integer(whole < 0 ? -whole : whole);
    return true;
}

static bool otherwise(struct jinja_machine *machine, const struct call *call, struct value *out) {
    bool replaced = call->subject.kind == VALUE_UNDEFINED ||
                    (routine_flag(call, 1, false) && !value_truth(&call->subject));
    *out = call->subject;
    if (!replaced) return true;
    *out = call->arguments[0];
    return routine_given(call, 0) || value_make_literal(machine, "", out);
}

/* float(value): false in *number if Python would raise what the filters catch. */
static bool read_real(struct jinja_machine *machine, const struct value *value, double *out,
                      bool *number) {
    *number = value_is_number(value);
    if (value->kind == VALUE_UNDEFINED) return value_complain(machine, value);
    if (*number) *out = value_number(value);
    if (value->kind != VALUE_TEXT) return true;
    enum numerals_result result = numerals_read_real(value_text_bytes(value->text), out);
    *number = result == NUMERALS_READ;
    return result != NUMERALS_TOO_LARGE ||
           machine_fail(machine, "a number longer than 1,000 characters is not supported");
}

static bool to_real(struct jinja_machine *machine, const struct call *call, struct value *out) {
    double real = 0;
    bool number;
    if (!read_real(machine, &call->subject, &real, &number)) return false;
    *out = number ? value_real(real) : routine_given(call, 0) ? call->arguments[0] : value_real(0);
    return true;
}

static bool truncate_real(struct jinja_machine *machine, double real, struct value *out) {
    if (!(fabs(real) < 9223372036854775808.0)) return filters_too_large(machine);
    *out = value_integer((int64_t)real);
    return true;
}

static bool filters_to_integer(struct jinja_machine *machine, const struct call *call,
                               struct value *out) {
    const struct value *subject = &call->subject, *base = &call->arguments[1];
    double real = 0;
    bool number;
    if (value_is_whole(subject)) {
        *out = value_integer(value_whole(subject));
        return true;
    }
    if (subject->kind == VALUE_REAL && isinf(subject->real))
        return machine_fail(machine, "cannot convert float infinity to integer");
    if (routine_given(call, 1) && (!value_is_whole(base) || value_whole(base) != 10))
        return machine_fail(machine, "a base of the filter int other than 10 is not supported");
    if (subject->kind == VALUE_TEXT) {
        int64_t whole;
        enum numerals_result result =
            numerals_read_integer(value_text_bytes(subject->text), &whole);
        if (result == NUMERALS_TOO_LARGE) return filters_too_large(machine);
        *out = value_integer(whole);
        if (result == NUMERALS_READ) return true;
    }
    if (!read_real(machine, subject, &real, &number)) return false;
    if (number && !isnan(real) && !isinf(real)) return truncate_real(machine, real, out);
    *out = routine_given(call, 0) ? call->arguments[0] : value_integer(0);
    return true;
}

static bool round_number(struct jinja_machine *machine, const struct call *call,
                         struct value *out) {
    const struct value *value = &call->subject, *method = &call->arguments[1];
    struct bytes name = {"common", 6};
    int64_t precision;
    if (method->kind == VALUE_TEXT) name = value_text_bytes(method->text);
    bool up = bytes_equal(name, BYTES_LITERAL("ceil")),
         down = bytes_equal(name, BYTES_LITERAL("floor"));
    if (routine_given(call, 0) && !value_is_whole(&call->arguments[0]))
        return machine_fail(machine, "this precision of the filter round is not supported");
    if (!routine_integer(machine, call, 0, 0, &precision)) return false;
    if (precision < 0 || (precision && (up || down)))
        return machine_fail(machine, "this precision of the filter round is not supported");
    if (!up && !down && !bytes_equal(name, BYTES_LITERAL("common")))
        return machine_fail(machine, "method must be common, ceil or floor");
    if (value_is_whole(value) && (up || down)) {
        *out = value_real((double)value_whole(value));
        return true;
    }
    *out = value_is_whole(value) ? value_integer(value_whole(value)) : *value;
    if (value_is_whole(value)) return true;
    if (value->kind != VALUE_REAL)
        return routine_refuse(machine, value, "doesn't define __round__ method");
    if (isnan(value->real) || isinf(value->real))
        return !(up || down) ||
               machine_fail(machine, "cannot convert float infinity or NaN to integer");
    *out = value_real(up     ? ceil(value->real) + 0.0
                      : down ? floor(value->real) + 0.0
                             : numerals_round(value->real, precision));
    return true;
}

static bool tojson(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct json_style style = {.ascii = routine_flag(call, 0, false),
                               .sorted = routine_flag(call, 3, false)};
    struct value_list *marks;
    struct text_builder builder;
    if (routine_reported(call, 1) &&
        !text_filters_indent(machine, call, 1, 0, INDENT_MAX, &style.indent))
        return false;
    if (routine_reported(call, 2)) {
        if (!value_access_items(machine, &call->arguments[2], true, &marks)) return false;
        bool texts = marks->count == 2 && marks->items[0].kind == VALUE_TEXT &&
                     marks->items[1].kind == VALUE_TEXT;
        if (!texts && (marks->count != 2 || call->subject.kind != VALUE_TEXT))
            return machine_fail(machine, "the separators of tojson() must be two strings");
        if (texts) style.item_mark = marks->items[0].text;
        if (texts) style.key_mark = marks->items[1].text;
    }
    text_builder_open(&builder, machine);
    return value_print_to_json(machine, &call->subject, &style, &builder) &&
           text_builder_finish(&builder, false, out);
}

static const struct routine rows[] = {
    {.name = "tojson",
     .run = tojson,
     .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "default", .run = otherwise, .parameters = {"default_value", "boolean"}},
    {.name = "d", .run = otherwise, .parameters = {"default_value", "boolean"}},
    {.name = "int", .run = filters_to_integer, .parameters = {"default", "base"}},
    {.name = "float", .run = to_real, .parameters = {"default"}},
    {.name = "abs", .run = filters_absolute, .nameless = true},
    {.name = "round", .run = round_number, .parameters = {"precision", "method"}},
    {.name = "attr", .refused = "the filter attr is not supported: x.name and x['name'] are"},
    {.name = "pprint",
     .refused = "the filter pprint is not supported: tojson(indent=2) prints values"},
};

const struct routine *filters_find(struct bytes name) {
    const struct routine *row = text_filters_find(name);
    if (!row) row = item_filters_find(name);
    return row ? row : routine_find(rows, ARRAY_COUNT(rows), name);
}
