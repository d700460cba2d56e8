/* SPDX-License-Identifier: Apache-2.0
 * Protects what is said of a load: figures are those of the requests that succeeded, each time is
 * counted from where its name says, and failures are counted by kind.
 */
#include "bench/load_report.h"

#include "test_case.h"

static struct load_result results[] = {
    {.arrival = 1,
     .sent = 1.5,
     .first = 2,
     .last = 4,
     .end = 4.5,
     .prompt_tokens = 10,
     .output_tokens = 5,
     .cached_tokens = 4},
    {.arrival = 2,
     .sent = 2,
     .first = 6,
     .last = 6,
     .end = 6,
     .prompt_tokens = 30,
     .output_tokens = 1}, /* no time from token to token */
    {.arrival = 0, .first = 100, .end = 100, .prompt_tokens = 99, .failure = LOAD_BROKEN},
    {.arrival = 0, .first = 100, .end = 100, .prompt_tokens = 99, .failure = LOAD_LEFT},
};
static double gaps[] = {0.5, 0.25};

TEST(figures_are_those_of_the_requests_that_succeeded) {
    struct load_outcome outcome = {
        .results = results, .request_count = 4, .gaps = gaps, .gap_count = 2};
    struct load_report report;
    struct error error;
    assert_int_equal(load_report_make(&outcome, 4, &report, &error), STATUS_OK);
    assert_int_equal(report.count, 4);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.left, 1);
    assert_int_equal(report.failures[LOAD_BROKEN], 1);
    assert_int_equal(report.prompt_tokens, 40);
    assert_int_equal(report.cached_tokens, 4);
    assert_int_equal(report.output_tokens, 6);
    assert_true(report.first.count == 2 && report.first.mean == 2.5 && report.first.max == 4);
    assert_true(report.token.count == 1 && report.token.mean == 0.5);
    assert_true(report.whole.mean == 3.75 && report.queue.max == 0.5);
    assert_true(report.prompt_lengths.max == 30 && report.output_lengths.max == 5);
    assert_true(report.gap.count == 2 && report.gap.max == 0.5);
}

TEST(each_failure_has_a_name_of_its_own) {
    for (int i = 0; i < LOAD_FAILURE_COUNT; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(load_failure_name((enum load_failure)i),
                                    load_failure_name((enum load_failure)k));
}
