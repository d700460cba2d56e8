/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator.h"

#include "small_fleet.h"

TEST(everybody_is_answered) {
    struct small_load drawn = small_few(1);
    struct simulator_options options = small_one_and_one(&drawn);
    struct simulator_report report = small_live(&options);
    assert_int_equal(report.asked, 200);
    assert_int_equal(report.answered, 200);
    assert_int_equal(report.refused + report.failed, 0);
}

TEST(equal_runs_are_equal_in_every_record) {
    struct simulator_report reports[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct small_load drawn = small_few(i < 2 ? 1 : 2);
        struct simulator_options options = small_one_and_one(&drawn);
        reports[i] = small_live(&options);
    }
    assert_memory_equal(&reports[0], &reports[1], sizeof reports[0]);
    assert_true(reports[0].digest != reports[2].digest);
}

/* What goes in comes out, wherever it is counted. */
TEST(tokens_are_neither_lost_nor_made) {
    struct small_load drawn = small_few(3), same = small_few(3);
    struct simulator_options options = small_one_and_one(&drawn);
    struct simulator_report report = small_live(&options);
    const struct simulator_role_counts *prefill = &report.roles[UNIT_PREFILL];
    const struct simulator_role_counts *decode = &report.roles[UNIT_DECODE];
    struct simulator_request request;
    uint64_t prompts = 0, answers = 0;
    while (small_next(&same, &request)) {
        prompts += request.prompt_tokens;
        answers += request.answer_tokens;
    }
    assert_int_equal(report.prompt_tokens, prompts);
    assert_int_equal(report.output_tokens, answers);
    assert_int_equal(prefill->prompt_tokens, prompts);
    assert_int_equal(prefill->computed_tokens + prefill->device_hits, prompts);
    assert_int_equal(prefill->output_tokens, report.answered);
    assert_int_equal(prefill->output_tokens + decode->output_tokens, answers);
    assert_int_equal(decode->computed_tokens, 0);
    assert_true(report.transfer_bytes > 0);
}

/* Two requests of one beginning, far apart: all whole blocks of it are hits. */
TEST(a_beginning_is_reused_as_far_as_it_goes) {
    struct small_load drawn = small_few(8);
    drawn.gap_ns = 10e9;
    drawn.answer_max = 10;
    struct small_load same = drawn;
    struct simulator_options options = small_one_and_one(&drawn);
    options.kinds[0].page_count = 16000;
    options.kinds[0].ranks = 1;
    struct simulator_report report = small_live(&options);
    uint32_t longest[7] = {0};
    uint64_t hits = 0;
    struct simulator_request request;
    for (uint32_t number = 0; small_next(&same, &request); number++) {
        uint32_t shared = request.prompt_tokens < 3 * 512 ? request.prompt_tokens : 3 * 512;
        uint32_t had = longest[number % 7] < shared ? longest[number % 7] : shared;
        uint32_t useful = request.prompt_tokens - 1; /* its last token is always computed */
        hits += (had < useful ? had : useful) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
        uint32_t whole = shared / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
        if (whole > longest[number % 7]) longest[number % 7] = whole;
    }
    assert_int_equal(report.hit_tokens, hits);
}

TEST(a_run_that_breaks_what_must_hold_is_an_error_with_its_name) {
    struct error error = {0};
    struct simulator_report report = {.breach = ""};
    assert_int_equal(simulator_verify(&report, "the run", &error), STATUS_OK);
    strcpy(report.breach, "a token is missing in an answer");
    assert_int_equal(simulator_verify(&report, "the run", &error), STATUS_CORRUPT);
    assert_string_equal(error.text,
                        "the run breaks what must hold: a token is missing in an answer");
}
