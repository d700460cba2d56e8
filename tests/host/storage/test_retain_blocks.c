/* SPDX-License-Identifier: Apache-2.0
 * What is worth keeping: warm before cold, late in a sequence before early at equal heat, but never
 * a block without those before it; segments go by what their blocks are worth.
 */
#include "host/storage/retain_blocks.h"

#include "base/check.h"
#include "base/random.h"
#include "test_case.h"

static const struct retain_cost cost = {100, 10};

static bool near(double a, double b) {
    return a > b - 1e-9 && a < b + 1e-9;
}

static void value(struct retain_block *blocks, uint32_t count, struct retain_segment *segments,
                  uint32_t segment_count) {
    uint32_t order[64];
    assert_true(count <= ARRAY_COUNT(order));
    retain_blocks_value(blocks, count, order, &cost, 1000, segments, segment_count);
}

TEST(heat_and_cost_make_value) {
    struct retain_block blocks[] = {
        {RETAIN_NONE, 0, 0, 1, 0}, {RETAIN_NONE, 0, 0, 3, 0}, {RETAIN_NONE, 20, 0, 1, 0}};
    struct retain_segment segments[] = {{true, 4000, 0, 0, 4}};
    value(blocks, 3, segments, 1);
    assert_true(near(blocks[0].value, 0.1) && near(blocks[1].value, 0.3));
    assert_true(blocks[2].value > 0.299 && blocks[2].value < 0.301); /* 100 + 20 x 10 */
    assert_int_equal(segments[0].live, 3);
    assert_true(near(segments[0].value, (0.1 + 2 * 0.7 / 3) / 4)); /* at most the mean, 0.7 / 3 */
}

TEST(a_block_is_worth_what_follows_it) {
    struct retain_block blocks[] = {/* 2 <- 0 <- 3, and 1 beside */
                                    {2, 1, 0, 1, 0},
                                    {2, 1, 0, 0.1, 0},
                                    {RETAIN_NONE, 0, 0, 1, 0},
                                    {0, 2, 0, 1, 0}};
    value(blocks, 4, NULL, 0);
    assert_true(near(blocks[3].value, 0.12));
    assert_true(near(blocks[0].value, 0.12) && near(blocks[2].value, 0.12));
    assert_true(blocks[1].value < 0.012);
}

/* Trees that lie in the array in any order: each block is worth the most of what it and those
 * behind it would be worth alone. */
TEST(trees_in_any_order_are_worth_the_most_of_their_branches) {
    enum { COUNT = 60 };
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct retain_block blocks[COUNT];
        uint32_t place[COUNT];
        double most[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) { /* a random order */
            uint32_t other = (uint32_t)(random_uniform(seed, 0, i) * (i + 1));
            place[i] = place[other];
            place[other] = i;
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            double root = random_uniform(seed, 1, i), heat = random_uniform(seed, 2, i);
            uint32_t before = (uint32_t)(random_uniform(seed, 3, i) * i);
            bool is_first = i == 0 || root < 0.1;
            blocks[place[i]] = (struct retain_block){
                is_first ? RETAIN_NONE : place[before],
                is_first ? 0 : blocks[place[before]].position + 1, 0, heat, 0};
            most[i] = heat * (100 + 10 * blocks[place[i]].position) / 1000;
            for (uint32_t at = place[i]; blocks[at].parent != RETAIN_NONE;) {
                at = blocks[at].parent;
                for (uint32_t j = 0; j < i; j++)
                    if (place[j] == at && most[j] < most[i]) most[j] = most[i];
            }
        }
        value(blocks, COUNT, NULL, 0);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_true(near(blocks[place[i]].value, most[i]));
    }
}

/* A name may collide, or a file lie: what claims to stand before itself changes nothing. */
TEST(circles_are_harmless) {
    struct retain_block blocks[] = {{1, 5, 0, 1, 0}, {0, 5, 0, 2, 0}, {2, 7, 0, 1, 0}};
    value(blocks, 3, NULL, 0);
    assert_true(near(blocks[0].value, 0.15) && near(blocks[1].value, 0.3));
}

TEST(the_least_valuable_segment_goes) {
    struct retain_segment segments[] = {{true, 4000, 3, 4, 4},
                                        {false, 4000, 1, 4, 4},
                                        {true, 4000, 2, 1, 4},
                                        {true, 4000, 2.5, 1, 8}};
    assert_int_equal(retain_blocks_least(segments, 4), 2);
    assert_int_equal(retain_blocks_sparse(segments, 4), 3);     /* 7 of 8 are dead */
    segments[2] = (struct retain_segment){true, 4000, 2, 0, 9}; /* more of them, and earlier */
    assert_int_equal(retain_blocks_sparse(segments, 4), 2);
    segments[2].movable = segments[3].movable = false;
    assert_int_equal(retain_blocks_least(segments, 4), 0);
    assert_int_equal(retain_blocks_sparse(segments, 4), RETAIN_NONE);
    segments[0].movable = false;
    assert_int_equal(retain_blocks_least(segments, 4), RETAIN_NONE);
}

TEST(what_is_worth_more_than_most_moves) {
    struct retain_block blocks[16];
    uint32_t keep[8];
    for (uint32_t i = 0; i < 16; i++)
        blocks[i] = (struct retain_block){RETAIN_NONE, 0, i % 2, i, 0};
    struct retain_segment segments[] = {{true, 8000, 0, 0, 8}, {true, 8000, 0, 0, 8}};
    value(blocks, 16, segments, 2);
    assert_int_equal(retain_blocks_keep(blocks, 16, 1, 8, keep), 4); /* 15, 13, 11, 9 */
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(keep[i], 15 - 2 * i);
    assert_int_equal(retain_blocks_keep(blocks, 16, 0, 2, keep), 2);
    assert_int_equal(keep[0], 14);
    assert_int_equal(keep[1], 12);
    assert_int_equal(retain_blocks_keep(blocks, 16, 0, 0, keep), 0);
    for (uint32_t i = 0; i < 16; i++) /* in another order: 1, 4, 7, 10, 13, 0, 3, ... */
        blocks[i].heat = (3 * i + 1) % 16;
    value(blocks, 16, segments, 2);
    double once = segments[1].value;
    value(blocks, 16, segments, 2); /* what was found before does not add up */
    assert_true(segments[1].live == 8 && near(segments[1].value, once));
    keep[3] = 77;
    assert_int_equal(retain_blocks_keep(blocks, 16, 1, 3, keep), 3);
    assert_int_equal(keep[3], 77); /* nothing is written behind the three */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal((3 * keep[i] + 1) % 16, 14 - 2 * i);
    for (uint32_t i = 0; i < 16; i += 2) /* what is on no disk is in no mean */
        blocks[i] = (struct retain_block){RETAIN_NONE, 0, RETAIN_NONE, 1000, 0};
    value(blocks, 16, segments, 2);
    assert_int_equal(retain_blocks_keep(blocks, 16, 1, 8, keep), 4);
    assert_int_equal(segments[0].live, 0);
    assert_true(near(segments[0].value, 0));
}

/* Another format's segment goes before ours if it was written to earlier, the oldest of them first;
 * never one that may not move. */
TEST(the_oldest_of_another_format_goes) {
    const struct retain_other others[] = {{true, 50}, {true, 30}, {false, 10}, {true, 40}};
    assert_int_equal(retain_blocks_oldest(others, 4, 100), 1);
    assert_int_equal(retain_blocks_oldest(others, 4, 31), 1);
    assert_int_equal(retain_blocks_oldest(others, 4, 30), RETAIN_NONE);
    assert_int_equal(retain_blocks_oldest(others, 1, INT64_MAX), 0);
    assert_int_equal(retain_blocks_oldest(others, 0, INT64_MAX), RETAIN_NONE);
}
