/* SPDX-License-Identifier: Apache-2.0
 * What several ledgers came to, one a host: sums by account and by hour, from the sums that each
 * keeps with every entry. Amounts are nanos, hours are UTC, counted from 1970.
 *
 * A unit that several hosts' gateways have seen counts once in an hour, by the host that saw it
 * longest.
 */
#ifndef HOST_LEDGER_LEDGER_SUMS_H
#define HOST_LEDGER_LEDGER_SUMS_H

#include "contract/record_ledger.h"
#include "host/ledger/database.h"

struct ledger_sums;

struct ledger_range {           /* what is looked at */
    int64_t from_hour, to_hour; /* the last one not counted */
    const char *account;        /* NULL: all */
};

struct ledger_usage {
    int64_t requests, hit_tokens, miss_tokens, output_tokens;
    int64_t amount, list_amount; /* at the prices of the hour; at list prices */
};

struct ledger_account {
    const char *name; /* "": no account */
    struct ledger_usage usage;
};

struct ledger_hour {
    int64_t hour;
    struct ledger_usage usage;
    double nodes[3]; /* by enum unit_role, mean over the hour */
    int64_t cost;    /* of the nodes' time */
};

/* Reads all of them. INVALID: they are of different currencies. */
enum status ledger_sums_open(const char *const *paths, size_t count,
                             const struct ledger_range *range, struct ledger_sums **sums_out,
                             struct error *error) MUST_USE;
void ledger_sums_close(struct ledger_sums *sums); /* NULL: nothing */

const char *ledger_sums_currency(const struct ledger_sums *sums); /* "": there were no prices */

/* Each account's hours, by hour and name. */
enum status ledger_sums_rows(struct ledger_sums *sums,
                             void (*take)(void *context, int64_t hour,
                                          const struct ledger_account *account),
                             void *context, struct error *error) MUST_USE;

/* By name, and by hour; an hour in which nothing was is left out. */
enum status ledger_sums_accounts(struct ledger_sums *sums,
                                 void (*take)(void *context, const struct ledger_account *account),
                                 void *context, struct error *error) MUST_USE;
enum status ledger_sums_hours(struct ledger_sums *sums,
                              void (*take)(void *context, const struct ledger_hour *hour),
                              void *context, struct error *error) MUST_USE;

#endif
