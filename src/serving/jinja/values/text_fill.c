/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/text_fill.h"

#define SHOWN_BYTES 60

static bool refuse_markup(struct jinja_machine *machine, const struct value_text *format) {
    return !format->markup ||
           machine_fail(machine, "a text that is marked as safe is not supported as a format");
}

/* ---- % ---- */

static bool add_decimal(struct text_builder *builder, const struct value *value) {
    struct value whole = *value;
    if (!value_is_number(value))
        return machine_fail(builder->machine, "%%d format: a real number is required, not %s",
                            value_type_name(value));
    if (value->kind == VALUE_REAL && !(value->real > -9.2e18 && value->real < 9.2e18))
        return machine_fail(builder->machine, "integers beyond 64 bits are not supported");
    if (value->kind == VALUE_REAL) whole = value_integer((int64_t)value->real);
    if (value->kind == VALUE_BOOL) whole = value_integer(value->truth);
    return value_print_add_value(builder, &whole);
}

bool text_fill_percent(struct jinja_machine *machine, const struct value_text *format,
                       const struct value *values, struct value *out) {
    struct text_builder builder;
    bool several = values->kind == VALUE_TUPLE;
    const struct value *items = several ? values->list->items : values;
    uint32_t used = 0, count = several ? values->list->count : 1;
    text_builder_open(&builder, machine);
    if (!refuse_markup(machine, format)) return false;
    for (size_t at = 0; at < format->count;) {
        const char *mark = memchr(format->data + at, '%', format->count - at);
        size_t next = mark ? (size_t)(mark - format->data) : format->count;
        if (!machine_spend(machine, 1) || !text_builder_add_part(&builder, format, at, next - at))
            return false;
        if (!mark) break;
        if (next + 1 == format->count) return machine_fail(machine, "incomplete format");
        char letter = mark[1];
        at = next + 2;
        if (letter == '%') {
            if (!text_builder_add_part(&builder, format, next, 1)) return false;
            continue;
        }
        if (letter != 's' && letter != 'd')
            return machine_fail(machine, "'%%%c' in a format is not supported: %%s and %%d are",
                                letter >= ' ' && letter < 0x7F ? letter : '?');
        if (used == count) return machine_fail(machine, "not enough arguments for format string");
        const struct value *value = &items[used++];
        if (!(letter == 's' ? value_print_add_value(&builder, value)
                            : add_decimal(&builder, value)))
            return false;
    }
    bool container = values->kind == VALUE_DICT || values->kind == VALUE_LIST;
    if (used < count && !container)
        return machine_fail(machine, "not all arguments converted during string formatting");
    return text_builder_finish(&builder, false, out);
}

/* ---- braces ---- */

/* The argument that the field [start, end) refers to; NULL if there is none. */
static const struct value *text_fill_find(const struct value_text *format, size_t start, size_t end,
                                          const struct call *call, uint32_t *next) {
    struct bytes name = {format->data + start, end - start};
    if (name.count == 0) return *next < call->rest_count ? &call->rest[(*next)++] : NULL;
    if (name.count == 1 && name.data[0] >= '0' && name.data[0] <= '9') {
        uint32_t which = (uint32_t)(name.data[0] - '0');
        return which < call->rest_count ? &call->rest[which] : NULL;
    }
    for (uint32_t i = 0; i < call->named_count; i++)
        if (bytes_equal(value_text_bytes(call->named[i].name.text), name))
            return &call->named[i].value;
    return NULL;
}

bool text_fill_braces(struct jinja_machine *machine, const struct value_text *format,
                      const struct call *call, struct value *out) {
    struct text_builder builder;
    uint32_t next = 0;
    text_builder_open(&builder, machine);
    if (!refuse_markup(machine, format)) return false;
    for (size_t at = 0, end; at < format->count; at = end) {
        for (end = at; end < format->count && format->data[end] != '{' && format->data[end] != '}';)
            end++;
        if (!machine_spend(machine, 1) || !text_builder_add_part(&builder, format, at, end - at))
            return false;
        if (end == format->count) break;
        char brace = format->data[end++];
        if (end < format->count && format->data[end] == brace) {
            if (!text_builder_add_part(&builder, format, end++, 1)) return false;
            continue;
        }
        const char *close = memchr(format->data + end, '}', format->count - end);
        if (brace == '}' || !close)
            return machine_fail(machine, "Single '%c' encountered in format string", brace);
        size_t start = end, stop = (size_t)(close - format->data);
        const struct value *value = text_fill_find(format, start, stop, call, &next);
        if (!value)
            return machine_fail(machine,
                                "the field '{%.*s}' of format() has no value, or is not supported: "
                                "{}, {0} and {name} are",
                                (int)(stop - start < SHOWN_BYTES ? stop - start : SHOWN_BYTES),
                                format->data + start);
        if (!value_print_add_value(&builder, value)) return false;
        end = stop + 1;
    }
    return text_builder_finish(&builder, false, out);
}
