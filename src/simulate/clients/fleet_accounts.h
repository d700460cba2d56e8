/* SPDX-License-Identifier: Apache-2.0
 * The accounts of the clients of a simulated fleet: one with limits for each tenant, and one for
 * the operator. At random moments, and whenever prices change, each gateway receives all accounts
 * again, with the sums that other gateways have begun for them since. In runs with a ledger the
 * accounts pay, one of them in advance, and gateways receive the sums that the ledger has written.
 *
 * Invariants: in any period, the requests and prompt tokens that an account begins at one gateway
 * do not exceed its rate limits for that period plus one minute. The balances at each gateway are
 * exact to the nano, given what was sent to it. An account that pays in advance begins no request
 * once its balance is used up. With one gateway and one price, an account never owes more than the
 * cost of one request.
 *
 * Only some runs have accounts. They have their own random stream, so the other runs stay the same.
 */
#pragma once

#include "contract/record_ledger.h"
#include "simulate/clients/fleet_clients.h"
#include "simulate/clients/fleet_ledger.h"
#include "simulate/kernel/fleet_dice.h"

struct gateway;

struct fleet_reported { /* the accounts at one gateway */
    int64_t report_ns;  /* when the accounts are sent again, or MACHINE_NEVER */
    _Alignas(8) char memory[4096];
    struct record_accounts *record; /* in `memory`: the last record sent */
};

struct fleet_accounts {
    bool present;
    struct fleet_dice dice, flood;
    uint32_t gateway_count;
    /* The tenant that sends far more requests than the others, or 0. If there is one, no account
     * has rate limits. */
    uint64_t flooder;
    int64_t paid[1 + FLEET_TENANTS];            /* total payments of each account */
    struct fleet_sum beyond[1 + FLEET_TENANTS]; /* begun at a gateway that is not simulated */
    struct fleet_reported reported[FLEET_GATEWAYS_MAX];
};

void fleet_accounts_open(struct fleet_accounts *accounts, uint64_t seed, uint32_t gateway_count);

/* The accounts as they are in the database now, for a gateway that starts. */
const struct record_accounts *fleet_accounts_read(struct fleet_accounts *accounts,
                                                  const struct fleet_ledger *ledger,
                                                  const struct fleet_clients *clients,
                                                  uint32_t gateway, int64_t now_ns);

/* Simulates payments and requests begun at other gateways, then returns the accounts as above. */
const struct record *fleet_accounts_report(struct fleet_accounts *accounts,
                                           const struct fleet_ledger *ledger,
                                           const struct fleet_clients *clients, uint32_t gateway,
                                           int64_t now_ns);

/* True if the account pays in advance and has no balance left, given all that the gateway has
 * reported. */
bool fleet_accounts_lack(const struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                         const struct fleet_clients *clients, uint32_t gateway, uint64_t tenant);

/* Checks the balances at the gateway. Returns NULL, or a text that describes the wrong one. */
const char *fleet_accounts_audit(const struct fleet_accounts *accounts,
                                 const struct fleet_ledger *ledger,
                                 const struct fleet_clients *clients, uint32_t index,
                                 const struct gateway *gateway);

/* Checks the rate limits of all accounts and writes a violation into clients->breach. A restarted
 * gateway does not know the requests of its previous incarnation, so each incarnation is checked by
 * itself. */
void fleet_accounts_verify(const struct fleet_accounts *accounts, struct fleet_clients *clients);
