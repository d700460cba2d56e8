/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/text_filters.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "serving/jinja/letters.h"
#include "serving/jinja/markup.h"
#include "serving/jinja/percent.h"
#include "serving/jinja/pieces.h"
#include "serving/jinja/routine.h"

/* ---- as the methods of the same name, of anything's text ---- */

/* capitalize, center, lower, trim, upper: the method of str(value). */
static bool as_method(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const char *name = call->routine->name;
    struct value subject = call->subject, width = value_integer(80);
    struct bytes method = bytes_of(name[0] == 't' ? "strip" : name);
    uint32_t count = routine_given(call, 0);
    const struct value *arguments = call->arguments;
    if (name[0] == 'c' && name[1] == 'e' && count == 0) {
        arguments = &width;
        count = 1;
    }
    if (subject.kind != VALUE_TEXT && !value_print_string(machine, &call->subject, &subject))
        return false;
    return routine_call(machine, methods_find(VALUE_TEXT, method), &subject, arguments, count, NULL,
                        0, out);
}

static bool as_text(struct jinja_machine *machine, const struct value_text *text, bool markup,
                    struct value *out) {
    struct value_text *copy = machine_take(machine, sizeof *copy);
    if (!copy) return false;
    *copy = *text;
    copy->markup = markup;
    *out = (struct value){.kind = VALUE_TEXT, .text = copy};
    return true;
}

static bool string(struct jinja_machine *machine, const struct call *call, struct value *out) {
    *out = call->subject;
    return call->subject.kind == VALUE_TEXT || value_print_string(machine, &call->subject, out);
}

static bool safe(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text;
    return routine_subject(machine, &call->subject, &text) && as_text(machine, text, true, out);
}

static bool text_filters_escape(struct jinja_machine *machine, const struct call *call,
                                struct value *out) {
    return markup_value_escape(machine, &call->subject, out);
}

static bool forceescape(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value plain = {.kind = VALUE_TEXT};
    const struct value_text *text;
    return routine_plain(machine, &call->subject, &text) && as_text(machine, text, false, &plain) &&
           markup_value_escape(machine, &plain, out);
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
    if (call->rest_count && call->named_count)
        return machine_fail(machine,
                            "can't handle positional and keyword arguments at the same time");
    if (!string(machine, call, &text)) return false;
    if (call->named_count) {
        if (!value_make_dict(machine, &values)) return false;
        for (uint32_t i = 0; i < call->named_count; i++)
            if (!value_dict_set(machine, values.dict, call->named[i].name, call->named[i].value))
                return false;
    } else {
        if (!value_make_list(machine, VALUE_TUPLE, call->rest_count, &values)) return false;
        for (uint32_t i = 0; i < call->rest_count; i++)
            values.list->items[i] = call->rest[i];
        values.list->count = call->rest_count;
    }
    return percent_format(machine, text.text, &values, out);
}

/* ---- words and lines ---- */

static bool begins_word(uint32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' ||
           unicode_is_space(c);
}

static bool title(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text;
    struct text_builder builder;
    unsigned bytes;
    if (!routine_subject(machine, &call->subject, &text)) return false;
    jinja_machine_text_builder_open(&builder, machine);
    for (size_t at = 0; at < text->count;) { /* runs that begin words, runs of words */
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
    return jinja_machine_text_builder_finish(&builder, false, out);
}

static bool wordcount(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value_text *text;
    int64_t words = 0;
    bool within = false;
    unsigned bytes;
    if (!routine_subject(machine, &call->subject, &text) ||
        !machine_spend(machine, text->count / 16))
        return false;
    for (size_t at = 0; at < text->count; at += bytes) {
        uint32_t character = utf8_read(text->data + at, &bytes);
        bool word = character == '_' || unicode_is_alnum(character);
        words += word && !within;
        within = word;
    }
    *out = value_integer(words);
    return true;
}

/* The indentation of a line: a text, or so many spaces. */
bool text_filters_indent(struct jinja_machine *machine, const struct call *call, uint32_t place,
                         int64_t usual, int64_t most, const struct value_text **out) {
    static const struct value_text space = {.data = " ", .count = 1, .length = 1};
    struct text_builder builder;
    struct value text;
    int64_t width;
    if (call->arguments[place].kind == VALUE_TEXT)
        return routine_text(machine, call, place, NULL, out);
    if (!routine_integer(machine, call, place, usual, &width)) return false;
    if (width > most)
        return machine_fail(machine, "the indent of %s() is too large", call->routine->name);
    jinja_machine_text_builder_open(&builder, machine);
    if (!pieces_fill(&builder, &space, width) ||
        !jinja_machine_text_builder_finish(&builder, false, &text))
        return false;
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
    jinja_machine_text_builder_open(&builder, machine);
    if (!jinja_machine_text_builder_add_text(&builder, text) ||
        !jinja_machine_text_builder_add(&builder, "\n", 1, VALUE_TRUSTED) ||
        !jinja_machine_text_builder_finish(&builder, text->markup, &ended) ||
        !pieces_lines(machine, ended.text, false, &lines))
        return false;
    jinja_machine_text_builder_open(&builder, machine);
    for (uint32_t i = 0; i < lines.list->count; i++) {
        const struct value_text *line = lines.list->items[i].text;
        bool indented = i == 0 ? first : blank || line->count > 0;
        if ((i > 0 && !jinja_machine_text_builder_add(&builder, "\n", 1, VALUE_TRUSTED)) ||
            (indented && !jinja_machine_text_builder_add_text(&builder, by)) ||
            !jinja_machine_text_builder_add_text(&builder, line))
            return false;
    }
    return jinja_machine_text_builder_finish(&builder, text->markup, out);
}

static bool truncate(struct jinja_machine *machine, const struct call *call, struct value *out) {
    static const struct value_text dots = {.data = "...", .count = 3, .length = 3};
    const struct value_text *text = call->subject.text, *end;
    int64_t length, leeway, has;
    struct text_builder builder;
    if (!routine_integer(machine, call, 0, 255, &length) ||
        !routine_text(machine, call, 2, &dots, &end) || !routine_end(machine, call, 3, 5, &leeway))
        return false;
    if (length < end->length || leeway < 0)
        return machine_fail(machine, "AssertionError: expected length >= %u and leeway >= 0",
                            (unsigned)end->length);
    if (!value_length(machine, &call->subject, &has)) return false;
    *out = call->subject;
    if (leeway > INT64_MAX - length || has <= length + leeway) return true;
    if (!text_filters_check_text(machine, &call->subject)) return false;
    size_t kept = pieces_offset(text, (size_t)(length - end->length));
    if (!routine_flag(call, 1, false)) {
        const char *space = memrchr(text->data, ' ', kept);
        if (space) kept = (size_t)(space - text->data);
    }
    jinja_machine_text_builder_open(&builder, machine);
    return markup_fit(machine, text, end, &end) &&
           jinja_machine_text_builder_add_part(&builder, text, 0, kept) &&
           jinja_machine_text_builder_add_text(&builder, end) &&
           jinja_machine_text_builder_finish(&builder, text->markup, out);
}

/* ---- for other languages ---- */

/* Percent-encoding; in the values of a query '/' is encoded too and a space is '+'. */
static bool add_quoted(struct text_builder *builder, const struct value *value, bool query) {
    static const char hex[] = "0123456789ABCDEF";
    const struct value_text *text;
    if (!routine_subject(builder->machine, value, &text) ||
        !machine_spend(builder->machine, text->count / 4))
        return false;
    for (size_t at = 0; at < text->count; at++) {
        uint8_t c = (uint8_t)text->data[at];
        bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
        char coded[3] = {'%', hex[c >> 4], hex[c & 15]};
        if (query && c == ' ') coded[0] = '+';
        enum value_origin origin = value_text_origin(text, at);
        if (!(kept ? jinja_machine_text_builder_add_part(builder, text, at, 1)
                   : jinja_machine_text_builder_add(builder, coded, coded[0] == '+' ? 1 : 3,
                                                    origin)))
            return false;
    }
    return true;
}

static bool urlencode(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value pairs = call->subject, pair;
    struct text_builder builder;
    struct iteration iteration;
    bool more = true;
    jinja_machine_text_builder_open(&builder, machine);
    if (pairs.kind == VALUE_TEXT || !value_is_iterable(&pairs))
        return add_quoted(&builder, &pairs, false) &&
               jinja_machine_text_builder_finish(&builder, false, out);
    if (pairs.kind == VALUE_DICT) {
        pairs.kind = VALUE_VIEW;
        pairs.detail = VALUE_VIEW_ITEMS;
    }
    if (!value_access_iteration_open(machine, &pairs, &iteration)) return false;
    for (bool first = true;; first = false) {
        struct value_list *items;
        if (!value_access_iteration_next(machine, &iteration, &pair, &more)) return false;
        if (!more) break;
        if (!value_access_items(machine, &pair, true, &items)) return false;
        if (items->count != 2)
            return machine_fail(machine, "expected 2 values to unpack, got %u",
                                (unsigned)items->count);
        if ((!first && !jinja_machine_text_builder_add(&builder, "&", 1, VALUE_TRUSTED)) ||
            !add_quoted(&builder, &items->items[0], true) ||
            !jinja_machine_text_builder_add(&builder, "=", 1, VALUE_TRUSTED) ||
            !add_quoted(&builder, &items->items[1], true))
            return false;
    }
    return jinja_machine_text_builder_finish(&builder, false, out);
}

/* Filters for web pages, which no published chat template calls. */
#define REFUSED(name) "the filter " name " is not supported: it is for web pages"

static const struct routine rows[] = {
    {.name = "trim", .run = as_method, .parameters = {"chars"}},
    {.name = "upper", .run = as_method},
    {.name = "lower", .run = as_method},
    {.name = "capitalize", .run = as_method},
    {.name = "center", .run = as_method, .parameters = {"width"}},
    {.name = "string", .run = string, .nameless = true},
    {.name = "replace",
     .run = text_filters_replace,
     .parameters = {"old", "new", "count"},
     .required = 2},
    {.name = "indent", .run = indent, .parameters = {"width", "first", "blank"}},
    {.name = "title", .run = title},
    {.name = "safe", .run = safe},
    {.name = "e", .run = text_filters_escape},
    {.name = "escape", .run = text_filters_escape},
    {.name = "forceescape", .run = forceescape},
    {.name = "striptags", .refused = REFUSED("striptags")},
    {.name = "format", .run = text_filters_format, .rest = true, .named = true},
    {.name = "wordcount", .run = wordcount},
    {.name = "truncate", .run = truncate, .parameters = {"length", "killwords", "end", "leeway"}},
    {.name = "wordwrap", .refused = REFUSED("wordwrap")},
    {.name = "urlencode", .run = urlencode},
    {.name = "urlize", .refused = REFUSED("urlize")},
    {.name = "xmlattr", .refused = REFUSED("xmlattr")},
    {.name = "filesizeformat", .refused = REFUSED("filesizeformat")},
};

const struct routine *text_filters_find(struct bytes name) {
    return routine_find(rows, ARRAY_COUNT(rows), name);
}
