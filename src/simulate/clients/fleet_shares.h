/* SPDX-License-Identifier: Apache-2.0
 * Checks that accounts share a simulated gateway's units according to their weights. It uses only
 * the waiting requests and those sent to units, not the turns.
 *
 * The invariant is the bound of self-clocked fair queueing (Golestani 1994, theorem 1). In any
 * period in which two accounts both have waiting requests, compare the work sent to units for each
 * of them, divided by its share. The two differ by no more than the sum of the largest request of
 * each, so divided. No account therefore waits for ever while another account is served. Work is
 * the gateway's prediction for a request. It counts when a unit gets the request for the first
 * time.
 *
 * Three cases are excluded. An account that withdraws a waiting request keeps the turns of its
 * later requests: others may then get more than it, but it gets no more than they do. The same
 * holds for an account with a request that only some units can serve: if units compute with
 * different numerics, all choices of a request go to units of one numerics, and others get the
 * remaining capacity. If units have roles, a request that goes to one unit alone may pass requests
 * that need two: a request that only asks about a prompt, or one that is too large for two. From
 * then on its account is not compared. Each case ends when nothing of the account waits, including
 * requests that return from a unit.
 */
#pragma once

#include "contract/record_unit.h"
#include "simulate/clients/fleet_clients.h"

struct gateway;

enum { FLEET_WAITING_MAX = 128 };

struct fleet_waiting {
    struct request_id id;
    uint32_t account;
    double work; /* divided by its account's share */
    bool waits;  /* seen in the current check */
};

struct fleet_shares { /* state of one incarnation of a gateway */
    struct fleet_waiting waiting[FLEET_WAITING_MAX];
    uint32_t waiting_count;
    uint32_t waits[1 + FLEET_TENANTS]; /* waiting requests of each account */
    bool passes[1 + FLEET_TENANTS];    /* it may overtake others while it has waiting requests */
    /* it may get less than others while it has waiting requests */
    bool gets_less[1 + FLEET_TENANTS];
    double given[1 + FLEET_TENANTS];   /* work divided by the account's share */
    double largest[1 + FLEET_TENANTS]; /* largest request divided by the account's share */
    bool both[1 + FLEET_TENANTS][1 + FLEET_TENANTS]; /* both wait and are compared */
    /* lead over the other since the start of the comparison */
    double ahead[1 + FLEET_TENANTS][1 + FLEET_TENANTS];
    uint64_t compared; /* number of comparisons */
};

/* Updates the waiting requests. */
void fleet_shares_look(struct fleet_shares *shares, const struct gateway *gateway);

/* Records a request sent to a unit. Returns NULL or a text that describes the violation. */
const char *fleet_shares_give(struct fleet_shares *shares, const struct gateway *gateway,
                              const struct record_submit *submit);
