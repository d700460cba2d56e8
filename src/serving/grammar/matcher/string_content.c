/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/string_content.h"

#include "base/hash.h"
#include "base/utf8.h"
#include "serving/grammar/automata/regex_tree.h"

/* string_position.escape: the low four bits are the kind. For digits, bits 4-5 are their number,
 * bits 8-19 their value, and bits 20-29 the high surrogate. */
enum escape_kind {
    ESCAPE_NONE,
    ESCAPE_ONE_MORE, /* without a DFA: UTF-8 continuation bytes to come */
    ESCAPE_TWO_MORE,
    ESCAPE_THREE_MORE,
    ESCAPE_AFTER_E0,
    ESCAPE_AFTER_ED,
    ESCAPE_AFTER_F0,
    ESCAPE_AFTER_F4,
    ESCAPE_BEGUN,      /* after the backslash */
    ESCAPE_DIGITS,     /* after \u */
    ESCAPE_SECOND,     /* after a high surrogate */
    ESCAPE_SECOND_U,   /* after the backslash of the low surrogate */
    ESCAPE_LOW_DIGITS, /* after the \u of the low surrogate */
};

struct string_position string_content_begin(const struct text_leaf *leaf) {
    return (struct string_position){leaf->automaton ? leaf->automaton->start : 0, ESCAPE_NONE};
}

bool string_content_is_live(const struct key_filter *filter, uint32_t state) {
    if (state == 0 || !filter) return state != 0;
    if (filter->open && filter->open[state / 64] >> state % 64 & 1) return true;
    const uint64_t *reaches = filter->reaches + (size_t)state * filter->word_count;
    for (uint32_t i = 0; i < filter->word_count; i++)
        if (reaches[i] & filter->allowed[i]) return true;
    return false;
}

bool string_content_may_end(const struct text_leaf *leaf, struct string_position position) {
    if (position.escape != ESCAPE_NONE) return false;
    return leaf->automaton ? leaf->automaton->labels[position.state] != 0
                           : position.state >= leaf->length_min;
}

void string_content_hash(uint64_t *hash, uint8_t byte) {
    if (hash) *hash = hash_word(*hash, byte);
}

/* ---- without a DFA: counting characters ---- */

static bool string_content_has_room(const struct text_leaf *leaf, uint32_t state) {
    return leaf->length_max == SHAPE_UNBOUNDED || state < leaf->length_max;
}

static void count_character(const struct text_leaf *leaf, struct string_position *position) {
    if (leaf->length_max != SHAPE_UNBOUNDED || position->state < leaf->length_min)
        position->state++;
    position->escape = ESCAPE_NONE;
}

static uint32_t kind_of_lead(uint8_t byte) {
    if (byte >= 0xC2 && byte <= 0xDF) return ESCAPE_ONE_MORE;
    if (byte == 0xE0) return ESCAPE_AFTER_E0;
    if (byte == 0xED) return ESCAPE_AFTER_ED;
    if (byte >= 0xE1 && byte <= 0xEF) return ESCAPE_TWO_MORE;
    if (byte == 0xF0) return ESCAPE_AFTER_F0;
    if (byte >= 0xF1 && byte <= 0xF3) return ESCAPE_THREE_MORE;
    return byte == 0xF4 ? ESCAPE_AFTER_F4 : ESCAPE_NONE;
}

/* Checks UTF-8 by table 3-7 of the Unicode standard. */
static bool step_utf8(const struct text_leaf *leaf, struct string_position *position,
                      uint8_t byte) {
    uint8_t low = 0x80, high = 0xBF;
    uint32_t next = ESCAPE_ONE_MORE;
    switch (position->escape) {
    case ESCAPE_NONE:
        if (!string_content_has_room(leaf, position->state)) return false;
        position->escape = byte < 0x80 ? ESCAPE_NONE : kind_of_lead(byte);
        if (byte < 0x80) count_character(leaf, position);
        return byte < 0x80 || position->escape != ESCAPE_NONE;
    case ESCAPE_ONE_MORE:
        next = ESCAPE_NONE;
        break;
    case ESCAPE_THREE_MORE:
        next = ESCAPE_TWO_MORE;
        break;
    case ESCAPE_AFTER_E0:
        low = 0xA0;
        break;
    case ESCAPE_AFTER_ED:
        high = 0x9F;
        break;
    case ESCAPE_AFTER_F0:
        low = 0x90;
        next = ESCAPE_TWO_MORE;
        break;
    case ESCAPE_AFTER_F4:
        high = 0x8F;
        next = ESCAPE_TWO_MORE;
        break;
    default:
        break;
    }
    if (byte < low || byte > high) return false;
    if (next == ESCAPE_NONE)
        count_character(leaf, position);
    else
        position->escape = next;
    return true;
}

/* ---- which characters are allowed ---- */

static uint32_t state_after(const struct automaton *automaton, uint32_t state, const uint8_t *text,
                            uint32_t count) {
    for (uint32_t i = 0; i < count && state; i++)
        state = automaton_step(automaton, state, text[i]);
    return state;
}

/* The size of the largest block of characters at `low` that differ only in their last bytes and lie
 * in the range. *shared_out is the number of bytes that they share. */
static uint32_t block_at(uint32_t low, uint32_t high, uint32_t byte_count, uint32_t *shared_out) {
    for (uint32_t more = byte_count - 1; more > 0; more--) {
        uint32_t size = 1u << 6 * more;
        *shared_out = byte_count - more;
        if (low % size == 0 && high - low >= size - 1) return size;
    }
    *shared_out = byte_count;
    return 1;
}

/* True if any character from `low` to `high` is allowed. The range has no surrogates. A live state
 * inside a character can always be completed. */
static bool any_stands(const struct text_leaf *leaf, const struct key_filter *filter,
                       uint32_t state, uint32_t low, uint32_t high) {
    uint8_t text[4];
    if (!leaf->automaton) return string_content_has_room(leaf, state);
    while (low <= high) {
        uint32_t shared, count = utf8_write(low, (char *)text);
        uint32_t size = block_at(low, high, count, &shared);
        if (string_content_is_live(filter, state_after(leaf->automaton, state, text, shared)))
            return true;
        low += size;
    }
    return false;
}

/* Like any_stands for the code units from `low` to `high` of \u escapes: a high surrogate stands
 * for all characters that begin with it. */
static bool any_escape_stands(const struct text_leaf *leaf, const struct key_filter *filter,
                              uint32_t state, uint32_t low, uint32_t high) {
    if (low < 0xD800 && any_stands(leaf, filter, state, low, high < 0xD7FF ? high : 0xD7FF))
        return true;
    if (high > 0xDFFF && any_stands(leaf, filter, state, low > 0xE000 ? low : 0xE000, high))
        return true;
    if (low > 0xDBFF || high < 0xD800) return false;
    uint32_t first = (low > 0xD800 ? low : 0xD800) - 0xD800;
    uint32_t last = (high < 0xDBFF ? high : 0xDBFF) - 0xD800;
    return any_stands(leaf, filter, state, 0x10000 + (first << 10), 0x10000 + (last << 10 | 0x3FF));
}

/* ---- escapes ---- */

static bool string_content_take_character(const struct text_leaf *leaf,
                                          const struct key_filter *filter,
                                          struct string_position *position, uint32_t code,
                                          uint64_t *hash) {
    uint8_t text[4];
    uint32_t count = utf8_write(code, (char *)text);
    for (uint32_t i = 0; i < count; i++)
        string_content_hash(hash, text[i]);
    if (!leaf->automaton) {
        count_character(leaf, position); /* the length was checked at the backslash */
        return true;
    }
    position->escape = ESCAPE_NONE;
    position->state = state_after(leaf->automaton, position->state, text, count);
    return string_content_is_live(filter, position->state);
}

static bool step_digit(const struct text_leaf *leaf, const struct key_filter *filter,
                       struct string_position *position, uint8_t byte, uint64_t *hash) {
    int digit = regex_tree_digit_value(byte, 16);
    bool low_half = (position->escape & 15) == ESCAPE_LOW_DIGITS;
    uint32_t count = (position->escape >> 4 & 3) + 1, high = position->escape >> 20;
    uint32_t value = (position->escape >> 8 & 0xFFF) << 4 | (uint32_t)digit;
    if (digit < 0) return false;
    if (count == 4 && !low_half && (value < 0xD800 || value > 0xDFFF))
        return string_content_take_character(leaf, filter, position, value, hash);
    if (count == 4 && !low_half) {
        position->escape = ESCAPE_SECOND | (value - 0xD800) << 20;
        return value <= 0xDBFF && any_escape_stands(leaf, filter, position->state, value, value);
    }
    if (count == 4) {
        if (value < 0xDC00 || value > 0xDFFF) return false;
        return string_content_take_character(leaf, filter, position,
                                             0x10000 + (high << 10) + (value - 0xDC00), hash);
    }
    uint32_t least = value << 4 * (4 - count), most = least | ((1u << 4 * (4 - count)) - 1);
    position->escape = (position->escape & 15) | count << 4 | value << 8 | high << 20;
    if (!low_half) return any_escape_stands(leaf, filter, position->state, least, most);
    if (most < 0xDC00 || least > 0xDFFF) return false;
    least = least > 0xDC00 ? least - 0xDC00 : 0;
    most = most < 0xDFFF ? most - 0xDC00 : 0x3FF;
    uint32_t base = 0x10000 + (high << 10);
    return any_stands(leaf, filter, position->state, base + least, base + most);
}

static bool step_escape(const struct text_leaf *leaf, const struct key_filter *filter,
                        struct string_position *position, uint8_t byte, uint64_t *hash) {
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    switch (position->escape & 15) {
    case ESCAPE_BEGUN:
        if (byte == 'u') {
            position->escape = ESCAPE_DIGITS;
            return true; /* every character can be written with \u */
        }
        const char *name = byte ? memchr(names, byte, sizeof names - 1) : NULL;
        if (!name) return false;
        return string_content_take_character(leaf, filter, position, (uint8_t)values[name - names],
                                             hash);
    case ESCAPE_SECOND:
        position->escape += ESCAPE_SECOND_U - ESCAPE_SECOND;
        return byte == '\\';
    case ESCAPE_SECOND_U:
        position->escape += ESCAPE_LOW_DIGITS - ESCAPE_SECOND_U;
        return byte == 'u';
    default:
        return step_digit(leaf, filter, position, byte, hash);
    }
}

bool string_content_step(const struct text_leaf *leaf, const struct key_filter *filter,
                         struct string_position *position, uint8_t byte, uint64_t *hash) {
    if ((position->escape & 15) >= ESCAPE_BEGUN)
        return step_escape(leaf, filter, position, byte, hash);
    if (byte < 0x20 || byte == '"') return false;
    if (byte == '\\') {
        if (position->escape != ESCAPE_NONE) return false;
        position->escape = ESCAPE_BEGUN;
        return any_escape_stands(leaf, filter, position->state, 0, 0xFFFF);
    }
    string_content_hash(hash, byte);
    if (!leaf->automaton) return step_utf8(leaf, position, byte);
    position->state = automaton_step(leaf->automaton, position->state, byte);
    return string_content_is_live(filter, position->state);
}
