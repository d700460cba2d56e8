/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree_extent.h"

#include <stdint.h>
#include <string.h>

#define INTEGER_BYTES_MAX 20

const char *tree_extent_part_name(enum tree_part part) {
    static const char *const names[TREE_PART_COUNT] = {
        [TREE_PART_DEPTH] = "levels",
        [TREE_PART_KEYS] = "keys",
        [TREE_PART_INTEGERS] = "integers",
        [TREE_PART_VALUES] = "values",
    };
    return names[part];
}

static bool has_byte(uint64_t word, char byte) {
    uint64_t ones = ~(uint64_t)0 / 255, other = word ^ (ones * (uint8_t)byte);
    return (other - ones) & ~other & (ones << 7);
}

/* Returns the end of the string with its first character at `at`. This must be fast, because most
 * bytes of a text are in strings. */
static size_t tree_extent_string_end(struct bytes text, size_t at) {
    while (at < text.count) {
        uint64_t word;
        if (text.count - at >= sizeof word) {
            memcpy(&word, text.data + at, sizeof word);
            if (!has_byte(word, '"') && !has_byte(word, '\\')) {
                at += sizeof word;
                continue;
            }
        }
        if (text.data[at] == '"') return at + 1;
        at += text.data[at] == '\\' ? 2 : 1;
    }
    return text.count;
}

static bool tree_extent_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t blanks_end(struct bytes text, size_t at) {
    while (at < text.count && tree_extent_is_blank(text.data[at]))
        at++;
    return at;
}

/* The end of a number or word. *integer_out is true if it is, or could be, an integer. */
static size_t scalar_end(struct bytes text, size_t at, bool *integer_out) {
    size_t start = at;
    bool digits = true;
    for (; at < text.count; at++) {
        char c = text.data[at];
        bool digit = (c >= '0' && c <= '9') || c == '-';
        if (!digit && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '+' && c != '.')
            break;
        digits &= digit;
    }
    *integer_out = digits && at - start <= INTEGER_BYTES_MAX;
    return at > start ? at : at + 1;
}

/* Returns the part that begins at *at, or TREE_PART_COUNT if none does. Advances *at past it,
 * including the colon of a key. */
static enum tree_part next_part(struct bytes text, size_t *at, size_t *depth) {
    bool integer = false;
    char c = text.data[*at];
    switch (c) {
    case '}':
    case ']':
        *depth -= *depth > 0;
        ++*at;
        return TREE_PART_COUNT;
    case ',':
    case ':':
        ++*at;
        return TREE_PART_COUNT;
    case '{':
    case '[':
        ++*depth;
        ++*at;
        return TREE_PART_VALUES;
    case '"':
        *at = blanks_end(text, tree_extent_string_end(text, *at + 1));
        if (*at == text.count || text.data[*at] != ':') return TREE_PART_VALUES;
        ++*at;
        return TREE_PART_KEYS;
    default:
        *at = scalar_end(text, *at, &integer);
        return integer ? TREE_PART_INTEGERS : TREE_PART_VALUES;
    }
}

enum tree_part tree_extent_measure(struct bytes text, const struct tree_extent *most,
                                   struct tree_extent *extent_out) {
    struct tree_extent extent = {{0}};
    enum tree_part excess = TREE_PART_COUNT;
    size_t depth = 0, at = blanks_end(text, 0);
    while (at < text.count && excess == TREE_PART_COUNT) {
        enum tree_part part = next_part(text, &at, &depth);
        at = blanks_end(text, at);
        if (part != TREE_PART_COUNT && ++extent.counts[part] > most->counts[part]) excess = part;
        if (depth > extent.counts[TREE_PART_DEPTH]) extent.counts[TREE_PART_DEPTH] = depth;
        if (depth > most->counts[TREE_PART_DEPTH]) excess = TREE_PART_DEPTH;
    }
    *extent_out = extent;
    return excess;
}
