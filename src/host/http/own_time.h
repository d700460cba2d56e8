/* SPDX-License-Identifier: Apache-2.0
 * A clock that stops while its event loop is blocked, so that time in which the loop could not read
 * events does not count against deadlines. Compare deadlines with this clock.
 */
#pragma once

#include <stdint.h>

#define OWN_TIME_TICK_NS ((int64_t)100000000) /* interval at which the loop must call own_time_ns */

struct own_time {
    int64_t seen_ns; /* time of the last call; 0: none */
    int64_t lost_ns; /* total time that the loop was blocked */
};

/* The server's clock at `now_ns`. At most four ticks count since the last call. */
int64_t own_time_ns(struct own_time *time, int64_t now_ns);
