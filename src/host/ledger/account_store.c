/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/account_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/number.h"

#define KEY_DIGITS_MIN 8
#define NANOS 1000000000

const struct account_terms account_terms_unset = {-1, -1, -1, -1, -1, -1, -1, -1, NULL, NULL};

/* ---- names and keys ---- */

static bool account_store_is_name(const char *name) {
    size_t count = strlen(name);
    if (count == 0 || count > LIMIT_ACCOUNT_NAME) return false;
    for (size_t i = 0; i < count; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= '0' && name[i] <= '9') || strchr("._-", name[i])))
            return false;
    return true;
}

enum status account_store_check_name(const char *name, const char *of, struct error *error) {
    if (account_store_is_name(name)) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "'%.80s' is not a name of %s; use up to %d letters, digits, '.', '_' and '-'",
                     name, of, LIMIT_ACCOUNT_NAME);
}

void account_store_draw(uint8_t out[SHA256_BYTES]) {
    check(getrandom(out, SHA256_BYTES, 0) == SHA256_BYTES);
}

void account_store_write_hex(const uint8_t bytes[SHA256_BYTES], char out[2 * SHA256_BYTES + 1]) {
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void account_store_draw_key(char key_out[ACCOUNT_KEY_TEXT], char digest_out[ACCOUNT_DIGEST_TEXT]) {
    uint8_t bytes[SHA256_BYTES], digest[SHA256_BYTES];
    account_store_draw(bytes);
    memcpy(key_out, "sk-", 3);
    account_store_write_hex(bytes, key_out + 3);
    sha256_digest(key_out, strlen(key_out), digest);
    memcpy(digest_out, ACCOUNT_DIGEST_WORD, sizeof ACCOUNT_DIGEST_WORD);
    account_store_write_hex(digest, digest_out + sizeof ACCOUNT_DIGEST_WORD - 1);
}

/* ---- one change ---- */

/* Finds the id of an account, or returns NOT_FOUND. */
static enum status find(struct database *database, const char *name, int64_t *id_out,
                        bool *is_revoked_out, struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *query = database_query(
        database, error, "SELECT id, revoked FROM accounts WHERE name = ?", "t", name);
    if (!database_next(database, query, &status, error))
        return status ? status
                      : error_set(error, STATUS_NOT_FOUND,
                                  "%.200s: there is no account '%.80s'; `fathom account list` has "
                                  "their names",
                                  database_path(database), name);
    *id_out = database_integer(query, 0);
    *is_revoked_out = !database_is_null(query, 1);
    database_end(query);
    return STATUS_OK;
}

static enum status account_store_find_live(struct database *database, const char *name,
                                           int64_t *id_out, struct error *error) {
    bool is_revoked = false;
    enum status status = find(database, name, id_out, &is_revoked, error);
    if (!status && is_revoked)
        status = error_set(error, STATUS_INVALID,
                           "the account '%.80s' is revoked; create one with another name", name);
    return status;
}

/* Converts the first digits of a key's SHA-256 to bounds of a BLOB. */
static bool read_digits(const char *text, uint8_t low[SHA256_BYTES], uint8_t high[SHA256_BYTES]) {
    size_t count = strlen(text);
    if (count < KEY_DIGITS_MIN || count > 2 * SHA256_BYTES) return false;
    memset(low, 0, SHA256_BYTES);
    memset(high, 0xff, SHA256_BYTES);
    for (size_t i = 0; i < count; i++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, text[i] | 0x20);
        if (!digit) return false;
        uint8_t value = (uint8_t)(digit - digits), shift = i % 2 ? 0 : 4;
        low[i / 2] = (uint8_t)((low[i / 2] & ~(15 << shift)) | value << shift);
        high[i / 2] = (uint8_t)((high[i / 2] & ~(15 << shift)) | value << shift);
    }
    return true;
}

static enum status account_store_find_key(struct database *database, int64_t account,
                                          const char *key, int64_t *id_out, struct error *error) {
    uint8_t low[SHA256_BYTES], high[SHA256_BYTES];
    enum status status = STATUS_OK;
    int found = 0;
    if (!read_digits(key, low, high))
        return error_set(error, STATUS_INVALID,
                         "no key matches '%.12s…'; give at least %d of the first digits of its "
                         "SHA-256, which `fathom account show` prints",
                         key, KEY_DIGITS_MIN);
    struct sqlite3_stmt *query = database_query(
        database, error, "SELECT id FROM keys WHERE account = ? AND sha256 BETWEEN ? AND ?", "ibb",
        account, low, (size_t)SHA256_BYTES, high, (size_t)SHA256_BYTES);
    for (; database_next(database, query, &status, error); found++)
        *id_out = database_integer(query, 0);
    if (status || found == 1) return status;
    return error_set(error, STATUS_NOT_FOUND,
                     "%s of its keys begin with '%.64s'; `fathom account show` prints them",
                     found ? "several" : "none", key);
}

enum status account_store_check_room(struct database *database, struct error *error) {
    int64_t accounts = 0, keys = 0;
    enum status status = database_number(database, &accounts, error,
                                         "SELECT count(*) FROM accounts WHERE revoked IS NULL", "");
    if (!status)
        status = database_number(database, &keys, error,
                                 "SELECT count(*) FROM keys k JOIN accounts a ON a.id = k.account "
                                 "WHERE k.revoked IS NULL AND a.revoked IS NULL",
                                 "");
    if (!status && (accounts > LIMIT_ACCOUNTS || keys > LIMIT_ACCOUNT_KEYS))
        status = error_set(error, STATUS_TOO_LARGE,
                           "%.200s: at most %d accounts and %d keys are possible; revoke old ones",
                           database_path(database), LIMIT_ACCOUNTS, LIMIT_ACCOUNT_KEYS);
    return status;
}

/* ---- terms ---- */

static enum status check_terms(const struct account_terms *terms, struct error *error) {
    if (!terms->group || !terms->group[0]) return STATUS_OK;
    return account_store_check_name(terms->group, "a group", error);
}

static enum status set_account(struct database *database, int64_t id,
                               const struct account_terms *terms, struct error *error) {
    static const char sql[] =
        "UPDATE accounts SET requests_max = iif(?1 < 0, requests_max, ?1),"
        " requests_per_minute = iif(?2 < 0, requests_per_minute, ?2),"
        " tokens_per_minute = iif(?3 < 0, tokens_per_minute, ?3),"
        " priority = iif(?4 < 0, priority, ?4), weight = iif(?5 < 0, weight, ?5),"
        " is_prepaid = iif(?6 < 0, is_prepaid, ?6), is_operator = iif(?7 < 0, is_operator, ?7),"
        " models = coalesce(?8, models), tenant = coalesce(?9, tenant) WHERE id = ?10";
    enum status status = check_terms(terms, error);
    if (status) return status;
    return database_run(database, error, sql, "iiiiiiitti", terms->requests_max,
                        terms->requests_per_minute, terms->tokens_per_minute, terms->priority,
                        terms->weight, terms->is_prepaid, terms->is_operator, terms->models,
                        terms->group, id);
}

static enum status set_key(struct database *database, int64_t id, const struct account_terms *terms,
                           struct error *error) {
    static const char sql[] = "UPDATE keys SET requests_max = iif(?1 < 0, requests_max, ?1),"
                              " requests_per_minute = iif(?2 < 0, requests_per_minute, ?2),"
                              " tokens_per_minute = iif(?3 < 0, tokens_per_minute, ?3),"
                              " models = coalesce(?4, models), budget = iif(?5 < 0, budget,"
                              " iif(?5 = 9223372036854775807, NULL, ?5)) WHERE id = ?6";
    if (terms->priority >= 0 || terms->weight >= 0 || terms->is_prepaid >= 0 ||
        terms->is_operator >= 0 || terms->group)
        return error_set(error, STATUS_INVALID,
                         "priority, weight, billing, group and operator are an account's, not a "
                         "key's; leave --key out");
    return database_run(database, error, sql, "iiitii", terms->requests_max,
                        terms->requests_per_minute, terms->tokens_per_minute, terms->models,
                        terms->budget, id);
}

/* ---- changes ---- */

enum status account_store_insert_key(struct database *database, int64_t account,
                                     const uint8_t sha256[SHA256_BYTES], int64_t now,
                                     struct error *error) {
    return database_run(database, error,
                        "INSERT INTO keys (account, sha256, created) VALUES (?, ?, ?)", "ibi",
                        account, sha256, (size_t)SHA256_BYTES, now);
}

static enum status draw_key(struct database *database, int64_t account, int64_t now,
                            char key_out[ACCOUNT_KEY_TEXT], int64_t *id_out, struct error *error) {
    char digest[ACCOUNT_DIGEST_TEXT];
    uint8_t sha256[SHA256_BYTES];
    account_store_draw_key(key_out, digest);
    sha256_digest(key_out, strlen(key_out), sha256);
    enum status status = account_store_insert_key(database, account, sha256, now, error);
    if (!status) *id_out = database_last_id(database);
    return status;
}

enum status account_store_insert(struct database *database, const char *name,
                                 const struct account_terms *terms, int64_t now, int64_t *id_out,
                                 struct error *error) {
    enum status status = account_store_check_name(name, "an account", error);
    if (status) return status;
    status = database_run(database, error,
                          "INSERT OR IGNORE INTO accounts (name, created) VALUES (?, ?)", "ti",
                          name, now);
    if (!status && database_changes(database) == 0)
        status = error_set(
            error, STATUS_INVALID,
            "%.200s: account '%.80s' exists already; `fathom account key` adds a key to it",
            database_path(database), name);
    if (status) return status;
    *id_out = database_last_id(database);
    return set_account(database, *id_out, terms, error);
}

enum status account_store_create(struct database *database, const char *name,
                                 const struct account_terms *terms, int64_t now,
                                 char key_out[ACCOUNT_KEY_TEXT], struct error *error) {
    int64_t account = 0, key = 0;
    enum status status = database_begin(database, error);
    if (!status) status = account_store_insert(database, name, terms, now, &account, error);
    if (!status) status = draw_key(database, account, now, key_out, &key, error);
    if (!status) status = account_store_check_room(database, error);
    return database_finish(database, status, error);
}

enum status account_store_add_key(struct database *database, const char *name,
                                  const struct account_terms *terms, int64_t now,
                                  char key_out[ACCOUNT_KEY_TEXT], struct error *error) {
    int64_t account = 0, key = 0;
    enum status status = database_begin(database, error);
    if (!status) status = account_store_find_live(database, name, &account, error);
    if (!status) status = draw_key(database, account, now, key_out, &key, error);
    if (!status) status = set_key(database, key, terms, error);
    if (!status) status = account_store_check_room(database, error);
    return database_finish(database, status, error);
}

enum status account_store_update(struct database *database, const char *name, const char *key,
                                 const struct account_terms *terms, struct error *error) {
    int64_t account = 0, id = 0;
    enum status status = database_begin(database, error);
    if (!status) status = account_store_find_live(database, name, &account, error);
    if (!status && key) status = account_store_find_key(database, account, key, &id, error);
    if (!status)
        status = key ? set_key(database, id, terms, error)
                     : set_account(database, account, terms, error);
    return database_finish(database, status, error);
}

enum status account_store_revoke(struct database *database, const char *name, const char *key,
                                 int64_t now, struct error *error) {
    int64_t account = 0, id = 0;
    enum status status = database_begin(database, error);
    if (!status) status = account_store_find_live(database, name, &account, error);
    if (!status && key) status = account_store_find_key(database, account, key, &id, error);
    if (!status && key)
        status = database_run(database, error,
                              "UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?", "ii",
                              now, id);
    else if (!status)
        status = database_run(database, error, "UPDATE accounts SET revoked = ? WHERE id = ?", "ii",
                              now, account);
    return database_finish(database, status, error);
}

/* Adds an amount to the balance. Refused if the balance would exceed its range. */
static enum status add_to_balance(struct database *database, int64_t account, int64_t amount,
                                  int64_t *balance_out, struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *row = database_query(
        database, error, "SELECT balance, name, typeof(balance) FROM accounts WHERE id = ?", "i",
        account);
    if (!database_next(database, row, &status, error)) return status;
    int64_t before = database_integer(row, 0), after = sum_i64(before, amount);
    bool is_whole = !strcmp(database_text(row, 2), "integer");
    bool grows = after > before ? after > ACCOUNT_BALANCE_MAX : after < -ACCOUNT_BALANCE_MAX;
    if (!is_whole)
        status = error_set(error, STATUS_CORRUPT,
                           "%.200s: the balance of '%.80s' is damaged; restore a copy of the file "
                           "(docs/accounts.md)",
                           database_path(database), database_text(row, 1));
    else if (grows)
        status = error_set(error, STATUS_INVALID,
                           "the balance of '%.80s' is %lld.%02lld, and a balance may be 9000000000 "
                           "at most, of either sign; top up by less",
                           database_text(row, 1), (long long)(before / NANOS),
                           (long long)llabs(before % NANOS / (NANOS / 100)));
    database_end(row);
    *balance_out = after;
    return status;
}

enum status account_store_top_up(struct database *database, const char *name, int64_t amount,
                                 int64_t now, struct error *error) {
    int64_t account = 0, balance = 0;
    enum status status = database_begin(database, error);
    if (!status) status = account_store_find_live(database, name, &account, error);
    if (!status) status = add_to_balance(database, account, amount, &balance, error);
    if (!status)
        status = database_run(database, error,
                              "INSERT INTO top_ups (account, amount, time) VALUES (?, ?, ?)", "iii",
                              account, amount, now);
    if (!status)
        status = database_run(database, error, "UPDATE accounts SET balance = ? WHERE id = ?", "ii",
                              balance, account);
    return database_finish(database, status, error);
}

enum status account_store_purge(struct database *database, const char *name, struct error *error) {
    int64_t account = 0;
    enum status status = database_begin(database, error);
    if (!status) status = account_store_find_live(database, name, &account, error);
    if (!status)
        status = database_run(
            database, error,
            "INSERT INTO tenants SELECT iif(tenant = '', 'account ' || name, 'group ' || tenant), 1"
            " FROM accounts WHERE id = ? ON CONFLICT DO UPDATE SET generation = generation + 1",
            "i", account);
    return database_finish(database, status, error);
}

/* ---- the secret ---- */

enum status account_store_find_secret(struct database *database, uint8_t secret_out[SHA256_BYTES],
                                      bool *found_out, struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *query =
        database_query(database, error, "SELECT value FROM settings WHERE name = 'secret'", "");
    *found_out = database_next(database, query, &status, error);
    if (!*found_out) return status;
    struct bytes secret = database_blob(query, 0);
    if (secret.count == SHA256_BYTES)
        memcpy(secret_out, secret.data, SHA256_BYTES);
    else
        status = error_set(error, STATUS_CORRUPT,
                           "%.300s: the tenants' secret is damaged; restore a copy of the file",
                           database_path(database));
    database_end(query);
    return status;
}

enum status account_store_set_secret(struct database *database, const uint8_t secret[SHA256_BYTES],
                                     struct error *error) {
    return database_run(database, error, "INSERT OR REPLACE INTO settings VALUES ('secret', ?)",
                        "b", secret, (size_t)SHA256_BYTES);
}

enum status account_store_secret(struct database *database, uint8_t secret_out[SHA256_BYTES],
                                 struct error *error) {
    bool found = false;
    enum status status = account_store_find_secret(database, secret_out, &found, error);
    if (status || found) return status;
    status = database_begin(database, error);
    if (!status) status = account_store_find_secret(database, secret_out, &found, error);
    if (!status && !found) {
        account_store_draw(secret_out);
        status = account_store_set_secret(database, secret_out, error);
    }
    return database_finish(database, status, error);
}

/* ---- views ---- */

static enum status list_account_keys(struct database *database, int64_t account,
                                     const struct account_listener *listener, struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *row =
        database_query(database, error,
                       "SELECT sha256, models, created, revoked, requests_max, requests_per_minute,"
                       " tokens_per_minute, spent, budget FROM keys WHERE account = ? ORDER BY id",
                       "i", account);
    while (database_next(database, row, &status, error)) {
        struct account_key_view view = {
            .models = database_text(row, 1),
            .created = database_integer(row, 2),
            .revoked = database_integer(row, 3),
            .requests_max = database_integer(row, 4),
            .requests_per_minute = database_integer(row, 5),
            .tokens_per_minute = database_integer(row, 6),
            .spent = database_integer(row, 7),
            .budget = database_is_null(row, 8) ? ACCOUNT_BUDGET_ANY : database_integer(row, 8),
        };
        struct bytes digest = database_blob(row, 0);
        for (size_t i = 0; i < digest.count && i < SHA256_BYTES; i++)
            snprintf(view.sha256 + 2 * i, 3, "%02x", (uint8_t)digest.data[i]);
        listener->key(listener->context, &view);
    }
    return status;
}

static void list_account(const struct account_listener *listener, struct sqlite3_stmt *row) {
    struct account_view view = {
        .name = database_text(row, 1),
        .group = database_text(row, 2),
        .models = database_text(row, 3),
        .created = database_integer(row, 4),
        .revoked = database_integer(row, 5),
        .is_operator = database_integer(row, 6),
        .is_prepaid = database_integer(row, 7),
        .priority = database_integer(row, 8),
        .weight = database_integer(row, 9),
        .requests_max = database_integer(row, 10),
        .requests_per_minute = database_integer(row, 11),
        .tokens_per_minute = database_integer(row, 12),
        .balance = database_integer(row, 13),
        .requests = database_integer(row, 14),
        .tokens = database_integer(row, 15),
        .keys = database_integer(row, 16),
    };
    listener->account(listener->context, &view);
}

enum status account_store_list(struct database *database, const char *name,
                               const struct account_listener *listener, struct error *error) {
    static const char sql[] =
        "SELECT id, name, tenant, models, created, revoked, is_operator, is_prepaid, priority,"
        " weight, requests_max, requests_per_minute, tokens_per_minute, balance, requests, tokens,"
        " (SELECT count(*) FROM keys WHERE account = accounts.id AND keys.revoked IS NULL)"
        " FROM accounts WHERE ?1 IS NULL OR name = ?1 ORDER BY id";
    enum status status = STATUS_OK;
    bool is_revoked;
    int64_t id;
    if (name) status = find(database, name, &id, &is_revoked, error);
    if (status) return status;
    struct sqlite3_stmt *row = database_query(database, error, sql, "t", name);
    while (database_next(database, row, &status, error)) {
        list_account(listener, row);
        enum status below =
            listener->key ? list_account_keys(database, database_integer(row, 0), listener, error)
                          : STATUS_OK;
        if (below) database_end(row);
        if (below) return below;
    }
    return status;
}

enum status account_store_currency(struct database *database,
                                   char currency_out[LEDGER_CURRENCY_BYTES], struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *row =
        database_query(database, error, "SELECT value FROM settings WHERE name = 'currency'", "");
    memset(currency_out, 0, LEDGER_CURRENCY_BYTES);
    if (!database_next(database, row, &status, error)) return status;
    const char *found = database_text(row, 0);
    if (strlen(found) < LEDGER_CURRENCY_BYTES) memcpy(currency_out, found, strlen(found));
    if (!currency_out[0] || !record_ledger_currency_valid(currency_out))
        status = error_set(error, STATUS_CORRUPT,
                           "%.200s: is damaged (its currency '%.20s' is invalid); restore a copy "
                           "of it (docs/accounts.md)",
                           database_path(database), found);
    database_end(row);
    return status;
}
