/* SPDX-License-Identifier: Apache-2.0
 * Accounts: which clients may send requests, their limits, and their use. The host sends ACCOUNTS
 * with the SHA-256 of each key. The digest of a client's key is looked up in them, so the time of a
 * look-up depends only on digests, which reveal no key. An account or a key that is no longer
 * listed keeps its counts as long as there is room, and its requests in progress.
 *
 * An account and its key have separate limits of the same kinds (account_use.h); a request must fit
 * both.
 *
 * When a request's prompts are known, the highest cost that it may have at the present prices is
 * set aside from its account's balance and its key's budget. Another request may begin while
 * anything is left. So a prepaid account ends up owing less than the highest cost of one of its
 * requests.
 *
 * A balance is the one in the last ACCOUNTS, minus the charges of this gateway since then. Charges
 * are kept by the sequence of their entries until an ACCOUNTS includes the entry.
 *
 * The tenant of a request, which determines the cached blocks that it may use, is its account's. A
 * client may narrow it (`cache_salt`), never change it. Without accounts all clients are the same
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

#define ACCOUNT_NONE UINT32_MAX /* for accounts and keys */

struct account_state {
    struct account is;
    bool known; /* listed in the last ACCOUNTS */
    struct account_use use;
    uint64_t requests; /* that ended with an answer, or after the client left */
    uint64_t prompt_hit_tokens, prompt_miss_tokens, output_tokens; /* of those, as `usage` says */
    uint64_t refused;      /* over the limit of answers in progress, of it or its key */
    uint64_t rate_refused; /* over a limit per minute, of it or its key */
    uint64_t unpaid;       /* refused because its balance, or its key's budget, is used up */
};

struct account_key_state {
    struct account_key is; /* `account` is a slot */
    bool known;
    struct account_use use;
};

struct account_charge { /* of an entry that the last ACCOUNTS may not include */
    uint64_t sequence;
    uint32_t account, key; /* slots; ACCOUNT_NONE: gone */
    int64_t amount;
};

struct accounts {
    bool asked_for; /* a key is required; false: keys are ignored */
    int64_t now_ns; /* of the gateway's last event */
    struct model_prices prices;
    char currency[LEDGER_CURRENCY_BYTES]; /* empty: there are no balances */
    struct account_state *slots;          /* [slot_count], of them [slots_used] ever used */
    uint32_t slot_count, slots_used;      /* at least one more than may be in use */
    uint32_t *named;                      /* [named_count] slots, in the order of the last
                                           * ACCOUNTS */
    uint32_t named_count;
    struct account_key_state *keys; /* [key_slot_count], of them [keys_used] ever used */
    uint32_t key_slot_count, keys_used;
    struct map by_digest;           /* first words of digests -> keys */
    struct account_charge *charges; /* ring of [charge_count] from charge_first */
    uint32_t charge_first, charge_count, charges_max;
    uint64_t charge_dropped; /* the last sequence that was dropped from the ring */
};

/* Slots for accounts: those that may be listed, and one for each request, for an account that is no
 * longer listed. */
uint32_t accounts_slots(uint32_t requests_max);

size_t accounts_bytes(uint32_t requests_max);
enum status accounts_open(struct accounts *accounts, struct arena *arena,
                          uint32_t requests_max) MUST_USE;

/* Replaces the former ones. */
void accounts_take(struct accounts *accounts, const struct record_accounts *record);

/* The account of an Authorization header ("Bearer <key>"); ACCOUNT_NONE: no such key. *key_out: the
 * key, which has its own limits. */
uint32_t accounts_find(const struct accounts *accounts, struct bytes authorization,
                       uint32_t *key_out);

/* The account's own salt, which no client can change; zeros: none. Accounts that share a cache share
 * it. */
struct tenant_salt accounts_salt(const struct accounts *accounts, uint32_t account);

/* The tenant of that account (or ACCOUNT_NONE), narrowed by the client's value (empty: not
 * narrowed). */
struct tenant_salt accounts_tenant(const struct accounts *accounts, uint32_t account,
                                   struct bytes user_id, struct bytes cache_salt);

/* A tenant with cached blocks that live for `life_s` seconds at most: in the next period of that
 * length it becomes another one, which finds none of them. Tenants' periods begin at different
 * times. 0: unlimited. */
struct tenant_salt accounts_tenant_now(struct tenant_salt tenant, int64_t unix_time,
                                       int64_t life_s);

/* A bit for each of the gateway's models that they may not use. */
uint64_t accounts_models_denied(const struct accounts *accounts, uint32_t account, uint32_t key);

/* Limit of their answers in progress; 0: none. */
uint32_t accounts_most(const struct accounts *accounts, uint32_t account, uint32_t key);

/* The money that is used up, except for the part set aside: USAGE_LIMIT_BALANCE, or
 * USAGE_LIMIT_BUDGET. NONE: there is enough. */
enum usage_limit accounts_lack(const struct accounts *accounts, uint32_t account, uint32_t key);

/* The highest cost in nanos of a request for that model, at the present prices. */
int64_t accounts_amount_most(const struct accounts *accounts, struct bytes model,
                             uint64_t prompt_tokens, uint64_t output_tokens);

/* Nanos of the currency, minus all charges here. Below zero: owed. */
int64_t accounts_balance(const struct accounts *accounts, uint32_t account);

/* Starts a request with so many answers in progress; its prompts have so many tokens, as far as
 * known. Refused: nothing has changed, and *retry_out is the time in seconds until a retry. */
enum account_verdict accounts_hold(struct accounts *accounts, uint32_t account, uint32_t key,
                                   uint32_t count, uint64_t tokens_least, uint32_t *retry_out);

/* Takes the tokens of its prompts from the rate, and sets its highest cost aside; both are returned
 * when it is released. Otherwise like accounts_hold. */
enum account_verdict accounts_hold_tokens(struct accounts *accounts, uint32_t account, uint32_t key,
                                          uint64_t tokens, int64_t amount, uint32_t *retry_out);

/* Counts a request that was refused because of that limit. */
void accounts_count_refused(struct accounts *accounts, uint32_t account, enum usage_limit limit);

/* Removes a request that did not begin from the rate of requests. */
void accounts_uncount(struct accounts *accounts, uint32_t account, uint32_t key);

void accounts_release(struct accounts *accounts, uint32_t account, uint32_t key, uint32_t count,
                      uint64_t tokens, int64_t amount);

/* Charges a request for that model that has ended; its entry has that number. */
void accounts_charge(struct accounts *accounts, uint32_t account, uint32_t key, struct bytes model,
                     const struct api_usage *usage, uint64_t sequence);

/* The data of response headers, of the account or its key, whichever has less left. */
struct account_standing accounts_standing(const struct accounts *accounts, uint32_t account,
                                          uint32_t key);

/* An amount as a decimal number with that many places (at most 9), rounded down. */
void accounts_write_amount(struct json_writer *writer, int64_t nanos, uint32_t places);

/* Prometheus' text; nothing without accounts. */
void accounts_write_metrics(struct json_writer *writer, const struct accounts *accounts);
