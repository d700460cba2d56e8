/* SPDX-License-Identifier: Apache-2.0
 * What a gateway and the host of its ledger tell each other: who may ask and how much, what each
 * request came to, and how far that is written down for good.
 *
 * Money is a whole number of nanos of a currency (a billionth of a dollar); prices are picos for one
 * token, so that $0.14 a million is 140,000. Prices and amounts have ends, so that whatever a request
 * may come to, and all that an account may owe or have set aside, fits 64 bits.
 */
#ifndef CONTRACT_RECORD_LEDGER_H
#define CONTRACT_RECORD_LEDGER_H

#include "base/bytes.h"
#include "base/limits.h"
#include "contract/record.h"
#include "contract/unit_counters.h"

#define LEDGER_CURRENCY_BYTES 8 /* "USD", of letters, digits and "._-$", zero-padded */
#define LEDGER_MODELS_MAX 16    /* with prices of their own */
#define LEDGER_MODEL_BYTES 64   /* of such a model's name, zero-padded */
#define PICOS_PER_NANO 1000
#define LEDGER_PRICE_MAX ((uint64_t)1000000000000)     /* picos: 1,000,000 for a million tokens */
#define LEDGER_AMOUNT_MAX INT64_C(4000000000000000000) /* nanos: four billion of the currency */

struct token_price { /* picos of the currency for one token */
    uint64_t hit, miss, output;
};

/* Nanos for so many tokens, rounded half up; at most LEDGER_AMOUNT_MAX, which no request comes to. */
int64_t record_ledger_token_price_amount(const struct token_price *price, uint64_t hit_tokens,
                                         uint64_t miss_tokens, uint64_t output_tokens);

struct model_price { /* of a model that is asked for by that name */
    char model[LEDGER_MODEL_BYTES];
    struct token_price price;
};

/* The prices of tokens at a moment, by the model's name in the request. */
struct model_prices {
    struct token_price others; /* of all that are not named */
    uint32_t named_count, reserved;
    struct model_price named[LEDGER_MODELS_MAX]; /* [named_count], zeros behind them */
};

const struct token_price *record_ledger_model_prices_find(const struct model_prices *prices,
                                                          struct bytes model);

/* Who is turned away first when first tokens come late (serving/policy). */
enum account_priority { ACCOUNT_NORMAL, ACCOUNT_LOW, ACCOUNT_HIGH, ACCOUNT_PRIORITY_COUNT };

#define ACCOUNT_WEIGHT 100 /* a share, where none is chosen */
#define ACCOUNT_WEIGHT_MAX 10000

struct account_limits {    /* of an account, or of one key of it; 0: not limited */
    uint32_t requests_max; /* answers under way */
    uint32_t requests_per_minute;
    uint64_t tokens_per_minute; /* of prompts and answers, hits as well */
    uint64_t models_denied;     /* a bit for each of the gateway's models, in their order */
};

struct account {                       /* who may ask */
    char name[LIMIT_ACCOUNT_NAME + 1]; /* letters, digits, '.', '_', '-'; zero-padded */
    struct tenant_salt tenant;         /* equal for accounts that share a cache */
    struct account_limits limits;
    uint32_t priority;    /* enum account_priority */
    uint32_t weight;      /* its share of the fleet, against others'; 1..ACCOUNT_WEIGHT_MAX */
    uint32_t is_operator; /* 1: may see and do what concerns the whole service */
    uint32_t is_prepaid;  /* 1: nothing is begun for it while `balance` is not above zero */
    int64_t balance; /* nanos, entries up to `settled` taken off; postpaid: below zero is owed */
    /* Requests and tokens that other gateways at the same ledger have begun, since the ledger's first day. */
    uint64_t others_requests, others_tokens;
};

#define ACCOUNT_BUDGET_ANY INT64_MAX

struct account_key {
    uint8_t sha256[32];           /* of the key */
    struct account_limits limits; /* besides its account's */
    int64_t budget;               /* nanos that it may still spend; ACCOUNT_BUDGET_ANY: any */
    uint32_t account;             /* the owner */
    uint32_t reserved;            /* zero */
};

/* All accounts, and today's prices, in place of those said before. */
struct record_accounts {
    struct record record;
    uint32_t account_count; /* <= LIMIT_ACCOUNTS; no two of one name */
    uint32_t key_count;     /* <= LIMIT_ACCOUNT_KEYS */
    uint64_t committed;     /* of this gateway's entries those up to this one are in balances */
    struct model_prices prices;
    char currency[LEDGER_CURRENCY_BYTES]; /* empty: there are no prices, and no balances */
};
RECORD_TAIL(record_accounts, 0, struct account, accounts_named)    /* [account_count] */
RECORD_TAIL(record_accounts, 1, struct account_key, accounts_keys) /* [key_count] */

struct usage_stay {    /* at a unit that had the request */
    uint64_t instance; /* of the unit's hello */
    uint32_t unit;     /* its number at this gateway */
    uint32_t rank;
    uint32_t role; /* enum unit_role, of what it did */
    uint32_t reserved;
};

/* Beyond which limit a request was. Of an account or of its key, but for the last two. */
enum usage_limit {
    USAGE_LIMIT_NONE,
    USAGE_LIMIT_REQUESTS, /* answers under way at the same time */
    USAGE_LIMIT_REQUESTS_PER_MINUTE,
    USAGE_LIMIT_TOKENS_PER_MINUTE,
    USAGE_LIMIT_BALANCE, /* of a prepaid account, less what is set aside for answers under way */
    USAGE_LIMIT_BUDGET,  /* of a key, likewise */
    USAGE_LIMIT_SHARE, /* its account has more waiting than its share, and would wait for too long */
    USAGE_LIMIT_QUEUE, /* as many requests as the server may have */
    USAGE_LIMIT_COUNT
};

/* The name in logs and errors: "tokens_per_minute"; "" for NONE. */
const char *record_ledger_usage_limit_name(enum usage_limit limit);

/* The final account of a request, answered or refused: sent once, when it has ended, before the
 * last bytes of its answer. All choices of a request are one usage record. */
struct record_usage {
    struct record record;
    struct request_id request; /* the same entry twice (after a crash, say) counts once */
    uint64_t sequence;         /* of this gateway: 1, 2, and so on */
    int64_t unix_time;         /* seconds, when it came */
    char account[LIMIT_ACCOUNT_NAME + 1]; /* zero-padded; empty: no account */
    uint8_t key[8];                       /* the start of its key's SHA-256; zeros: none */
    uint32_t is_charged;                  /* 1: it is to be paid for, and stands in the ledger */
    uint32_t http_status;                 /* 499: its client left before it got one */
    uint32_t hit_tokens, miss_tokens, output_tokens; /* as `usage` says, and as is charged */
    uint32_t choices;
    /* Units' work in all: the sources of the prompts' KV rows, and the tokens made. */
    uint64_t device_tokens, host_tokens, disk_tokens, computed_tokens, made_tokens;
    uint64_t transferred_tokens, reloaded_tokens, recomputed_tokens;
    int64_t queue_ns; /* until its first step; -1: it had none. The first choice's, as all times */
    int64_t ttft_ns;  /* from its coming to its first token; -1: it had none */
    int64_t tpot_ns;  /* mean time between its tokens; -1: it had less than two */
    int64_t total_ns; /* from its coming to its end */
    uint32_t path_bytes, name_bytes, model_bytes, end_bytes;
    uint32_t stay_count; /* <= USAGE_STAYS_MAX, the last ones */
    uint32_t limit;      /* enum usage_limit: what refused it */
    uint8_t peer[16];    /* as CLIENT_REQUEST says, of one that was refused; else zeros */
};
#define USAGE_STAYS_MAX 8

/* Seconds since 1970, when it ended: then its price holds. Up to a second early, since both parts are
 * whole seconds. */
int64_t record_ledger_usage_ended(const struct record_usage *usage);

RECORD_TAIL(record_usage, 0, char, entry_path)  /* [path_bytes] the endpoint's */
RECORD_TAIL(record_usage, 1, char, entry_name)  /* [name_bytes] the client's X-Request-Id */
RECORD_TAIL(record_usage, 2, char, entry_model) /* [model_bytes] the name that was asked for */
RECORD_TAIL(record_usage, 3, char, entry_end) /* [end_bytes] "stop", "length", "client_gone", … */
RECORD_TAIL(record_usage, 4, struct usage_stay, usage_stays) /* [stay_count] */

/* All entries up to this one are durable. A gateway with option `settles` holds the end of an
 * answer back until then. */
struct record_committed {
    struct record record;
    uint64_t sequence;
};

/* A unit's counts since it began, and the share that this gateway has put into usage records: sent
 * now and then, and when the unit is lost. Over all gateways of a unit
 *
 *   sum of entered + sum of open = counted
 *
 * in made tokens and in computed ones, when the unit has no request. */
struct unit_books {
    uint64_t made_tokens;     /* of answers */
    uint64_t computed_tokens; /* of prompts, and of both again after an interruption */
};

struct record_unit_totals {
    struct record record;
    uint64_t instance; /* of the unit's hello */
    uint32_t unit;     /* its number at this gateway */
    uint32_t role;     /* enum unit_role */
    uint32_t rank_count;
    uint32_t is_lost; /* 1: it was lost, or given up: not all that it does is entered any more */
    struct unit_counters counted;
    struct unit_books entered; /* by requests that the unit has no more */
    struct unit_books open;    /* by those that it has; a token at least where it has any */
};

/* False if no gateway takes it: its name, priority, weight or marks are none. */
bool record_ledger_account_valid(const struct account *account);

/* False for what is no code of a currency; an empty one stands for none. */
bool record_ledger_currency_valid(const char code[LEDGER_CURRENCY_BYTES]);

/* Check the fields' values, for record_forms.c. */
bool record_ledger_accounts_valid(const void *record);
bool record_ledger_usage_valid(const void *record);
bool record_ledger_committed_valid(const void *record);
bool record_ledger_unit_totals_valid(const void *record);

#endif
