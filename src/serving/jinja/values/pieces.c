/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/pieces.h"

#include "base/format.h"
#include "base/unicode.h"
#include "base/utf8.h"

static bool pieces_is_ascii(const struct value_text *text) {
    return text->count == text->length;
}

size_t pieces_character(const struct value_text *text, size_t offset) {
    return pieces_is_ascii(text) ? offset : utf8_count((struct bytes){text->data, offset});
}

size_t pieces_find(const struct value_text *text, size_t start, size_t end,
                   const struct value_text *needle) {
    if (needle->count == 0) return start;
    if (needle->count > end - start) return PIECES_NONE;
    const char *found = memmem(text->data + start, end - start, needle->data, needle->count);
    return found ? (size_t)(found - text->data) : PIECES_NONE;
}

/* There is no memmem from the right. Each candidate counts as work. */
size_t pieces_find_last(struct jinja_machine *machine, const struct value_text *text, size_t start,
                        size_t end, const struct value_text *needle) {
    if (needle->count == 0) return end;
    if (needle->count > end - start) return PIECES_NONE;
    size_t room = end - needle->count + 1 - start;
    while (room > 0) {
        const char *first = memrchr(text->data + start, needle->data[0], room);
        if (!first || !machine_spend(machine, 1 + needle->count / 64)) return PIECES_NONE;
        if (memcmp(first, needle->data, needle->count) == 0) return (size_t)(first - text->data);
        room = (size_t)(first - (text->data + start));
    }
    return PIECES_NONE;
}

uint32_t pieces_before(const struct value_text *text, size_t *at) {
    unsigned bytes;
    do
        --*at;
    while (((uint8_t)text->data[*at] & 0xC0) == 0x80);
    return utf8_read(text->data + *at, &bytes);
}

static bool pieces_has(const struct value_text *set, uint32_t character) {
    for (size_t at = 0; at < set->count;) {
        unsigned bytes;
        if (utf8_read(set->data + at, &bytes) == character) return true;
        at += bytes;
    }
    return false;
}

static bool is_stripped(const struct value_text *set, uint32_t character) {
    return set ? pieces_has(set, character) : unicode_is_space(character);
}

void pieces_strip(const struct value_text *text, const struct value_text *set, bool left,
                  bool right, size_t *start, size_t *end) {
    unsigned bytes;
    while (left && *start < *end && is_stripped(set, utf8_read(text->data + *start, &bytes)))
        *start += bytes;
    while (right && *start < *end) {
        size_t before = *end;
        if (!is_stripped(set, pieces_before(text, &before))) break;
        *end = before;
    }
}

/* A list that grows. */
struct pieces {
    struct jinja_machine *machine;
    const struct value_text *whole;
    struct value_list *list;
    uint32_t capacity;
};

static bool pieces_open(struct pieces *pieces, struct jinja_machine *machine,
                        const struct value_text *whole, struct value *out) {
    *pieces = (struct pieces){machine, whole, NULL, 8};
    if (!value_make_list(machine, VALUE_LIST, pieces->capacity, out)) return false;
    pieces->list = out->list;
    return true;
}

static bool pieces_add(struct pieces *pieces, size_t start, size_t end) {
    struct value piece;
    return machine_spend(pieces->machine, 1) &&
           value_make_part(pieces->machine, pieces->whole, start, end - start, &piece) &&
           value_list_push(pieces->machine, pieces->list, &pieces->capacity, piece);
}

static bool split_left(struct pieces *pieces, const struct value_text *mark, int64_t most) {
    const struct value_text *text = pieces->whole;
    size_t at = 0;
    for (; most != 0; most--) {
        size_t found = pieces_find(text, at, text->count, mark);
        if (found == PIECES_NONE) break;
        if (!pieces_add(pieces, at, found)) return false;
        at = found + mark->count;
    }
    return pieces_add(pieces, at, text->count);
}

static bool split_left_at_space(struct pieces *pieces, int64_t most) {
    const struct value_text *text = pieces->whole;
    size_t at = 0, end = text->count;
    unsigned bytes;
    for (;; most--) {
        pieces_strip(text, NULL, true, false, &at, &end);
        if (at == end) return true;
        if (most == 0) return pieces_add(pieces, at, end);
        size_t start = at;
        while (at < end && !unicode_is_space(utf8_read(text->data + at, &bytes)))
            at += bytes;
        if (!pieces_add(pieces, start, at)) return false;
    }
}

static bool split_right(struct pieces *pieces, const struct value_text *mark, int64_t most) {
    const struct value_text *text = pieces->whole;
    size_t end = text->count;
    for (; most != 0; most--) {
        size_t found = pieces_find_last(pieces->machine, text, 0, end, mark);
        if (found == PIECES_NONE) break;
        if (!pieces_add(pieces, found + mark->count, end)) return false;
        end = found;
    }
    return pieces->machine->status == STATUS_OK && pieces_add(pieces, 0, end);
}

bool pieces_split(struct jinja_machine *machine, const struct value_text *text,
                  const struct value_text *mark, int64_t most, bool from_right, struct value *out) {
    struct pieces pieces;
    if (mark && mark->count == 0) return machine_fail(machine, "empty separator");
    if (!machine_spend(machine, text->count / 64) || !pieces_open(&pieces, machine, text, out))
        return false;
    if (!from_right)
        return mark ? split_left(&pieces, mark, most) : split_left_at_space(&pieces, most);
    if (!mark) return machine_fail(machine, "rsplit() without a separator is not supported");
    if (!split_right(&pieces, mark, most)) return false;
    struct value_list *list = pieces.list;
    for (uint32_t i = 0, j = list->count; i + 1 < j; i++) {
        struct value kept = list->items[i];
        list->items[i] = list->items[--j];
        list->items[j] = kept;
    }
    return true;
}

/* The number of bytes of the line end at an offset; 0 if there is none. */
static unsigned line_end(const struct value_text *text, size_t at) {
    const uint8_t *data = (const uint8_t *)text->data + at;
    size_t left = text->count - at;
    if (data[0] == '\r') return left > 1 && data[1] == '\n' ? 2 : 1;
    if ((data[0] >= '\n' && data[0] <= '\f') || (data[0] >= 0x1C && data[0] <= 0x1E)) return 1;
    if (data[0] == 0xC2 && data[1] == 0x85) return 2;
    return data[0] == 0xE2 && data[1] == 0x80 && (data[2] == 0xA8 || data[2] == 0xA9) ? 3 : 0;
}

bool pieces_lines(struct jinja_machine *machine, const struct value_text *text, bool keep_ends,
                  struct value *out) {
    struct pieces pieces;
    if (!machine_spend(machine, text->count / 64) || !pieces_open(&pieces, machine, text, out))
        return false;
    size_t start = 0;
    for (size_t at = 0; at < text->count;) {
        unsigned end = line_end(text, at);
        at += end ? end : 1;
        if (end && !pieces_add(&pieces, start, keep_ends ? at : at - end)) return false;
        if (end) start = at;
    }
    return start == text->count || pieces_add(&pieces, start, text->count);
}

bool pieces_replace(struct jinja_machine *machine, const struct value_text *text,
                    const struct value_text *old, const struct value_text *fresh, int64_t most,
                    bool markup, struct value *out) {
    struct text_builder builder;
    text_builder_open(&builder, machine);
    if (!machine_spend(machine, text->count / 64)) return false;
    size_t at = 0;
    if (old->count == 0) return machine_fail(machine, "replacing nothing is not supported");
    for (; most != 0; most--) {
        size_t found = pieces_find(text, at, text->count, old);
        if (found == PIECES_NONE) break;
        if (!machine_spend(machine, 1) || !text_builder_add_part(&builder, text, at, found - at) ||
            !text_builder_add_text(&builder, fresh))
            return false;
        at = found + old->count;
    }
    return text_builder_add_part(&builder, text, at, text->count - at) &&
           text_builder_finish(&builder, markup, out);
}
