/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/text_filters.h"

#include "base/check.h"
#include "base/format.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "serving/jinja/values/letters.h"
#include "serving/jinja/values/markup.h"
#include "serving/jinja/values/pieces.h"
#include "serving/jinja/values/routine.h"
#include "serving/jinja/values/text_fill.h"

/* ---- filters that call the str method of the same name ---- */

/* capitalize, lower, trim, upper: the method of str(value). */
static bool as_method(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const char *name = call->routine->name;
    struct value subject = call->subject;
    struct bytes method = bytes_of(name[0] == 't' ? "strip" : name);
    uint32_t count = routine_given(call, 0);
    if (subject.kind != VALUE_TEXT && !value_print_string(machine, &call->subject, &subject))
        return false;
    return routine_call(machine, methods_find(VALUE_TEXT, method), &subject, call->arguments, count,
                        NULL, 0, out);
}

static bool string(struct jinja_machine *machine, const struct call *call, struct value *out) {
    *out = call->subject;
    return call->subject.kind == VALUE_TEXT || value_print_string(machine, &call->subject, out);
}

static bool safe(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text;
    if (!routine_subject(machine, &call->subject, &text) ||
        !value_make_part(machine, text, 0, text->count, out))
        return false;
    out->text->markup = true;
    return true;
}

static bool text_filters_replace(struct jinja_machine *machine, const struct call *call,
                                 struct value *out) {
    const struct value_text *text, *old, *fresh;
    int64_t most;
    return routine_plain(machine, &call->subject, &text) &&
           routine_plain(machine, &call->arguments[0], &old) &&
           routine_plain(machine, &call->arguments[1], &fresh) &&
           routine_end(machine, call, 2, -1, &most) &&
           pieces_replace(machine, text, old, fresh, most, false, out);
}

static bool text_filters_format(struct jinja_machine *machine, const struct call *call,
                                struct value *out) {
    struct value text, values;
    if (call->named_count)
        return machine_fail(machine, "keywords of the filter format are not supported");
    if (!string(machine, call, &text) ||
        !value_make_list(machine, VALUE_TUPLE, call->rest_count, &values))
        return false;
    for (uint32_t i = 0; i < call->rest_count; i++)
        values.list->items[values.list->count++] = call->rest[i];
    return text_fill_percent(machine, text.text, &values, out);
}

/* ---- words and lines ---- */

static bool begins_word(uint32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || unicode_is_space(c);
}

static bool title(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text;
    struct text_builder builder;
    unsigned bytes;
    if (!routine_subject(machine, &call->subject, &text)) return false;
    text_builder_open(&builder, machine);
    for (size_t at = 0; at < text->count;) { /* alternates between separators and words */
        size_t start = at, first = 0;
        bool between = begins_word(utf8_read(text->data + at, &bytes));
        first = at + bytes;
        for (; at < text->count; at += bytes)
            if (begins_word(utf8_read(text->data + at, &bytes)) != between) break;
        if (!machine_spend(machine, 1) ||
            !letters_add(&builder, text, start, first, LETTERS_UPPER) ||
            !letters_add(&builder, text, first, at, LETTERS_LOWER))
            return false;
    }
    return text_builder_finish(&builder, false, out);
}

bool text_filters_indent(struct jinja_machine *machine, const struct call *call, uint32_t place,
                         int64_t usual, int64_t most, const struct value_text **out) {
    struct text_builder builder;
    struct value text;
    int64_t width;
    if (call->arguments[place].kind == VALUE_TEXT)
        return routine_text(machine, call, place, NULL, out);
    if (!routine_integer(machine, call, place, usual, &width)) return false;
    if (width > most)
        return machine_fail(machine, "the indent of %s() is too large", call->routine->name);
    text_builder_open(&builder, machine);
    for (int64_t i = 0; i < width; i++)
        if (!machine_spend(machine, 1) || !text_builder_add(&builder, " ", 1, VALUE_TRUSTED))
            return false;
    if (!text_builder_finish(&builder, false, &text)) return false;
    *out = text.text;
    return true;
}

static bool text_filters_check_text(struct jinja_machine *machine, const struct value *value) {
    return value->kind == VALUE_TEXT || routine_refuse(machine, value, "is no str");
}

static bool indent(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text = call->subject.text, *by;
    bool first = routine_flag(call, 1, false), blank = routine_flag(call, 2, false);
    struct text_builder builder;
    struct value ended, lines;
    if (!text_filters_check_text(machine, &call->subject) ||
        !text_filters_indent(machine, call, 0, 4, INT64_MAX, &by))
        return false;
    text_builder_open(&builder, machine);
    if (!text_builder_add_text(&builder, text) ||
        !text_builder_add(&builder, "\n", 1, VALUE_TRUSTED) ||
        !text_builder_finish(&builder, text->markup, &ended) ||
        !pieces_lines(machine, ended.text, false, &lines))
        return false;
    text_builder_open(&builder, machine);
    for (uint32_t i = 0; i < lines.list->count; i++) {
        const struct value_text *line = lines.list->items[i].text;
        bool indented = i == 0 ? first : blank || line->count > 0;
        if ((i > 0 && !text_builder_add(&builder, "\n", 1, VALUE_TRUSTED)) ||
            (indented && !text_builder_add_text(&builder, by)) ||
            !text_builder_add_text(&builder, line))
            return false;
    }
    return text_builder_finish(&builder, text->markup, out);
}

static const struct routine rows[] = {
    {.name = "trim", .run = as_method, .parameters = {"chars"}},
    {.name = "upper", .run = as_method},
    {.name = "lower", .run = as_method},
    {.name = "capitalize", .run = as_method},
    {.name = "string", .run = string, .nameless = true},
    {.name = "replace",
     .run = text_filters_replace,
     .parameters = {"old", "new", "count"},
     .required = 2},
    {.name = "indent", .run = indent, .parameters = {"width", "first", "blank"}},
    {.name = "title", .run = title},
    {.name = "safe", .run = safe},
    {.name = "format", .run = text_filters_format, .rest = true, .named = true},
};

const struct routine *text_filters_find(struct bytes name) {
    return routine_find(rows, ARRAY_COUNT(rows), name);
}
