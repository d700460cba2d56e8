/* SPDX-License-Identifier: Apache-2.0
 * The accounts of a simulated fleet's clients: one for each tenant, with limits, and one for the
 * operator. Each gateway receives them again at any moment and whenever prices change, together
 * with the sums that other gateways have begun for them since. In runs with a ledger, accounts pay,
 * one of them in advance, and gateways receive the sums that the ledger has written.
 *
 * Invariants: in any period an account begins no more at a gateway than its rate allows for that
 * period plus one minute, both in requests and in prompt tokens. The balances at each gateway are
 * exact to the nano, as far as they were sent. No account that pays in advance begins a request
 * with nothing left. With one gateway and one price, no account ever owes more than one request can
 * cost.
 *
 * Only some runs have accounts, drawn from a random stream of their own, so other runs do not
 * change.
 */
#pragma once

#include "contract/record_ledger.h"
#include "simulate/clients/fleet_clients.h"
#include "simulate/clients/fleet_ledger.h"
#include "simulate/kernel/fleet_dice.h"

struct gateway;

struct fleet_reported { /* copy of one gateway */
    int64_t report_ns;  /* when the accounts are sent again; MACHINE_NEVER */
    _Alignas(8) char memory[4096];
    struct record_accounts *record; /* in `memory`: the last record sent */
};

struct fleet_accounts {
    bool present;
    struct fleet_dice dice, flood;
    uint32_t gateway_count;
    /* tenant with far more requests than the others; 0: none. If there is one, no account has rate
     * limits */
    uint64_t flooder;
    int64_t paid[1 + FLEET_TENANTS];            /* total paid by each account */
    struct fleet_sum beyond[1 + FLEET_TENANTS]; /* sums begun at a gateway that is not simulated */
    struct fleet_reported reported[FLEET_GATEWAYS_MAX];
};

void fleet_accounts_open(struct fleet_accounts *accounts, uint64_t seed, uint32_t gateway_count);

/* The accounts as the database has them now, for the gateway's start. */
const struct record_accounts *fleet_accounts_read(struct fleet_accounts *accounts,
                                                  const struct fleet_ledger *ledger,
                                                  const struct fleet_clients *clients,
                                                  uint32_t gateway, int64_t now_ns);

/* Simulates requests begun elsewhere and payments, then returns the accounts as above. */
const struct record *fleet_accounts_report(struct fleet_accounts *accounts,
                                           const struct fleet_ledger *ledger,
                                           const struct fleet_clients *clients, uint32_t gateway,
                                           int64_t now_ns);

/* True if the account pays in advance and has nothing left, by all that the gateway has
 * reported. */
bool fleet_accounts_lack(const struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                         const struct fleet_clients *clients, uint32_t gateway, uint64_t tenant);

/* Returns NULL, or a text that describes a wrong balance at the gateway. */
const char *fleet_accounts_audit(const struct fleet_accounts *accounts,
                                 const struct fleet_ledger *ledger,
                                 const struct fleet_clients *clients, uint32_t index,
                                 const struct gateway *gateway);

/* Writes a violation into clients->breach. A restarted gateway has no data about requests begun by
 * the previous incarnation, so each incarnation is checked separately. */
void fleet_accounts_verify(const struct fleet_accounts *accounts, struct fleet_clients *clients);
