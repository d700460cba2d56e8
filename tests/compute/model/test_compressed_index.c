/* SPDX-License-Identifier: Apache-2.0
 * Protects the index's choice of blocks (V4.1): sets are those of the reference
 * (tests/golden/ops_v41.json), the newest block is always a candidate, and few entries are all
 * candidates.
 */
#include <math.h>

#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/model/attention_index.h"
#include "compute/model/compressed_index.h"

static struct golden_list list; /* large */

static uint32_t count_at(const struct tree *of, const char *key) {
    int64_t value = -1;
    assert_true(tree_get_integer(tree_member(of, key), &value));
    return (uint32_t)value;
}

static void take(const struct tree *of, const char *key, float *out, uint32_t count) {
    golden_numbers(tree_member(of, key), &list);
    assert_int_equal(list.count, count);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (float)list.values[i];
}

static void expect_set(const struct tree *of, const char *key, const uint32_t *found,
                       uint32_t count) {
    golden_numbers(tree_member(of, key), &list);
    assert_int_equal(list.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(found[i], (uint32_t)list.values[i]);
}

static void expect_choice(const struct tree *of) {
    float scores[GOLDEN_LIST_MAX], best[GOLDEN_LIST_MAX];
    uint32_t blocks[GOLDEN_LIST_MAX], chosen[GOLDEN_LIST_MAX];
    const uint32_t end = count_at(of, "visible"), size = count_at(of, "block_size");
    const uint32_t most = count_at(of, "blocks"), top = count_at(of, "topk");
    take(of, "source_scores", scores, end);
    const uint32_t count = compressed_index_candidates(scores, end, size, most, best, blocks);
    expect_set(of, "candidate_blocks", blocks, count);
    uint32_t wanted = top < end ? top : end;
    attention_index_pick(scores, 0, end, wanted, chosen);
    expect_set(of, "source_selected", chosen, wanted);
    take(of, "later_scores", scores, end);
    const uint32_t left = compressed_index_limit(scores, end, size, blocks, count);
    wanted = top < left ? top : left;
    attention_index_pick(scores, 0, end, wanted, chosen);
    expect_set(of, "later_selected", chosen, wanted);
}

TEST(choices_are_those_of_the_reference) {
    const struct tree *cases = tree_member(golden_read(golden_home(), "ops_v41.json"), "select");
    assert_true(tree_count(cases) > 0);
    for (size_t i = 0; i < tree_count(cases); i++)
        expect_choice(tree_at(cases, i));
}

TEST(the_newest_block_is_a_candidate) {
    float scores[] = {5, 4, 3, 2, -9}, best[3];
    uint32_t blocks[3];
    assert_int_equal(compressed_index_candidates(scores, 5, 2, 2, best, blocks), 2);
    assert_int_equal(blocks[0], 0);
    assert_int_equal(blocks[1], 2);
    assert_int_equal(compressed_index_limit(scores, 5, 2, blocks, 2), 3);
    assert_true(isinf(scores[2]) && isinf(scores[3]) && scores[4] == -9);
    assert_int_equal(compressed_index_candidates(scores, 0, 2, 2, best, blocks), 0);
}
