/* SPDX-License-Identifier: Apache-2.0
 * Accounts: which clients may send requests, their limits, and their usage. The host sends ACCOUNTS
 * with the SHA-256 of each API key. A client's key is hashed before it is looked up, so the timing
 * of a look-up reveals no key. An account or key that is no longer listed keeps its requests in
 * progress, and its counts as long as there is room.
 *
 * An account and each of its keys have separate limits of the same kinds (account_use.h). A request
 * must fit both.
 *
 * Once a request's prompts are tokenized, its maximum cost at the current prices is reserved from
 * its account's balance and its key's budget. Another request may begin while anything is left. A
 * prepaid account therefore ends up owing less than the maximum cost of one of its requests.
 *
 * A balance is the one in the last ACCOUNTS minus this gateway's charges since then. A charge is
 * kept, by the sequence number of its ledger entry, until an ACCOUNTS includes that entry.
 *
 * A request's tenant determines the prefix-cache blocks that it may use. It comes from the account.
 * A client may narrow it (`cache_salt`) but not change it. Without accounts all clients share one
 * tenant.
 */
#pragma once

#include "base/arena.h"
#include "base/json_writer.h"
#include "base/map.h"
#include "base/status.h"
#include "contract/record_client.h"
#include "contract/record_ledger.h"
#include "serving/gateway/account_use.h"
#include "serving/gateway/api/api_answer.h"

#define ACCOUNT_NONE UINT32_MAX /* no account, or no key */

struct account_state {
    struct account is;
    bool known; /* listed in the last ACCOUNTS */
    struct account_use use;
    uint64_t requests; /* requests that ended with an answer, or after the client left */
    uint64_t prompt_hit_tokens, prompt_miss_tokens, output_tokens; /* their tokens, as in `usage` */
    uint64_t refused;      /* requests over a limit of concurrent answers, its own or a key's */
    uint64_t rate_refused; /* requests over a per-minute limit, its own or a key's */
    uint64_t unpaid;       /* requests refused because the balance or the key's budget is used up */
};

struct account_key_state {
    struct account_key is; /* `account` is a slot */
    bool known;
    struct account_use use;
};

struct account_charge { /* the charge of an entry that the last ACCOUNTS may not include */
    uint64_t sequence;
    uint32_t account, key; /* slots; ACCOUNT_NONE: no longer known */
    int64_t amount;
};

struct accounts {
    bool asked_for; /* API keys are required; false: keys are ignored */
    int64_t now_ns; /* time of the gateway's last event */
    struct model_prices prices;
    char currency[LEDGER_CURRENCY_BYTES]; /* empty: accounts have no balances */
    struct account_state *slots;          /* [slot_count]; the first slots_used have been used */
    uint32_t slot_count, slots_used;      /* slot_count: at least one more than can be in use */
    uint32_t *named;                      /* [named_count] slots of the listed accounts, in order */
    uint32_t named_count;
    struct account_key_state *keys; /* [key_slot_count]; the first keys_used have been used */
    uint32_t key_slot_count, keys_used;
    struct map by_digest;           /* first words of a digest -> slot in keys */
    struct account_charge *charges; /* ring buffer [charges_max] */
    uint32_t charge_first, charge_count, charges_max;
    uint64_t charge_dropped; /* highest sequence dropped from the ring */
};

/* Slots for accounts: one for each that may be listed, and one for each request, in case its
 * account is no longer listed. */
uint32_t accounts_slots(uint32_t requests_max);

size_t accounts_bytes(uint32_t requests_max);
enum status accounts_open(struct accounts *accounts, struct arena *arena,
                          uint32_t requests_max) MUST_USE;

/* Replaces all accounts and keys by those of the record. */
void accounts_take(struct accounts *accounts, const struct record_accounts *record);

/* Finds the account of an Authorization header ("Bearer <key>"). ACCOUNT_NONE: the key is unknown.
 * *key_out: the key's slot. */
uint32_t accounts_find(const struct accounts *accounts, struct bytes authorization,
                       uint32_t *key_out);

/* The account's own salt, which no client can change; zeros: none. Accounts with the same salt
 * share cached blocks. */
struct tenant_salt accounts_salt(const struct accounts *accounts, uint32_t account);

/* The tenant of the account (or of ACCOUNT_NONE), narrowed by the client's values (empty: not
 * narrowed). */
struct tenant_salt accounts_tenant(const struct accounts *accounts, uint32_t account,
                                   struct bytes user_id, struct bytes cache_salt);

/* Limits the life of a tenant's cached blocks to `life_s` seconds (0: unlimited). In each period of
 * that length it returns a different tenant, which finds none of the former blocks. The periods of
 * different tenants begin at different times. */
struct tenant_salt accounts_tenant_now(struct tenant_salt tenant, int64_t unix_time,
                                       int64_t life_s);

/* Bit i is set if the account or its key may not use the gateway's model i. */
uint64_t accounts_models_denied(const struct accounts *accounts, uint32_t account, uint32_t key);

/* The limit of concurrent answers of the account and key; 0: none. */
uint32_t accounts_most(const struct accounts *accounts, uint32_t account, uint32_t key);

/* Says which money is used up, where reserved amounts count as used: USAGE_LIMIT_BALANCE or
 * USAGE_LIMIT_BUDGET. NONE: there is enough. */
enum usage_limit accounts_lack(const struct accounts *accounts, uint32_t account, uint32_t key);

/* The maximum cost, in nanos, of a request for the model at the current prices. */
int64_t accounts_amount_most(const struct accounts *accounts, struct bytes model,
                             uint64_t prompt_tokens, uint64_t output_tokens);

/* The balance in nanos of the currency, after all charges of this gateway. Below zero: owed. */
int64_t accounts_balance(const struct accounts *accounts, uint32_t account);

/* Admits a request with `count` answers. tokens_least is a lower bound of its prompts' tokens. If
 * it is refused, nothing changes, and *retry_out is the time in seconds until a retry. */
enum account_verdict accounts_hold(struct accounts *accounts, uint32_t account, uint32_t key,
                                   uint32_t count, uint64_t tokens_least, uint32_t *retry_out);

/* Takes the tokens of a request's prompts from the rate and reserves its maximum cost.
 * accounts_release gives both back. Otherwise like accounts_hold. */
enum account_verdict accounts_hold_tokens(struct accounts *accounts, uint32_t account, uint32_t key,
                                          uint64_t tokens, int64_t amount, uint32_t *retry_out);

/* Counts a request that was refused because of that limit. */
void accounts_count_refused(struct accounts *accounts, uint32_t account, enum usage_limit limit);

/* Takes a request that did not begin back out of the rate of requests. */
void accounts_uncount(struct accounts *accounts, uint32_t account, uint32_t key);

void accounts_release(struct accounts *accounts, uint32_t account, uint32_t key, uint32_t count,
                      uint64_t tokens, int64_t amount);

/* Charges a request for the model that has ended. `sequence` is the number of its ledger entry. */
void accounts_charge(struct accounts *accounts, uint32_t account, uint32_t key, struct bytes model,
                     const struct api_usage *usage, uint64_t sequence);

/* The remaining quota for response headers: of the account or of its key, whichever has less
 * left. */
struct account_standing accounts_standing(const struct accounts *accounts, uint32_t account,
                                          uint32_t key);

/* Writes an amount as a decimal number with `places` decimals (at most 9), rounded down. */
void accounts_write_amount(struct json_writer *writer, int64_t nanos, uint32_t places);

/* Writes metrics in Prometheus' text format; nothing without accounts. */
void accounts_write_metrics(struct json_writer *writer, const struct accounts *accounts);
