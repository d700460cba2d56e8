/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/cut_batch.h"

#include "test_case.h"

static union {
    struct step_plan plan;
    char bytes[4096];
} room;

static struct step_plan *plan_of(const struct step_row *rows, uint32_t count) {
    room.plan = (struct step_plan){.row_count = count};
    record_set_head(&room.plan, RECORD_RUN_STEP);
    memcpy(step_plan_rows(&room.plan), rows, count * sizeof *rows);
    return &room.plan;
}

static struct step_row prompt(uint32_t first, uint32_t count) {
    return (struct step_row){.form = TOKEN_PROMPT, .first_position = first, .token_count = count};
}

static struct step_row generated(uint32_t position) {
    return (struct step_row){.form = TOKEN_GENERATED, .first_position = position, .token_count = 1};
}

/* Attention grows along a prompt: half of the work of 4,096 tokens lies behind the 2,896th, and
 * the block boundary next to that is 45 * 64. With dear tokens it is the middle. */
TEST(one_prompt_is_cut_where_its_work_is_half) {
    struct step_row rows[] = {prompt(0, 4096)};
    struct cut_batch cut = cut_batch_by_work(plan_of(rows, 1), 2, NULL, 0);
    assert_int_equal(cut.cuts[0].row, 0);
    assert_int_equal(cut.cuts[0].token, 45 * KV_BLOCK_TOKENS);
    assert_int_equal(cut.work, 4096ull * 4097 / 2);
    assert_int_equal(cut_batch_by_work(plan_of(rows, 1), 2, NULL, 1u << 20).cuts[0].token, 2048);
}

/* A chunk that begins within a block is cut on a boundary of the sequence, not of the chunk. */
TEST(cuts_lie_on_block_boundaries) {
    struct step_row rows[] = {prompt(100, 300)};
    struct cut_batch cut = cut_batch_by_work(plan_of(rows, 1), 2, NULL, 1000);
    assert_int_equal((100 + cut.cuts[0].token) % KV_BLOCK_TOKENS, 0);
    assert_in_range(cut.cuts[0].token, 100, 200);
}

/* Prompt rows stand first, wherever the plan has them; generated rows stay whole. */
TEST(rows_stand_by_form) {
    struct step_row rows[] = {generated(5000), prompt(0, 64), generated(5000), generated(5000),
                              generated(5000)};
    struct cut_batch cut = cut_batch_by_work(plan_of(rows, 5), 2, NULL, 0);
    assert_int_equal(cut.cuts[0].row, 3); /* 64 prompt tokens and two rows | two rows */
    assert_int_equal(cut.cuts[0].token, 0);
    assert_int_equal(cut.before[0], 64 * 65 / 2 + 2 * 5001);
}

/* What cannot be cut stays in one. */
TEST(a_single_row_stays_whole) {
    struct step_row rows[] = {generated(99)};
    struct cut_batch cut = cut_batch_by_work(plan_of(rows, 1), 2, NULL, 10);
    assert_int_equal(cut.cuts[0].row, 1);
    assert_int_equal(cut.before[0], cut.work);
    assert_int_equal(cut_batch_by_work(plan_of(rows, 0), 2, NULL, 10).cuts[0].row, 0);
}

/* Several lanes: cuts ascend, whatever the rows, and no lane is further from its share than half of
 * the largest piece that cannot be cut. */
TEST(micro_batches_have_their_shares) {
    struct step_row rows[] = {prompt(0, 700), generated(40), prompt(128, 64), generated(900),
                              generated(3)};
    uint64_t piece = 64 * 300 + 64 * 700;
    for (uint32_t micro_batches = 2; micro_batches <= OVERLAP_MICRO_BATCHES; micro_batches++) {
        struct cut_batch cut = cut_batch_by_work(plan_of(rows, 5), micro_batches, NULL, 300);
        for (uint32_t i = 0; i + 1 < micro_batches; i++) {
            uint64_t share = cut.work * (i + 1) / micro_batches, before = cut.before[i];
            assert_true((before > share ? before - share : share - before) <= piece / 2 + 1);
            assert_true(i == 0 || cut.before[i] >= cut.before[i - 1]);
            assert_true(cut.cuts[i].row <= 5);
        }
    }
    struct step_row few[] = {generated(7), generated(7)};
    struct cut_batch cut = cut_batch_by_work(plan_of(few, 2), 4, NULL, 300);
    assert_int_equal(cut.before[1], cut.work / 2);
    assert_int_equal(cut.before[2], cut.work); /* as far from three quarters as the middle is */
    assert_int_equal(cut.cuts[2].row, 2);
}

/* Lanes of unequal shares: half a share at each end. */
TEST(shares_may_differ) {
    struct step_row rows[] = {prompt(0, 64 * 60)};
    const uint8_t shares[] = {1, 2, 2, 1};
    struct cut_batch cut = cut_batch_by_work(plan_of(rows, 1), 4, shares, 1u << 24);
    assert_int_equal(cut.cuts[0].token, 64 * 10);
    assert_int_equal(cut.cuts[1].token, 64 * 30);
    assert_int_equal(cut.cuts[2].token, 64 * 50);
}
