/* SPDX-License-Identifier: Apache-2.0
 * A clock that stops while its event loop is blocked: time in which the loop could not read events
 * counts against no deadline. Compare deadlines with this clock.
 */
#ifndef HOST_HTTP_OWN_TIME_H
#define HOST_HTTP_OWN_TIME_H

#include <stdint.h>

#define OWN_TIME_TICK_NS ((int64_t)100000000) /* the loop shall call so often */

struct own_time {
    int64_t seen_ns; /* 0: not yet */
    int64_t lost_ns; /* all stand-stills together */
};

/* The server's own clock at `now_ns`. Time since the last call counts for four ticks at most. */
int64_t own_time_ns(struct own_time *time, int64_t now_ns);

#endif
