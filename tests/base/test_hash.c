/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "test_case.h"

/* Each bit, the length, the seed, and zeros at the end. */
TEST(a_hash_depends_on_all_of_its_bytes) {
    enum { BYTES = 37, BITS = 8 * BYTES };
    char data[BYTES + 1] = "";
    uint64_t hashes[BITS + BYTES + 2];
    uint32_t count = 0;
    for (uint32_t bit = 0; bit < BITS; bit++) {
        data[bit / 8] = (char)(1u << bit % 8);
        hashes[count++] = hash_bytes(7, data, BYTES);
        data[bit / 8] = 0;
    }
    for (uint32_t length = 0; length <= BYTES; length++)
        hashes[count++] = hash_bytes(7, data, length);
    hashes[count++] = hash_bytes(8, data, BYTES);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_true((uint32_t)hashes[i] != (uint32_t)hashes[k]);
}

TEST(a_hash_of_words_depends_on_their_order) {
    assert_true(hash_word(hash_word(0, 1), 2) != hash_word(hash_word(0, 2), 1));
}

/* Loads of the simulator and random checkpoints follow from these. */
TEST(the_mix_keeps_its_values) {
    assert_true(hash_mix(0) == 0);
    assert_true(hash_mix(HASH_STEP) ==
                UINT64_C(0xE220A8397B1DCDAF)); /* SplitMix64's first, of seed 0 */
    assert_true(hash_mix(2 * HASH_STEP) == UINT64_C(0x6E789E6AA1B965F4));
}
