/* SPDX-License-Identifier: Apache-2.0
 * Accounts and their API keys in the database, and the changes that an operator makes to them. Each
 * change is one transaction. Gateways that use the database notice it within a second
 * (host/ledger/account_notify.h).
 *
 * Only the SHA-256 of a key is stored. A key is identified by the first hexadecimal digits of this
 * hash, at least 8. Accounts and keys are revoked, but never deleted. Amounts of money are in
 * nanos: billionths of the currency unit.
 */
#pragma once

#include "base/sha256.h"
#include "contract/record_ledger.h"
#include "host/ledger/database.h"

/* The settings of an account or a key. A negative value or NULL leaves a setting unchanged. */
struct account_terms {
    int64_t requests_max, requests_per_minute, tokens_per_minute; /* 0: unlimited */
    int64_t priority, weight, is_prepaid, is_operator;            /* only for accounts */
    int64_t budget;     /* only for keys, in nanos; ACCOUNT_BUDGET_ANY: unlimited */
    const char *models; /* names separated by commas; "": any */
    const char *group;  /* only for accounts; "": none */
};

extern const struct account_terms account_terms_unset;

/* A top-up may not move a balance beyond this many nanos, positive or negative. */
#define ACCOUNT_BALANCE_MAX INT64_C(9000000000000000000)

#define ACCOUNT_DIGEST_WORD "sha256:"
#define ACCOUNT_KEY_TEXT (3 + 2 * SHA256_BYTES + 1)    /* "sk-…" */
#define ACCOUNT_DIGEST_TEXT (7 + 2 * SHA256_BYTES + 1) /* "sha256:…" */

/* Draws 32 random bytes. */
void account_store_draw(uint8_t out[SHA256_BYTES]);

/* Writes 32 bytes as hexadecimal digits and a zero. */
void account_store_write_hex(const uint8_t bytes[SHA256_BYTES], char out[2 * SHA256_BYTES + 1]);

/* Draws a new API key for a client, and its digest for the file. */
void account_store_draw_key(char key_out[ACCOUNT_KEY_TEXT], char digest_out[ACCOUNT_DIGEST_TEXT]);

/* Returns STATUS_INVALID if the name is not allowed. `of` is used in the message: "an account", "a
 * group". */
enum status account_store_check_name(const char *name, const char *of,
                                     struct error *error) MUST_USE;

/* For callers that have begun a transaction: the first two insert an account and a key, the third
 * checks the limits of a gateway, which would reject the whole record, and the others find, or set
 * or replace, the secret from which the tenants' salts are derived. */
enum status account_store_insert(struct database *database, const char *name,
                                 const struct account_terms *terms, int64_t now, int64_t *id_out,
                                 struct error *error) MUST_USE;
enum status account_store_insert_key(struct database *database, int64_t account,
                                     const uint8_t sha256[SHA256_BYTES], int64_t now,
                                     struct error *error) MUST_USE;
enum status account_store_check_room(struct database *database, struct error *error) MUST_USE;
enum status account_store_find_secret(struct database *database, uint8_t secret_out[SHA256_BYTES],
                                      bool *found_out, struct error *error) MUST_USE;
enum status account_store_set_secret(struct database *database, const uint8_t secret[SHA256_BYTES],
                                     struct error *error) MUST_USE;

/* Creates an account with its first key. */
enum status account_store_create(struct database *database, const char *name,
                                 const struct account_terms *terms, int64_t now,
                                 char key_out[ACCOUNT_KEY_TEXT], struct error *error) MUST_USE;

/* Adds a key to an account. */
enum status account_store_add_key(struct database *database, const char *name,
                                  const struct account_terms *terms, int64_t now,
                                  char key_out[ACCOUNT_KEY_TEXT], struct error *error) MUST_USE;

/* These change the settings of a key, or revoke it. `key`: the first digits of its SHA-256; NULL:
 * the account itself is changed or revoked. */
enum status account_store_update(struct database *database, const char *name, const char *key,
                                 const struct account_terms *terms, struct error *error) MUST_USE;
enum status account_store_revoke(struct database *database, const char *name, const char *key,
                                 int64_t now, struct error *error) MUST_USE;

/* Adds `amount` nanos, which may be negative, to the balance. Returns INVALID if the balance would
 * exceed ACCOUNT_BALANCE_MAX. */
enum status account_store_top_up(struct database *database, const char *name, int64_t amount,
                                 int64_t now, struct error *error) MUST_USE;

/* Gives the account and all of its group a new salt, so that their cached KV blocks are no longer
 * found. */
enum status account_store_purge(struct database *database, const char *name,
                                struct error *error) MUST_USE;

/* Gets the secret from which the tenants' salts are derived. If there is none, a random one is
 * created. */
enum status account_store_secret(struct database *database, uint8_t secret_out[SHA256_BYTES],
                                 struct error *error) MUST_USE;

/* ---- views ---- */

struct account_key_view {
    char sha256[2 * SHA256_BYTES + 1];
    const char *models;
    int64_t created, revoked; /* unix time; 0: not revoked */
    int64_t requests_max, requests_per_minute, tokens_per_minute, spent;
    int64_t budget; /* ACCOUNT_BUDGET_ANY: unlimited */
};

struct account_view { /* strings are valid only during the callback */
    const char *name, *group, *models;
    int64_t created, revoked; /* unix time; 0: not revoked */
    int64_t is_operator, is_prepaid, priority, weight;
    int64_t requests_max, requests_per_minute, tokens_per_minute;
    int64_t balance, requests, tokens;
    int64_t keys; /* number of keys that are not revoked */
};

struct account_listener {
    void (*account)(void *context, const struct account_view *account);
    /* Called for each key, after its account. NULL: keys are skipped. */
    void (*key)(void *context, const struct account_key_view *key);
    void *context;
};

/* Lists the account called `name`. If `name` is NULL, lists all accounts in the order of their
 * creation. Returns NOT_FOUND if no account has that name. */
enum status account_store_list(struct database *database, const char *name,
                               const struct account_listener *listener,
                               struct error *error) MUST_USE;

/* Gets the currency of all amounts, zero-padded; "" until prices are first used. */
enum status account_store_currency(struct database *database,
                                   char currency_out[LEDGER_CURRENCY_BYTES],
                                   struct error *error) MUST_USE;
