/* SPDX-License-Identifier: Apache-2.0
 * Builds the record RECORD_ACCOUNTS for a gateway from the database. Revoked accounts are
 * excluded.
 */
#pragma once

#include "contract/record_ledger.h"
#include "host/ledger/database.h"

/* The gateway's own counts for each account since its start, [count] by account id. The database
 * has the sums over all gateways. */
struct account_used {
    uint64_t requests, tokens;
};

struct account_own {
    struct account_used *used; /* [count] */
    uint64_t count;
};

/* Adds to the counts of an account. The process exits if memory is out. */
void account_notify_own_add(struct account_own *own, int64_t account, uint64_t requests,
                            uint64_t tokens);

/* `models`: the gateway's models, separated by commas, in its order. The caller frees the record.
 * Its prices and `committed` are zero; its currency is the database's. */
enum status account_notify_read(struct database *database, const struct account_own *own,
                                const char *models, struct record_accounts **record_out,
                                struct error *error) MUST_USE;

/* Returns a mask with a bit for each of the gateway's models that is not allowed. Both lists are
 * separated by commas. An empty list allows all. "default" is the first model. */
uint64_t account_notify_denied(const char *models, const char *allowed);
