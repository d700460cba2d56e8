/* SPDX-License-Identifier: Apache-2.0
 * Checks that a simulated gateway shares the units among accounts by their weights. It looks only
 * at the waiting requests and at those sent to units, not at the scheduler's own state.
 *
 * The invariant is the bound of self-clocked fair queueing (Golestani 1994, theorem 1). Take any
 * period in which two accounts both have waiting requests, and the work sent to units for each of
 * them, divided by the share of the account. These two values differ by at most the sum of the
 * largest request of each account, divided in the same way. So no account waits forever while
 * another is served. Work is the gateway's prediction for a request, and counts when a unit first
 * receives the request.
 *
 * Three cases are excluded. An account that withdraws a waiting request does not get the turn of
 * that request back: others may then get more than it, but it gets no more than they do. The same
 * holds for an account with a request that only some units can serve. If units have different
 * numerics, all choices of a request must go to units of the same numerics, and other accounts use
 * the remaining capacity. If units have roles, a request that needs one unit (only scores of a
 * prompt, or too large for a pair) may overtake requests that need two; its account is not compared
 * from then on. Each case ends when the account has no waiting request, including requests that
 * come back from a unit.
 */
#pragma once

#include "contract/record_unit.h"
#include "simulate/clients/fleet_clients.h"

struct gateway;

enum { FLEET_WAITING_MAX = 128 };

struct fleet_waiting {
    struct request_id id;
    uint32_t account;
    double work; /* divided by the share of its account */
    bool waits;  /* seen in the current check */
};

struct fleet_shares { /* state of one incarnation of a gateway */
    struct fleet_waiting waiting[FLEET_WAITING_MAX];
    uint32_t waiting_count;
    uint32_t waits[1 + FLEET_TENANTS]; /* waiting requests of each account */
    bool passes[1 + FLEET_TENANTS];    /* may overtake others until none of its requests waits */
    /* May get less than others until none of its requests waits. */
    bool gets_less[1 + FLEET_TENANTS];
    double given[1 + FLEET_TENANTS];   /* work divided by the account's share */
    double largest[1 + FLEET_TENANTS]; /* largest request divided by the account's share */
    bool both[1 + FLEET_TENANTS][1 + FLEET_TENANTS]; /* both wait, and are compared */
    /* Lead over the other account since the comparison started. */
    double ahead[1 + FLEET_TENANTS][1 + FLEET_TENANTS];
    uint64_t compared; /* number of comparisons */
};

/* Updates the set of waiting requests. */
void fleet_shares_look(struct fleet_shares *shares, const struct gateway *gateway);

/* Records a request sent to a unit. Returns NULL, or a text that describes the violation. */
const char *fleet_shares_give(struct fleet_shares *shares, const struct gateway *gateway,
                              const struct record_submit *submit);
