/* SPDX-License-Identifier: Apache-2.0
 * The global functions: those of Jinja, and the two that `transformers` adds.
 */
#include "base/check.h"
#include "serving/jinja/values/calendar.h"
#include "serving/jinja/values/routine.h"

#define RANGE_ITEMS_MAX 100000 /* limit of Jinja's sandbox */
#define SHOWN_BYTES 400        /* limit of a template's own error message */

static bool make_range(struct jinja_machine *machine, const struct call *call, struct value *out) {
    int64_t start, stop, step;
    if (!routine_integer(machine, call, 0, 0, &start) ||
        !routine_integer(machine, call, 1, 0, &stop) ||
        !routine_integer(machine, call, 2, 1, &step))
        return false;
    if (!routine_given(call, 1)) {
        stop = start;
        start = 0;
    }
    if (step == 0) return machine_fail(machine, "range() arg 3 must not be zero");
    uint64_t distance = 0, pace = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 && start < stop) distance = (uint64_t)stop - (uint64_t)start;
    if (step < 0 && start > stop) distance = (uint64_t)start - (uint64_t)stop;
    uint64_t count = distance / pace + (distance % pace != 0);
    if (count > RANGE_ITEMS_MAX)
        return machine_fail(machine, "Range too big. The sandbox blocks ranges larger than "
                                     "MAX_RANGE (100000).");
    struct value_range *range = machine_take(machine, sizeof *range);
    if (!range) return false;
    *range = (struct value_range){start, stop, step, (int64_t)count};
    *out = (struct value){.kind = VALUE_RANGE, .range = range};
    return true;
}

static bool functions_add_pairs(struct jinja_machine *machine, const struct value *from,
                                struct value_dict *dict) {
    if (from->kind == VALUE_UNDEFINED) return value_complain(machine, from);
    if (from->kind != VALUE_DICT)
        return machine_fail(machine, "dict() of anything but a dict is not supported");
    for (uint32_t i = 0; i < from->dict->count; i++)
        if (!machine_spend(machine, 1) ||
            !value_dict_set(machine, dict, from->dict->pairs[i].key, from->dict->pairs[i].value))
            return false;
    return true;
}

/* dict, namespace */
static bool make_mapping(struct jinja_machine *machine, const struct call *call,
                         struct value *out) {
    if (!value_make_dict(machine, out)) return false;
    if (routine_given(call, 0) && !functions_add_pairs(machine, &call->arguments[0], out->dict))
        return false;
    for (uint32_t i = 0; i < call->named_count; i++)
        if (!value_dict_set(machine, out->dict, call->named[i].name, call->named[i].value))
            return false;
    if (call->routine->name[0] == 'n') out->kind = VALUE_NAMESPACE;
    return true;
}

static bool raise_exception(struct jinja_machine *machine, const struct call *call,
                            struct value *out) {
    if (!value_print_string(machine, &call->arguments[0], out)) return false;
    const struct value_text *text = out->text;
    size_t count = text->count < SHOWN_BYTES ? text->count : SHOWN_BYTES;
    while (count > 0 && count < text->count && ((uint8_t)text->data[count] & 0xC0) == 0x80)
        count--;
    return machine_fail(machine, "%.*s", (int)count, text->data);
}

static bool strftime_now(struct jinja_machine *machine, const struct call *call,
                         struct value *out) {
    const struct value_text *format;
    struct text_builder builder;
    struct calendar now;
    char expanded[CALENDAR_BYTES];
    if (!routine_text(machine, call, 0, NULL, &format)) return false;
    calendar_open(&now, machine->unix_time);
    text_builder_open(&builder, machine);
    for (size_t at = 0; at < format->count;) {
        const char *mark = memchr(format->data + at, '%', format->count - at);
        size_t next = mark ? (size_t)(mark - format->data) : format->count;
        if (!machine_spend(machine, 4) || !text_builder_add_part(&builder, format, at, next - at))
            return false;
        if (!mark) break;
        enum value_origin origin = value_text_origin(format, next);
        size_t count = calendar_expand(&now, value_text_bytes(format), &next, expanded);
        if (count == 0)
            return machine_fail(machine, "strftime_now(): '%.*s' is not supported",
                                (int)(next - (size_t)(mark - format->data)), mark);
        if (!text_builder_add(&builder, expanded, count, origin)) return false;
        at = next;
    }
    return text_builder_finish(&builder, false, out);
}

static const struct routine rows[] = {
    {.name = "range",
     .run = make_range,
     .parameters = {"start", "stop", "step"},
     .required = 1,
     .nameless = true},
    {.name = "dict", .run = make_mapping, .parameters = {"pairs"}, .named = true, .nameless = true},
    {.name = "namespace",
     .run = make_mapping,
     .parameters = {"pairs"},
     .named = true,
     .nameless = true},
    {.name = "cycler", .refused = "cycler() is not supported"},
    {.name = "joiner", .refused = "joiner() is not supported: the filter join is"},
    {.name = "raise_exception", .run = raise_exception, .parameters = {"message"}, .required = 1},
    {.name = "strftime_now", .run = strftime_now, .parameters = {"format"}, .required = 1},
    {.name = "lipsum", .refused = "lipsum() is not supported: it writes something else each time"},
};

const struct routine *functions_find(struct bytes name) {
    return routine_find(rows, ARRAY_COUNT(rows), name);
}
