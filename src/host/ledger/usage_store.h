/* SPDX-License-Identifier: Apache-2.0
 * What gateways say becomes rows: entries, and the sums that follow from them (hours, balances, what
 * keys have spent), all in one transaction. An entry's request is its key: the same entry again
 * changes nothing. Units' tallies become node-hours, as far as a unit was seen without a gap.
 *
 * Written are entries that are charged, and those for which units have worked all the same; only
 * the charged ones have an amount and are in the sums.
 */
#ifndef HOST_LEDGER_USAGE_STORE_H
#define HOST_LEDGER_USAGE_STORE_H

#include "contract/record_ledger.h"
#include "host/ledger/account_notify.h"
#include "host/ledger/database.h"

#define USAGE_STORE_GAP_S 90 /* a unit that was not seen for longer did not run meanwhile */

struct ledger_price {
    struct token_price now, list; /* at a time; without discounts */
};

struct ledger_prices {
    char currency[LEDGER_CURRENCY_BYTES];  /* "": there are none */
    int64_t node_hour;                     /* nanos */
    const char *models[LEDGER_MODELS_MAX]; /* [model_count] with prices of their own */
    uint32_t model_count;
    /* A token's price at that time, for a model's name in a request; NULL: free. */
    struct ledger_price (*at)(const void *context, struct bytes model, int64_t unix_time);
    const void *context;
};

struct ledger_price usage_store_ledger_prices_at(const struct ledger_prices *prices,
                                                 struct bytes model, int64_t unix_time);
/* Returns the prices of all models, for a gateway. */
struct model_prices usage_store_ledger_prices_reported(const struct ledger_prices *prices,
                                                       int64_t unix_time);

/* A row of the file's prices. */
struct price_row {
    struct ledger_price price;
    int64_t id; /* 0: none */
};

/* The sum that one transaction adds to an account, in an hour, through a key. */
struct usage_sum {
    int64_t hour, account, key; /* ids; 0: none */
    int64_t requests, hit, miss, output, amount, list_amount;
};

#define USAGE_SUMS_MAX 4096 /* of one transaction, in twice as many places */

struct usage_store {
    struct database *database;
    const struct ledger_prices *prices;
    struct account_own *own;                         /* grows with each commit */
    int64_t gateway;                                 /* of this one */
    struct price_row prices_used[LEDGER_MODELS_MAX]; /* a ring; the next one goes to price_next */
    uint32_t price_next;
    uint32_t sum_count;
    uint32_t used[USAGE_SUMS_MAX];             /* [sum_count] the places that are taken */
    struct usage_sum sums[2 * USAGE_SUMS_MAX]; /* by hash; requests 0: free */
};

/* Begins a gateway's run in the ledger, with a unique number. INVALID: the ledger
 * counts in another currency. */
enum status usage_store_begin(struct usage_store *store, int64_t now, struct error *error) MUST_USE;

/* ENTRY and UNIT_TOTALS, as many as fit into one transaction: *written_out of them are durable then.
 * On failure none are. `now`: unix seconds. */
enum status usage_store_write(struct usage_store *store, struct record *const *records,
                              uint32_t count, int64_t now, uint32_t *written_out,
                              struct error *error) MUST_USE;

/* The gateway ends, and has said all that it had to say. */
enum status usage_store_end(struct usage_store *store, int64_t now, struct error *error) MUST_USE;

#endif
