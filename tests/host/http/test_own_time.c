/* SPDX-License-Identifier: Apache-2.0
 * The clock that stands still with its loop: it goes as others do while it is looked at, and a
 * stand-still of any length is a moment to it.
 */
#include "host/http/own_time.h"

#include "test_case.h"

TEST(it_goes_while_it_is_looked_at) {
    struct own_time time = {0};
    int64_t now_ns = 5000000000, start_ns = own_time_ns(&time, now_ns);
    for (int i = 0; i < 1000; i++) {
        now_ns += OWN_TIME_TICK_NS * (1 + i % 4);
        assert_int_equal(own_time_ns(&time, now_ns) - start_ns, now_ns - 5000000000);
        assert_int_equal(own_time_ns(&time, now_ns) - start_ns, now_ns - 5000000000);
    }
}

TEST(a_stand_still_is_a_moment) {
    struct own_time time = {0};
    int64_t before_ns = own_time_ns(&time, 1000000000);
    int64_t after_ns = own_time_ns(&time, 1000000000 + (int64_t)3600 * 1000000000);
    assert_true(after_ns > before_ns && after_ns - before_ns <= 5 * OWN_TIME_TICK_NS);
    assert_int_equal(own_time_ns(&time, time.seen_ns + 7) - after_ns, 7);
}
