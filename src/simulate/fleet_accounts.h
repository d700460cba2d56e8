/* SPDX-License-Identifier: Apache-2.0
 * The accounts of a simulated fleet's clients: one for each tenant, with limits, and one for the
 * operator. They are told again at any moment, with what another gateway at the same ledger has
 * begun for them meanwhile. Where a ledger is kept they pay, one of them in advance, and are told what
 * it has written down. What must hold: in no time does an account begin more than its rate brings in
 * that time and one minute's worth besides, of requests and of prompts' tokens; the gateway knows
 * each balance to the nano; and nobody who pays in advance begins with nothing left, or ever owes more
 * than one request may come to.
 *
 * Only part of all lives has them, by a stream of chance of their own: the others stay as they are.
 */
#ifndef SIMULATE_FLEET_ACCOUNTS_H
#define SIMULATE_FLEET_ACCOUNTS_H

#include "contract/record_ledger.h"
#include "simulate/fleet_clients.h"
#include "simulate/fleet_dice.h"
#include "simulate/fleet_ledger.h"

struct gateway;

enum { FLEET_TENANTS = 2 }; /* 1..FLEET_TENANTS; account 0 is the operator's */

struct fleet_accounts {
    bool present;
    struct fleet_dice dice;
    int64_t tell_ns;                 /* when they are told again; MACHINE_NEVER */
    int64_t paid[1 + FLEET_TENANTS]; /* in all, by each */
    _Alignas(8) char memory[2048];
    struct record_accounts *record; /* in `memory`: as told last */
};

void fleet_accounts_open(struct fleet_accounts *accounts, uint64_t seed);

/* Balances become what the ledger has written down. */
void fleet_accounts_settle(struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                           const struct fleet_clients *clients);

/* What others have begun since is added, and what was paid; then as above. */
const struct record *fleet_accounts_tell(struct fleet_accounts *accounts,
                                         const struct fleet_ledger *ledger,
                                         const struct fleet_clients *clients, int64_t now_ns);

/* Its account pays in advance, and has nothing left by all that the gateway has said. */
bool fleet_accounts_lack(const struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                         const struct fleet_clients *clients, uint64_t tenant);

/* NULL, or what is wrong with the balances that the gateway knows. */
const char *fleet_accounts_audit(const struct fleet_accounts *accounts,
                                 const struct fleet_ledger *ledger,
                                 const struct fleet_clients *clients,
                                 const struct gateway *gateway);

/* Puts what is wrong into clients->breach. Of those that a dead gateway let begin another life
 * knows nothing, so each is judged alone. */
void fleet_accounts_judge(const struct fleet_accounts *accounts, struct fleet_clients *clients);

#endif
