/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/letters.h"

#include "base/unicode.h"
#include "base/utf8.h"
#include "serving/jinja/values/pieces.h"

#define SIGMA 0x3A3
#define SIGMA_FINAL 0x3C2
#define PENDING_BYTES 240

/* A conversion in progress, with converted characters that are not appended yet. */
struct change {
    struct text_builder *builder;
    const struct value_text *text;
    size_t start, end;
    uint8_t origin; /* origin of the pending characters */
    size_t pending;
    char bytes[PENDING_BYTES];
};

static bool letters_flush(struct change *change) {
    size_t count = change->pending;
    change->pending = 0;
    return text_builder_add(change->builder, change->bytes, count,
                            (enum value_origin)change->origin);
}

/* True if the sigma at `at` is a final one: a cased letter precedes it and none follows. Ignorable
 * characters are skipped. */
static bool sigma_is_final(const struct change *change, size_t at) {
    size_t before = at;
    uint32_t near = '.'; /* initially ignorable */
    unsigned bytes;
    while (before > change->start && unicode_is_ignorable(near))
        near = pieces_before(change->text, &before);
    if (unicode_is_ignorable(near) || !unicode_is_cased(near)) return false;
    near = '.';
    for (size_t after = at + 2; after < change->end && unicode_is_ignorable(near); after += bytes)
        near = utf8_read(change->text->data + after, &bytes);
    return unicode_is_ignorable(near) || !unicode_is_cased(near);
}

static unsigned letters_map(const struct change *change, size_t at, uint32_t character,
                            enum unicode_mapping mapping, uint32_t out[3]) {
    unsigned count = unicode_map(character, mapping, out);
    if (character == SIGMA && mapping == UNICODE_TO_LOWER && sigma_is_final(change, at))
        out[0] = SIGMA_FINAL;
    return count;
}

static enum unicode_mapping mapping_of(enum letters_change how, bool first, bool within) {
    switch (how) {
    case LETTERS_UPPER:
        return UNICODE_TO_UPPER;
    case LETTERS_CAPITALIZE:
        return first ? UNICODE_TO_TITLE : UNICODE_TO_LOWER;
    case LETTERS_TITLE:
        return within ? UNICODE_TO_LOWER : UNICODE_TO_TITLE;
    default:
        return UNICODE_TO_LOWER;
    }
}

/* Converts an ASCII character to upper or lower case. */
static char change_ascii(char c, enum unicode_mapping mapping) {
    if (mapping == UNICODE_TO_UPPER || mapping == UNICODE_TO_TITLE)
        return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool letters_add(struct text_builder *builder, const struct value_text *text, size_t start,
                 size_t end, enum letters_change how) {
    struct change change = {builder, text, start, end, text->origin, 0, {0}};
    bool within = false; /* inside a word */
    if (!machine_spend(builder->machine, (end - start) / 16)) return false;
    for (size_t at = start; at < end;) {
        unsigned bytes;
        uint32_t character = utf8_read(text->data + at, &bytes), mapped[3];
        uint8_t origin = (uint8_t)value_text_origin(text, at);
        if ((origin != change.origin || change.pending + 12 > PENDING_BYTES) &&
            !letters_flush(&change))
            return false;
        change.origin = origin;
        enum unicode_mapping mapping = mapping_of(how, at == start, within);
        if (character < 0x80) {
            change.bytes[change.pending++] = change_ascii((char)character, mapping);
        } else {
            unsigned count = letters_map(&change, at, character, mapping, mapped);
            for (unsigned i = 0; i < count; i++)
                change.pending += utf8_write(mapped[i], change.bytes + change.pending);
        }
        if (how == LETTERS_TITLE) within = unicode_is_cased(character);
        at += bytes;
    }
    return letters_flush(&change);
}

bool letters_change(struct jinja_machine *machine, const struct value_text *text,
                    enum letters_change change, struct value *out) {
    struct text_builder builder;
    text_builder_open(&builder, machine);
    return letters_add(&builder, text, 0, text->count, change) &&
           text_builder_finish(&builder, text->markup, out);
}
