/* SPDX-License-Identifier: Apache-2.0
 * Waits of requests with a constraint (grammar). The rank compiles a constraint, which may take a
 * second, and computes a grammar mask for each token, which takes milliseconds. Until the rank is
 * ready, such a request must not be planned again and again for the same token, ahead of all
 * others.
 *
 *   enter            a plan sends the constraint to the rank, ahead of the first row: BIND_ASKED.
 *                    The request has no row meanwhile
 *   compiled         a result names the slot: BIND_READY. The request starts in its turn
 *   mask is late     the row is lost: BIND_LATE, no row until a result names the slot. The
 *                    computation of the row counts, and its whole blocks are kept
 *   leave            the next plan notifies the rank that the slot's constraint is no longer needed
 *
 * If nothing else can run, steps without rows (step_plan.awaits) wait for the rank. If a rank died
 * during a step, it may not have received the constraints of that plan. They are then sent again.
 */
#pragma once

#include "serving/unit/state.h"

enum request_bind { BIND_NONE, BIND_ASKED, BIND_READY, BIND_LATE };

#define BINDING_ASKS_MAX 32 /* maximum of constraints that one plan sends */

/* A constrained request enters or leaves this unit. */
void binding_enter(struct unit *unit, const struct unit_request *request);
void binding_leave(struct unit *unit, const struct unit_request *request);

/* True if the request must not have a row now. */
static inline bool binding_holds(const struct unit_request *request) {
    return request->constraint_bytes && request->bind != BIND_READY;
}

/* The number of waiting requests that cannot have a row because of their constraints. They do not
 * block admission or the requests behind them in the queue. */
uint32_t binding_held_waiting(const struct unit *unit);

/* The constraints that a plan sends or releases, ahead of its rows. */
struct binding_asks {
    /* constraints to send, the bytes of their texts, and constraints to release */
    uint32_t count, bytes, over_count;
    uint32_t slots[BINDING_ASKS_MAX]; /* [count] */
};

/* Chooses the requests that send a constraint in the next plan, with texts of at most bytes_max in
 * total. */
void binding_choose(const struct unit *unit, uint32_t bytes_max, struct binding_asks *asks_out);

/* Writes these constraints (asks.count to send, asks.over_count to release) and their texts as the
 * first ones of the plan. */
void binding_put(struct unit *unit, struct step_plan *plan, const struct binding_asks *asks);

/* The request's row was lost because its mask is late. */
void binding_late(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* Process the constraints of a finished step, after its rows. binding_is_taken returns false if the
 * rank did not receive the constraints of the plan; lost rows then send theirs again. */
bool binding_is_taken(const struct unit *unit, const struct step_result *result);
void binding_take(struct unit *unit, const struct step_result *result, int64_t now_ns);

/* Checks the counts. */
void binding_audit(const struct unit *unit);
