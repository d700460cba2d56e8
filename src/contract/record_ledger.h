/* SPDX-License-Identifier: Apache-2.0
 * Records between a gateway and the host of its billing ledger: accounts with their keys and
 * limits, the usage of each request, and the last durable usage record.
 *
 * Amounts are in nanos, a billionth of the currency (1 nano = $0.000000001). Prices are in picos
 * per token: $0.14 per million tokens is 140,000. Prices and amounts are bounded, so that the
 * charge of any request, and the sum of an account's debts and reservations, fits 64 bits.
 */
#pragma once

#include "base/bytes.h"
#include "base/limits.h"
#include "contract/record.h"
#include "contract/unit_counters.h"

#define LEDGER_CURRENCY_BYTES 8 /* "USD"; letters, digits and "._-$", zero-padded */
#define LEDGER_MODELS_MAX 16    /* models with a price of their own */
#define LEDGER_MODEL_BYTES 64   /* bytes of a model's name, zero-padded */
#define PICOS_PER_NANO 1000
/* picos per token: 1,000,000 per million tokens */
#define LEDGER_PRICE_MAX ((uint64_t)1000000000000)
#define LEDGER_AMOUNT_MAX INT64_C(4000000000000000000) /* nanos: four billion of the currency */

struct token_price { /* picos per token */
    uint64_t hit, miss, output;
};

/* The price of the tokens in nanos, rounded half up and capped at LEDGER_AMOUNT_MAX. No request
 * reaches the cap. */
int64_t record_ledger_token_price_amount(const struct token_price *price, uint64_t hit_tokens,
                                         uint64_t miss_tokens, uint64_t output_tokens);

struct model_price { /* the price of the model that clients request by this name */
    char model[LEDGER_MODEL_BYTES];
    struct token_price price;
};

/* The current token prices, by the model name in the request. */
struct model_prices {
    struct token_price others; /* price of all models that are not named */
    uint32_t named_count, reserved;
    struct model_price named[LEDGER_MODELS_MAX]; /* [named_count] the rest is zero */
};

const struct token_price *record_ledger_model_prices_find(const struct model_prices *prices,
                                                          struct bytes model);

/* The order of refusal when first tokens are late (serving/policy). */
enum account_priority { ACCOUNT_NORMAL, ACCOUNT_LOW, ACCOUNT_HIGH, ACCOUNT_PRIORITY_COUNT };

#define ACCOUNT_WEIGHT 100 /* default weight */
#define ACCOUNT_WEIGHT_MAX 10000

struct account_limits {    /* limits of an account or of one of its keys; 0: unlimited */
    uint32_t requests_max; /* requests at the same time */
    uint32_t requests_per_minute;
    uint64_t tokens_per_minute; /* tokens of prompts and answers, cached ones included */
    uint64_t models_denied;     /* one bit for each of the gateway's models, in their order */
};

struct account {
    char name[LIMIT_ACCOUNT_NAME + 1]; /* letters, digits, '.', '_', '-'; zero-padded */
    struct tenant_salt tenant;         /* equal for accounts that share cached blocks */
    struct account_limits limits;
    uint32_t priority;    /* enum account_priority */
    uint32_t weight;      /* weight of the account's share of the fleet; 1..ACCOUNT_WEIGHT_MAX */
    uint32_t is_operator; /* 1: may see and change the state of the whole service */
    uint32_t is_prepaid;  /* 1: no request starts unless `balance` is above zero */
    /* nanos, usage up to `committed` subtracted; negative for a postpaid account: the debt */
    int64_t balance;
    /* Requests and tokens begun by other gateways of the same ledger, since the ledger was
     * created. */
    uint64_t others_requests, others_tokens;
};

#define ACCOUNT_BUDGET_ANY INT64_MAX

struct account_key {
    uint8_t sha256[32];           /* SHA-256 of the key */
    struct account_limits limits; /* limits of the key, in addition to those of its account */
    int64_t budget;               /* nanos left to spend; ACCOUNT_BUDGET_ANY: unlimited */
    uint32_t account;             /* index of the owner */
    uint32_t reserved;            /* zero */
};

/* All accounts and the current prices. Replaces those of the previous record. */
struct record_accounts {
    struct record record;
    uint32_t account_count; /* <= LIMIT_ACCOUNTS; names are unique */
    uint32_t key_count;     /* <= LIMIT_ACCOUNT_KEYS */
    /* balances include this gateway's usage records up to this sequence number */
    uint64_t committed;
    struct model_prices prices;
    char currency[LEDGER_CURRENCY_BYTES]; /* empty: no prices and no balances */
};
RECORD_TAIL(record_accounts, 0, struct account, accounts_named)    /* [account_count] */
RECORD_TAIL(record_accounts, 1, struct account_key, accounts_keys) /* [key_count] */

struct usage_stay {    /* a unit that processed the request */
    uint64_t instance; /* from the unit's hello */
    uint32_t unit;     /* number of the unit at this gateway */
    uint32_t rank;
    uint32_t role; /* enum unit_role: the work it did */
    uint32_t reserved;
};

/* The limit that a request exceeded. All but the last two are limits of an account or a key. */
enum usage_limit {
    USAGE_LIMIT_NONE,
    USAGE_LIMIT_REQUESTS, /* requests at the same time */
    USAGE_LIMIT_REQUESTS_PER_MINUTE,
    USAGE_LIMIT_TOKENS_PER_MINUTE,
    USAGE_LIMIT_BALANCE, /* balance of a prepaid account, minus reservations of running requests */
    USAGE_LIMIT_BUDGET,  /* budget of a key, minus the reservations of running requests */
    /* the account has more requests waiting than its share, and the wait would be too long */
    USAGE_LIMIT_SHARE,
    USAGE_LIMIT_QUEUE, /* the server's limit of requests */
    USAGE_LIMIT_COUNT
};

/* The name of the limit in logs and errors: "tokens_per_minute"; "" for NONE. */
const char *record_ledger_usage_limit_name(enum usage_limit limit);

/* The usage of a request, answered or refused. Sent once at its end, before the last bytes of its
 * response. One record covers all choices of the request. */
struct record_usage {
    struct record record;
    /* a record that is sent twice, after a crash for instance, counts once */
    struct request_id request;
    uint64_t sequence;                    /* number of the record at this gateway, from 1 on */
    int64_t unix_time;                    /* time of arrival, in seconds */
    char account[LIMIT_ACCOUNT_NAME + 1]; /* zero-padded; empty: no account */
    uint8_t key[8];       /* the first bytes of the SHA-256 of the key; zeros: no key */
    uint32_t is_charged;  /* 1: the request is charged and written to the ledger */
    uint32_t http_status; /* 499: the client closed the connection before the response */
    /* tokens in the response's `usage`, which are charged */
    uint32_t hit_tokens, miss_tokens, output_tokens;
    uint32_t choices;
    /* work of all units: the sources of the prompts' KV rows, and the generated tokens */
    uint64_t device_tokens, host_tokens, disk_tokens, computed_tokens, made_tokens;
    uint64_t transferred_tokens, reloaded_tokens, recomputed_tokens;
    /* time until the first step; -1: no step ran. All times are those of the first choice */
    int64_t queue_ns;
    int64_t ttft_ns;  /* from arrival to the first token; -1: no token */
    int64_t tpot_ns;  /* mean time between tokens; -1: fewer than two tokens */
    int64_t total_ns; /* from arrival to the end */
    uint32_t path_bytes, name_bytes, model_bytes, end_bytes;
    uint32_t stay_count; /* <= USAGE_STAYS_MAX; the last ones */
    uint32_t limit;      /* enum usage_limit: the reason of a refusal */
    /* client's address as in CLIENT_REQUEST, if the request was refused; else zeros */
    uint8_t peer[16];
};
#define USAGE_STAYS_MAX 8

/* The end of the request in seconds since 1970; prices of this time apply. It may be up to a second
 * early, because both terms are rounded to whole seconds. */
int64_t record_ledger_usage_ended(const struct record_usage *usage);

RECORD_TAIL(record_usage, 0, char, entry_path)  /* [path_bytes] path of the endpoint */
RECORD_TAIL(record_usage, 1, char, entry_name)  /* [name_bytes] the client's X-Request-Id */
RECORD_TAIL(record_usage, 2, char, entry_model) /* [model_bytes] model name in the request */
RECORD_TAIL(record_usage, 3, char, entry_end) /* [end_bytes] "stop", "length", "client_gone", … */
RECORD_TAIL(record_usage, 4, struct usage_stay, usage_stays) /* [stay_count] */

/* All usage records up to `sequence` are durable. A gateway with the option `settles` delays the
 * end of each response until then. */
struct record_committed {
    struct record record;
    uint64_t sequence;
};

/* The counters of a unit since its start, and the part that this gateway has put into usage
 * records. Sent periodically, and when the unit is lost. Summed over all gateways of a unit,
 *
 *   sum of entered + sum of open = counted
 *
 * holds for generated and for computed tokens whenever the unit has no request. */
struct unit_books {
    uint64_t made_tokens; /* generated tokens */
    /* computed tokens of prompts, and tokens computed again after an interruption */
    uint64_t computed_tokens;
};

struct record_unit_totals {
    struct record record;
    uint64_t instance; /* from the unit's hello */
    uint32_t unit;     /* number of the unit at this gateway */
    uint32_t role;     /* enum unit_role */
    uint32_t rank_count;
    uint32_t is_lost; /* 1: lost or given up: a part of its work is not in usage records */
    struct unit_counters counted;
    struct unit_books entered; /* work of requests that have left the unit */
    struct unit_books open; /* work of requests at the unit; at least one token if there are any */
};

/* True if the account's name, priority, weight and flags are valid. */
bool record_ledger_account_valid(const struct account *account);

/* True if the code is a valid currency code or empty. An empty code means no currency. */
bool record_ledger_currency_valid(const char code[LEDGER_CURRENCY_BYTES]);

/* Validate the fields, for record_forms.c. */
bool record_ledger_accounts_valid(const void *record);
bool record_ledger_usage_valid(const void *record);
bool record_ledger_committed_valid(const void *record);
bool record_ledger_unit_totals_valid(const void *record);
