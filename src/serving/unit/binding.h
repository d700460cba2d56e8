/* SPDX-License-Identifier: Apache-2.0
 * The waits of a constrained request at its rank. Compiling a constraint may take a second, and
 * computing a mask some milliseconds. A request that cannot choose a token yet must not be computed
 * repeatedly for the same token, ahead of all others.
 *
 *   enter            a plan sends the constraint to the rank, ahead of the first row: BIND_ASKED.
 *                    The request has no row meanwhile
 *   compiled         a result names the slot: BIND_READY. The request starts in its turn
 *   mask is late     the row is lost: BIND_LATE, no row until a result names the slot. The
 *                    computation of the row counts, and its whole blocks are kept
 *   leave            the next plan notifies the rank that the slot's constraint is no longer needed
 *
 * If nothing else runs, steps without rows (step_plan.awaits) wait for the rank. If a rank died in
 * a step, its result may not confirm the constraints of the plan; they are then sent again.
 */
#pragma once

#include "serving/unit/state.h"

enum request_bind { BIND_NONE, BIND_ASKED, BIND_READY, BIND_LATE };

#define BINDING_ASKS_MAX 32 /* requests with a constraint in one plan */

/* A constrained request enters or leaves this unit. */
void binding_enter(struct unit *unit, const struct unit_request *request);
void binding_leave(struct unit *unit, const struct unit_request *request);

/* True if the request must not have a row now. */
static inline bool binding_holds(const struct unit_request *request) {
    return request->constraint_bytes && request->bind != BIND_READY;
}

/* The number of waiting requests that could not get a row in their turn. They do not block
 * admissions or the queue. */
uint32_t binding_held_waiting(const struct unit *unit);

/* The part of a plan ahead of its rows. */
struct binding_asks {
    /* requests that send a constraint, the bytes of their texts, and requests that have ended */
    uint32_t count, bytes, over_count;
    uint32_t slots[BINDING_ASKS_MAX]; /* [count] */
};

/* Chooses the requests that send a constraint in the next plan, with texts of at most bytes_max in
 * total. */
void binding_choose(const struct unit *unit, uint32_t bytes_max, struct binding_asks *asks_out);

/* Writes asks.count + asks.over_count constraints, the first ones of the plan, and their texts. */
void binding_put(struct unit *unit, struct step_plan *plan, const struct binding_asks *asks);

/* The request's row was lost because its mask is late. */
void binding_late(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* Process the constraints of a finished step, after its rows. binding_is_taken returns false if the
 * rank did not receive the constraints of the plan; lost rows then send theirs again. */
bool binding_is_taken(const struct unit *unit, const struct step_result *result);
void binding_take(struct unit *unit, const struct step_result *result, int64_t now_ns);

/* Checks the counts. */
void binding_audit(const struct unit *unit);
