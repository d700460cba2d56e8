/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/account_notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/ledger/account_store.h"

/* Gets the next name of a list. Returns false if there is none. */
static bool account_notify_next_name(const char **rest, struct bytes *name_out) {
    if (!*rest || !**rest) return false;
    size_t count = strcspn(*rest, ",");
    *name_out = (struct bytes){*rest, count};
    *rest += count + ((*rest)[count] == ',');
    return true;
}

static bool is_among(struct bytes name, const char *names) {
    struct bytes one;
    while (account_notify_next_name(&names, &one))
        if (bytes_equal(one, name)) return true;
    return false;
}

uint64_t account_notify_denied(const char *models, const char *allowed) {
    uint64_t denied = 0;
    struct bytes name;
    if (!allowed || !*allowed) return 0;
    for (uint32_t i = 0; i < 64 && account_notify_next_name(&models, &name); i++)
        if (!is_among(name, allowed)) denied |= (uint64_t)1 << i;
    if (is_among(BYTES_LITERAL("default"), allowed)) denied &= ~(uint64_t)1;
    return denied;
}

void account_notify_own_add(struct account_own *own, int64_t account, uint64_t requests,
                            uint64_t tokens) {
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

#define ID_MAX ((int64_t)1 << 24) /* limit of an account id, which is the index of its counts */

struct report {
    struct database *database;
    const struct account_own *own;
    const char *models;
    uint8_t secret[SHA256_BYTES];
    struct record_accounts *record;
    int64_t ids[LIMIT_ACCOUNTS]; /* ids of the record's accounts */
};

static struct account_limits limits_of(const struct report *report, struct sqlite3_stmt *row,
                                       int column) {
    return (struct account_limits){
        .requests_max = (uint32_t)database_integer(row, column),
        .requests_per_minute = (uint32_t)database_integer(row, column + 1),
        .tokens_per_minute = (uint64_t)database_integer(row, column + 2),
        .models_denied = account_notify_denied(report->models, database_text(row, column + 3)),
    };
}

/* The salt of a group (NULL, "": none), else of the account. Groups and accounts of the same name
 * are different tenants, and so are their generations: a new generation finds no blocks of the
 * previous one. */
static struct tenant_salt salt_of(const uint8_t secret[SHA256_BYTES], const char *account,
                                  const char *group, uint64_t generation) {
    char text[40 + LIMIT_ACCOUNT_NAME];
    struct tenant_salt salt;
    bool in_group = group && group[0];
    int count = snprintf(text, sizeof text, "%s %s", in_group ? "group" : "account",
                         in_group ? group : account);
    if (generation > 0)
        count += snprintf(text + count, sizeof text - (size_t)count, " %llu",
                          (unsigned long long)generation);
    sha256_hmac(secret, text, (size_t)count, salt.bytes);
    return salt;
}

static uint64_t beyond(int64_t all, uint64_t own) {
    return (uint64_t)all > own ? (uint64_t)all - own : 0;
}

/* Returns false if the row was not written by Fathom. */
static bool account_notify_is_sound(struct sqlite3_stmt *row, const struct account *account) {
    int64_t id = database_integer(row, 0);
    return id > 0 && id <= ID_MAX && strlen(database_text(row, 1)) <= LIMIT_ACCOUNT_NAME &&
           strlen(database_text(row, 13)) <= LIMIT_ACCOUNT_NAME &&
           record_ledger_account_valid(account);
}

static enum status notify_account(struct report *report, struct sqlite3_stmt *row, uint32_t number,
                                  struct error *error) {
    struct account *account = &accounts_named(report->record)[number];
    const char *name = database_text(row, 1);
    uint64_t id = (uint64_t)database_integer(row, 0);
    struct account_used own = {0};
    if (id < report->own->count) own = report->own->used[id];
    report->ids[number] = (int64_t)id;
    memcpy(account->name, name, strnlen(name, LIMIT_ACCOUNT_NAME));
    account->limits = limits_of(report, row, 2);
    account->priority = (uint32_t)database_integer(row, 6);
    account->weight = (uint32_t)database_integer(row, 7);
    account->is_operator = database_integer(row, 8) != 0;
    account->is_prepaid = database_integer(row, 9) != 0;
    account->balance = database_integer(row, 10);
    account->others_requests = beyond(database_integer(row, 11), own.requests);
    account->others_tokens = beyond(database_integer(row, 12), own.tokens);
    if (!account_notify_is_sound(row, account))
        return error_set(error, STATUS_CORRUPT,
                         "%.200s: is damaged (account %lld, '%.80s', has an id, a name, a group, a "
                         "priority or a weight that is invalid); restore a copy of it "
                         "(docs/accounts.md)",
                         database_path(report->database), (long long)id, name);
    account->tenant =
        salt_of(report->secret, name, database_text(row, 13), (uint64_t)database_integer(row, 14));
    return STATUS_OK;
}

static enum status account_notify_accounts(struct report *report, struct error *error) {
    static const char sql[] =
        "SELECT id, a.name, requests_max, requests_per_minute, tokens_per_minute, models, priority,"
        " weight, is_operator, is_prepaid, balance, requests, tokens, tenant,"
        " coalesce(t.generation, 0) FROM accounts a LEFT JOIN tenants t"
        " ON t.name = iif(tenant = '', 'account ' || a.name, 'group ' || tenant)"
        " WHERE revoked IS NULL ORDER BY id";
    enum status status = STATUS_OK, damaged = STATUS_OK;
    uint32_t number = 0;
    struct sqlite3_stmt *row = database_query(report->database, error, sql, "");
    while (!damaged && database_next(report->database, row, &status, error))
        if (number < report->record->account_count)
            damaged = notify_account(report, row, number++, error);
    if (damaged) database_end(row);
    report->record->account_count = number;
    return status ? status : damaged;
}

static bool account_notify_find_id(const struct report *report, int64_t id, uint32_t *number_out) {
    for (uint32_t i = 0; i < report->record->account_count; i++) {
        *number_out = i;
        if (report->ids[i] == id) return true;
    }
    return false;
}

/* Reads keys into keys[key_count] and returns their number. */
static enum status report_keys(struct report *report, struct account_key *keys, uint32_t *count_out,
                               struct error *error) {
    static const char sql[] = "SELECT account, sha256, requests_max, requests_per_minute,"
                              " tokens_per_minute, models, budget - spent FROM keys"
                              " WHERE revoked IS NULL ORDER BY id";
    enum status status = STATUS_OK;
    uint32_t number = 0, account;
    struct sqlite3_stmt *row = database_query(report->database, error, sql, "");
    while (database_next(report->database, row, &status, error)) {
        struct bytes digest = database_blob(row, 1);
        if (number == report->record->key_count || digest.count != SHA256_BYTES) continue;
        if (!account_notify_find_id(report, database_integer(row, 0), &account))
            continue; /* its account is revoked */
        struct account_key *key = &keys[number++];
        memcpy(key->sha256, digest.data, SHA256_BYTES);
        key->account = account;
        key->limits = limits_of(report, row, 2);
        key->budget = database_is_null(row, 6) ? ACCOUNT_BUDGET_ANY : database_integer(row, 6);
    }
    *count_out = number;
    return status;
}

/* Reads into a record of maximum size, and then shrinks it. */
static enum status account_notify_read_all(struct report *report,
                                           struct record_accounts **record_out,
                                           struct error *error) {
    enum status status = account_notify_accounts(report, error);
    uint32_t room = report->record->key_count, count = 0;
    struct account_key *keys = calloc(room, sizeof *keys);
    check(keys);
    if (!status) status = report_keys(report, keys, &count, error);
    report->record->key_count = count;
    record_set_head(report->record, RECORD_ACCOUNTS);
    memcpy(accounts_keys(report->record), keys, count * sizeof *keys);
    free(keys);
    if (!status) {
        *record_out = realloc(report->record, report->record->record.bytes);
        check(*record_out && record_valid(*record_out, (*record_out)->record.bytes));
    }
    return status;
}

enum status account_notify_read(struct database *database, const struct account_own *own,
                                const char *models, struct record_accounts **record_out,
                                struct error *error) {
    struct record_accounts most = {.account_count = LIMIT_ACCOUNTS,
                                   .key_count = LIMIT_ACCOUNT_KEYS};
    struct report report = {.database = database, .own = own, .models = models};
    enum status status = account_store_secret(database, report.secret, error);
    if (status) return status;
    report.record = calloc(1, record_bytes(RECORD_ACCOUNTS, &most));
    if (!report.record) return error_set(error, STATUS_NO_MEMORY, "no memory for the accounts");
    *report.record = most;
    record_set_head(report.record, RECORD_ACCOUNTS);
    status = account_store_currency(database, report.record->currency, error);
    if (!status) status = account_notify_read_all(&report, record_out, error);
    if (status) free(report.record);
    return status;
}
