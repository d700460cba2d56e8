/* SPDX-License-Identifier: Apache-2.0
 * Whether accounts share a simulated gateway's units as their weights say. It looks at who waits, and at
 * what is sent to units, and knows nothing of turns.
 *
 * What must hold is the bound of self-clocked fair queueing (Golestani 1994, theorem 1): over any time
 * in which two accounts both have requests that wait, the work of theirs that has been given to units,
 * each divided by its share, differs by no more than the largest request of the one and the largest of
 * the other, so divided. So nobody waits for ever while another account is served. Work is what the
 * gateway predicts of a request; it counts when a unit gets the request for the first time.
 *
 * Three things are left out. An account that takes back a request that waits keeps the turns of those
 * behind it: others may get more than it from then on, while it gets no more than they. The same holds
 * for an account with a request that is bound to some units: where units compute with different
 * numerics, the choices of a request go to units of one alone, and others get what the rest has room
 * for. And where units have roles, a request that goes to one unit alone may pass others that want other
 * units: one that only asks about a prompt, or one that is too large for two. From then on its account is
 * not compared. Each of these ends when nothing of the account waits, also nothing that comes back from a
 * unit.
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
    double work; /* by its account's share */
    bool waits;  /* seen by the look that is under way */
};

struct fleet_shares { /* of one life of a gateway */
    struct fleet_waiting waiting[FLEET_WAITING_MAX];
    uint32_t waiting_count;
    uint32_t waits[1 + FLEET_TENANTS];                  /* so many of each account's */
    bool passes[1 + FLEET_TENANTS];                     /* others, while something of it waits */
    bool gets_less[1 + FLEET_TENANTS];                  /* than others, perhaps; likewise */
    double given[1 + FLEET_TENANTS];                    /* work, by its share */
    double largest[1 + FLEET_TENANTS];                  /* request, by its share */
    bool both[1 + FLEET_TENANTS][1 + FLEET_TENANTS];    /* wait, and are compared */
    double ahead[1 + FLEET_TENANTS][1 + FLEET_TENANTS]; /* of the other, when that began */
    uint64_t compared;                                  /* so often */
};

/* Who waits now. */
void fleet_shares_look(struct fleet_shares *shares, const struct gateway *gateway);

/* It is on its way to a unit. NULL, or what is wrong. */
const char *fleet_shares_give(struct fleet_shares *shares, const struct gateway *gateway,
                              const struct record_submit *submit);

#endif
