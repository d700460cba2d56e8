/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/account_tell.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/ledger/account_store.h"

/* The next name of a list; false: there is none. */
static bool next_name(const char **rest, struct bytes *name_out) {
    if (!*rest || !**rest) return false;
    size_t count = strcspn(*rest, ",");
    *name_out = (struct bytes){*rest, count};
    *rest += count + ((*rest)[count] == ',');
    return true;
}

static bool is_among(struct bytes name, const char *names) {
    struct bytes one;
    while (next_name(&names, &one))
        if (bytes_equal(one, name)) return true;
    return false;
}

uint64_t account_tell_denied(const char *models, const char *allowed) {
    uint64_t denied = 0;
    struct bytes name;
    if (!allowed || !*allowed) return 0;
    for (uint32_t i = 0; i < 64 && next_name(&models, &name); i++)
        if (!is_among(name, allowed)) denied |= (uint64_t)1 << i;
    if (is_among(BYTES_LITERAL("default"), allowed)) denied &= ~(uint64_t)1;
    return denied;
}

void account_own_add(struct account_own *own, int64_t account, uint64_t requests, uint64_t tokens) {
    uint64_t count = (uint64_t)account + 1;
    if (own->count < count) {
        own->used = realloc(own->used, count * sizeof *own->used);
        check(own->used);
        memset(own->used + own->count, 0, (count - own->count) * sizeof *own->used);
        own->count = count;
    }
    own->used[account].requests += requests;
    own->used[account].tokens += tokens;
}

#define ID_MAX ((int64_t)1 << 24) /* of an account; what is known of each lies by its id */

struct tell {
    struct database *database;
    const struct account_own *own;
    const char *models;
    uint8_t secret[SHA256_BYTES];
    struct record_accounts *record;
    int64_t ids[LIMIT_ACCOUNTS]; /* of the accounts of the record */
};

static struct account_limits limits_of(const struct tell *tell, struct sqlite3_stmt *row,
                                       int column) {
    return (struct account_limits){
        .requests_max = (uint32_t)database_integer(row, column),
        .requests_per_minute = (uint32_t)database_integer(row, column + 1),
        .tokens_per_minute = (uint64_t)database_integer(row, column + 2),
        .models_denied = account_tell_denied(tell->models, database_text(row, column + 3)),
    };
}

static uint64_t beyond(int64_t all, uint64_t own) {
    return (uint64_t)all > own ? (uint64_t)all - own : 0;
}

/* False: no Fathom has written this row. */
static bool is_sound(struct sqlite3_stmt *row, const struct account *account) {
    int64_t id = database_integer(row, 0);
    return id > 0 && id <= ID_MAX && strlen(database_text(row, 1)) <= LIMIT_ACCOUNT_NAME &&
           strlen(database_text(row, 13)) <= LIMIT_ACCOUNT_NAME && account_valid(account);
}

static enum status tell_account(struct tell *tell, struct sqlite3_stmt *row, uint32_t number,
                                struct error *error) {
    struct account *account = &accounts_named(tell->record)[number];
    const char *name = database_text(row, 1);
    uint64_t id = (uint64_t)database_integer(row, 0);
    struct account_used own = {0};
    if (id < tell->own->count) own = tell->own->used[id];
    tell->ids[number] = (int64_t)id;
    memcpy(account->name, name, strnlen(name, LIMIT_ACCOUNT_NAME));
    account->limits = limits_of(tell, row, 2);
    account->priority = (uint32_t)database_integer(row, 6);
    account->weight = (uint32_t)database_integer(row, 7);
    account->is_operator = database_integer(row, 8) != 0;
    account->is_prepaid = database_integer(row, 9) != 0;
    account->balance = database_integer(row, 10);
    account->others_requests = beyond(database_integer(row, 11), own.requests);
    account->others_tokens = beyond(database_integer(row, 12), own.tokens);
    if (!is_sound(row, account))
        return error_set(error, STATUS_CORRUPT,
                         "%.200s: is damaged (account %lld, '%.80s', has an id, a name, a group, a "
                         "priority or a weight that is none); bring back a copy of it "
                         "(docs/accounts.md)",
                         database_path(tell->database), (long long)id, name);
    account->tenant = accounts_file_salt(tell->secret, name, database_text(row, 13),
                                         (uint64_t)database_integer(row, 14));
    return STATUS_OK;
}

static enum status tell_accounts(struct tell *tell, struct error *error) {
    static const char sql[] =
        "SELECT id, a.name, requests_max, requests_per_minute, tokens_per_minute, models, priority,"
        " weight, is_operator, is_prepaid, balance, requests, tokens, tenant,"
        " coalesce(t.generation, 0) FROM accounts a LEFT JOIN tenants t"
        " ON t.name = iif(tenant = '', 'account ' || a.name, 'group ' || tenant)"
        " WHERE revoked IS NULL ORDER BY id";
    enum status status = STATUS_OK, damaged = STATUS_OK;
    uint32_t number = 0;
    struct sqlite3_stmt *row = database_query(tell->database, error, sql, "");
    while (!damaged && database_next(tell->database, row, &status, error))
        if (number < tell->record->account_count)
            damaged = tell_account(tell, row, number++, error);
    if (damaged) database_end(row);
    tell->record->account_count = number;
    return status ? status : damaged;
}

static bool find_id(const struct tell *tell, int64_t id, uint32_t *number_out) {
    for (uint32_t i = 0; i < tell->record->account_count; i++) {
        *number_out = i;
        if (tell->ids[i] == id) return true;
    }
    return false;
}

/* Reads into keys[key_count]; returns how many there are. */
static enum status tell_keys(struct tell *tell, struct account_key *keys, uint32_t *count_out,
                             struct error *error) {
    static const char sql[] = "SELECT account, sha256, requests_max, requests_per_minute,"
                              " tokens_per_minute, models, budget - spent FROM keys"
                              " WHERE revoked IS NULL ORDER BY id";
    enum status status = STATUS_OK;
    uint32_t number = 0, account;
    struct sqlite3_stmt *row = database_query(tell->database, error, sql, "");
    while (database_next(tell->database, row, &status, error)) {
        struct bytes digest = database_blob(row, 1);
        if (number == tell->record->key_count || digest.count != SHA256_BYTES) continue;
        if (!find_id(tell, database_integer(row, 0), &account)) continue; /* it is revoked */
        struct account_key *key = &keys[number++];
        memcpy(key->sha256, digest.data, SHA256_BYTES);
        key->account = account;
        key->limits = limits_of(tell, row, 2);
        key->budget = database_is_null(row, 6) ? ACCOUNT_BUDGET_ANY : database_integer(row, 6);
    }
    *count_out = number;
    return status;
}

/* A record with room for the most; then with as many as there are. */
static enum status read_all(struct tell *tell, struct record_accounts **record_out,
                            struct error *error) {
    enum status status = tell_accounts(tell, error);
    uint32_t room = tell->record->key_count, count = 0;
    struct account_key *keys = calloc(room, sizeof *keys);
    check(keys);
    if (!status) status = tell_keys(tell, keys, &count, error);
    tell->record->key_count = count;
    record_set_head(tell->record, RECORD_ACCOUNTS);
    memcpy(accounts_keys(tell->record), keys, count * sizeof *keys);
    free(keys);
    if (!status) {
        *record_out = realloc(tell->record, tell->record->record.bytes);
        check(*record_out && record_valid(*record_out, (*record_out)->record.bytes));
    }
    return status;
}

enum status account_tell_read(struct database *database, const struct account_own *own,
                              const char *models, struct record_accounts **record_out,
                              struct error *error) {
    struct record_accounts most = {.account_count = LIMIT_ACCOUNTS,
                                   .key_count = LIMIT_ACCOUNT_KEYS};
    struct tell tell = {.database = database, .own = own, .models = models};
    enum status status = account_store_secret(database, tell.secret, error);
    if (status) return status;
    tell.record = calloc(1, record_bytes(RECORD_ACCOUNTS, &most));
    if (!tell.record) return error_set(error, STATUS_NO_MEMORY, "no memory for the accounts");
    *tell.record = most;
    record_set_head(tell.record, RECORD_ACCOUNTS);
    status = account_store_currency(database, tell.record->currency, error);
    if (!status) status = read_all(&tell, record_out, error);
    if (status) free(tell.record);
    return status;
}
