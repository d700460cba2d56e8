/* SPDX-License-Identifier: Apache-2.0
 * The ledger's thread (host/wire/worker): it writes all waiting USAGE and UNIT_TOTALS records in
 * one transaction, and answers COMMITTED when that is durable. Records that arrive meanwhile wait
 * for the next transaction, so that they share the time of its commit (group commit).
 * host/ledger/group_commit decides when it begins.
 *
 * Every 200 ms it checks whether another process has changed the database, or the hour has changed
 * a price, and then sends ACCOUNTS.
 *
 * A failed write (a full disk) is logged once and retried every second. Answers with records in the
 * queue wait meanwhile: no answer is reported as paid before its record is written.
 */
#pragma once

#include "host/ledger/usage_store.h"
#include "host/wire/worker.h"

struct ledger;

struct ledger_options {
    const char *path;   /* created if missing */
    const char *models; /* the gateway's models, separated by commas; the caller keeps it */
    struct ledger_prices prices;
};

enum status ledger_thread_open(const struct ledger_options *options, struct ledger **ledger_out,
                               struct error *error) MUST_USE;

/* The accounts at the time of opening, valid until the thread begins. */
const struct record_accounts *ledger_thread_accounts(const struct ledger *ledger);

/* The function of the worker; `context` is the ledger. The loop requests the first call. */
void ledger_thread_work(void *context, struct worker *worker, const struct record *record);

/* Called when the thread has ended. Tries once more to write the remaining records. NULL is
 * allowed. */
void ledger_thread_close(struct ledger *ledger);
