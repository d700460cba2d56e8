/* SPDX-License-Identifier: Apache-2.0
 * Protects an engine from plans whose rows lie outside of them, and a unit from results whose rows
 * do, or that say two things at once.
 */
#include "records.h"
#include "test_case.h"

/* The engine reads pages and tokens by these numbers. */
TEST(rows_outside_their_plan_are_refused) {
    static const struct {
        size_t offset;
        uint32_t row, value;
    } cases[] = {
        {offsetof(struct step_row, form), 0, MLA_MODE_COUNT},
        {offsetof(struct step_row, token_count), 0, 0},
        {offsetof(struct step_row, token_count), 0, 72},
        {offsetof(struct step_row, token_index), 1, 71},
        {offsetof(struct step_row, token_index), 1, UINT32_MAX},
        {offsetof(struct step_row, page_index), 0, 2},
        {offsetof(struct step_row, page_count), 0, 1}, /* does not cover its positions */
        {offsetof(struct step_row, page_count), 1, UINT32_MAX},
        {offsetof(struct step_row, first_position), 0, UINT32_MAX},
        {offsetof(struct step_row, first_position), 1, 64},
        {offsetof(struct step_row, logits_count), 0, 71},
        {offsetof(struct step_row, logits_count), 0, 0}, /* samples without logits */
        {offsetof(struct step_row, sample), 0, 2},
        {offsetof(struct step_row, history_index), 1, 2},
        {offsetof(struct step_row, history_count), 1, UINT32_MAX},
        {offsetof(struct step_row, history_prompt_count), 1, 5},
        {offsetof(struct step_row, bias_index), 1, 2},
        {offsetof(struct step_row, bias_count), 0, 3},
        {offsetof(struct step_row, draft_count), 0, 1}, /* a row of a prompt */
        {offsetof(struct step_row, draft_count), 1, 1}, /* one that does not sample */
        {offsetof(struct step_row, fresh), 0, 2},
        {offsetof(struct step_row, constrained), 0, 2},
        {offsetof(struct step_row, first_page), 0, 1}, /* of a fresh row */
        {offsetof(struct step_row, first_page), 1, UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct step_plan *plan = good_plan();
        char *row = (char *)&step_plan_rows(plan)[cases[i].row];
        memcpy(row + cases[i].offset, &cases[i].value, sizeof cases[i].value);
        assert_invalid(plan);
    }
    struct step_plan *plan = good_plan();
    plan->row_count = 0;
    assert_invalid(plan);
}

/* Its engine reads texts and tokens by these numbers, and looks for a constraint once. */
TEST(each_fresh_constrained_row_has_its_constraint) {
    static const struct {
        size_t offset;
        uint32_t value;
    } cases[] = {
        {offsetof(struct step_constraint, row), 1},
        {offsetof(struct step_constraint, text_index), 1},
        {offsetof(struct step_constraint, text_bytes), 0},
        {offsetof(struct step_constraint, text_bytes), 5},
        {offsetof(struct step_constraint, answer_index), 2},
        {offsetof(struct step_constraint, answer_count), 4},
        {offsetof(struct step_constraint, stop_index), 3},
        {offsetof(struct step_constraint, stop_count), UINT32_MAX},
        {offsetof(struct step_constraint, slot), 1},
        {offsetof(struct step_constraint, row), STEP_NO_ROW},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct step_plan *plan = good_plan();
        memcpy((char *)step_plan_constraints(plan) + cases[i].offset, &cases[i].value,
               sizeof cases[i].value);
        assert_invalid(plan);
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct step_plan *plan = good_plan();
        if (i == 0) step_plan_rows(plan)[0].fresh = 0;
        if (i == 1) step_plan_rows(plan)[0].constrained = 0;
        if (i == 2) step_plan_rows(plan)[1].fresh = step_plan_rows(plan)[1].constrained = 1;
        assert_invalid(plan);
    }
    struct step_plan *plan = good_plan();
    step_plan_rows(plan)[1].constrained = 1; /* its constraint came before */
    assert_true(record_valid(plan, plan->record.bytes));
}

/* A plan that asks for the constraint of slot 3, and says that slot 4's is over. */
static struct step_plan *asking_plan(void) {
    struct step_plan *plan =
        records_make(RECORD_RUN_STEP, &(struct step_plan){.constraint_count = 2,
                                                          .constraint_bytes = 4,
                                                          .constraint_token_count = 1});
    plan->awaits = 1;
    plan->constraint_count = 2;
    plan->constraint_bytes = 4;
    plan->constraint_token_count = 1;
    step_plan_constraints(plan)[0] = (struct step_constraint){
        .row = STEP_NO_ROW, .text_bytes = 4, .slot = 3, .account.bytes = {9}};
    step_plan_constraints(plan)[1] = (struct step_constraint){.row = STEP_NO_ROW, .slot = 4};
    return plan;
}

TEST(constraints_ahead_of_rows_are_checked) {
    static const struct {
        size_t offset;
        uint32_t index, value;
    } cases[] = {
        {offsetof(struct step_constraint, row), 0, 0},
        {offsetof(struct step_constraint, slot), 0, LIMIT_UNIT_REQUESTS},
        {offsetof(struct step_constraint, text_bytes), 0, 5},
        {offsetof(struct step_constraint, answer_count), 0, 1},
        {offsetof(struct step_constraint, stop_count), 0, 1},
        {offsetof(struct step_constraint, account), 1, 1}, /* who is over takes no turn */
    };
    struct step_plan *plan = asking_plan();
    assert_true(record_valid(plan, plan->record.bytes));
    assert_ptr_equal(step_plan_row_constraints(plan), step_plan_constraints(plan) + 2);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        plan = asking_plan();
        memcpy((char *)&step_plan_constraints(plan)[cases[i].index] + cases[i].offset,
               &cases[i].value, sizeof cases[i].value);
        assert_invalid(plan);
    }
    plan = good_plan();
    assert_ptr_equal(step_plan_row_constraints(plan), step_plan_constraints(plan));
    plan->awaits = 1; /* and has rows */
    assert_invalid(plan);
}

TEST(scored_tokens_are_of_their_row) {
    for (uint32_t i = 0; i < 4; i++) {
        struct step_plan *plan = good_plan();
        struct step_row *rows = step_plan_rows(plan);
        if (i == 0) rows[0].scored_count = 70; /* as many as it has, and none is known behind */
        if (i == 1) rows[0].scored_count = 71, rows[0].next_token = 5;
        if (i == 2) rows[0].sampling.flags = 0;
        if (i == 3) rows[1].scored_count = 2, rows[1].next_token = 5;
        assert_invalid(plan);
    }
    struct step_plan *plan = good_plan();
    step_plan_rows(plan)[0].scored_count = 70;
    step_plan_rows(plan)[0].next_token = 5;
    assert_true(record_valid(plan, plan->record.bytes));
    for (uint32_t i = 0; i < 3; i++) {
        struct step_result *result = good_result();
        struct step_result_row *row = step_result_rows(result);
        if (i == 0) row->scored_count = 4; /* more than there are */
        if (i == 1) row->score_index = 3;
        if (i == 2) row->lost = 1;
        assert_invalid(result);
    }
}

TEST(results_are_checked) {
    struct step_result *result = good_result();
    result->failed = 2;
    assert_invalid(result);
    result = good_result();
    result->awaited_ns = -1;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].stuck = 1; /* and yet it chose a token */
    assert_invalid(result);
    step_result_rows(result)[0].stuck = 1;
    step_result_rows(result)[1].stuck = 0;
    assert_true(record_valid(result, result->record.bytes));
    step_result_rows(result)[0].lost = 1;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].late = 1; /* and yet it counts */
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].logprobs_each = 0;
    step_result_rows(result)[1].token_count = 3;
    step_result_rows(result)[1].forced_count = 2;
    assert_true(record_valid(result, result->record.bytes));
    step_result_rows(result)[1].forced_count = 3; /* none was chosen */
    assert_invalid(result);
    step_result_rows(result)[1].forced_count = 2;
    step_result_rows(result)[1].logprobs_each = 1;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[0].load_end.blocks = 1; /* of a load that has not ended */
    assert_invalid(result);
    step_result_rows(result)[0].load_ended = 1;
    assert_true(record_valid(result, result->record.bytes));
    step_result_rows(result)[0].load_end.host_blocks = 2;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].logprob_index = 2; /* one too far */
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].token_count = 2; /* the second would be a draft's */
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].draft_count = LIMIT_DRAFTS + 1;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[0].tokens[0] = 5; /* of none */
    assert_invalid(result);
    result = good_result();
    step_result_logprobs(result)[2].logprob = 0.5f;
    assert_invalid(result);
}
