/* SPDX-License-Identifier: Apache-2.0
 * Protects the plans and results of a group's step: a plan that cannot run with the others is
 * refused alone, whichever rank has it, and no row of a plan that did not run, or of a step in
 * which a rank died, has an effect. All results have the same compute time.
 */
#include "host/engine/group_step.h"

#include "test_case.h"

enum { RANKS = 3, BYTES = 8192 };

static _Alignas(16) char plan_memory[RANKS][BYTES], result_memory[RANKS][BYTES];
static struct step_plan *plans[RANKS];
static struct step_result *results[RANKS];

static const struct step_plan *const *all_plans(void) {
    return (const struct step_plan *const *)plans;
}

static void make_plan(uint32_t rank, uint32_t rows) {
    plans[rank] = (struct step_plan *)(void *)plan_memory[rank];
    results[rank] = (struct step_result *)(void *)result_memory[rank];
    memset(plan_memory[rank], 0, BYTES);
    memset(result_memory[rank], 0xa5, BYTES);
    *plans[rank] = (struct step_plan){
        .step = 70, .row_count = rows, .rank = (uint16_t)rank, .overlap = OVERLAP_SEQUENTIAL};
    record_set_head(plans[rank], RECORD_RUN_STEP);
    for (uint32_t i = 0; i < rows; i++)
        step_plan_rows(plans[rank])[i].slot = 10 * rank + i;
}

static int make_plans(void **state) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        make_plan(rank, rank);
    return 0;
}

/* What a rank reports of a plan that it ran, with a token for each row. */
static struct bytes report_of(const struct step_plan *plan) {
    static _Alignas(16) char memory[BYTES];
    struct step_result *result = (struct step_result *)(void *)memory;
    *result = (struct step_result){
        .step = plan->step, .row_count = plan->row_count, .rank = plan->rank, .compute_ns = 5};
    record_set_head(result, RECORD_STEP_DONE);
    for (uint32_t i = 0; i < plan->row_count; i++)
        step_result_rows(result)[i] = (struct step_result_row){
            .slot = step_plan_rows(plan)[i].slot, .token_count = 1, .tokens = {40 + i}};
    return (struct bytes){memory, result->record.bytes};
}

static void assert_ran(uint32_t rank, bool ran) {
    const struct step_result *result = results[rank];
    assert_int_equal(result->step, 70);
    assert_int_equal(result->rank, rank);
    assert_int_equal(result->row_count, plans[rank]->row_count);
    assert_int_equal(result->failed, !ran && plans[rank]->row_count);
    assert_true(result->record.bytes <= BYTES && result->record.kind == RECORD_STEP_DONE);
    for (uint32_t i = 0; i < result->row_count; i++) {
        assert_int_equal(step_result_rows(result)[i].slot, 10 * rank + i);
        assert_int_equal(step_result_rows(result)[i].token_count, ran);
    }
}

TEST_AROUND(the_plan_without_rows_has_what_all_ranks_share, make_plans, NULL) {
    plans[2]->others_draft = 1;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        plans[rank]->overlap = OVERLAP_KIND_COUNT - 1;
    struct step_plan none = group_step_none(all_plans(), RANKS);
    assert_int_equal(none.record.kind, RECORD_RUN_STEP);
    assert_int_equal(none.record.bytes, sizeof none);
    assert_int_equal(none.row_count + none.token_count + none.page_count, 0);
    assert_int_equal(none.overlap, OVERLAP_KIND_COUNT - 1);
    assert_int_equal(none.others_draft, 1);
    assert_int_equal(none.awaits, 0);
    plans[0]->awaits = 1;
    assert_int_equal(group_step_none(all_plans(), RANKS).awaits, 1);
}

TEST_AROUND(an_unknown_schedule_is_not_that_of_the_step, make_plans, NULL) {
    struct error error;
    plans[0]->overlap = OVERLAP_KIND_COUNT;
    plans[1]->overlap = plans[2]->overlap = OVERLAP_KIND_COUNT - 1;
    struct step_plan none = group_step_none(all_plans(), RANKS);
    assert_int_equal(none.overlap, OVERLAP_KIND_COUNT - 1);
    assert_int_equal(group_step_check(&none, plans[0], &error), STATUS_INVALID);
    assert_int_equal(group_step_check(&none, plans[1], &error), STATUS_OK);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        plans[rank]->overlap = UINT32_MAX;
    none = group_step_none(all_plans(), RANKS);
    assert_true(none.overlap < OVERLAP_KIND_COUNT);
}

TEST_AROUND(a_plan_that_would_not_meet_the_others_is_refused, make_plans, NULL) {
    struct error error;
    struct step_plan none = group_step_none(all_plans(), RANKS);
    plans[1]->overlap = OVERLAP_SEQUENTIAL + 1;
    plans[2]->awaits = 1;
    assert_int_equal(group_step_check(&none, plans[0], &error), STATUS_OK);
    assert_int_equal(group_step_check(&none, plans[1], &error), STATUS_INVALID);
    assert_string_equal(error.text,
                        "step 70, rank 1: the schedule is 1; expected 0, as on all ranks");
    assert_int_equal(group_step_check(&none, plans[2], &error), STATUS_INVALID);
    assert_string_equal(error.text,
                        "step 70, rank 2: the plan only waits; expected the same on all ranks");
    assert_int_equal(group_step_check(&none, &none, &error), STATUS_OK);
}

TEST_AROUND(a_report_of_the_plan_is_its_result, make_plans, NULL) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        group_step_take(plans[rank], report_of(plans[rank]), results[rank]);
        assert_ran(rank, true);
    }
    assert_int_equal(step_result_rows(results[2])[1].tokens[0], 41);
}

TEST_AROUND(without_a_report_the_plan_did_not_run, make_plans, NULL) {
    group_step_take(plans[2], (struct bytes){NULL, 0}, results[2]);
    assert_ran(2, false);
    group_step_take(plans[0], (struct bytes){NULL, 0}, results[0]); /* it has no row to fail */
    assert_ran(0, false);
}

/* The rank ran the plan without rows instead. */
TEST_AROUND(a_report_of_another_plan_is_no_result, make_plans, NULL) {
    struct step_plan none = group_step_none(all_plans(), RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        group_step_take(plans[rank], report_of(&none), results[rank]);
        assert_ran(rank, false);
    }
    plans[1]->step = 69;
    struct bytes late = report_of(plans[1]);
    plans[1]->step = 70;
    group_step_take(plans[1], late, results[1]);
    assert_ran(1, false);
}

TEST_AROUND(rows_of_a_dead_rank_fail_and_those_of_the_others_are_lost, make_plans, NULL) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        group_step_take(plans[rank], report_of(plans[rank]), results[rank]);
        group_step_break(plans[rank], rank != 2, results[rank]);
    }
    assert_ran(2, false);
    assert_int_equal(step_result_rows(results[2])[0].lost, 0);
    assert_int_equal(step_result_rows(results[2])[1].lost, 0);
    assert_int_equal(results[1]->failed, 0);
    assert_int_equal(step_result_rows(results[1])[0].lost, 1);
    assert_int_equal(step_result_rows(results[1])[0].token_count, 0);
    assert_int_equal(results[0]->failed, 0);
}

TEST_AROUND(a_dead_rank_without_rows_has_nothing_to_fail, make_plans, NULL) {
    group_step_break(plans[0], false, results[0]);
    assert_ran(0, false);
    assert_int_equal(results[0]->failed, 0);
}

TEST_AROUND(the_longest_wait_for_loads_is_not_computing, make_plans, NULL) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        group_step_fail(plans[rank], results[rank]);
        results[rank]->awaited_ns = 100 * rank;
    }
    group_step_set_times(results, RANKS, 1000);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(results[rank]->compute_ns, 800);
    group_step_set_times(results, RANKS, 150); /* another rank waited longer than the step took */
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(results[rank]->compute_ns, 0);
}
