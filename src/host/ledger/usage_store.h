/* SPDX-License-Identifier: Apache-2.0
 * Writes the records of gateways to the database: usage, and the sums that follow from it (hours,
 * balances, the spending of keys), in one transaction. The request id is the key of a usage record:
 * the same record again changes nothing. Unit totals become node-hours, as far as a unit was seen
 * without a gap.
 *
 * Usage records are written if they are charged, or if units have worked for them. Only charged
 * ones have an amount and are in the sums.
 */
#pragma once

#include "contract/record_ledger.h"
#include "host/ledger/account_notify.h"
#include "host/ledger/database.h"

#define USAGE_STORE_GAP_S 90 /* a unit that is not seen for longer counts as stopped */

struct ledger_price {
    struct token_price now, list; /* price at the time, and without discounts */
};

struct ledger_prices {
    char currency[LEDGER_CURRENCY_BYTES];  /* "": no prices */
    int64_t node_hour;                     /* nanos per node and hour */
    const char *models[LEDGER_MODELS_MAX]; /* [model_count] models with a price of their own */
    uint32_t model_count;
    /* The price of a token at that time, for the model name of a request; NULL: free. */
    struct ledger_price (*at)(const void *context, struct bytes model, int64_t unix_time);
    const void *context;
};

/* The prices of all models, for a gateway. */
struct model_prices usage_store_ledger_prices_reported(const struct ledger_prices *prices,
                                                       int64_t unix_time);

/* A row of the database's prices. */
struct price_row {
    struct ledger_price price;
    int64_t id; /* 0: none */
};

/* The sum that one transaction adds to an account and key in an hour. */
struct usage_sum {
    int64_t hour, account, key; /* ids; 0: none */
    int64_t requests, hit, miss, output, amount, list_amount;
};

#define USAGE_SUMS_MAX 4096 /* limit per transaction; the hash table has twice as many slots */

struct usage_store {
    struct database *database;
    const struct ledger_prices *prices;
    struct account_own *own; /* updated by each commit */
    int64_t gateway;         /* number of this gateway */
    /* a ring; the next one is written at price_next */
    struct price_row prices_used[LEDGER_MODELS_MAX];
    uint32_t price_next;
    uint32_t sum_count;
    uint32_t used[USAGE_SUMS_MAX];             /* [sum_count] used slots of the hash table */
    struct usage_sum sums[2 * USAGE_SUMS_MAX]; /* hash table; requests 0: free */
};

/* Begins a gateway's run in the ledger, with a unique number. Returns INVALID if the ledger has
 * another currency. */
enum status usage_store_begin(struct usage_store *store, int64_t now, struct error *error) MUST_USE;

/* Writes USAGE and UNIT_TOTALS records, as many as fit into one transaction; *written_out of them
 * are then durable. On failure none is written. `now`: unix seconds. */
enum status usage_store_write(struct usage_store *store, struct record *const *records,
                              uint32_t count, int64_t now, uint32_t *written_out,
                              struct error *error) MUST_USE;

/* Ends the gateway's run after its last report. */
enum status usage_store_end(struct usage_store *store, int64_t now, struct error *error) MUST_USE;
