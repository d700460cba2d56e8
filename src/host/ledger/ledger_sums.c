/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/ledger_sums.h"

#include <stdlib.h>
#include <string.h>

#include "host/ledger/account_store.h"

#define HOUR_S 3600.0
#define HOUR_LAST 70000000

struct ledger_sums {
    struct database *all; /* in memory */
    char currency[LEDGER_CURRENCY_BYTES];
};

static const char tables[] =
    "CREATE TABLE usage (hour INTEGER NOT NULL, account TEXT NOT NULL, requests INTEGER,"
    " hit INTEGER, miss INTEGER, output INTEGER, amount INTEGER, list_amount INTEGER,"
    " PRIMARY KEY (hour, account)) WITHOUT ROWID;"
    "CREATE TABLE nodes (hour INTEGER NOT NULL, instance INTEGER NOT NULL, role INTEGER NOT NULL,"
    " node_seconds INTEGER, cost INTEGER, PRIMARY KEY (hour, instance, role)) WITHOUT ROWID;";

/* ---- reading ---- */

/* Accepts 1970 to 9955: gateways write no other years, and others cannot be printed as dates. */
static enum status check_hour(const struct database *from, int64_t hour, struct error *error) {
    if (hour >= 0 && hour <= HOUR_LAST) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     "%.200s: is damaged (it has an hour %lld, and hours of 1970 go to %d); "
                     "restore a copy of it (docs/accounts.md)",
                     database_path(from), (long long)hour, HOUR_LAST);
}

static enum status add_usage(struct ledger_sums *sums, struct database *from,
                             const struct ledger_range *range, struct error *error) {
    static const char sql[] =
        "SELECT hour, coalesce(a.name, ''), h.requests, hit, miss, output, amount, list_amount"
        " FROM hours h LEFT JOIN accounts a ON a.id = h.account"
        " WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR a.name = ?3)";
    static const char put[] = "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                              " ON CONFLICT DO UPDATE SET " DATABASE_ADD_USAGE;
    enum status status = STATUS_OK, written = STATUS_OK;
    struct sqlite3_stmt *row =
        database_query(from, error, sql, "iit", range->from_hour, range->to_hour, range->account);
    while (!written && database_next(from, row, &status, error)) {
        written = check_hour(from, database_integer(row, 0), error);
        if (written) break;
        written = database_run(
            sums->all, error, put, "itiiiiii", database_integer(row, 0), database_text(row, 1),
            database_integer(row, 2), database_integer(row, 3), database_integer(row, 4),
            database_integer(row, 5), database_integer(row, 6), database_integer(row, 7));
    }
    if (written) database_end(row);
    return status ? status : written;
}

static enum status ledger_sums_add_nodes(struct ledger_sums *sums, struct database *from,
                                         const struct ledger_range *range, struct error *error) {
    static const char sql[] = "SELECT hour, instance, role, node_seconds, cost FROM node_hours"
                              " WHERE hour >= ? AND hour < ?";
    static const char put[] = "INSERT INTO nodes VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                              " node_seconds = max(node_seconds, excluded.node_seconds),"
                              " cost = max(cost, excluded.cost)";
    enum status status = STATUS_OK, written = STATUS_OK;
    struct sqlite3_stmt *row =
        database_query(from, error, sql, "ii", range->from_hour, range->to_hour);
    while (!written && database_next(from, row, &status, error)) {
        written = check_hour(from, database_integer(row, 0), error);
        if (written) break;
        written = database_run(sums->all, error, put, "iiiii", database_integer(row, 0),
                               database_integer(row, 1), database_integer(row, 2),
                               database_integer(row, 3), database_integer(row, 4));
    }
    if (written) database_end(row);
    return status ? status : written;
}

static enum status ledger_sums_check_currency(struct ledger_sums *sums, struct database *from,
                                              struct error *error) {
    char currency[LEDGER_CURRENCY_BYTES];
    enum status status = account_store_currency(from, currency, error);
    if (status || !currency[0]) return status;
    if (!sums->currency[0]) memcpy(sums->currency, currency, sizeof currency);
    if (!strcmp(sums->currency, currency)) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%.200s counts in %s, the files before it in %s; report them apart",
                     database_path(from), currency, sums->currency);
}

static enum status add_file(struct ledger_sums *sums, const char *path,
                            const struct ledger_range *range, struct error *error) {
    struct database *from = NULL;
    enum status status = database_open(path, DATABASE_REFUSE, &from, error);
    if (!status) status = ledger_sums_check_currency(sums, from, error);
    if (!status) status = add_usage(sums, from, range, error);
    if (!status) status = ledger_sums_add_nodes(sums, from, range, error);
    database_close(from);
    return status;
}

enum status ledger_sums_open(const char *const *paths, size_t count,
                             const struct ledger_range *range, struct ledger_sums **sums_out,
                             struct error *error) {
    struct ledger_sums *sums = calloc(1, sizeof *sums);
    if (!sums) return error_set(error, STATUS_NO_MEMORY, "no memory for the ledger's sums");
    enum status status = database_open_memory(&sums->all, error);
    if (!status) status = database_make(sums->all, tables, error);
    if (!status) status = database_begin(sums->all, error);
    for (size_t i = 0; i < count && !status; i++)
        status = add_file(sums, paths[i], range, error);
    status = database_finish(sums->all, status, error);
    if (status)
        ledger_sums_close(sums);
    else
        *sums_out = sums;
    return status;
}

void ledger_sums_close(struct ledger_sums *sums) {
    if (!sums) return;
    database_close(sums->all);
    free(sums);
}

const char *ledger_sums_currency(const struct ledger_sums *sums) {
    return sums->currency;
}

/* ---- sums ---- */

static struct ledger_usage ledger_sums_usage_of(struct sqlite3_stmt *row, int column) {
    return (struct ledger_usage){
        .requests = database_integer(row, column),
        .hit_tokens = database_integer(row, column + 1),
        .miss_tokens = database_integer(row, column + 2),
        .output_tokens = database_integer(row, column + 3),
        .amount = database_integer(row, column + 4),
        .list_amount = database_integer(row, column + 5),
    };
}

enum status ledger_sums_rows(struct ledger_sums *sums,
                             void (*take)(void *context, int64_t hour,
                                          const struct ledger_account *account),
                             void *context, struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *row =
        database_query(sums->all, error,
                       "SELECT hour, account, requests, hit, miss, output, amount, list_amount"
                       " FROM usage ORDER BY hour, account",
                       "");
    while (database_next(sums->all, row, &status, error))
        take(context, database_integer(row, 0),
             &(struct ledger_account){database_text(row, 1), ledger_sums_usage_of(row, 2)});
    return status;
}

enum status ledger_sums_accounts(struct ledger_sums *sums,
                                 void (*take)(void *context, const struct ledger_account *account),
                                 void *context, struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *row = database_query(
        sums->all, error,
        "SELECT account, sum(requests), sum(hit), sum(miss), sum(output), sum(amount),"
        " sum(list_amount) FROM usage GROUP BY account ORDER BY account",
        "");
    while (database_next(sums->all, row, &status, error))
        take(context,
             &(struct ledger_account){database_text(row, 0), ledger_sums_usage_of(row, 1)});
    return status;
}

enum status ledger_sums_hours(struct ledger_sums *sums,
                              void (*take)(void *context, const struct ledger_hour *hour),
                              void *context, struct error *error) {
    static const char sql[] =
        "SELECT hour, sum(requests), sum(hit), sum(miss), sum(output), sum(amount),"
        " sum(list_amount), sum(both), sum(prefill), sum(decode), sum(cost) FROM"
        " (SELECT hour, requests, hit, miss, output, amount, list_amount, 0 AS both, 0 AS prefill,"
        " 0 AS decode, 0 AS cost FROM usage UNION ALL"
        " SELECT hour, 0, 0, 0, 0, 0, 0, iif(role = 0, node_seconds, 0),"
        " iif(role = 1, node_seconds, 0), iif(role = 2, node_seconds, 0), cost FROM nodes)"
        " GROUP BY hour ORDER BY hour";
    enum status status = STATUS_OK;
    struct sqlite3_stmt *row = database_query(sums->all, error, sql, "");
    while (database_next(sums->all, row, &status, error)) {
        struct ledger_hour hour = {database_integer(row, 0), ledger_sums_usage_of(row, 1), {0}, 0};
        for (int role = 0; role < 3; role++)
            hour.nodes[role] = (double)database_integer(row, 7 + role) / HOUR_S;
        hour.cost = database_integer(row, 10);
        take(context, &hour);
    }
    return status;
}
