/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_engine.h"

#include "simulate/simulator/simulator_words.h"
#include "test_case.h"

enum { RANKS = 2, ROWS = 8, VOCAB = 129280 };

static const struct model_figures model = {.vocab = VOCAB, .mtp_acceptance = 1};

struct engines {
    struct simulator_engine engine;
    struct step_clock *clock;
    char *memory, plan[8192], result[8192];
};

static void open_engines(struct engines *engines) {
    struct arena arena;
    struct error error;
    struct step_clock_options options = {.ranks = RANKS};
    size_t bytes = simulator_engine_bytes(RANKS, ROWS) + step_clock_bytes(&options);
    engines->memory = malloc(bytes);
    arena_over(&arena, engines->memory, bytes);
    assert_int_equal(step_clock_open(&arena, &options, &engines->clock, &error), STATUS_OK);
    assert_true(simulator_engine_open(&engines->engine, &arena, engines->clock, &model, RANKS, ROWS,
                                      OVERLAP_SEQUENTIAL));
}

static bool take(struct engines *engines, uint32_t rank, const struct step_row *rows,
                 uint32_t count) {
    struct step_plan *plan = (struct step_plan *)(void *)engines->plan;
    *plan = (struct step_plan){.step = 9, .row_count = count, .rank = (uint16_t)rank};
    record_set_head(plan, RECORD_RUN_STEP);
    for (uint32_t i = 0; i < count; i++)
        step_plan_rows(plan)[i] = rows[i];
    return simulator_engine_take(&engines->engine, plan);
}

TEST(shares_say_what_the_rows_cost) {
    struct engines engines;
    const struct step_row rows[] = {
        {.form = TOKEN_PROMPT, .first_position = 128, .token_count = 3},
        {.form = TOKEN_GENERATED, .first_position = 1000, .token_count = 1, .draft_count = 1},
        {.form = TOKEN_GENERATED, .first_position = 500, .token_count = 1},
    };
    open_engines(&engines);
    assert_false(take(&engines, 0, rows, 3));
    assert_true(take(&engines, 1, NULL, 0));
    const struct step_load *load = &engines.engine.shares[0].load;
    assert_int_equal(load->prompt_tokens, 3);
    assert_int_equal(load->attended, 129 + 130 + 131);
    assert_int_equal(load->cached, 128);
    assert_int_equal(load->answer_rows, 2);
    assert_int_equal(load->answer_tokens, 3);
    assert_int_equal(load->context, 1001 + 501);
    struct step_load sum = simulator_engine_begin(&engines.engine, 0, false);
    assert_int_equal(sum.prompt_tokens, 3);
    assert_int_equal(sum.answer_rows, 2);
    assert_int_equal(engines.engine.time.ns, 20000000 + 3 * 10000 + 2 * 100000);
    free(engines.memory);
}

TEST(answers_are_the_requests_own_tokens) {
    struct engines engines;
    const struct step_row rows[] = {
        {.slot = 4, .form = TOKEN_PROMPT, .token_count = 64},
        {.slot = 2,
         .form = TOKEN_GENERATED,
         .token_count = 1,
         .sample = 1,
         .output_position = 7,
         .draft_count = 1,
         .sampling = {.seed = 31}},
    };
    struct step_result *result = (struct step_result *)(void *)engines.result;
    open_engines(&engines);
    take(&engines, 0, NULL, 0);
    take(&engines, 1, rows, 2);
    (void)simulator_engine_begin(&engines.engine, 0, false);
    assert_int_equal(simulator_engine_end(&engines.engine, 0, 5, result), 0);
    assert_true(record_valid(result, result->record.bytes));
    assert_int_equal(simulator_engine_end(&engines.engine, 1, 5, result), 2);
    assert_true(record_valid(result, result->record.bytes));
    assert_int_equal(result->step, 9);
    assert_int_equal(result->rank, 1);
    assert_int_equal(step_result_rows(result)[0].token_count, 0);
    const struct step_result_row *row = &step_result_rows(result)[1];
    assert_int_equal(row->slot, 2);
    assert_int_equal(row->token_count, 2);
    assert_int_equal(row->tokens[0], simulator_words_answer(31, 7, VOCAB));
    assert_int_equal(row->tokens[1], simulator_words_answer(31, 8, VOCAB));
    free(engines.memory);
}

TEST(prompts_cost_nothing_while_the_fleet_settles) {
    struct engines engines;
    const struct step_row row = {.form = TOKEN_PROMPT, .token_count = 100};
    open_engines(&engines);
    take(&engines, 0, &row, 1);
    take(&engines, 1, NULL, 0);
    struct step_load sum = simulator_engine_begin(&engines.engine, 0, true);
    assert_int_equal(sum.prompt_tokens, 100); /* they are computed all the same */
    assert_int_equal(engines.engine.time.ns, 20000000);
    free(engines.memory);
}
