/* SPDX-License-Identifier: Apache-2.0
 * str(), repr() and json.dumps() of values, as in Python.
 */
#include "base/format.h"
#include "base/real.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "serving/jinja/values/item_path.h"

static bool add(struct text_builder *builder, const char *text) {
    return text_builder_add(builder, text, strlen(text), VALUE_DATA);
}

/* Appends a number or similar text, which cannot form a special token. */
static bool value_print_add_plain(struct text_builder *builder, const char *text) {
    return text_builder_add(builder, text, strlen(text), VALUE_TRUSTED);
}

static bool add_integer(struct text_builder *builder, int64_t integer) {
    char text[24];
    size_t at = sizeof text;
    uint64_t rest = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    do {
        text[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (integer < 0) text[--at] = '-';
    return text_builder_add(builder, text + at, sizeof text - at, VALUE_TRUSTED);
}

static bool add_real(struct text_builder *builder, double real) {
    char text[REAL_TEXT_BYTES];
    return machine_spend(builder->machine, 16) &&
           text_builder_add(builder, text, real_write(real, text), VALUE_TRUSTED);
}

/* Appends a number. A number from JSON is printed as it was spelled. */
static bool value_print_add_number(struct text_builder *builder, const struct value *number) {
    if (number->spelling)
        return machine_spend(builder->machine, number->detail / 64) &&
               text_builder_add(builder, number->spelling, number->detail, VALUE_TRUSTED);
    return number->kind == VALUE_INTEGER ? add_integer(builder, number->integer)
                                         : add_real(builder, number->real);
}

/* ---- repr() ---- */

/* Appends the escape of a character that is not printable. */
static bool add_escape(struct text_builder *builder, uint32_t character, enum value_origin origin) {
    char text[16];
    const char *simple = character == '\n'   ? "\\n"
                         : character == '\r' ? "\\r"
                         : character == '\t' ? "\\t"
                                             : NULL;
    if (simple) return text_builder_add(builder, simple, 2, origin);
    if (character == '\\' || character == '\'') {
        text[0] = '\\';
        text[1] = (char)character;
        return text_builder_add(builder, text, 2, origin);
    }
    const char *format = character < 0x100     ? "\\x%02x"
                         : character < 0x10000 ? "\\u%04x"
                                               : "\\U%08x";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t count = format_text(text, sizeof text, format, character);
#pragma GCC diagnostic pop
    return text_builder_add(builder, text, count, origin);
}

static bool repr_text(struct text_builder *builder, const struct value_text *text) {
    bool single = memchr(text->data, '\'', text->count) != NULL;
    bool both = single && memchr(text->data, '"', text->count) != NULL;
    const char *quote = single && !both ? "\"" : "'";
    size_t start = 0;
    if (!machine_spend(builder->machine, text->count / 8)) return false;
    if (text->markup && !add(builder, "Markup(")) return false;
    if (!add(builder, quote)) return false;
    for (size_t at = 0; at < text->count;) {
        unsigned bytes;
        uint32_t character = utf8_read(text->data + at, &bytes);
        bool plain = character >= 0x80 ? unicode_is_printable(character)
                                       : character >= 0x20 && character != 0x7F;
        if (character == '\\' || (character == '\'' && both)) plain = false;
        if (!plain) {
            if (!text_builder_add_part(builder, text, start, at - start) ||
                !add_escape(builder, character, value_text_origin(text, at)))
                return false;
            start = at + bytes;
        }
        at += bytes;
    }
    return text_builder_add_part(builder, text, start, text->count - start) &&
           add(builder, quote) && (!text->markup || add(builder, ")"));
}

static bool repr_items(struct text_builder *builder, const struct value_list *list,
                       const char *open, const char *close) {
    if (!machine_spend(builder->machine, list->count) || !add(builder, open)) return false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (i && !add(builder, ", ")) return false;
        if (!value_print_add_repr(builder, &list->items[i])) return false;
    }
    return add(builder, close);
}

static bool repr_dict(struct text_builder *builder, const struct value_dict *dict) {
    if (!machine_spend(builder->machine, dict->count) || !add(builder, "{")) return false;
    for (uint32_t i = 0; i < dict->count; i++) {
        if (i && !add(builder, ", ")) return false;
        if (!value_print_add_repr(builder, &dict->pairs[i].key) || !add(builder, ": ") ||
            !value_print_add_repr(builder, &dict->pairs[i].value))
            return false;
    }
    return add(builder, "}");
}

static bool repr_deep(struct text_builder *builder, const struct value *value) {
    switch (value->kind) {
    case VALUE_LIST:
        return repr_items(builder, value->list, "[", "]");
    case VALUE_TUPLE:
        return repr_items(builder, value->list, "(", value->list->count == 1 ? ",)" : ")");
    case VALUE_DICT:
        return repr_dict(builder, value->dict);
    default:
        return machine_fail(builder->machine, "printing a %s is not supported",
                            value_type_name(value));
    }
}

bool value_print_add_repr(struct text_builder *builder, const struct value *value) {
    switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        return value_print_add_plain(builder, "Undefined");
    case VALUE_NONE:
        return value_print_add_plain(builder, "None");
    case VALUE_BOOL:
        return value_print_add_plain(builder, value->truth ? "True" : "False");
    case VALUE_INTEGER:
    case VALUE_REAL:
        return value_print_add_number(builder, value);
    case VALUE_TEXT:
        return repr_text(builder, value->text);
    default:
        break;
    }
    if (!jinja_machine_enter(builder->machine) || !repr_deep(builder, value)) return false;
    machine_leave(builder->machine);
    return true;
}

bool value_print_add_value(struct text_builder *builder, const struct value *value) {
    if (value->kind == VALUE_TEXT) return text_builder_add_text(builder, value->text);
    if (value->kind == VALUE_UNDEFINED || value->kind == VALUE_MISSING) return true;
    return value_print_add_repr(builder, value);
}

bool value_print_string(struct jinja_machine *machine, const struct value *value,
                        struct value *out) {
    struct text_builder builder;
    if (value->kind == VALUE_TEXT) {
        *out = *value;
        return true;
    }
    text_builder_open(&builder, machine);
    return value_print_add_value(&builder, value) && text_builder_finish(&builder, false, out);
}

/* ---- JSON ---- */

struct json_printer {
    struct jinja_machine *machine;
    struct text_builder *out;
    const struct json_style *style;
    uint32_t level;
};

static bool json_escape(struct json_printer *printer, uint32_t character,
                        enum value_origin origin) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16];
    const char *simple = character && character < 0x80 ? strchr(from, (char)character) : NULL;
    size_t count;
    if (simple) {
        text[0] = '\\';
        text[1] = to[simple - from];
        count = 2;
    } else if (character < 0x10000) {
        count = format_text(text, sizeof text, "\\u%04x", character);
    } else {
        uint32_t rest = character - 0x10000;
        count = format_text(text, sizeof text, "\\u%04x\\u%04x", 0xD800 | rest >> 10,
                            0xDC00 | (rest & 0x3FF));
    }
    return text_builder_add(printer->out, text, count, origin);
}

static bool json_text(struct json_printer *printer, const struct value_text *text) {
    size_t start = 0;
    if (!machine_spend(printer->machine, text->count / 8) || !add(printer->out, "\"")) return false;
    for (size_t at = 0; at < text->count;) {
        uint8_t byte = (uint8_t)text->data[at];
        unsigned bytes = 1;
        if (byte < 0x80 ? byte >= 0x20 && byte != '"' && byte != '\\' : !printer->style->ascii) {
            at++;
            continue;
        }
        uint32_t character = utf8_read(text->data + at, &bytes);
        if (!text_builder_add_part(printer->out, text, start, at - start) ||
            !json_escape(printer, character, value_text_origin(text, at)))
            return false;
        at += bytes;
        start = at;
    }
    return text_builder_add_part(printer->out, text, start, text->count - start) &&
           add(printer->out, "\"");
}

/* Starts an indented line, if the style has an indent. */
static bool json_line(struct json_printer *printer) {
    const struct value_text *indent = printer->style->indent;
    if (!indent) return true;
    if (!add(printer->out, "\n")) return false;
    for (uint32_t i = 0; i < printer->level; i++)
        if (!text_builder_add(printer->out, indent->data, indent->count, VALUE_DATA)) return false;
    return true;
}

static bool json_mark(struct json_printer *printer, const struct value_text *mark,
                      const char *usual) {
    return mark ? text_builder_add(printer->out, mark->data, mark->count, VALUE_DATA)
                : add(printer->out, usual);
}

/* Writes the separator between two items, or the line break before the first. */
static bool json_next(struct json_printer *printer, bool first) {
    if (first) {
        printer->level++;
    } else if (!json_mark(printer, printer->style->item_mark,
                          printer->style->indent ? "," : ", ")) {
        return false;
    }
    return json_line(printer);
}

static bool json_end(struct json_printer *printer, const char *mark) {
    printer->level--;
    return json_line(printer) && add(printer->out, mark);
}

static bool json_value(struct json_printer *printer, const struct value *value);

static bool json_list(struct json_printer *printer, const struct value_list *list) {
    if (list->count == 0) return add(printer->out, "[]");
    if (!machine_spend(printer->machine, list->count) || !add(printer->out, "[")) return false;
    for (uint32_t i = 0; i < list->count; i++)
        if (!json_next(printer, i == 0) || !json_value(printer, &list->items[i])) return false;
    return json_end(printer, "]");
}

static bool json_key(struct json_printer *printer, const struct value *key) {
    if (key->kind == VALUE_TEXT) return json_text(printer, key->text);
    return add(printer->out, "\"") && add_integer(printer->out, key->integer) &&
           add(printer->out, "\"");
}

/* Copies the pairs in the order of their keys. */
static bool json_sort(struct jinja_machine *machine, const struct value_dict *dict,
                      struct value_dict *out) {
    struct value first_of_pair = value_integer(0), sorted;
    struct value view = {
        .kind = VALUE_VIEW, .detail = VALUE_VIEW_ITEMS, .dict = (struct value_dict *)dict};
    struct item_path path;
    out->pairs = machine_take(machine, dict->count * sizeof *out->pairs);
    if (!out->pairs || !item_path_open(machine, &first_of_pair, &path) ||
        !item_path_sort(machine, &view, &path, false, &sorted))
        return false;
    for (out->count = 0; out->count < dict->count; out->count++) {
        const struct value *pair = sorted.list->items[out->count].list->items;
        out->pairs[out->count] = (struct value_pair){pair[0], pair[1]};
    }
    return true;
}

static bool json_dict(struct json_printer *printer, const struct value_dict *dict) {
    struct value_dict sorted = *dict;
    if (dict->count == 0) return add(printer->out, "{}");
    if (!machine_spend(printer->machine, dict->count) || !add(printer->out, "{")) return false;
    if (printer->style->sorted && !json_sort(printer->machine, dict, &sorted)) return false;
    for (uint32_t i = 0; i < dict->count; i++)
        if (!json_next(printer, i == 0) || !json_key(printer, &sorted.pairs[i].key) ||
            !json_mark(printer, printer->style->key_mark, ": ") ||
            !json_value(printer, &sorted.pairs[i].value))
            return false;
    return json_end(printer, "}");
}

static bool json_value(struct json_printer *printer, const struct value *value) {
    bool done;
    switch (value->kind) {
    case VALUE_NONE:
        return value_print_add_plain(printer->out, "null");
    case VALUE_BOOL:
        return value_print_add_plain(printer->out, value->truth ? "true" : "false");
    case VALUE_INTEGER:
    case VALUE_REAL:
        return value_print_add_number(printer->out, value);
    case VALUE_TEXT:
        return json_text(printer, value->text);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
        if (!jinja_machine_enter(printer->machine)) return false;
        done = value->kind == VALUE_DICT ? json_dict(printer, value->dict)
                                         : json_list(printer, value->list);
        machine_leave(printer->machine);
        return done;
    default:
        return machine_fail(printer->machine, "Object of type %s is not JSON serializable",
                            value_type_name(value));
    }
}

bool value_print_to_json(struct jinja_machine *machine, const struct value *value,
                         const struct json_style *style, struct text_builder *out) {
    struct json_printer printer = {.machine = machine, .out = out, .style = style};
    return json_value(&printer, value);
}
