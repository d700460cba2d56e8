/* SPDX-License-Identifier: Apache-2.0
 * The checksum is XXH3-64 with seed 0 and nothing else: files written today are read by others.
 */
#include "base/checksum.h"

#include "test_case.h"

/* Values of xxhsum -H3 over the same bytes. */
TEST(it_is_xxh3_of_64_bits) {
    char page[4096];
    for (size_t i = 0; i < sizeof page; i++)
        page[i] = (char)(i * 7 + i / 256);
    assert_true(checksum_of("", 0) == 0x2D06800538D394C2u);
    assert_true(checksum_of("abc", 3) == 0x78AF5F94892F3950u);
    assert_true(checksum_of(page, sizeof page) != checksum_of(page, sizeof page - 1));
}

TEST(every_bit_counts) {
    uint8_t bytes[512];
    memset(bytes, 90, sizeof bytes);
    uint64_t whole = checksum_of(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(checksum_of(bytes, sizeof bytes) != whole);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
