/* SPDX-License-Identifier: Apache-2.0
 * Protects reproducibility: these numbers are part of what a seed means, on every machine, forever.
 */
#include "base/check.h"
#include "base/random.h"
#include "test_case.h"

/* Known answers published with Random123 (kat_vectors, philox4x32 10). */
TEST(philox_gives_the_published_answers) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t out[4];
        random_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

TEST(uniform_depends_on_each_coordinate) {
    double first = random_uniform(1, 0, 0);
    assert_true(first == random_uniform(1, 0, 0));
    assert_true(first != random_uniform(2, 0, 0));
    assert_true(first != random_uniform(1ull << 32 | 1, 0, 0));
    assert_true(first != random_uniform(1, 1, 0));
    assert_true(first != random_uniform(1, 0, 1));
    assert_true(random_uniform(1, 1, 0) != random_uniform(1, 0, 1));
}

TEST(uniform_is_flat) {
    uint32_t buckets[64] = {0};
    for (uint32_t i = 0; i < 64000; i++) {
        double value = random_uniform(7, 0, i);
        assert_true(value >= 0 && value < 1);
        buckets[(size_t)(value * 64)]++;
    }
    for (size_t i = 0; i < 64; i++) /* 1000 expected, deviation 31: six of them */
        assert_in_range(buckets[i], 810, 1190);
}
