/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/markup.h"

static const char *escape_of(char c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '\'':
        return "&#39;";
    case '"':
        return "&#34;";
    default:
        return NULL;
    }
}

static bool markup_add_escaped(struct text_builder *builder, const struct value_text *text) {
    size_t start = 0;
    for (size_t at = 0; at < text->count; at++) {
        const char *escape = escape_of(text->data[at]);
        if (!escape) continue;
        if (!machine_spend(builder->machine, 1) ||
            !text_builder_add_part(builder, text, start, at - start) ||
            !text_builder_add(builder, escape, strlen(escape), value_text_origin(text, at)))
            return false;
        start = at + 1;
    }
    return text_builder_add_part(builder, text, start, text->count - start);
}

bool markup_add(struct text_builder *builder, const struct value *value) {
    struct value text = *value;
    if (value->kind != VALUE_TEXT && !value_print_string(builder->machine, value, &text))
        return false;
    return value->kind == VALUE_TEXT && text.text->markup
               ? text_builder_add_text(builder, text.text)
               : markup_add_escaped(builder, text.text);
}

bool markup_value_escape(struct jinja_machine *machine, const struct value *value,
                         struct value *out) {
    struct text_builder builder;
    text_builder_open(&builder, machine);
    return markup_add(&builder, value) && text_builder_finish(&builder, true, out);
}

bool markup_fit(struct jinja_machine *machine, const struct value_text *whole,
                const struct value_text *text, const struct value_text **out) {
    struct text_builder builder;
    struct value escaped;
    *out = text;
    if (!whole->markup || text->markup) return true;
    text_builder_open(&builder, machine);
    if (!markup_add_escaped(&builder, text) || !text_builder_finish(&builder, true, &escaped))
        return false;
    *out = escaped.text;
    return true;
}
