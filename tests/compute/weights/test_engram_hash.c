/* SPDX-License-Identifier: Apache-2.0
 * Protects Engram's hashes: multipliers, primes and rows are those of the release's code
 * (tests/golden/ops_v41.json), numpy's generator included.
 */
#include <stdlib.h>
#include <string.h>

#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/weights/engram_hash.h"

static const struct tree *operators(void) {
    return golden_read(golden_home(), "ops_v41.json");
}

static uint64_t number(const struct tree *of, const char *key) {
    uint64_t value = 0;
    assert_true(tree_get_word(tree_member(of, key), &value));
    return value;
}

static struct shape released(void) {
    return (struct shape){.engram_layers = 2,
                          .engram_layer = {1, 14},
                          .engram_ngram = 4,
                          .engram_heads = 8,
                          .engram_vocab = 16000000,
                          .engram_folded = 99092};
}

TEST(multipliers_are_numpys) {
    const struct tree *cases = tree_member(operators(), "multipliers");
    assert_true(tree_count(cases) > 0);
    for (size_t i = 0; i < tree_count(cases); i++) {
        const struct tree *of = tree_at(cases, i), *values = tree_member(of, "values");
        uint64_t found[ENGRAM_NGRAM_MAX];
        const uint32_t count = (uint32_t)tree_count(values);
        engram_hash_draw(10007 * number(of, "layer"), INT64_MAX / number(of, "folded_size") / 2,
                         count, found);
        for (uint32_t k = 0; k < count; k++) {
            struct bytes text = {0};
            assert_true(tree_get_string(tree_at(values, k), &text));
            assert_int_equal(2 * found[k] + 1, strtoull(text.data, NULL, 10));
        }
    }
}

TEST(the_releases_primes_and_tables) {
    static struct engram_hash hash;
    static struct golden_list list;
    const struct shape shape = released();
    engram_hash_open(&shape, &hash);
    for (uint32_t layer = 0; layer < 2; layer++) {
        const struct tree *sizes = tree_at(tree_member(operators(), "released_primes"), layer);
        for (uint32_t n = 0; n < 3; n++) {
            golden_numbers(tree_at(sizes, n), &list);
            assert_int_equal(list.count, 8);
            for (uint32_t head = 0; head < 8; head++)
                assert_int_equal(hash.primes[layer][n * 8 + head], (uint32_t)list.values[head]);
        }
    }
    golden_numbers(tree_member(operators(), "released_rows"), &list);
    assert_int_equal(hash.rows[0], (uint64_t)list.values[0]);
    assert_int_equal(hash.rows[1], (uint64_t)list.values[1]);
}

TEST(rows_of_positions) {
    static struct engram_hash hash;
    static struct golden_list list;
    static uint32_t folded[GOLDEN_LIST_MAX];
    const struct shape shape = released();
    const struct tree *of = tree_member(operators(), "hash_released");
    const uint32_t pad = (uint32_t)number(of, "pad");
    golden_ids(tree_member(of, "folded_ids"), folded, GOLDEN_LIST_MAX);
    engram_hash_open(&shape, &hash);
    const struct tree *rows = tree_member(of, "rows");
    for (size_t i = 0; i < tree_count(rows); i++) {
        const uint32_t position = (uint32_t)number(tree_at(rows, i), "pos");
        for (uint32_t layer = 0; layer < 2; layer++) {
            uint32_t ids[4], found[ENGRAM_ROWS_MAX];
            for (uint32_t n = 0; n < 4; n++)
                ids[n] = n <= position ? folded[position - n] : pad;
            engram_hash_rows(&shape, &hash, layer, ids, found);
            golden_numbers(tree_member(tree_at(rows, i), layer ? "layer14" : "layer1"), &list);
            assert_int_equal(list.count, shape_engram_rows(&shape));
            for (uint32_t k = 0; k < list.count; k++)
                assert_int_equal(found[k], (uint32_t)list.values[k]);
        }
    }
}

TEST(one_value_needs_no_draw) {
    uint64_t out[3] = {9, 9, 9};
    engram_hash_draw(0, 1, 3, out);
    assert_int_equal(out[0] + out[1] + out[2], 0);
}
