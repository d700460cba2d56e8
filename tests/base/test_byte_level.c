/* SPDX-License-Identifier: Apache-2.0
 * Protects the spelling of bytes in vocabularies (GPT-2's table): each byte has a character of its
 * own, and what is no such character spells nothing.
 */
#include "base/byte_level.h"
#include "test_case.h"

/* U+0000 to U+0143, the table's last. */
TEST(each_byte_has_one_character) {
    uint32_t seen[256] = {0};
    for (uint32_t character = 0; character <= 0x143; character++) {
        char text[2] = {(char)(0xC0 | character >> 6), (char)(0x80 | (character & 0x3F))}, out[2];
        struct bytes spelled = {text, character < 0x80 ? 1 : 2};
        size_t count;
        if (character < 0x80) text[0] = (char)character;
        if (!byte_level_decode(spelled, out, &count)) continue;
        assert_int_equal(count, 1);
        seen[(uint8_t)out[0]]++;
        assert_int_equal(byte_level_spelled((uint8_t)out[0]), character);
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        assert_int_equal(seen[byte], 1);
}

/* Ġ is a space, Ċ a newline (GPT-2's table); U+0144 and beyond spell nothing. */
TEST(what_is_not_in_the_table_spells_nothing) {
    char out[16];
    size_t count = 0;
    assert_true(byte_level_decode(BYTES_LITERAL("ĠaĊ½Ń"), out, &count));
    assert_int_equal(count, 5);
    assert_memory_equal(out, " a\n\xBD\xAD", 5);
    assert_false(byte_level_decode(BYTES_LITERAL("ń"), out, &count));
    assert_false(byte_level_decode(BYTES_LITERAL("a｜"), out, &count));
    assert_false(byte_level_decode(BYTES_LITERAL("a b"), out, &count));
}
