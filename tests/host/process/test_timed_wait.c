/* SPDX-License-Identifier: Apache-2.0
 * Protects timed waits from changes of the wall clock: a deadline and the condition that waits for
 * it use the same, monotonic clock. With different clocks such a wait ends at once, or never.
 */
#include "host/process/timed_wait.h"

#include <errno.h>

#include "test_case.h"

#define WAIT_NS 20000000

TEST(a_wait_lasts_as_long_as_its_deadline_says) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    timed_wait_open(&condition);
    pthread_mutex_lock(&lock);
    int64_t began_ns = clock_now_ns();
    struct timespec until = timed_wait_deadline(WAIT_NS);
    int result = 0;
    while (!result)
        result = pthread_cond_timedwait(&condition, &lock, &until);
    assert_int_equal(result, ETIMEDOUT);
    assert_true(clock_now_ns() - began_ns >= WAIT_NS);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&condition);
}

TEST(the_longest_wait_has_a_deadline) {
    struct timespec until = timed_wait_deadline(INT64_MAX);
    assert_true(until.tv_sec == INT64_MAX / 1000000000);
}
