/* SPDX-License-Identifier: Apache-2.0
 * The accounts of a simulated fleet's clients: one for each tenant, with limits, and one for the
 * operator. Each gateway is told of them again at any moment, and when prices change, with what the
 * others have begun for them meanwhile. Where a ledger is kept they pay, one of them in advance, and
 * gateways are told what it has written down. What must hold: in no time does an account begin more
 * at a gateway than its rate brings in that time and one minute's worth besides, of requests and of
 * prompts' tokens; each gateway knows each balance to the nano, as far as it was told; and nobody
 * who pays in advance begins with nothing left, or, with one gateway and one price, ever owes more than
 * one request may come to.
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

struct fleet_told {  /* a gateway */
    int64_t tell_ns; /* when it is told again; MACHINE_NEVER */
    _Alignas(8) char memory[4096];
    struct record_accounts *record; /* in `memory`: as told last */
};

struct fleet_accounts {
    bool present;
    struct fleet_dice dice, flood;
    uint32_t gateway_count;
    uint64_t flooder; /* who asks far more than others; 0: nobody. Then rates limit nobody */
    int64_t paid[1 + FLEET_TENANTS];            /* in all, by each */
    struct fleet_sum beyond[1 + FLEET_TENANTS]; /* begun at a gateway that is not simulated */
    struct fleet_told told[FLEET_GATEWAYS_MAX];
};

void fleet_accounts_open(struct fleet_accounts *accounts, uint64_t seed, uint32_t gateway_count);

/* As the database has them now: for the gateway's start. */
const struct record_accounts *fleet_accounts_read(struct fleet_accounts *accounts,
                                                  const struct fleet_ledger *ledger,
                                                  const struct fleet_clients *clients,
                                                  uint32_t gateway, int64_t now_ns);

/* Something was begun elsewhere, something was paid; then as above. */
const struct record *fleet_accounts_tell(struct fleet_accounts *accounts,
                                         const struct fleet_ledger *ledger,
                                         const struct fleet_clients *clients, uint32_t gateway,
                                         int64_t now_ns);

/* Its account pays in advance, and has nothing left by all that the gateway has said. */
bool fleet_accounts_lack(const struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                         const struct fleet_clients *clients, uint32_t gateway, uint64_t tenant);

/* NULL, or what is wrong with the balances that the gateway knows. */
const char *fleet_accounts_audit(const struct fleet_accounts *accounts,
                                 const struct fleet_ledger *ledger,
                                 const struct fleet_clients *clients, uint32_t index,
                                 const struct gateway *gateway);

/* Puts what is wrong into clients->breach. Of those that a dead gateway let begin another life
 * knows nothing, so each is judged alone. */
void fleet_accounts_judge(const struct fleet_accounts *accounts, struct fleet_clients *clients);

#endif
