/* SPDX-License-Identifier: Apache-2.0
 * Accounts and their keys as they lie in the database, and what an operator changes of them. Each
 * change is one transaction. Gateways that use the database see it within a second
 * (host/ledger/account_notify.h).
 *
 * Of a key its SHA-256 is kept and nothing else. A key is named by the first hexadecimal digits of
 * that, at least 8. Nothing is ever deleted: an account, or a key, is revoked.
 */
#ifndef HOST_LEDGER_ACCOUNT_STORE_H
#define HOST_LEDGER_ACCOUNT_STORE_H

#include "host/ledger/accounts_file.h"
#include "host/ledger/database.h"

/* The settings of an account or a key. Negative, or NULL: unchanged. */
struct account_terms {
    int64_t requests_max, requests_per_minute, tokens_per_minute; /* 0: not limited */
    int64_t priority, weight, is_prepaid, is_operator;            /* of accounts alone */
    int64_t budget;     /* nanos, of keys alone; ACCOUNT_BUDGET_ANY: any */
    const char *models; /* names with commas between; "": any */
    const char *group;  /* of accounts alone; "": none */
};

extern const struct account_terms account_terms_unset;

#define ACCOUNT_BALANCE_MAX INT64_C(9000000000000000000) /* nanos, of either sign, by top-ups */

/* Parts of a change, within a transaction: an account that is not there yet, a key of it, and the
 * secret of the tenants' salts. */
enum status account_store_enter(struct database *database, const char *name,
                                const struct account_terms *terms, int64_t now, int64_t *id_out,
                                struct error *error) MUST_USE;
enum status account_store_enter_key(struct database *database, int64_t account,
                                    const uint8_t sha256[SHA256_BYTES], int64_t now,
                                    struct error *error) MUST_USE;
enum status account_store_enter_secret(struct database *database,
                                       const uint8_t secret[SHA256_BYTES],
                                       struct error *error) MUST_USE;

/* One that is not there yet, with its first key. */
enum status account_store_create(struct database *database, const char *name,
                                 const struct account_terms *terms, int64_t now,
                                 char key_out[ACCOUNTS_KEY_TEXT], struct error *error) MUST_USE;

/* Another key. */
enum status account_store_add_key(struct database *database, const char *name,
                                  const struct account_terms *terms, int64_t now,
                                  char key_out[ACCOUNTS_KEY_TEXT], struct error *error) MUST_USE;

/* `key`: the first digits of a key's SHA-256; NULL: the account itself is meant. */
enum status account_store_limit(struct database *database, const char *name, const char *key,
                                const struct account_terms *terms, struct error *error) MUST_USE;
enum status account_store_revoke(struct database *database, const char *name, const char *key,
                                 int64_t now, struct error *error) MUST_USE;

/* Nanos; fewer than 0 take off. INVALID: the balance would grow beyond ACCOUNT_BALANCE_MAX. */
enum status account_store_top_up(struct database *database, const char *name, int64_t amount,
                                 int64_t now, struct error *error) MUST_USE;

/* The account, and all of its group, find none of their cached blocks any more. */
enum status account_store_purge(struct database *database, const char *name,
                                struct error *error) MUST_USE;

/* All accounts of the file for --accounts, with its secret: their cached blocks stay theirs. */
enum status account_store_import(struct database *database, const char *path, int64_t now,
                                 uint32_t *count_out, struct error *error) MUST_USE;

/* The secret of the tenants' salts; drawn when there is none. */
enum status account_store_secret(struct database *database, uint8_t secret_out[SHA256_BYTES],
                                 struct error *error) MUST_USE;

/* ---- looking ---- */

struct account_key_view {
    char sha256[2 * SHA256_BYTES + 1];
    const char *models;
    int64_t created, revoked; /* 0: it is not */
    int64_t requests_max, requests_per_minute, tokens_per_minute, spent;
    int64_t budget; /* ACCOUNT_BUDGET_ANY: any */
};

struct account_view { /* texts are good during the call */
    const char *name, *group, *models;
    int64_t created, revoked; /* 0: it is not */
    int64_t is_operator, is_prepaid, priority, weight;
    int64_t requests_max, requests_per_minute, tokens_per_minute;
    int64_t balance, requests, tokens;
    int64_t keys; /* that are not revoked */
};

struct account_listener {
    void (*account)(void *context, const struct account_view *account);
    /* NULL: keys are not wanted. Follows its account. */
    void (*key)(void *context, const struct account_key_view *key);
    void *context;
};

/* In the order of their making; `name` NULL: all. NOT_FOUND: there is none of that name. */
enum status account_store_look(struct database *database, const char *name,
                               const struct account_listener *listener,
                               struct error *error) MUST_USE;

/* The currency of the database's amounts, zero-padded; "" until prices are used for the first time.
 */
enum status account_store_currency(struct database *database,
                                   char currency_out[LEDGER_CURRENCY_BYTES],
                                   struct error *error) MUST_USE;

#endif
