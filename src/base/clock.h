/* SPDX-License-Identifier: Apache-2.0
 * The monotonic clock in nanoseconds. It is the time of state machines and measurements. Pure
 * modules must not call it: they receive the time as an argument (checked by tests/house).
 */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t clock_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
