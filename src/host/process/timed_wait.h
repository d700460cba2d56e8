/* SPDX-License-Identifier: Apache-2.0
 * Condition variables with timed waits on the monotonic clock, so that a change of the wall clock
 * neither shortens nor extends a wait.
 */
#pragma once

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

/* Opens a condition that accepts the deadlines of timed_wait_deadline. */
static inline void timed_wait_open(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* The time `after_ns` (>= 0) from now, for pthread_cond_timedwait. */
static inline struct timespec timed_wait_deadline(int64_t after_ns) {
    int64_t now_ns = clock_now_ns();
    int64_t until_ns = after_ns < INT64_MAX - now_ns ? now_ns + after_ns : INT64_MAX;
    return (struct timespec){until_ns / 1000000000, until_ns % 1000000000};
}
