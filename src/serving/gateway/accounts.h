/* SPDX-License-Identifier: Apache-2.0
 * Who may ask and how much, and what each has used. The host says ACCOUNTS; keys come as their
 * SHA-256, and the digest of a client's key is looked for among them: what that takes tells of
 * digests alone, from which no key follows. An account or a key that is no longer named keeps its
 * counts for as long as there is room, and requests that it has under way.
 *
 * What an account has and what its key has are limited apart, in the same way (account_use.h); a
 * request needs room in both.
 *
 * What a request under way may come to at most, at the prices that hold when its prompts are known, is
 * set aside of its account's balance and its key's budget. One more may begin while anything is left,
 * so what a prepaid account owes in the end is less than the most that one of its requests may come to.
 *
 * A balance is what ACCOUNTS told, less what this gateway has charged since: that is remembered by
 * the sequence of its entry, until an ACCOUNTS says that the entry is in the balance.
 *
 * The tenant of a request, whose cached blocks it may find, is its account's; a client may narrow
 * it (`cache_salt`), never change it. Without accounts everybody is nobody in particular.
 */
#ifndef SERVING_GATEWAY_ACCOUNTS_H
#define SERVING_GATEWAY_ACCOUNTS_H

#include "base/arena.h"
#include "base/json_writer.h"
#include "base/map.h"
#include "base/status.h"
#include "contract/record_client.h"
#include "contract/record_ledger.h"
#include "serving/gateway/account_use.h"
#include "serving/gateway/api/api_answer.h"

#define ACCOUNT_NONE UINT32_MAX /* of accounts and of keys */

struct account_state {
    struct account is;
    bool known; /* named by the last ACCOUNTS */
    struct account_use use;
    uint64_t requests; /* that ended with an answer, or whose client left */
    uint64_t prompt_hit_tokens, prompt_miss_tokens, output_tokens; /* of those, as `usage` says */
    uint64_t refused;      /* more than it or its key may have at the same time */
    uint64_t rate_refused; /* more than it or its key may have in a minute */
    uint64_t unpaid;       /* refused for want of a balance, or of its key's budget */
};

struct account_key_state {
    struct account_key is; /* `account` is a slot */
    bool known;
    struct account_use use;
};

struct account_charge { /* of an entry that may not be in the balances told */
    uint64_t sequence;
    uint32_t account, key; /* slots; ACCOUNT_NONE: gone */
    int64_t amount;
};

struct accounts {
    bool asked_for; /* a key is needed; false: none are looked at */
    int64_t now_ns; /* of the gateway's last event */
    struct model_prices prices;
    char currency[LEDGER_CURRENCY_BYTES]; /* empty: there are no balances */
    struct account_state *slots;          /* [slot_count], of them [slots_used] ever used */
    uint32_t slot_count, slots_used;      /* at least one more than may be in use */
    uint32_t *named;                      /* [named_count] slots, as the last ACCOUNTS had them */
    uint32_t named_count;
    struct account_key_state *keys; /* [key_slot_count], of them [keys_used] ever used */
    uint32_t key_slot_count, keys_used;
    struct map by_digest;           /* the beginnings of digests -> keys */
    struct account_charge *charges; /* ring of [charge_count] from charge_first */
    uint32_t charge_first, charge_count, charges_max;
    uint64_t charge_dropped; /* the last sequence that was pushed out of the ring */
};

/* Places for accounts: those that may be named, and for each request one that is not any more. */
uint32_t accounts_slots(uint32_t requests_max);

size_t accounts_bytes(uint32_t requests_max);
enum status accounts_open(struct accounts *accounts, struct arena *arena,
                          uint32_t requests_max) MUST_USE;

/* In place of those before. */
void accounts_take(struct accounts *accounts, const struct record_accounts *record);

/* By an Authorization header ("Bearer <key>"); ACCOUNT_NONE: no such key. *key_out: whose limits hold
 * besides the account's. */
uint32_t accounts_find(const struct accounts *accounts, struct bytes authorization,
                       uint32_t *key_out);

/* The account's own salt, which no client can change; zeros: none. Accounts that share a cache share
 * it. */
struct tenant_salt accounts_salt(const struct accounts *accounts, uint32_t account);

/* Of that account (or ACCOUNT_NONE), narrowed by what the client chose (empty: not). */
struct tenant_salt accounts_tenant(const struct accounts *accounts, uint32_t account,
                                   struct bytes user_id, struct bytes cache_salt);

/* A tenant whose cached blocks live for `life_s` seconds at most: in the next period of that length it
 * is another one, who finds none of them. Tenants' periods begin at different times. 0: for ever. */
struct tenant_salt accounts_tenant_now(struct tenant_salt tenant, int64_t unix_time,
                                       int64_t life_s);

/* A bit for each of the gateway's models that they may not ask for. */
uint64_t accounts_models_denied(const struct accounts *accounts, uint32_t account, uint32_t key);

/* Answers that they may have under way; 0: any number. */
uint32_t accounts_most(const struct accounts *accounts, uint32_t account, uint32_t key);

/* Of what nothing is left to pay from, but for what is set aside: ENTRY_LIMIT_BALANCE, or
 * ENTRY_LIMIT_BUDGET. NONE: there is money for what is to be paid for. */
enum entry_limit accounts_lack(const struct accounts *accounts, uint32_t account, uint32_t key);

/* Nanos that a request for that model may come to at most, as prices are now. */
int64_t accounts_amount_most(const struct accounts *accounts, struct bytes model,
                             uint64_t prompt_tokens, uint64_t output_tokens);

/* Nanos of the currency, with all that was charged here. Below zero: owed. */
int64_t accounts_balance(const struct accounts *accounts, uint32_t account);

/* A request with so many answers begins, and has them under way; its prompts have so many tokens, as
 * far as that is known. Refused: nothing has changed, and *retry_out is in how many seconds it may come
 * again. */
enum account_verdict accounts_hold(struct accounts *accounts, uint32_t account, uint32_t key,
                                   uint32_t count, uint64_t tokens_least, uint32_t *retry_out);

/* Its prompts have so many tokens, which are taken from the rate, and it may come to so much, which is
 * set aside; both are given back when it is released. Otherwise as accounts_hold. */
enum account_verdict accounts_hold_tokens(struct accounts *accounts, uint32_t account, uint32_t key,
                                          uint64_t tokens, int64_t amount, uint32_t *retry_out);

/* A request was told that it is beyond that limit. */
void accounts_count_refused(struct accounts *accounts, uint32_t account, enum entry_limit limit);

/* It has not begun, after all: the rate of requests does not count it. */
void accounts_uncount(struct accounts *accounts, uint32_t account, uint32_t key);

void accounts_release(struct accounts *accounts, uint32_t account, uint32_t key, uint32_t count,
                      uint64_t tokens, int64_t amount);

/* A request for that model has ended, was answered so, and its entry has that number. */
void accounts_charge(struct accounts *accounts, uint32_t account, uint32_t key, struct bytes model,
                     const struct api_usage *usage, uint64_t sequence);

/* What answers' headers tell, of the account or of its key: where less is left. */
struct account_standing accounts_standing(const struct accounts *accounts, uint32_t account,
                                          uint32_t key);

/* An amount as a decimal number with that many places (at most 9), rounded down. */
void accounts_write_amount(struct json_writer *writer, int64_t nanos, uint32_t places);

/* Prometheus' text: nothing without accounts. */
void accounts_write_metrics(struct json_writer *writer, const struct accounts *accounts);

#endif
