/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/predict_length.h"

#include "test_case.h"

TEST(nothing_known_doubles) {
    struct predict_length lengths = {0};
    assert_int_equal(predict_length_left(&lengths, 0, 1000), 1);
    assert_int_equal(predict_length_left(&lengths, 99, 1000), 100);
    assert_int_equal(predict_length_left(&lengths, 99, 7), 7);
}

/* Half end at 100, half at 1000: the mean first; who got beyond 100 has 1000 before it. */
TEST(what_is_left_depends_on_what_was) {
    struct predict_length lengths = {0};
    for (int i = 0; i < 50; i++) {
        predict_length_learn(&lengths, 100);
        predict_length_learn(&lengths, 1000);
    }
    assert_int_equal(predict_length_left(&lengths, 0, 10000), 550);
    assert_int_equal(predict_length_left(&lengths, 200, 10000), 800);
    assert_int_equal(predict_length_left(&lengths, 5000, 10000), 5001);
}

/* Every length up to the limit has a bucket, and the guess is at least one token. */
TEST(every_length_has_a_bucket) {
    struct predict_length lengths = {0};
    for (uint32_t tokens = 0; tokens < 1u << 20; tokens += 1 + tokens / 64) {
        predict_length_learn(&lengths, tokens);
        assert_true(predict_length_left(&lengths, tokens, UINT32_MAX) >= 1);
    }
    predict_length_learn(&lengths, UINT32_MAX);
    assert_true(predict_length_left(&lengths, 0, UINT32_MAX) >= 1);
}

TEST(old_answers_fade) {
    struct predict_length lengths = {0};
    for (int i = 0; i < PREDICT_LENGTH_MEMORY; i++)
        predict_length_learn(&lengths, 100);
    for (int i = 0; i < 4 * PREDICT_LENGTH_MEMORY; i++)
        predict_length_learn(&lengths, 10);
    assert_in_range(predict_length_left(&lengths, 0, 1000), 10, 14);
    assert_true(lengths.total < PREDICT_LENGTH_MEMORY);
}
