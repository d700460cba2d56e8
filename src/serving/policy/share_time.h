/* SPDX-License-Identifier: Apache-2.0
 * Fair queueing of jobs that run one at a time, with a cost that is unknown until they are done.
 * Compiling a constraint takes between a millisecond and a second, independent of its length.
 *
 * Self-clocked fair queueing by the measured time (Golestani, 1994; serving/policy/fair_queue does
 * the same for work that is known before). A client's turn is the virtual time up to which it has
 * used its share. The smallest turn is next. Virtual time is the turn of the client served last. A
 * client that was idle starts at virtual time, so no client saves up time while it is idle. A
 * client with little work overtakes clients that have used more, and waits only for the job in
 * progress.
 *
 * A turn is forgotten once virtual time has passed it. If more clients are ahead of virtual time
 * than the table can hold, the one that is least ahead is forgotten.
 */
#pragma once

#include <stdint.h>

#define SHARE_TIME_CLIENTS 256

struct share_time { /* zeroed at the start */
    uint64_t now;   /* virtual time, in nanoseconds of work */
    uint32_t count;
    struct {
        uint64_t client, turn; /* > now */
    } ahead[SHARE_TIME_CLIENTS];
};

/* The client's turn; the client with the smallest is next. */
uint64_t share_time_turn(const struct share_time *share, uint64_t client);

/* Charges a client for a job that took `ns`. */
void share_time_spend(struct share_time *share, uint64_t client, int64_t ns);
