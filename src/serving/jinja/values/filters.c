/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters for numbers and for any value, and the lookup of all filters.
 */
#include <math.h>

#include "base/check.h"
#include "base/real.h"
#include "serving/jinja/values/item_filters.h"
#include "serving/jinja/values/pieces.h"
#include "serving/jinja/values/routine.h"
#include "serving/jinja/values/text_filters.h"

#define INDENT_MAX 1000

static bool filters_too_large(struct jinja_machine *machine) {
    return machine_fail(machine, "integers beyond 64 bits are not supported");
}

static bool otherwise(struct jinja_machine *machine, const struct call *call, struct value *out) {
    bool replaced = call->subject.kind == VALUE_UNDEFINED ||
                    (routine_flag(call, 1, false) && !value_truth(&call->subject));
    *out = call->subject;
    if (!replaced) return true;
    *out = call->arguments[0];
    return routine_given(call, 0) || value_make_literal(machine, "", out);
}

/* int(text) for decimal digits. *read is false if the text is not such a number. */
static bool filters_read_integer(struct jinja_machine *machine, struct bytes text, int64_t *out,
                                 bool *read) {
    size_t at = text.count > 0 && (text.data[0] == '-' || text.data[0] == '+');
    bool negative = at && text.data[0] == '-', too_large = false;
    *out = 0;
    *read = at < text.count;
    for (; at < text.count && *read; at++) {
        int digit = text.data[at] - '0';
        bool joint = text.data[at] == '_' && at > 0 && at + 1 < text.count;
        if (joint && text.data[at - 1] != '_' && text.data[at - 1] >= '0') continue;
        *read = digit >= 0 && digit <= 9;
        too_large = too_large || __builtin_mul_overflow(*out, 10, out) ||
                    __builtin_add_overflow(*out, negative ? -digit : digit, out);
    }
    return !*read || !too_large || filters_too_large(machine);
}

static bool filters_to_integer(struct jinja_machine *machine, const struct call *call,
                               struct value *out) {
    const struct value *subject = &call->subject;
    size_t start = 0, end = subject->kind == VALUE_TEXT ? subject->text->count : 0;
    double real = subject->kind == VALUE_REAL ? subject->real : 0;
    bool whole = value_is_whole(subject), number = subject->kind == VALUE_REAL;
    *out = value_integer(whole ? value_whole(subject) : 0);
    if (subject->kind == VALUE_UNDEFINED) return value_complain(machine, subject);
    if (routine_given(call, 1))
        return machine_fail(machine, "a base of the filter int is not supported");
    if (subject->kind == VALUE_TEXT) {
        pieces_strip(subject->text, NULL, true, true, &start, &end);
        struct bytes text = {subject->text->data + start, end - start};
        if (!filters_read_integer(machine, text, &out->integer, &whole)) return false;
        number = !whole && real_read(text, &real) && !isinf(real);
    }
    if (number && !(fabs(real) < 9223372036854775808.0)) return filters_too_large(machine);
    if (number) *out = value_integer((int64_t)real);
    if (!number && !whole) *out = routine_given(call, 0) ? call->arguments[0] : value_integer(0);
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
};

const struct routine *filters_find(struct bytes name) {
    const struct routine *row = text_filters_find(name);
    if (!row) row = item_filters_find(name);
    return row ? row : routine_find(rows, ARRAY_COUNT(rows), name);
}
