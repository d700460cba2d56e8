/* SPDX-License-Identifier: Apache-2.0
 * Protects the end of a drain: an empty unit stops, requests are given away where that is much
 * sooner or the time has run out, and else waited for, as they are where nobody else could go on
 * with them.
 */

#include "serving/policy/end_drain.h"
#include "test_case.h"

#define S ((int64_t)1000000000)

TEST(requests_are_given_away_where_that_ends_it_much_sooner) {
    struct end_drain_view view = {.requests = 10,
                                  .answer_tokens = 1000,
                                  .token_ns = 5e7, /* 50 s of an answer */
                                  .prompt_tokens = 4000,
                                  .spare_rate = 10000, /* 4.5 s to compute them again */
                                  .drain_ns_max = 300 * S};
    assert_int_equal(end_drain(&view), END_DRAIN_MOVES);
    view.requests = 100; /* 45 s */
    assert_int_equal(end_drain(&view), END_DRAIN_WAITS);
    view.requests = 10;
    view.drained_ns = 40 * S; /* they are about to end */
    assert_int_equal(end_drain(&view), END_DRAIN_WAITS);
    view.drained_ns = 31 * S; /* 19 s are more than four times 4.5 s, 18 s are not */
    assert_int_equal(end_drain(&view), END_DRAIN_MOVES);
    view.drained_ns = 32 * S;
    assert_int_equal(end_drain(&view), END_DRAIN_WAITS);
    view.drained_ns = 300 * S;
    assert_int_equal(end_drain(&view), END_DRAIN_MOVES);
    view.alone = true; /* an answer of two numerics would be none */
    assert_int_equal(end_drain(&view), END_DRAIN_WAITS);
    view.alone = false;
    view.drained_ns = 0;
    view.spare_rate = 0; /* nobody could compute them */
    assert_int_equal(end_drain(&view), END_DRAIN_WAITS);
    view.requests = 0;
    assert_int_equal(end_drain(&view), END_DRAIN_STOPS);
}
