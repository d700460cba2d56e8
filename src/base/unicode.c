/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unicode.h"

#include <stddef.h>

#include "base/check.h"
#include "base/unicode_table.h"

enum unicode_category unicode_run(uint32_t character, uint32_t *last_out) {
    uint32_t low = 0, high = UNICODE_RUNS; /* invariant: the run is in [low, high) */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (unicode_runs[middle] >> 5 <= character)
            low = middle;
        else
            high = middle;
    }
    *last_out = high < UNICODE_RUNS ? (unicode_runs[high] >> 5) - 1 : UNICODE_LAST;
    uint32_t category = unicode_runs[low] & 31;
    if (category != UNICODE_ALTERNATES) return (enum unicode_category)category;
    *last_out = character;
    return (character - (unicode_runs[low] >> 5)) % 2 == 0 ? UNICODE_LU : UNICODE_LL;
}

static enum unicode_category category_of(uint32_t character) {
    uint32_t last;
    return unicode_run(character, &last);
}

static bool unicode_is_in(uint32_t character, const struct unicode_range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (ranges[i].first <= character && character <= ranges[i].last) return true;
    return false;
}

bool unicode_is_lower(uint32_t character) {
    return category_of(character) == UNICODE_LL ||
           unicode_is_in(character, unicode_other_lower, UNICODE_OTHER_LOWER);
}

bool unicode_is_upper(uint32_t character) {
    return category_of(character) == UNICODE_LU ||
           unicode_is_in(character, unicode_other_upper, UNICODE_OTHER_UPPER);
}

bool unicode_is_cased(uint32_t character) {
    return category_of(character) == UNICODE_LT || unicode_is_lower(character) ||
           unicode_is_upper(character);
}

bool unicode_is_space(uint32_t character) {
    if (character < 0x100)
        return character == ' ' || (character >= 0x09 && character <= 0x0D) ||
               (character >= 0x1C && character <= 0x1F) || character == 0x85 || character == 0xA0;
    enum unicode_category category = category_of(character);
    return category >= UNICODE_ZS && category <= UNICODE_ZP;
}

bool unicode_is_printable(uint32_t character) {
    return character == ' ' || category_of(character) < UNICODE_ZS;
}

/* Case_Ignorable: some categories, and the Word_Break classes MidLetter, MidNumLet and Single_Quote
 * (UAX 29). */
bool unicode_is_ignorable(uint32_t character) {
    static const uint32_t points[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                      0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                      0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    enum unicode_category category = category_of(character);
    for (size_t i = 0; i < ARRAY_COUNT(points); i++)
        if (points[i] == character) return true;
    return category == UNICODE_LM || category == UNICODE_MN || category == UNICODE_ME ||
           category == UNICODE_SK || category == UNICODE_CF;
}

/* Maps a character to its other case with the rows of a table, or in the reverse direction if
 * `reverse`. Returns the character itself if no row contains it. */
static uint32_t unicode_look_up(uint32_t character, const struct unicode_case *rows, size_t count,
                                bool reverse) {
    for (size_t i = 0; i < count; i++) {
        int32_t shift = reverse ? rows[i].distance : 0;
        int32_t from = (int32_t)character - shift - (int32_t)rows[i].first;
        if (from < 0 || character - (uint32_t)shift > rows[i].last || from % rows[i].step) continue;
        return (uint32_t)((int32_t)character + (reverse ? -shift : rows[i].distance));
    }
    return character;
}

static uint32_t map_lower(uint32_t character) {
    uint32_t found = unicode_look_up(character, unicode_pairs, UNICODE_PAIRS, false);
    return found == character ? unicode_look_up(character, unicode_lower, UNICODE_LOWER, false)
                              : found;
}

static unsigned map_upper(uint32_t character, uint32_t out[3]) {
    for (size_t i = 0; i < UNICODE_SPECIAL_CASES; i++) {
        if (unicode_special_case[i].from != character) continue;
        unsigned count = 0;
        for (; count < 3 && unicode_special_case[i].to[count]; count++)
            out[count] = unicode_special_case[i].to[count];
        return count;
    }
    out[0] = unicode_look_up(character, unicode_pairs, UNICODE_PAIRS, true);
    if (out[0] == character)
        out[0] = unicode_look_up(character, unicode_upper, UNICODE_UPPER, false);
    return 1;
}

/* Title case: the first character of the upper-case mapping, and the others in lower case, with a
 * few exceptions. */
static unsigned map_title(uint32_t character, uint32_t out[3]) {
    bool digraph =
        (character >= 0x1C4 && character <= 0x1CC) || (character >= 0x1F1 && character <= 0x1F3);
    bool georgian = character >= 0x10D0 && character <= 0x10FF;
    /* letters with an iota, which title case writes below them */
    bool iota = character >= 0x1F80 && character <= 0x1FFC;
    out[0] = character;
    if (georgian) return 1;
    if (digraph) {
        out[0] = character < 0x1F1 ? character - (character - 0x1C4) % 3 + 1 : 0x1F2;
        return 1;
    }
    if (iota) {
        out[0] = unicode_look_up(character, unicode_lower, UNICODE_LOWER, true);
        if (out[0] != character || category_of(character) == UNICODE_LT) return 1;
    }
    unsigned count = map_upper(character, out);
    for (unsigned i = 1; i < count && character != 0x149; i++)
        out[i] = iota && out[i] == 0x399 ? 0x345 : map_lower(out[i]);
    return count;
}

unsigned unicode_map(uint32_t character, enum unicode_mapping mapping, uint32_t out[3]) {
    out[0] = character;
    if (character >= 0x3000 && character < 0xA640) return 1; /* most East Asian text */
    if (mapping == UNICODE_TO_UPPER) return map_upper(character, out);
    if (mapping == UNICODE_TO_TITLE) return map_title(character, out);
    out[0] = map_lower(character);
    if (character != 0x130) return 1; /* a capital i with a dot */
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
}
