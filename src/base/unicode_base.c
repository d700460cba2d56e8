/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unicode_base.h"

#include <string.h>

#include "base/unicode.h"

#define HANGUL_FIRST 0xAC00u
#define HANGUL_COUNT 11172u
#define VOWELS 21u
#define TAILS 28u

/* Unicode, 3.12: a syllable is a lead, a vowel and perhaps a tail. */
static unsigned split_hangul(uint32_t character, uint32_t *out) {
    const uint32_t index = character - HANGUL_FIRST, tail = index % TAILS;
    out[0] = 0x1100 + index / (VOWELS * TAILS);
    out[1] = 0x1161 + index % (VOWELS * TAILS) / TAILS;
    out[2] = 0x11A7 + tail;
    return tail ? 3 : 2;
}

/* The last row with low 21 bits of at most the character; 0 if there is none. */
static uint32_t row_before(const uint32_t (*rows)[2], uint32_t count, uint32_t character) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if ((rows[middle][0] & 0x1FFFFF) <= character)
            low = middle;
        else
            high = middle;
    }
    return low;
}

unsigned unicode_base_of(uint32_t character, uint32_t out[UNICODE_BASE_LONGEST]) {
    uint32_t last;
    const enum unicode_category category =
        character <= UNICODE_LAST ? unicode_run(character, &last) : UNICODE_CN;
    if (category == UNICODE_MN || category == UNICODE_MC || category == UNICODE_ME) return 0;
    if (character - HANGUL_FIRST < HANGUL_COUNT) return split_hangul(character, out);
    uint32_t row = row_before(unicode_base_several, UNICODE_BASE_SEVERAL, character);
    if (unicode_base_several[row][0] == character) {
        const uint32_t at = unicode_base_several[row][1];
        const uint32_t count = unicode_base_several[row + 1][1] - at;
        memcpy(out, unicode_base_text + at, count * sizeof *out);
        return count;
    }
    out[0] = character;
    row = row_before(unicode_base_runs, UNICODE_BASE_RUNS, character);
    const uint32_t first = unicode_base_runs[row][0] & 0x1FFFFF;
    const uint32_t count = unicode_base_runs[row][0] >> 21 & 0x3FF;
    const uint32_t step = (unicode_base_runs[row][0] >> 31) + 1;
    const uint32_t distance = character - first;
    if (character < first || distance % step || distance / step >= count) return 1;
    out[0] = (unicode_base_runs[row][1] & 0x1FFFFF) +
             (unicode_base_runs[row][1] >> 21) * (distance / step);
    return 1;
}
