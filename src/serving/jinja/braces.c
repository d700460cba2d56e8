/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/braces.h"

#include "serving/jinja/figures.h"
#include "serving/jinja/markup.h"
#include "serving/jinja/pieces.h"
#include "serving/jinja/routine.h"

#define NESTING_MAX 2 /* a format in a field's format, and one in that */

/* A format under way, with those inside its fields. */
struct formatting {
    struct jinja_machine *machine;
    const struct braces_values *values;
    bool markup;
    bool counted, numbered; /* "{}" was met, "{0}" was met */
    uint32_t next;
};

/* "{name!conversion:format}", in bytes of the whole. */
struct replacement {
    size_t name_start, name_end, format_start, format_end;
    char conversion; /* 0: none */
};

static bool braces_expand(struct formatting *braces, const struct value_text *text, size_t start,
                          size_t end, int nesting, struct text_builder *out);

static bool add_padding(struct text_builder *builder, uint32_t fill, int64_t count) {
    if (count > 0 && !machine_spend(builder->machine, (uint64_t)count)) return false;
    for (; count > 0; count--)
        if (!jinja_machine_text_builder_add_character(builder, fill, VALUE_TRUSTED)) return false;
    return true;
}

static bool braces_add_number(struct text_builder *builder, const char *text, size_t count,
                              size_t prefix, const struct figures_format *format) {
    int64_t padding = (int64_t)format->width - (int64_t)count, left = padding;
    if (padding < 0) padding = left = 0;
    if (format->align == '<') left = 0;
    if (format->align == '^') left = padding / 2;
    bool inside = format->align == '=';
    return (inside || add_padding(builder, format->fill, left)) &&
           jinja_machine_text_builder_add(builder, text, prefix, VALUE_TRUSTED) &&
           (!inside || add_padding(builder, format->fill, left)) &&
           jinja_machine_text_builder_add(builder, text + prefix, count - prefix, VALUE_TRUSTED) &&
           add_padding(builder, format->fill, padding - left);
}

static bool add_padded_text(struct text_builder *builder, const struct value_text *text,
                            const struct figures_format *format) {
    size_t length = text->length, end = text->count;
    if (format->precision >= 0 && (size_t)format->precision < length) {
        length = (size_t)format->precision;
        end = pieces_offset(text, length);
    }
    int64_t padding = (int64_t)format->width - (int64_t)length, left = 0;
    if (padding < 0) padding = 0;
    if (format->align == '>') left = padding;
    if (format->align == '^') left = padding / 2;
    return add_padding(builder, format->fill, left) &&
           jinja_machine_text_builder_add_part(builder, text, 0, end) &&
           add_padding(builder, format->fill, padding - left);
}

static const char *refused_for_text(const struct figures_format *format) {
    if (format->sign) return "Sign not allowed in string format specifier";
    if (format->not_negative_zero)
        return "Negative zero coercion (z) not allowed in string format specifier";
    if (format->alternate) return "Alternate form (#) not allowed in string format specifier";
    if (format->align == '=') return "'=' alignment not allowed in string format specifier";
    if (format->grouping) return "Cannot specify ',' or '_' with 's'.";
    if (format->type && format->type != 's') return "Unknown format code for object of type 'str'";
    return NULL;
}

/* Type 'c' of an integer. */
static bool braces_add_character(struct text_builder *builder, int64_t character,
                                 const struct figures_format *format) {
    struct jinja_machine *machine = builder->machine;
    struct text_builder one;
    struct value text;
    struct figures_format plain = *format;
    if (format->sign || format->alternate || format->precision >= 0)
        return machine_fail(machine, "not allowed with integer format specifier 'c'");
    if (character < 0 || character > 0x10FFFF || (character >= 0xD800 && character < 0xE000))
        return machine_fail(machine, "%%c arg not in range(0x110000)");
    if (format->align == '=' || !format->align) plain.align = '>';
    jinja_machine_text_builder_open(&one, machine);
    return jinja_machine_text_builder_add_character(&one, (uint32_t)character, VALUE_TRUSTED) &&
           jinja_machine_text_builder_finish(&one, false, &text) &&
           add_padded_text(builder, text.text, &plain);
}

/* format(value, specification) */
static bool add_formatted(struct text_builder *builder, const struct value *value,
                          struct bytes specification) {
    struct jinja_machine *machine = builder->machine;
    struct figures_format format;
    char number[FIGURES_BYTES];
    size_t count = 0, prefix = 0;
    if (specification.count == 0) return value_print_text_builder_add_value(builder, value);
    bool text = value->kind == VALUE_TEXT;
    if (!text && !value_is_number(value))
        return machine_fail(machine, "unsupported format string passed to %s.__format__",
                            value_type_name(value));
    const char *reason = figures_read(specification, text ? '<' : '>', &format);
    if (!reason && text) reason = refused_for_text(&format);
    if (reason) return machine_fail(machine, "%s", reason);
    if (text) return add_padded_text(builder, value->text, &format);
    if (value->kind != VALUE_REAL && format.type == 'c')
        return braces_add_character(builder, value_whole(value), &format);
    reason = value->kind == VALUE_REAL
                 ? figures_of_real(value->real, &format, number, &count, &prefix)
                 : figures_of_integer(value_whole(value), &format, number, &count, &prefix);
    if (reason) return machine_fail(machine, "%s", reason);
    return braces_add_number(builder, number, count, prefix, &format);
}

/* Like EscapeFormatter of markupsafe: values formatted into markup are escaped. */
static bool add_escaped(struct text_builder *builder, const struct value *value,
                        struct bytes specification) {
    struct text_builder inner;
    struct value text;
    if (value->kind == VALUE_TEXT && value->text->markup) {
        if (specification.count)
            return machine_fail(builder->machine, "Unsupported format specification for Markup.");
        return jinja_machine_text_builder_add_text(builder, value->text);
    }
    jinja_machine_text_builder_open(&inner, builder->machine);
    return add_formatted(&inner, value, specification) &&
           jinja_machine_text_builder_finish(&inner, false, &text) &&
           markup_add_escaped(builder, text.text);
}

static bool is_digits(struct bytes text) {
    for (size_t i = 0; i < text.count; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    return text.count > 0;
}

static bool braces_to_integer(struct jinja_machine *machine, struct bytes digits, int64_t *out) {
    *out = 0;
    for (size_t i = 0; i < digits.count; i++) {
        *out = *out * 10 + (digits.data[i] - '0');
        if (*out > INT32_MAX)
            return machine_fail(machine, "Too many decimal digits in format string");
    }
    return true;
}

static bool first_value(struct formatting *braces, const struct value_text *text, size_t start,
                        size_t end, struct value *out) {
    struct jinja_machine *machine = braces->machine;
    const struct braces_values *values = braces->values;
    struct bytes name = {text->data + start, end - start};
    int shown = name.count < 80 ? (int)name.count : 80;
    if (is_digits(name)) {
        int64_t which;
        if (!braces_to_integer(machine, name, &which)) return false;
        if (values->mapping || which >= values->value_count)
            return machine_fail(machine, "Replacement index %lld out of range for positional args",
                                (long long)which);
        *out = values->values[which];
        return true;
    }
    for (uint32_t i = 0; !values->mapping && i < values->named_count; i++) {
        const struct value_text *other = values->named[i].name.text;
        if (!bytes_equal(value_text_bytes(other), name)) continue;
        *out = values->named[i].value;
        return true;
    }
    if (values->mapping) {
        struct value key, *found = NULL;
        if (values->mapping->kind != VALUE_DICT)
            return routine_refuse(machine, values->mapping, "is not a mapping");
        if (!value_make_part(machine, text, start, end - start, &key) ||
            !value_dict_find(machine, values->mapping->dict, &key, &found))
            return false;
        if (found) *out = *found;
        if (found) return true;
    }
    return machine_fail(machine, "KeyError: '%.*s'", shown, name.data);
}

/* ".name" and "[item]" behind a field's first name. */
static bool braces_follow(struct formatting *braces, const struct value_text *text, size_t at,
                          size_t end, struct value *value) {
    struct jinja_machine *machine = braces->machine;
    while (at < end) {
        bool item = text->data[at] == '[';
        size_t start = ++at;
        struct value key;
        if (!item && text->data[start - 1] != '.')
            return machine_fail(machine,
                                "Only '.' or '[' may follow ']' in format field specifier");
        while (at < end &&
               (item ? text->data[at] != ']' : text->data[at] != '.' && text->data[at] != '['))
            at++;
        if (item && at == end) return machine_fail(machine, "Missing ']' in format string");
        if (at == start) return machine_fail(machine, "Empty attribute in format string");
        struct bytes name = {text->data + start, at - start};
        if (item && is_digits(name)) {
            int64_t which;
            if (!braces_to_integer(machine, name, &which)) return false;
            key = value_integer(which);
        } else if (!value_make_part(machine, text, start, at - start, &key)) {
            return false;
        }
        struct value object = *value;
        if (!(item ? value_access_get_item(machine, &object, &key, value)
                   : value_access_get_attribute(machine, &object, &key, value)))
            return false;
        at += item;
    }
    return true;
}

static bool braces_find_value(struct formatting *braces, const struct value_text *text,
                              const struct replacement *field, struct value *out) {
    struct jinja_machine *machine = braces->machine;
    struct bytes name = {text->data + field->name_start, field->name_end - field->name_start};
    static const char *const mixed =
        "cannot switch from manual field specification to automatic field numbering";
    if (name.count == 0) {
        if (braces->numbered) return machine_fail(machine, "%s", mixed);
        braces->counted = true;
        if (braces->values->mapping || braces->next >= braces->values->value_count)
            return machine_fail(machine, "Replacement index %u out of range for positional args",
                                (unsigned)braces->next);
        *out = braces->values->values[braces->next++];
        return true;
    }
    if (is_digits(name)) {
        if (braces->counted) return machine_fail(machine, "%s", mixed);
        braces->numbered = true;
    }
    size_t first = field->name_start;
    while (first < field->name_end && text->data[first] != '.' && text->data[first] != '[')
        first++;
    return first_value(braces, text, field->name_start, first, out) &&
           braces_follow(braces, text, first, field->name_end, out);
}

static bool braces_convert(struct formatting *braces, char conversion, struct value *value) {
    struct text_builder builder;
    if (conversion == 0) return true;
    jinja_machine_text_builder_open(&builder, braces->machine);
    if (conversion == 's') {
        if (!value_print_text_builder_add_value(&builder, value)) return false;
    } else if (conversion == 'r' || conversion == 'a') {
        if (!value_print_text_builder_add_repr(&builder, value)) return false;
    } else {
        return machine_fail(braces->machine, "Unknown conversion specifier");
    }
    return jinja_machine_text_builder_finish(&builder, false, value) &&
           (conversion != 'a' || pieces_to_ascii(braces->machine, value->text, value));
}

static bool add_field(struct formatting *braces, const struct value_text *text,
                      const struct replacement *field, int nesting, struct text_builder *out) {
    struct value value = value_none(), specification;
    struct text_builder builder;
    if (!braces_find_value(braces, text, field, &value) ||
        !braces_convert(braces, field->conversion, &value))
        return false;
    jinja_machine_text_builder_open(&builder, braces->machine);
    if (nesting == 0) return machine_fail(braces->machine, "Max string recursion exceeded");
    if (!braces_expand(braces, text, field->format_start, field->format_end, nesting - 1,
                       &builder) ||
        !jinja_machine_text_builder_finish(&builder, false, &specification))
        return false;
    struct bytes format = value_text_bytes(specification.text);
    return braces->markup ? add_escaped(out, &value, format) : add_formatted(out, &value, format);
}

/* Reads what follows the opening brace, up to the closing one; *at moves behind it. */
static const char *read_replacement(const struct value_text *text, size_t *at, size_t end,
                                    struct replacement *out) {
    const char *data = text->data;
    char c = '\0';
    *out = (struct replacement){.name_start = *at};
    while (*at < end) {
        c = data[(*at)++];
        if (c == '{') return "unexpected '{' in field name";
        if (c == '}' || c == ':' || c == '!') break;
        while (c == '[' && *at < end && data[*at] != ']')
            ++*at;
    }
    if (c != '}' && c != ':' && c != '!') return "expected '}' before end of string";
    out->name_end = out->format_start = out->format_end = *at - 1;
    if (c == '}') return NULL;
    if (c == '!') {
        if (*at >= end) return "end of string while looking for conversion specifier";
        out->conversion = data[(*at)++];
        c = *at < end ? data[(*at)++] : '\0';
        if (c == '}') return NULL;
        if (c != ':') return "expected ':' after conversion specifier";
    }
    out->format_start = *at;
    for (unsigned open = 1; *at < end;) {
        c = data[(*at)++];
        if (c == '{') open++;
        if (c == '}' && --open == 0) {
            out->format_end = *at - 1;
            return NULL;
        }
    }
    return "unmatched '{' in format spec";
}

static bool braces_expand(struct formatting *braces, const struct value_text *text, size_t start,
                          size_t end, int nesting, struct text_builder *out) {
    for (size_t at = start; at < end;) {
        size_t from = at;
        while (at < end && text->data[at] != '{' && text->data[at] != '}')
            at++;
        bool doubled = at + 1 < end && text->data[at] == text->data[at + 1];
        if (!machine_spend(braces->machine, 1) ||
            !jinja_machine_text_builder_add_part(out, text, from, at - from + doubled))
            return false;
        if (at == end) break;
        char c = text->data[at++];
        if (doubled) {
            at++;
            continue;
        }
        if (c == '}' || at == end)
            return machine_fail(braces->machine, "Single '%c' encountered in format string", c);
        struct replacement field;
        const char *reason = read_replacement(text, &at, end, &field);
        if (reason) return machine_fail(braces->machine, "%s", reason);
        if (!add_field(braces, text, &field, nesting, out)) return false;
    }
    return true;
}

bool braces_format(struct jinja_machine *machine, const struct value_text *format,
                   const struct braces_values *values, struct value *out) {
    struct formatting braces = {.machine = machine, .values = values, .markup = format->markup};
    struct text_builder builder;
    jinja_machine_text_builder_open(&builder, machine);
    return braces_expand(&braces, format, 0, format->count, NESTING_MAX, &builder) &&
           jinja_machine_text_builder_finish(&builder, format->markup, out);
}
