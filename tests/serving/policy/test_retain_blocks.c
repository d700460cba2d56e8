/* SPDX-License-Identifier: Apache-2.0
 * What is worth keeping: warm before cold, late in a sequence before early at equal heat, but never
 * a block without those before it; segments go by what their blocks are worth.
 */
#include "serving/policy/retain_blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/check.h"

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

static void heat_and_cost_make_value(void **state) {
    (void)state;
    struct retain_block blocks[] = {
        {RETAIN_NONE, 0, 0, 1, 0}, {RETAIN_NONE, 0, 0, 3, 0}, {RETAIN_NONE, 20, 0, 1, 0}};
    struct retain_segment segments[] = {{true, 4000, 0, 0, 4}};
    value(blocks, 3, segments, 1);
    assert_true(near(blocks[0].value, 0.1) && near(blocks[1].value, 0.3));
    assert_true(blocks[2].value > 0.299 && blocks[2].value < 0.301); /* 100 + 20 x 10 */
    assert_int_equal(segments[0].live, 3);
    assert_true(near(segments[0].value, (0.1 + 2 * 0.7 / 3) / 4)); /* at most the mean, 0.7 / 3 */
}

static void a_block_is_worth_what_follows_it(void **state) {
    (void)state;
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

/* A name may collide, or a file lie: what claims to stand before itself changes nothing. */
static void circles_are_harmless(void **state) {
    (void)state;
    struct retain_block blocks[] = {{1, 5, 0, 1, 0}, {0, 5, 0, 2, 0}, {2, 7, 0, 1, 0}};
    value(blocks, 3, NULL, 0);
    assert_true(near(blocks[0].value, 0.15) && near(blocks[1].value, 0.3));
}

static void the_least_valuable_segment_goes(void **state) {
    (void)state;
    struct retain_segment segments[] = {{true, 4000, 3, 4, 4},
                                        {false, 4000, 1, 4, 4},
                                        {true, 4000, 2, 1, 4},
                                        {true, 4000, 2.5, 1, 8}};
    assert_int_equal(retain_blocks_least(segments, 4), 2);
    assert_int_equal(retain_blocks_sparse(segments, 4), 3); /* 7 of 8 are dead */
    segments[2].movable = segments[3].movable = false;
    assert_int_equal(retain_blocks_least(segments, 4), 0);
    assert_int_equal(retain_blocks_sparse(segments, 4), RETAIN_NONE);
    segments[0].movable = false;
    assert_int_equal(retain_blocks_least(segments, 4), RETAIN_NONE);
}

static void what_is_worth_more_than_most_moves(void **state) {
    (void)state;
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
}

/* Another format's segment goes before ours if it was written to earlier, the oldest of them first;
 * never one that may not move. */
static void the_oldest_of_another_format_goes(void **state) {
    (void)state;
    const struct retain_other others[] = {{true, 50}, {true, 30}, {false, 10}, {true, 40}};
    assert_int_equal(retain_blocks_oldest(others, 4, 100), 1);
    assert_int_equal(retain_blocks_oldest(others, 4, 31), 1);
    assert_int_equal(retain_blocks_oldest(others, 4, 30), RETAIN_NONE);
    assert_int_equal(retain_blocks_oldest(others, 1, INT64_MAX), 0);
    assert_int_equal(retain_blocks_oldest(others, 0, INT64_MAX), RETAIN_NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heat_and_cost_make_value),
        cmocka_unit_test(a_block_is_worth_what_follows_it),
        cmocka_unit_test(circles_are_harmless),
        cmocka_unit_test(the_least_valuable_segment_goes),
        cmocka_unit_test(what_is_worth_more_than_most_moves),
        cmocka_unit_test(the_oldest_of_another_format_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
