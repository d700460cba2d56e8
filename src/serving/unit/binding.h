/* SPDX-License-Identifier: Apache-2.0
 * The waits of a constrained request at its rank. Compiling a constraint may take a second, and a
 * mask some milliseconds. A request that cannot choose a token before that must not compute for one
 * again and again, ahead of all others.
 *
 *   it enters        a plan sends its constraint to the rank, ahead of its first row: BIND_ASKED.
 *                    Meanwhile it has no row
 *   compiled         a result names its slot: BIND_READY. It starts in its turn
 *   its mask is late its row is lost: BIND_LATE, no row until a result names its slot. The row's
 *                    computation counts, and whole blocks of it are kept
 *   it is over       the next plan notifies the rank that its slot needs nothing any more
 *
 * If nothing else runs, steps without rows (step_plan.awaits) wait for the rank. A result that has
 * not taken a plan's constraints, because a rank has died in its step, means that they have to be
 * sent again.
 */
#ifndef SERVING_UNIT_BINDING_H
#define SERVING_UNIT_BINDING_H

#include "serving/unit/state.h"

enum request_bind { BIND_NONE, BIND_ASKED, BIND_READY, BIND_LATE };

#define BINDING_ASKS_MAX 32 /* requests that a plan asks for */

/* A constrained request enters, or is over at this unit. */
void binding_enter(struct unit *unit, const struct unit_request *request);
void binding_leave(struct unit *unit, const struct unit_request *request);

/* It may have no row now. */
static inline bool binding_holds(const struct unit_request *request) {
    return request->constraint_bytes && request->bind != BIND_READY;
}

/* Counts the waiting requests that would not get a row in their turn either. They do not keep
 * others from being admitted, and do not delay others in the queue. */
uint32_t binding_held_waiting(const struct unit *unit);

/* The part of a plan ahead of its rows. */
struct binding_asks {
    uint32_t count, bytes, over_count; /* requests that ask, the bytes of their texts, and requests
                                        * that are over */
    uint32_t slots[BINDING_ASKS_MAX];  /* [count] */
};

/* Chooses the requests that the next plan asks for, with texts of at most bytes_max in total. */
void binding_choose(const struct unit *unit, uint32_t bytes_max, struct binding_asks *asks_out);

/* Puts asks.count + asks.over_count constraints, the first ones of the plan, and their texts. */
void binding_put(struct unit *unit, struct step_plan *plan, const struct binding_asks *asks);

/* The request's row was lost because its mask is late. */
void binding_late(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* A step is done, and its rows are processed. False: the rank has not taken the plan's constraints;
 * rows that were lost send theirs again. */
bool binding_is_taken(const struct unit *unit, const struct step_result *result);
void binding_take(struct unit *unit, const struct step_result *result, int64_t now_ns);

/* check()s the counts. */
void binding_audit(const struct unit *unit);

#endif
