/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/unicode.h"

#include "serving/jinja/unicode_table.h"

unsigned unicode_properties(uint32_t character) {
    uint32_t low = 0, high = UNICODE_RUNS; /* the run lies in [low, high) */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (unicode_runs[middle] >> 8 <= character)
            low = middle;
        else
            high = middle;
    }
    return unicode_sets[unicode_runs[low] & 0xFF];
}

static const struct {
    const struct unicode_case *runs;
    const struct unicode_several *several;
    uint32_t run_count, several_count;
} mappings[] = {
    [UNICODE_TO_UPPER] = {unicode_upper, unicode_upper_several, UNICODE_UPPER,
                          UNICODE_UPPER_SEVERAL},
    [UNICODE_TO_LOWER] = {unicode_lower, unicode_lower_several, UNICODE_LOWER,
                          UNICODE_LOWER_SEVERAL},
    [UNICODE_TO_TITLE] = {unicode_title, unicode_title_several, UNICODE_TITLE,
                          UNICODE_TITLE_SEVERAL},
    [UNICODE_TO_FOLD] = {unicode_fold, unicode_fold_several, UNICODE_FOLD, UNICODE_FOLD_SEVERAL},
};

unsigned unicode_map(uint32_t character, enum unicode_mapping mapping, uint32_t out[3]) {
    out[0] = character;
    for (uint32_t i = 0; character >= 0x80 && i < mappings[mapping].several_count; i++) {
        const struct unicode_several *several = &mappings[mapping].several[i];
        if (several->from != character) continue;
        unsigned count = 0;
        while (count < 3 && several->to[count] != 0) {
            out[count] = several->to[count];
            count++;
        }
        return count;
    }
    uint32_t low = 0, high = mappings[mapping].run_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct unicode_case *run = &mappings[mapping].runs[middle];
        if (character < run->first) {
            high = middle;
        } else if (character > run->last) {
            low = middle + 1;
        } else {
            if ((character - run->first) % run->step == 0)
                out[0] = (uint32_t)((int32_t)character + run->distance);
            return 1;
        }
    }
    return 1;
}

unsigned unicode_write(uint32_t character, char out[4]) {
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        out[0] = (char)(0xC0 | character >> 6);
        out[1] = (char)(0x80 | (character & 0x3F));
        return 2;
    }
    if (character < 0x10000) {
        out[0] = (char)(0xE0 | character >> 12);
        out[1] = (char)(0x80 | (character >> 6 & 0x3F));
        out[2] = (char)(0x80 | (character & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | character >> 18);
    out[1] = (char)(0x80 | (character >> 12 & 0x3F));
    out[2] = (char)(0x80 | (character >> 6 & 0x3F));
    out[3] = (char)(0x80 | (character & 0x3F));
    return 4;
}

size_t unicode_count(const char *data, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((uint8_t)data[i] & 0xC0) != 0x80;
    return count;
}

bool unicode_valid(const char *data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        uint8_t first = (uint8_t)data[at];
        unsigned length = first < 0x80                    ? 1
                          : first >= 0xC2 && first < 0xE0 ? 2
                          : first >= 0xE0 && first < 0xF0 ? 3
                          : first >= 0xF0 && first < 0xF5 ? 4
                                                          : 0;
        if (length == 0 || length > bytes - at) return false;
        for (unsigned i = 1; i < length; i++)
            if (((uint8_t)data[at + i] & 0xC0) != 0x80) return false;
        uint8_t second = length > 1 ? (uint8_t)data[at + 1] : 0;
        if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
            (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
            return false;
        at += length;
    }
    return true;
}
