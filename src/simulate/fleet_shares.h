/* SPDX-License-Identifier: Apache-2.0
 * Checks that accounts share a simulated gateway's units according to their weights. It looks at
 * the requests that wait and those that are sent to units, and knows nothing of turns.
 *
 * The invariant is the bound of self-clocked fair queueing (Golestani 1994, theorem 1). In any
 * period in which two accounts both have waiting requests, compare the work sent to units for each
 * of them, divided by its share. The two differ by no more than the sum of the largest request of
 * each, so divided. No account therefore waits for ever while another account is served. Work is
 * the gateway's prediction for a request. It counts when a unit gets the request for the first
 * time.
 *
 * Three cases are left out. An account that withdraws a waiting request keeps the turns of the
 * requests behind it: others may get more than it from then on, while it gets no more than they do.
 * The same holds for an account with a request that is bound to some units: if units compute with
 * different numerics, all choices of a request go to units of one numerics, and others get the
 * remaining capacity. If units have roles, a request that goes to one unit alone may pass requests
 * that need two: a request that only asks about a prompt, or one that is too large for two. From
 * then on its account is not compared. Each case ends when nothing of the account waits, including
 * requests that return from a unit.
 */
#ifndef SIMULATE_FLEET_SHARES_H
#define SIMULATE_FLEET_SHARES_H

#include "contract/record_unit.h"
#include "simulate/fleet_clients.h"

struct gateway;

enum { FLEET_WAITING_MAX = 128 };

struct fleet_waiting {
    struct request_id id;
    uint32_t account;
    double work; /* divided by its account's share */
    bool waits;  /* seen by the current look */
};

struct fleet_shares { /* of one incarnation of a gateway */
    struct fleet_waiting waiting[FLEET_WAITING_MAX];
    uint32_t waiting_count;
    uint32_t waits[1 + FLEET_TENANTS];                  /* waiting requests of each account */
    bool passes[1 + FLEET_TENANTS];                     /* it may pass others, while something of it
                                                         * waits */
    bool gets_less[1 + FLEET_TENANTS];                  /* it may get less than others; likewise */
    double given[1 + FLEET_TENANTS];                    /* work, divided by its share */
    double largest[1 + FLEET_TENANTS];                  /* largest request, divided by its share */
    bool both[1 + FLEET_TENANTS][1 + FLEET_TENANTS];    /* both wait and are compared */
    double ahead[1 + FLEET_TENANTS][1 + FLEET_TENANTS]; /* lead over the other when that began */
    uint64_t compared;                                  /* number of comparisons */
};

/* Updates the waiting requests. */
void fleet_shares_look(struct fleet_shares *shares, const struct gateway *gateway);

/* Records a request sent to a unit. Returns NULL or a text that says what is wrong. */
const char *fleet_shares_give(struct fleet_shares *shares, const struct gateway *gateway,
                              const struct record_submit *submit);

#endif
