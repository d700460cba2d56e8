/* SPDX-License-Identifier: Apache-2.0
 * Sums over several ledgers, one per host: by account and by hour, from the sums that each ledger
 * updates with every record. Amounts are nanos, hours are UTC, counted from 1970.
 *
 * A unit that gateways of several hosts have seen counts once per hour, by the host that saw it
 * longest.
 */
#pragma once

#include "contract/record_ledger.h"
#include "host/ledger/database.h"

struct ledger_sums;

struct ledger_range {           /* range and account of a query */
    int64_t from_hour, to_hour; /* to_hour is exclusive */
    const char *account;        /* NULL: all accounts */
};

struct ledger_usage {
    int64_t requests, hit_tokens, miss_tokens, output_tokens;
    int64_t amount, list_amount; /* at the prices of the hour, and at list prices */
};

struct ledger_account {
    const char *name; /* "": without an account */
    struct ledger_usage usage;
};

struct ledger_hour {
    int64_t hour;
    struct ledger_usage usage;
    double nodes[3]; /* mean over the hour, by enum unit_role */
    int64_t cost;    /* cost of the nodes' time */
};

/* Reads all ledgers. Returns INVALID if their currencies differ. */
enum status ledger_sums_open(const char *const *paths, size_t count,
                             const struct ledger_range *range, struct ledger_sums **sums_out,
                             struct error *error) MUST_USE;
void ledger_sums_close(struct ledger_sums *sums); /* NULL is allowed */

const char *ledger_sums_currency(const struct ledger_sums *sums); /* "": no prices */

/* Reports the hours of each account, by hour and name. */
enum status ledger_sums_rows(struct ledger_sums *sums,
                             void (*take)(void *context, int64_t hour,
                                          const struct ledger_account *account),
                             void *context, struct error *error) MUST_USE;

/* Report the sums by account name and by hour. Hours without usage are omitted. */
enum status ledger_sums_accounts(struct ledger_sums *sums,
                                 void (*take)(void *context, const struct ledger_account *account),
                                 void *context, struct error *error) MUST_USE;
enum status ledger_sums_hours(struct ledger_sums *sums,
                              void (*take)(void *context, const struct ledger_hour *hour),
                              void *context, struct error *error) MUST_USE;
