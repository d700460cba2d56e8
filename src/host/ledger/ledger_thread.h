/* SPDX-License-Identifier: Apache-2.0
 * The ledger's thread (host/wire/worker): it takes ENTRY and UNIT_TOTALS, writes all that wait in
 * one transaction, and answers COMMITTED when that is durable. What comes meanwhile waits for the
 * next one, so that a commit's time is shared by as many as come in it (group commit). When the
 * next one begins is chosen by host/ledger/group_commit.
 *
 * Every 200 ms it looks whether somebody else has changed the database, or the hour a price, and
 * then answers ACCOUNTS.
 *
 * What cannot be written (a full disk) is logged once, and tried again every second.
 * Answers with entries in its queue wait meanwhile: no answer is reported as paid before its entry
 * is written.
 */
#ifndef HOST_LEDGER_LEDGER_THREAD_H
#define HOST_LEDGER_LEDGER_THREAD_H

#include "host/ledger/usage_store.h"
#include "host/wire/worker.h"

struct ledger;

struct ledger_options {
    const char *path;   /* made where there is none */
    const char *models; /* the gateway's, with commas between; lives as long */
    struct ledger_prices prices;
};

enum status ledger_thread_open(const struct ledger_options *options, struct ledger **ledger_out,
                               struct error *error) MUST_USE;

/* The accounts at the time of opening, valid until the thread begins. */
const struct record_accounts *ledger_thread_accounts(const struct ledger *ledger);

/* The worker's function; `context` is the ledger. The loop asks for the first call. */
void ledger_thread_work(void *context, struct worker *worker, const struct record *record);

/* Its thread has ended. What it still holds is tried once more. NULL: nothing. */
void ledger_thread_close(struct ledger *ledger);

#endif
