/* SPDX-License-Identifier: Apache-2.0
 * The wait for a first token is what is ahead, at the speed that was measured while there was
 * something to do.
 */
#include "serving/policy/predict_ttft.h"

#include "test_case.h"

#define SECOND ((int64_t)1000000000)

TEST(nothing_is_predicted_while_nothing_is_known) {
    struct predict_ttft ttft = {0};
    assert_int_equal(predict_ttft_ns(&ttft, 1000000), 0);
    predict_ttft_busy(&ttft, true, 0);
    predict_ttft_start(&ttft, 100, SECOND);
    assert_int_equal(predict_ttft_ns(&ttft, 1000000), 0);
}

/* Work of 1000 each second, in between an hour in which nobody asks. */
TEST(an_idle_fleet_is_not_a_slow_one) {
    struct predict_ttft ttft = {0};
    int64_t now_ns = 0;
    for (uint32_t i = 0; i < 10; i++, now_ns += 3600 * SECOND) {
        predict_ttft_busy(&ttft, true, now_ns);
        predict_ttft_start(&ttft, 1000, now_ns += SECOND);
        predict_ttft_busy(&ttft, false, now_ns);
    }
    assert_true(predict_ttft_ns(&ttft, 5000) == 5 * SECOND);
}

TEST(the_past_is_forgotten) {
    struct predict_ttft ttft = {0};
    int64_t now_ns = 0;
    predict_ttft_busy(&ttft, true, 0);
    for (uint32_t i = 0; i < 1000; i++)
        predict_ttft_start(&ttft, 1000, now_ns += SECOND);
    for (uint32_t i = 0; i < 200; i++) /* half as fast */
        predict_ttft_start(&ttft, 500, now_ns += SECOND);
    int64_t ns = predict_ttft_ns(&ttft, 5000);
    assert_true(ns > 9 * SECOND && ns < 11 * SECOND);
}

TEST(classes_have_other_limits) {
    assert_int_equal(predict_ttft_limit(100, ACCOUNT_LOW), 50);
    assert_int_equal(predict_ttft_limit(100, ACCOUNT_NORMAL), 100);
    assert_int_equal(predict_ttft_limit(100, ACCOUNT_HIGH), 200);
}
