/* SPDX-License-Identifier: Apache-2.0
 * Protects how schedules come into the plans of a step: one for all ranks, given or measured, and
 * each rank's own rows cut into its micro-batches.
 */
#include "host/engine/micro_batches.h"

#include "contract/machine.h"
#include "test_case.h"

enum { RANKS = 2 };

static const struct shape shape = {.hidden = 64,
                                   .heads = 4,
                                   .kv_rank = 32,
                                   .nope_dim = 16,
                                   .rope_dim = 8,
                                   .value_dim = 16,
                                   .experts = 8,
                                   .experts_per_token = 2,
                                   .expert_width = 32};
static _Alignas(8) char memory[RANKS][4096];
static struct step_plan *plans[RANKS];

/* Rank r has 2 + 2r rows that generate; the first makes a prompt of so many tokens. */
static void make_plans(uint32_t prompt_tokens) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct outbox box = {.memory = memory[rank], .capacity = sizeof memory[rank]};
        uint32_t row_count = 2 + 2 * rank, token_count = row_count - 1 + prompt_tokens;
        plans[rank] = machine_outbox_put(
            &box, RECORD_RUN_STEP,
            &(struct step_plan){.row_count = row_count, .token_count = token_count});
        plans[rank]->rank = (uint16_t)rank;
        plans[rank]->row_count = row_count;
        plans[rank]->token_count = token_count;
        struct step_row *rows = step_plan_rows(plans[rank]);
        for (uint32_t i = 0; i < row_count; i++)
            rows[i] = (struct step_row){.token_index = i ? prompt_tokens + i - 1 : 0,
                                        .token_count = i ? 1 : prompt_tokens,
                                        .form = i ? TOKEN_GENERATED : TOKEN_PROMPT};
    }
}

TEST(a_given_schedule_is_that_of_all_ranks) {
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        struct micro_batches micro_batches = {.measured = true};
        assert_true(micro_batches_named(overlap_name((enum overlap_kind)kind), &micro_batches));
        assert_false(micro_batches.measured);
        make_plans(128);
        micro_batches_begin(&micro_batches, plans, RANKS, &shape);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_int_equal(plans[rank]->overlap, kind);
    }
    struct micro_batches micro_batches = {.kind = OVERLAP_SEQUENTIAL};
    assert_false(micro_batches_named("sideways", &micro_batches));
}

/* The prompt is most of the work, and is cut at a block's end. */
TEST(each_rank_is_cut_where_its_own_work_is_halved) {
    struct micro_batches micro_batches = {.measured = false};
    assert_true(micro_batches_named("prefill-dual-batch", &micro_batches));
    make_plans(128);
    micro_batches_begin(&micro_batches, plans, RANKS, &shape);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(plans[rank]->cuts[0].row, 0);
        assert_int_equal(plans[rank]->cuts[0].token, KV_BLOCK_TOKENS);
    }
    make_plans(1);
    micro_batches_begin(&micro_batches, plans, RANKS, &shape);
    assert_int_equal(plans[0]->cuts[0].row, 1);
    assert_int_equal(plans[1]->cuts[0].row, 2);
}

TEST(a_measured_schedule_is_the_fastest_that_was_seen) {
    struct micro_batches micro_batches = {.measured = false};
    uint32_t octo = 0;
    assert_true(micro_batches_named("auto", &micro_batches));
    for (uint32_t step = 0; step < 400; step++) {
        make_plans(128);
        micro_batches_begin(&micro_batches, plans, RANKS, &shape);
        micro_batches_end(&micro_batches,
                          micro_batches.kind == OVERLAP_OCTO_BATCH ? 1000000 : 2000000);
        if (step >= 200) octo += micro_batches.kind == OVERLAP_OCTO_BATCH;
    }
    assert_true(octo > 180);
}
