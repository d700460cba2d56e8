/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/admit.h"

#include "base/check.h"
#include "test_case.h"

/* One row per reason, each at its boundary. */
TEST(each_reason_has_its_boundary) {
    static const struct unit_capacity empty = {.context_tokens_max = 1000,
                                               .page_count = 10,
                                               .pages_available = 10,
                                               .requests_max = 4,
                                               .rows_max = 2};
    struct {
        struct admit_need need;
        struct unit_capacity capacity;
        enum admit expected;
    } cases[] = {
        {{600, 40}, empty, ADMIT_NOW}, /* 640 tokens: all ten pages */
        {{600, 41}, empty, ADMIT_REFUSE_MEMORY},
        {{960, 41}, empty, ADMIT_REFUSE_CONTEXT},
        {{960, 40}, empty, ADMIT_REFUSE_MEMORY}, /* it fits the context */
        {{UINT32_MAX, UINT32_MAX}, empty, ADMIT_REFUSE_CONTEXT},
        {{64, 64}, empty, ADMIT_WAIT_PAGES},
        {{64, 64}, empty, ADMIT_NOW},
        {{64, 64}, empty, ADMIT_REFUSE_QUEUE},
        {{64, 64}, empty, ADMIT_WAIT_ROWS},
        {{64, 64}, empty, ADMIT_WAIT_TURN},
        {{64, 64}, empty, ADMIT_REFUSE_DRAINING},
        {{64, 300}, empty, ADMIT_NOW}, /* its prompt's page and one to grow into */
        {{64, 300}, empty, ADMIT_WAIT_PAGES},
    };
    cases[5].capacity.pages_available = 1;
    cases[6].capacity.pages_available = 2;
    cases[7].capacity.requests_held = 4;
    cases[8].capacity.rows_running = 2;
    cases[9].capacity.waits = true;
    cases[10].capacity.draining = true;
    cases[11].capacity.pages_available = 3; /* one for the four that run */
    cases[11].capacity.rows_running = cases[12].capacity.rows_running = 4;
    cases[11].capacity.rows_max = cases[12].capacity.rows_max = 8;
    cases[12].capacity.pages_available = 2;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(admit_arrival(cases[i].need, &cases[i].capacity), cases[i].expected);
}

/* What is known, rounded up, and a page to grow into, but never more than the longest answer takes.
 */
TEST(a_start_takes_what_is_known_and_a_page) {
    struct admit_need need = {100, 1000};
    assert_int_equal(admit_start_pages(need, 100), 3);
    assert_int_equal(admit_start_pages(need, 128), 3);
    assert_int_equal(admit_start_pages(need, 129), 4);
    assert_int_equal(admit_start_pages(need, 1100), 18);
    assert_int_equal(admit_start_pages((struct admit_need){64, 1}, 64), 2);
    assert_int_equal(admit_start_pages((struct admit_need){60, 4}, 60), 1);
}

/* Who computes a prompt for another unit makes one token, whatever the answer may have. */
TEST(a_prompt_for_another_unit_needs_one_token) {
    struct record_submit submit = {
        .task = SUBMIT_PREFILL, .prompt_count = 100, .new_tokens_max = 50};
    assert_int_equal(admit_need_of(&submit).prompt_tokens, 100);
    assert_int_equal(admit_need_of(&submit).new_tokens_max, 1);
    submit.task = SUBMIT_ANSWER;
    assert_int_equal(admit_need_of(&submit).new_tokens_max, 50);
}

/* Every refusal becomes the right last word. */
TEST(refusals_have_reasons) {
    assert_int_equal(admit_finish_reason(ADMIT_REFUSE_CONTEXT), FINISH_REFUSED_TOO_LARGE);
    assert_int_equal(admit_finish_reason(ADMIT_REFUSE_MEMORY), FINISH_REFUSED_TOO_LARGE);
    assert_int_equal(admit_finish_reason(ADMIT_REFUSE_QUEUE), FINISH_REFUSED_QUEUE);
    assert_int_equal(admit_finish_reason(ADMIT_REFUSE_DRAINING), FINISH_REFUSED_DRAINING);
    for (int i = 0; i < ADMIT_COUNT; i++)
        assert_int_equal(admit_refuses(i), i >= ADMIT_REFUSE_DRAINING);
}
