/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/pretty.h"

#include "serving/jinja/pieces.h"
#include "serving/jinja/unicode.h"

#define WIDTH 80

/* Where a value is written: what stands on its line before and must stand behind it. */
struct place {
    int64_t indent, allowance;
    unsigned level;
};

static bool add_lines(struct text_builder *out, const struct value *value, struct place place);

static bool is_plain_list(const struct value *value) {
    return value->kind == VALUE_LIST || (value->kind == VALUE_TUPLE && !value->list->group);
}

/* Keys of different types, which Python does not compare, lie in the order of the types' names. */
static bool key_is_less(struct jinja_machine *machine, const struct value *a, const struct value *b,
                        bool *out) {
    bool comparable = (a->kind == VALUE_TEXT && b->kind == VALUE_TEXT) ||
                      (value_is_number(a) && value_is_number(b)) ||
                      (a->kind == VALUE_TUPLE && b->kind == VALUE_TUPLE);
    if (comparable) return value_less(machine, a, b, out);
    *out = strcmp(value_type_name(a), value_type_name(b)) < 0;
    return true;
}

static bool sort_pairs(struct jinja_machine *machine, const struct value_dict *dict,
                       const struct value_pair ***out) {
    const struct value_pair **pairs = machine_take(machine, dict->count * sizeof *pairs + 1);
    const struct value_pair **other = machine_take(machine, dict->count * sizeof *other + 1);
    if (!pairs || !other) return false;
    for (uint32_t i = 0; i < dict->count; i++)
        pairs[i] = &dict->pairs[i];
    for (uint32_t width = 1; width < dict->count; width *= 2) {
        for (uint32_t start = 0; start < dict->count; start += 2 * width) {
            uint32_t left = start, middle = start + width, right = middle;
            for (uint32_t at = start; at < dict->count && at < start + 2 * width; at++) {
                bool from_right = left == middle;
                bool both = !from_right && right < dict->count && right < start + 2 * width;
                if (both &&
                    !(machine_spend(machine, 1) &&
                      key_is_less(machine, &pairs[right]->key, &pairs[left]->key, &from_right)))
                    return false;
                other[at] = pairs[from_right ? right++ : left++];
            }
        }
        const struct value_pair **kept = pairs;
        pairs = other;
        other = kept;
    }
    *out = pairs;
    return true;
}

static bool add_words(struct text_builder *out, const char *text) {
    return text_builder_add(out, text, strlen(text), VALUE_TRUSTED);
}

static bool add_line(struct text_builder *out, const struct value *value);

static bool add_dict_line(struct text_builder *out, const struct value_dict *dict) {
    const struct value_pair **pairs;
    if (!sort_pairs(out->machine, dict, &pairs) || !add_words(out, "{")) return false;
    for (uint32_t i = 0; i < dict->count; i++)
        if ((i && !add_words(out, ", ")) || !add_line(out, &pairs[i]->key) ||
            !add_words(out, ": ") || !add_line(out, &pairs[i]->value))
            return false;
    return add_words(out, "}");
}

/* All in one line. */
static bool add_line(struct text_builder *out, const struct value *value) {
    bool tuple = value->kind == VALUE_TUPLE;
    if (value->kind != VALUE_DICT && !is_plain_list(value))
        return text_builder_add_repr(out, value);
    if (!machine_spend(out->machine, 1) || !machine_enter(out->machine)) return false;
    bool good = true;
    if (value->kind == VALUE_DICT) {
        good = add_dict_line(out, value->dict);
    } else {
        good = add_words(out, tuple ? "(" : "[");
        for (uint32_t i = 0; good && i < value->list->count; i++)
            good = (!i || add_words(out, ", ")) && add_line(out, &value->list->items[i]);
        good = good && add_words(out, !tuple ? "]" : value->list->count == 1 ? ",)" : ")");
    }
    machine_leave(out->machine);
    return good;
}

static bool line_of(struct jinja_machine *machine, const struct value *value,
                    const struct value_text **out) {
    struct text_builder builder;
    struct value line;
    text_builder_open(&builder, machine);
    if (!add_line(&builder, value) || !text_builder_finish(&builder, false, &line)) return false;
    *out = line.text;
    return true;
}

static bool add_break(struct text_builder *out, int64_t indent) {
    static const struct value_text space = {.data = " ", .count = 1, .length = 1};
    return add_words(out, "\n") && pieces_fill(out, &space, indent);
}

static bool add_items(struct text_builder *out, const struct value *value, struct place place) {
    const struct value_list *list = value->list;
    bool tuple = value->kind == VALUE_TUPLE;
    const char *closing = !tuple ? "]" : list->count == 1 ? ",)" : ")";
    if (!add_words(out, tuple ? "(" : "[")) return false;
    struct place inner = {place.indent + 1, 1, place.level};
    for (uint32_t i = 0; i < list->count; i++) {
        if (i + 1 == list->count) inner.allowance = place.allowance + (int64_t)strlen(closing);
        if ((i && !(add_words(out, ",") && add_break(out, inner.indent))) ||
            !add_lines(out, &list->items[i], inner))
            return false;
    }
    return add_words(out, closing);
}

static bool add_pairs(struct text_builder *out, const struct value_dict *dict, struct place place) {
    const struct value_pair **pairs;
    const struct value_text *key;
    if (!sort_pairs(out->machine, dict, &pairs) || !add_words(out, "{")) return false;
    for (uint32_t i = 0; i < dict->count; i++) {
        struct place inner = {place.indent + 1, i + 1 == dict->count ? place.allowance + 1 : 1,
                              place.level};
        if ((i && !(add_words(out, ",") && add_break(out, inner.indent))) ||
            !line_of(out->machine, &pairs[i]->key, &key) || !text_builder_add_text(out, key) ||
            !add_words(out, ": "))
            return false;
        inner.indent += key->length + 2;
        if (!add_lines(out, &pairs[i]->value, inner)) return false;
    }
    return add_words(out, "}");
}

/* ---- long texts: several literals ---- */

struct chunks {
    struct text_builder *out;
    int64_t indent;
    uint32_t count;
    bool enclosed;
};

static bool repr_of(struct jinja_machine *machine, const struct value_text *text, size_t start,
                    size_t end, const struct value_text **out) {
    struct value part;
    return make_part(machine, text, start, end - start, &part) && line_of(machine, &part, out);
}

static bool add_chunk(struct chunks *chunks, const struct value_text *chunk) {
    if (chunks->count++ > 0 && !add_break(chunks->out, chunks->indent)) return false;
    return text_builder_add_text(chunks->out, chunk);
}

/* Where a word and the white space behind it end. */
static size_t word_end(const struct value_text *text, size_t at) {
    unsigned bytes;
    bool spaces = false;
    for (; at < text->count; at += bytes) {
        bool space = unicode_properties(unicode_read(text->data + at, &bytes)) & UNICODE_SPACE;
        if (spaces && !space) break;
        spaces = space;
    }
    return at;
}

/* One line of a text, which is too long, in several chunks. */
static bool split_line(struct chunks *chunks, const struct value_text *line, int64_t width,
                       int64_t last_width) {
    struct jinja_machine *machine = chunks->out->machine;
    const struct value_text *repr;
    size_t start = 0, kept = 0;
    for (size_t at = 0, next; at < line->count; at = next) {
        next = word_end(line, at);
        if (!machine_spend(machine, 1 + (next - start) / 16) ||
            !repr_of(machine, line, start, next, &repr))
            return false;
        if (repr->length > (next == line->count ? last_width : width)) {
            if (kept > start &&
                (!repr_of(machine, line, start, kept, &repr) || !add_chunk(chunks, repr)))
                return false;
            start = at;
        }
        kept = next;
    }
    return kept == start || (repr_of(machine, line, start, kept, &repr) && add_chunk(chunks, repr));
}

static bool add_chunks(struct chunks *chunks, const struct value_list *lines, int64_t allowance) {
    struct jinja_machine *machine = chunks->out->machine;
    const struct value_text *repr;
    int64_t width = WIDTH - chunks->indent;
    for (uint32_t i = 0; i < lines->count; i++) {
        const struct value_text *line = lines->items[i].text;
        int64_t last_width = i + 1 == lines->count ? width - allowance : width;
        if (!repr_of(machine, line, 0, line->count, &repr)) return false;
        if (!(repr->length <= last_width ? add_chunk(chunks, repr)
                                         : split_line(chunks, line, width, last_width)))
            return false;
    }
    return true;
}

static bool add_text(struct text_builder *out, const struct value *value, struct place place) {
    struct jinja_machine *machine = out->machine;
    struct value lines, inside;
    bool top = place.level == 1;
    struct text_builder builder;
    if (value->text->count == 0) return text_builder_add_repr(out, value);
    if (!pieces_lines(machine, value->text, true, &lines)) return false;
    text_builder_open(&builder, machine);
    struct chunks chunks = {.out = &builder, .indent = place.indent + top};
    if (!add_chunks(&chunks, lines.list, place.allowance + top) ||
        !text_builder_finish(&builder, false, &inside))
        return false;
    bool enclosed = top && chunks.count > 1;
    return (!enclosed || add_words(out, "(")) && text_builder_add_text(out, inside.text) &&
           (!enclosed || add_words(out, ")"));
}

static bool add_lines(struct text_builder *out, const struct value *value, struct place place) {
    const struct value_text *line;
    bool plain_text = value->kind == VALUE_TEXT && !value->text->markup;
    bool breaks = plain_text || value->kind == VALUE_DICT || is_plain_list(value);
    if (!machine_enter(out->machine)) return false;
    bool good = line_of(out->machine, value, &line);
    place.level++;
    if (good && (!breaks || line->length <= WIDTH - place.indent - place.allowance))
        good = text_builder_add_text(out, line);
    else if (good && plain_text)
        good = add_text(out, value, place);
    else if (good && value->kind == VALUE_DICT)
        good = add_pairs(out, value->dict, place);
    else if (good)
        good = add_items(out, value, place);
    machine_leave(out->machine);
    return good;
}

bool pretty_add(struct text_builder *builder, const struct value *value) {
    return add_lines(builder, value, (struct place){0, 0, 0});
}
