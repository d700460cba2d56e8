/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/predict_length.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void nothing_known_doubles(void **state) {
    (void)state;
    struct predict_length lengths = {0};
    assert_int_equal(predict_length_left(&lengths, 0, 1000), 1);
    assert_int_equal(predict_length_left(&lengths, 99, 1000), 100);
    assert_int_equal(predict_length_left(&lengths, 99, 7), 7);
}

/* Half end at 100, half at 1000: the mean first; who got beyond 100 has 1000 before it. */
static void what_is_left_depends_on_what_was(void **state) {
    (void)state;
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
static void every_length_has_a_bucket(void **state) {
    (void)state;
    struct predict_length lengths = {0};
    for (uint32_t tokens = 0; tokens < 1u << 20; tokens += 1 + tokens / 64) {
        predict_length_learn(&lengths, tokens);
        assert_true(predict_length_left(&lengths, tokens, UINT32_MAX) >= 1);
    }
    predict_length_learn(&lengths, UINT32_MAX);
    assert_true(predict_length_left(&lengths, 0, UINT32_MAX) >= 1);
}

static void old_answers_fade(void **state) {
    (void)state;
    struct predict_length lengths = {0};
    for (int i = 0; i < PREDICT_LENGTH_MEMORY; i++)
        predict_length_learn(&lengths, 100);
    for (int i = 0; i < 4 * PREDICT_LENGTH_MEMORY; i++)
        predict_length_learn(&lengths, 10);
    assert_in_range(predict_length_left(&lengths, 0, 1000), 10, 14);
    assert_true(lengths.total < PREDICT_LENGTH_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_known_doubles),
        cmocka_unit_test(what_is_left_depends_on_what_was),
        cmocka_unit_test(every_length_has_a_bucket),
        cmocka_unit_test(old_answers_fade),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
