/* SPDX-License-Identifier: Apache-2.0
 * Builds the accounts' record for a gateway from the database: RECORD_ACCOUNTS. It does not contain
 * revoked accounts.
 */
#ifndef HOST_LEDGER_ACCOUNT_NOTIFY_H
#define HOST_LEDGER_ACCOUNT_NOTIFY_H

#include "contract/record_ledger.h"
#include "host/ledger/database.h"

/* One gateway's own counts of each account since it began, [count] by the account's id: the database
 * has the sum of all gateways. */
struct account_used {
    uint64_t requests, tokens;
};

struct account_own {
    struct account_used *used; /* [count] */
    uint64_t count;
};

/* Adds to the account's; memory that runs out ends the process. */
void account_notify_own_add(struct account_own *own, int64_t account, uint64_t requests,
                            uint64_t tokens);

/* `models`: the gateway's, with commas between, in its order. The record is the caller's (free);
 * prices and settled are zero, the currency is the database's. */
enum status account_notify_read(struct database *database, const struct account_own *own,
                                const char *models, struct record_accounts **record_out,
                                struct error *error) MUST_USE;

/* Bits of those of the gateway's models that are not among the allowed ones; both with commas
 * between. None allowed: all are. "default" is the first model. */
uint64_t account_notify_denied(const char *models, const char *allowed);

#endif
