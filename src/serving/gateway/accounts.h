/* SPDX-License-Identifier: Apache-2.0
 * Who may ask, and what each has used. The host reads the accounts' file and says ACCOUNTS; keys
 * come as their SHA-256, and a client's key is compared by its own, with all of them and in full,
 * so the time taken tells nothing. An account that is no longer named keeps its counts for as long
 * as there is room, and requests that it has under way.
 *
 * The tenant of a request, whose cached blocks it may find, is its account's; a client may narrow
 * it (`cache_salt`), never change it. Without accounts everybody is nobody in particular.
 */
#ifndef SERVING_GATEWAY_ACCOUNTS_H
#define SERVING_GATEWAY_ACCOUNTS_H

#include "base/arena.h"
#include "base/json_writer.h"
#include "base/status.h"
#include "contract/record_client.h"
#include "contract/record_ledger.h"
#include "serving/gateway/api/api_answer.h"

#define ACCOUNT_NONE UINT32_MAX

struct account_state {
    struct account is;
    bool known;        /* named by the last ACCOUNTS */
    bool used;         /* the slot has an account's counts */
    uint32_t held;     /* answers under way */
    uint64_t requests; /* that ended with an answer, or whose client left */
    uint64_t prompt_hit_tokens, prompt_miss_tokens, output_tokens; /* of those, as `usage` says */
    uint64_t refused; /* more than it may have at the same time */
};

struct accounts {
    bool asked_for;              /* a key is needed; false: none are looked at */
    struct account_state *slots; /* [slot_count], at least one more than may be in use */
    uint32_t slot_count;
    struct account_key *keys; /* [key_count]; `account` is a slot */
    uint32_t key_count;
};

size_t accounts_bytes(uint32_t requests_max);
enum status accounts_open(struct accounts *accounts, struct arena *arena,
                          uint32_t requests_max) MUST_USE;

/* In place of those before. */
void accounts_take(struct accounts *accounts, const struct record_accounts *record);

/* By an Authorization header ("Bearer <key>"); ACCOUNT_NONE: no such key. */
uint32_t accounts_find(const struct accounts *accounts, struct bytes authorization);

/* Of that account (or ACCOUNT_NONE), narrowed by what the client chose (empty: not). */
struct tenant_salt accounts_tenant(const struct accounts *accounts, uint32_t account,
                                   struct bytes user_id, struct bytes cache_salt);

/* Answers that it may have under way; 0: any number. And how many more than it has now. */
uint32_t accounts_most(const struct accounts *accounts, uint32_t account);
uint32_t accounts_left(const struct accounts *accounts, uint32_t account);

/* Room for so many answers more; false: it has as many as it may. */
bool accounts_hold(struct accounts *accounts, uint32_t account, uint32_t count);
void accounts_release(struct accounts *accounts, uint32_t account, uint32_t count);

/* A request has ended, and was answered so. */
void accounts_charge(struct accounts *accounts, uint32_t account, const struct api_usage *usage);

/* Prometheus' text: nothing without accounts. */
void accounts_write_metrics(struct json_writer *writer, const struct accounts *accounts);

#endif
