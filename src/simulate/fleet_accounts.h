/* SPDX-License-Identifier: Apache-2.0
 * The accounts of a simulated fleet's clients: one for each tenant, with limits, and one for the
 * operator. They are told again at any moment, with what another gateway at the same ledger has
 * begun for them meanwhile. What must hold: in no time does an account begin more than its rate
 * brings in that time and one minute's worth besides, of requests and of prompts' tokens.
 *
 * Only part of all lives has them, by a stream of chance of their own: the others stay as they are.
 */
#ifndef SIMULATE_FLEET_ACCOUNTS_H
#define SIMULATE_FLEET_ACCOUNTS_H

#include "contract/record_ledger.h"
#include "simulate/fleet_clients.h"
#include "simulate/fleet_dice.h"

enum { FLEET_TENANTS = 2 }; /* 1..FLEET_TENANTS; account 0 is the operator's */

struct fleet_accounts {
    bool present;
    struct fleet_dice dice;
    int64_t tell_ns; /* when they are told again; MACHINE_NEVER */
    _Alignas(8) char memory[2048];
    struct record_accounts *record; /* in `memory`: as told last */
};

void fleet_accounts_open(struct fleet_accounts *accounts, uint64_t seed);

/* What others have begun since is added. */
const struct record *fleet_accounts_tell(struct fleet_accounts *accounts, int64_t now_ns);

/* Puts what is wrong into clients->breach. Of those that a dead gateway let begin another life
 * knows nothing, so each is judged alone. */
void fleet_accounts_judge(const struct fleet_accounts *accounts, struct fleet_clients *clients);

#endif
