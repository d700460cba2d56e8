/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/letters.h"

#include "serving/jinja/pieces.h"
#include "serving/jinja/unicode.h"

#define SIGMA 0x3A3
#define SIGMA_FINAL 0x3C2
#define PENDING_BYTES 240

/* A part of a text under way, and what was changed but not added yet. */
struct change {
    struct text_builder *builder;
    const struct value_text *text;
    size_t start, end;
    uint8_t origin; /* of what is pending */
    size_t pending;
    char bytes[PENDING_BYTES];
};

static bool letters_flush(struct change *change) {
    size_t count = change->pending;
    change->pending = 0;
    return jinja_machine_text_builder_add(change->builder, change->bytes, count,
                                          (enum value_origin)change->origin);
}

/* A sigma is the final one behind a cased letter, unless one follows; ignorable ones are looked
 * through. */
static bool sigma_is_final(const struct change *change, size_t at) {
    size_t before = at;
    unsigned bytes, set = UNICODE_IGNORABLE;
    while (before > change->start && (set & UNICODE_IGNORABLE))
        set = unicode_properties(pieces_before(change->text, &before));
    if ((set & UNICODE_IGNORABLE) || !(set & UNICODE_CASED)) return false;
    set = UNICODE_IGNORABLE;
    for (size_t after = at + 2; after < change->end && (set & UNICODE_IGNORABLE); after += bytes)
        set = unicode_properties(unicode_read(change->text->data + after, &bytes));
    return (set & UNICODE_IGNORABLE) || !(set & UNICODE_CASED);
}

static unsigned letters_map(const struct change *change, size_t at, uint32_t character,
                            enum unicode_mapping mapping, uint32_t out[3]) {
    if (character == SIGMA && mapping == UNICODE_TO_LOWER) {
        out[0] = sigma_is_final(change, at) ? SIGMA_FINAL : SIGMA + 32;
        return 1;
    }
    return unicode_map(character, mapping, out);
}

static enum unicode_mapping mapping_of(enum letters_change how, bool first, bool within,
                                       uint32_t character) {
    switch (how) {
    case LETTERS_UPPER:
        return UNICODE_TO_UPPER;
    case LETTERS_CAPITALIZE:
        return first ? UNICODE_TO_TITLE : UNICODE_TO_LOWER;
    case LETTERS_TITLE:
        return within ? UNICODE_TO_LOWER : UNICODE_TO_TITLE;
    case LETTERS_FOLD:
        return UNICODE_TO_FOLD;
    case LETTERS_SWAP:
        return unicode_properties(character) & UNICODE_IS_UPPER ? UNICODE_TO_LOWER
                                                                : UNICODE_TO_UPPER;
    default:
        return UNICODE_TO_LOWER;
    }
}

static bool is_caseless(uint32_t character) {
    return !(unicode_properties(character) & (UNICODE_IS_UPPER | UNICODE_IS_LOWER));
}

/* Most characters: ASCII, to upper or lower case. */
static char change_ascii(char c, enum unicode_mapping mapping) {
    if (mapping == UNICODE_TO_UPPER || mapping == UNICODE_TO_TITLE)
        return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool letters_add(struct text_builder *builder, const struct value_text *text, size_t start,
                 size_t end, enum letters_change how) {
    struct change change = {builder, text, start, end, text->origin, 0, {0}};
    bool within = false; /* a word */
    if (!machine_spend(builder->machine, (end - start) / 16)) return false;
    for (size_t at = start; at < end;) {
        unsigned bytes;
        uint32_t character = unicode_read(text->data + at, &bytes), mapped[3];
        uint8_t origin = (uint8_t)value_text_origin(text, at);
        if ((origin != change.origin || change.pending + 12 > PENDING_BYTES) &&
            !letters_flush(&change))
            return false;
        change.origin = origin;
        enum unicode_mapping mapping = mapping_of(how, at == start, within, character);
        if (character < 0x80) {
            change.bytes[change.pending++] = change_ascii((char)character, mapping);
        } else {
            unsigned count = how == LETTERS_SWAP && is_caseless(character)
                                 ? (mapped[0] = character, 1)
                                 : letters_map(&change, at, character, mapping, mapped);
            for (unsigned i = 0; i < count; i++)
                change.pending += unicode_write(mapped[i], change.bytes + change.pending);
        }
        if (how == LETTERS_TITLE) within = (unicode_properties(character) & UNICODE_CASED) != 0;
        at += bytes;
    }
    return letters_flush(&change);
}

bool letters_change(struct jinja_machine *machine, const struct value_text *text,
                    enum letters_change change, struct value *out) {
    struct text_builder builder;
    jinja_machine_text_builder_open(&builder, machine);
    return letters_add(&builder, text, 0, text->count, change) &&
           jinja_machine_text_builder_finish(&builder, text->markup, out);
}

static bool all_have(const struct value_text *text, unsigned any_of) {
    for (size_t at = 0; at < text->count;) {
        unsigned bytes;
        if (!(unicode_properties(unicode_read(text->data + at, &bytes)) & any_of)) return false;
        at += bytes;
    }
    return true;
}

/* At least one letter of the case wanted, and none of the others. */
static bool all_of_case(const struct value_text *text, unsigned wanted, unsigned others) {
    bool seen = false;
    for (size_t at = 0; at < text->count;) {
        unsigned bytes, set = unicode_properties(unicode_read(text->data + at, &bytes));
        if (set & others) return false;
        seen = seen || (set & wanted);
        at += bytes;
    }
    return seen;
}

static bool is_title(const struct value_text *text) {
    bool seen = false, within = false;
    for (size_t at = 0; at < text->count;) {
        unsigned bytes, set = unicode_properties(unicode_read(text->data + at, &bytes));
        bool begins = (set & (UNICODE_IS_UPPER | UNICODE_IS_TITLE)) != 0;
        bool goes_on = !begins && (set & UNICODE_IS_LOWER);
        if ((begins && within) || (goes_on && !within)) return false;
        within = begins || goes_on;
        seen = seen || within;
        at += bytes;
    }
    return seen;
}

static bool is_identifier(const struct value_text *text) {
    unsigned bytes;
    if (text->count == 0) return false;
    uint32_t first = unicode_read(text->data, &bytes);
    if (first != '_' && !(unicode_properties(first) & UNICODE_NAME_START)) return false;
    return all_have(text, UNICODE_NAME_PART);
}

bool letters_are(const struct value_text *text, enum letters_kind kind) {
    bool some = text->count > 0;
    switch (kind) {
    case LETTERS_ARE_ALNUM:
        return some && all_have(text, UNICODE_ALNUM);
    case LETTERS_ARE_ALPHA:
        return some && all_have(text, UNICODE_ALPHA);
    case LETTERS_ARE_ASCII:
        return text->count == text->length;
    case LETTERS_ARE_DECIMAL:
        return some && all_have(text, UNICODE_DECIMAL);
    case LETTERS_ARE_DIGIT:
        return some && all_have(text, UNICODE_DIGIT);
    case LETTERS_ARE_IDENTIFIER:
        return is_identifier(text);
    case LETTERS_ARE_LOWER:
        return all_of_case(text, UNICODE_IS_LOWER, UNICODE_IS_UPPER | UNICODE_IS_TITLE);
    case LETTERS_ARE_NUMERIC:
        return some && all_have(text, UNICODE_NUMERIC);
    case LETTERS_ARE_PRINTABLE:
        return all_have(text, UNICODE_PRINTABLE);
    case LETTERS_ARE_SPACE:
        return some && all_have(text, UNICODE_SPACE);
    case LETTERS_ARE_TITLE:
        return is_title(text);
    default:
        return all_of_case(text, UNICODE_IS_UPPER, UNICODE_IS_LOWER | UNICODE_IS_TITLE);
    }
}
