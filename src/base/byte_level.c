/* SPDX-License-Identifier: Apache-2.0 */
#include "base/byte_level.h"

/* The byte that a character spells, or -1 if it is not in the table. */
static int byte_of(uint32_t character) {
    if (character >= 256) {
        uint32_t index = character - 256; /* index among the bytes that do not spell themselves */
        if (index < 33) return (int)index;
        if (index < 67) return (int)(index - 33 + 127);
        return index == 67 ? 173 : -1;
    }
    bool itself = (character >= 33 && character <= 126) || (character >= 161 && character != 173);
    return itself ? (int)character : -1;
}

uint32_t byte_level_spelled(uint8_t byte) {
    if (byte_of(byte) >= 0) return byte;
    return byte <= 32 ? 256u + byte : byte <= 160 ? 256u + 33 + byte - 127 : 256u + 67;
}

bool byte_level_decode(struct bytes text, char *out, size_t *count_out) {
    size_t count = 0;
    for (size_t i = 0; i < text.count;) {
        uint8_t lead = (uint8_t)text.data[i++];
        uint32_t character = lead;
        if (lead >= 0x80) {
            if (lead > 0xDF || i == text.count)
                return false; /* three bytes or more: larger than U+0143 */
            character = (lead & 0x1Fu) << 6 | ((uint8_t)text.data[i++] & 0x3Fu);
        }
        int byte = byte_of(character);
        if (byte < 0) return false;
        out[count++] = (char)byte;
    }
    *count_out = count;
    return true;
}
