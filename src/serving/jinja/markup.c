/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/markup.h"

#include "serving/jinja/entities.h"
#include "serving/jinja/pieces.h"

#define NAME_CHARACTERS_MAX 32

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

bool markup_add_escaped(struct text_builder *builder, const struct value_text *text) {
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
    if (value->kind != VALUE_TEXT && !value_string(builder->machine, value, &text)) return false;
    return value->kind == VALUE_TEXT && text.text->markup
               ? text_builder_add_text(builder, text.text)
               : markup_add_escaped(builder, text.text);
}

bool value_escape(struct jinja_machine *machine, const struct value *value, struct value *out) {
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

/* ---- entities ---- */

static bool is_digit(char c, bool hexadecimal) {
    return (c >= '0' && c <= '9') ||
           (hexadecimal && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
}

/* "&#38;" or "&#x26;" at a place: its bytes, 0 if none is there. */
static size_t read_code(struct bytes text, uint32_t *out) {
    size_t at = 2;
    if (text.count < 3 || text.data[1] != '#') return 0;
    bool hexadecimal = text.data[2] == 'x' || text.data[2] == 'X';
    size_t start = at += hexadecimal;
    for (*out = 0; at < text.count && is_digit(text.data[at], hexadecimal); at++) {
        char c = text.data[at];
        unsigned digit = (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        if (*out <= 0x10FFFF) *out = *out * (hexadecimal ? 16 : 10) + digit;
    }
    if (at == start) return 0;
    return at < text.count && text.data[at] == ';' ? at + 1 : at;
}

/* The name behind an '&', with its semicolon if there is one. */
static struct bytes read_name(struct bytes text) {
    size_t at = 1;
    for (size_t seen = 0; at < text.count && !strchr("\t\n\f <&#;", text.data[at]); at++)
        if (((uint8_t)text.data[at] & 0xC0) != 0x80 && seen++ == NAME_CHARACTERS_MAX) break;
    if (at > 1 && at < text.count && text.data[at] == ';') at++;
    return (struct bytes){text.data + 1, at - 1};
}

/* Adds what stands for the entity at a place and returns its bytes in *used; 0: there is none. */
static bool add_entity(struct text_builder *builder, const struct value_text *text, size_t at,
                       size_t *used) {
    struct bytes rest = {text->data + at, text->count - at};
    char characters[4];
    uint32_t code;
    *used = read_code(rest, &code);
    if (*used)
        return text_builder_add(builder, characters, entities_of_code(code, characters),
                                value_text_origin(text, at));
    struct bytes name = read_name(rest);
    const char *found = name.count ? entities_find(name, used) : NULL;
    if (!found) {
        *used = 0;
        return true;
    }
    ++*used;
    return text_builder_add(builder, found, strlen(found), value_text_origin(text, at));
}

bool markup_unescape(struct jinja_machine *machine, const struct value_text *text,
                     struct value *out) {
    struct text_builder builder;
    text_builder_open(&builder, machine);
    for (size_t at = 0; at < text->count;) {
        const char *mark = memchr(text->data + at, '&', text->count - at);
        size_t next = mark ? (size_t)(mark - text->data) : text->count, used = 0;
        if (!text_builder_add_part(&builder, text, at, next - at)) return false;
        at = next;
        if (!mark) break;
        if (!machine_spend(machine, 8) || !add_entity(&builder, text, at, &used)) return false;
        if (used == 0 && !text_builder_add_part(&builder, text, at, 1)) return false;
        at += used ? used : 1;
    }
    return text_builder_finish(&builder, false, out);
}

/* ---- tags ---- */

/* A text that shrinks in place. */
struct shrinking {
    char *data;
    uint8_t *marks;
    size_t count;
};

/* Takes out what lies between marks, again and again. Removing may bring a mark together: the
 * search goes on a little before. */
static bool remove_between(struct jinja_machine *machine, struct shrinking *text,
                           struct bytes opening, struct bytes closing) {
    size_t from = 0;
    for (;;) {
        const char *first =
            memmem(text->data + from, text->count - from, opening.data, opening.count);
        if (!first) return true;
        size_t start = (size_t)(first - text->data);
        const char *last =
            memmem(text->data + start, text->count - start, closing.data, closing.count);
        if (!last) return true;
        size_t end = (size_t)(last - text->data) + closing.count, rest = text->count - end;
        if (!machine_spend(machine, 1 + rest / 64)) return false;
        memmove(text->data + start, text->data + end, rest);
        memmove(text->marks + start, text->marks + end, rest);
        text->count = start + rest;
        from = start > opening.count ? start - opening.count : 0;
    }
}

bool markup_strip_tags(struct jinja_machine *machine, const struct value_text *text,
                       struct value *out) {
    struct shrinking shrinking = {.count = text->count};
    struct value words;
    struct text_builder builder;
    if (!(shrinking.data = machine_take(machine, text->count + 1)) ||
        !(shrinking.marks = machine_take(machine, text->count + 1)))
        return false;
    memcpy(shrinking.data, text->data, text->count);
    for (size_t i = 0; i < text->count; i++)
        shrinking.marks[i] = (uint8_t)value_text_origin(text, i);
    if (!remove_between(machine, &shrinking, BYTES_LITERAL("<!--"), BYTES_LITERAL("-->")) ||
        !remove_between(machine, &shrinking, BYTES_LITERAL("<"), BYTES_LITERAL(">")))
        return false;
    text_builder_open(&builder, machine);
    for (size_t at = 0, end; at < shrinking.count; at = end) { /* runs of one origin */
        for (end = at; end < shrinking.count && shrinking.marks[end] == shrinking.marks[at];)
            end++;
        if (!text_builder_add(&builder, shrinking.data + at, end - at,
                              (enum value_origin)shrinking.marks[at]))
            return false;
    }
    struct value rest;
    if (!text_builder_finish(&builder, false, &rest) ||
        !pieces_split(machine, rest.text, NULL, -1, false, &words))
        return false;
    text_builder_open(&builder, machine);
    for (uint32_t i = 0; i < words.list->count; i++)
        if ((i && !text_builder_add(&builder, " ", 1, VALUE_TRUSTED)) ||
            !text_builder_add_text(&builder, words.list->items[i].text))
            return false;
    return text_builder_finish(&builder, false, &rest) && markup_unescape(machine, rest.text, out);
}
