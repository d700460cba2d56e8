/* SPDX-License-Identifier: Apache-2.0
 * Who is next where work is done one at a time, and what it takes is known only when it is done: to
 * compile a constraint takes from a millisecond to a second, and its length does not say which.
 *
 * Self-clocked fair queueing by the time that was measured (Golestani, 1994; serving/policy/
 * share_turns has the same for work that is known before): each client has as its turn the virtual
 * time up to which it has had its share, and the smallest turn is next. Virtual time is the turn of
 * the one served last. A client that was idle begins at virtual time, so nobody saves turns up, and
 * one who asks for little passes all who have had more: it waits for what is in work, and no longer.
 *
 * A turn that virtual time has passed says nothing and is forgotten. Where more clients than the
 * table holds are ahead of virtual time, the one that is least ahead is forgotten.
 */
#ifndef SERVING_POLICY_SHARE_TIME_H
#define SERVING_POLICY_SHARE_TIME_H

#include <stdint.h>

#define SHARE_TIME_CLIENTS 256

struct share_time { /* all zeros at first */
    uint64_t now;   /* virtual time, in nanoseconds of work */
    uint32_t count;
    struct {
        uint64_t client, turn; /* > now */
    } ahead[SHARE_TIME_CLIENTS];
};

/* The client's turn: the smallest is next. */
uint64_t share_time_turn(const struct share_time *share, uint64_t client);

/* The client's work was done, and took so long. */
void share_time_spend(struct share_time *share, uint64_t client, int64_t ns);

#endif
