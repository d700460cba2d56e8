/* SPDX-License-Identifier: Apache-2.0
 * Protects wishes of how tokens are chosen: numbers out of their range, and none at all, are
 * refused.
 */
#include "records.h"
#include "test_case.h"

TEST(wishes_out_of_range_are_refused) {
    struct record_submit *submit;
    static const struct sampling bad_samplings[] = {
        {.top_p = 1, .min_p = 1.1f},          {.top_p = 1, .frequency_penalty = 2.1f},
        {.top_p = 1, .presence_penalty = -3}, {.top_p = 1, .repetition_penalty = -1},
        {.top_p = 1, .top_logprobs = 21},     {.top_p = 1, .flags = 2},
        {.top_p = 1, .reserved = 1},          {.top_p = 1, .repetition_penalty = NAN},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad_samplings); i++) {
        submit = good_submit();
        submit->sampling = bad_samplings[i];
        assert_invalid(submit);
    }
    static const float bad_biases[] = {101, -101, NAN, INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(bad_biases); i++) {
        submit = good_submit();
        struct token_bias *biases = submit_biases(submit);
        biases[1].bias = -INFINITY; /* a mask is no bad bias */
        assert_true(record_valid(submit, submit->record.bytes));
        biases[1].bias = bad_biases[i];
        assert_invalid(submit);
    }
}
