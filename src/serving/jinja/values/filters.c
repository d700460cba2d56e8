/* SPDX-License-Identifier: Apache-2.0
 * Jinja's filters for numbers and for any value, those that run another filter or a test on each
 * item, and the lookup of all filters.
 */
#include <math.h>

#include "base/check.h"
#include "base/real.h"
#include "serving/jinja/values/item_filters.h"
#include "serving/jinja/values/item_path.h"
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

/* ---- filters and tests on each item ---- */

static bool filters_is_word(const struct value *value, const char *word) {
    return value->kind == VALUE_TEXT && bytes_equal(value_text_bytes(value->text), bytes_of(word));
}

/* The items of a value, or none if the value is false. */
static bool items_or_none(struct jinja_machine *machine, const struct value *value,
                          struct value_list **out) {
    struct value nothing;
    if (value_truth(value)) return value_access_items(machine, value, true, out);
    if (!value_make_list(machine, VALUE_LIST, 0, &nothing)) return false;
    *out = nothing.list;
    return true;
}

/* The operation of map or select on each item: a routine and its additional arguments. */
struct step {
    const struct call *call;
    struct item_path path;
    const struct routine *routine; /* NULL: none */
    uint32_t first;                /* index of its first argument */
};

static bool step_find(struct jinja_machine *machine, struct step *step, uint32_t which, bool test) {
    const struct value *name = &step->call->rest[which];
    struct bytes text = {"", 0};
    if (name->kind == VALUE_TEXT) text = value_text_bytes(name->text);
    step->routine = text.count == 0 ? NULL : test ? tests_find(text) : filters_find(text);
    step->first = which + 1;
    return step->routine || machine_fail(machine, "the %s '%.*s' is unknown or not supported",
                                         test ? "test" : "filter",
                                         (int)(text.count < 80 ? text.count : 80), text.data);
}

static bool step_run(struct jinja_machine *machine, const struct step *step,
                     const struct value *item, struct value *out) {
    struct value subject;
    const struct call *call = step->call;
    if (!machine_spend(machine, 1) || !item_path_follow(machine, &step->path, item, &subject))
        return false;
    *out = subject;
    return !step->routine ||
           routine_call(machine, step->routine, &subject, call->rest + step->first,
                        call->rest_count - step->first, call->named, call->named_count, out);
}

static bool step_of_map(struct jinja_machine *machine, const struct call *call, struct step *out) {
    const struct value *attribute = NULL;
    *out = (struct step){.call = call};
    if (call->rest_count > 0) return step_find(machine, out, 0, false);
    for (uint32_t i = 0; i < call->named_count; i++)
        if (filters_is_word(&call->named[i].name, "attribute")) attribute = &call->named[i].value;
    if (!attribute) return machine_fail(machine, "map requires a filter argument");
    if (!item_path_open(machine, attribute, &out->path)) return false;
    for (uint32_t i = 0; i < call->named_count; i++) {
        const struct named_value *other = &call->named[i];
        if (filters_is_word(&other->name, "default"))
            out->path.otherwise = other->value.kind == VALUE_NONE ? NULL : &other->value;
        else if (&other->value != attribute)
            return machine_fail(machine, "Unexpected keyword argument '%.*s'",
                                (int)(other->name.text->count < 80 ? other->name.text->count : 80),
                                other->name.text->data);
    }
    return true;
}

static bool filters_map(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct step step;
    struct value_list *list;
    struct value mapped;
    if (!items_or_none(machine, &call->subject, &list)) return false;
    if (list->count == 0) return item_filters_once(machine, list, out);
    if (!step_of_map(machine, call, &step) ||
        !value_make_list(machine, VALUE_LIST, list->count, &mapped))
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        if (!step_run(machine, &step, &list->items[i], &mapped.list->items[mapped.list->count++]))
            return false;
    return item_filters_once(machine, mapped.list, out);
}

/* select, reject, selectattr, rejectattr */
static bool select(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const char *name = call->routine->name;
    bool wanted = name[0] == 's', by_attribute = name[6] != '\0';
    struct step step = {.call = call};
    struct value_list *list;
    struct value kept, answer;
    uint32_t capacity = 8;
    if (!items_or_none(machine, &call->subject, &list)) return false;
    if (list->count == 0) return item_filters_once(machine, list, out);
    if (by_attribute && call->rest_count == 0)
        return machine_fail(machine, "Missing parameter for attribute name");
    if ((by_attribute && !item_path_open(machine, &call->rest[0], &step.path)) ||
        (call->rest_count > by_attribute && !step_find(machine, &step, by_attribute, true)) ||
        !value_make_list(machine, VALUE_LIST, capacity, &kept))
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        if (!step_run(machine, &step, &list->items[i], &answer) ||
            (value_truth(&answer) == wanted &&
             !value_list_push(machine, kept.list, &capacity, list->items[i])))
            return false;
    return item_filters_once(machine, kept.list, out);
}

static const struct routine rows[] = {
    {.name = "tojson",
     .run = tojson,
     .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "default", .run = otherwise, .parameters = {"default_value", "boolean"}},
    {.name = "d", .run = otherwise, .parameters = {"default_value", "boolean"}},
    {.name = "int", .run = filters_to_integer, .parameters = {"default", "base"}},
    {.name = "map", .run = filters_map, .rest = true, .named = true},
    {.name = "select", .run = select, .rest = true, .named = true},
    {.name = "reject", .run = select, .rest = true, .named = true},
    {.name = "selectattr", .run = select, .rest = true, .named = true},
    {.name = "rejectattr", .run = select, .rest = true, .named = true},
};

const struct routine *filters_find(struct bytes name) {
    const struct routine *row = text_filters_find(name);
    if (!row) row = item_filters_find(name);
    return row ? row : routine_find(rows, ARRAY_COUNT(rows), name);
}
