/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/ledger_verify.h"

#include <stdio.h>

#include "base/check.h"
#include "host/ledger/database.h"

struct verify {
    struct database *file; /* current file */
    struct database *all;  /* in memory: the unit totals of all files */
    void (*breach)(void *context, const char *line);
    void *context;
    struct ledger_verdict verdict;
    struct error *error;
};

/* A query for violations: rows with the thing, the expected value and the actual value. */
struct rule {
    const char *sql, *format; /* format for file, thing, expected, found */
};

#define CHARGED "FROM entries WHERE is_charged = 1"
#define NAME_OF(account)                                                                           \
    "coalesce((SELECT name FROM accounts WHERE id = " account "), 'no account')"

/* The picos of a record, split into whole nanos and the rest, so that products fit 64 bits. */
#define PICOS_OF(of)                                                                               \
    "e.hit * (p.hit " of ") + e.miss * (p.miss " of ") + e.output * (p.output " of ")"
#define DUE_OF_ENTRY "(" PICOS_OF("/ 1000") " + (" PICOS_OF("% 1000") " + 500) / 1000)"
#define NOT_WHOLE(column) "typeof(" column ") != 'integer'"

/* clang-format off */
static const struct rule rules[] = {
    {"SELECT printf('%016x%016x', high, low), 1, count(*) FROM entries GROUP BY high, low"
     " HAVING count(*) > 1",
     "%s: request %s: expected %lld entry, found %lld"},
    {"SELECT 'account ' || name, 0, balance FROM accounts WHERE " NOT_WHOLE("balance")
     " OR " NOT_WHOLE("tokens") " OR " NOT_WHOLE("requests")
     " UNION ALL SELECT 'key ' || lower(substr(hex(sha256), 1, 12)), 0, spent FROM keys"
     " WHERE " NOT_WHOLE("spent")
     " UNION ALL SELECT 'entry ' || id, 0, amount FROM entries WHERE " NOT_WHOLE("amount")
     " OR " NOT_WHOLE("list_amount") " OR " NOT_WHOLE("hit") " OR " NOT_WHOLE("miss")
     " OR " NOT_WHOLE("output")
     " UNION ALL SELECT 'top-up ' || id, 0, amount FROM top_ups WHERE " NOT_WHOLE("amount")
     " UNION ALL SELECT 'hour ' || hour, 0, amount FROM hours WHERE " NOT_WHOLE("requests")
     " OR " NOT_WHOLE("hit") " OR " NOT_WHOLE("miss") " OR " NOT_WHOLE("output")
     " OR " NOT_WHOLE("amount") " OR " NOT_WHOLE("list_amount")
     " UNION ALL SELECT 'node-hour ' || hour, 0, cost FROM node_hours"
     " WHERE " NOT_WHOLE("node_seconds") " OR " NOT_WHOLE("cost"),
     "%s: %s: %lld of its amounts may be no whole number, and one is, near %lld"},
    {"SELECT printf('%016x%016x', e.high, e.low), " DUE_OF_ENTRY " * e.is_charged AS due, amount"
     " FROM entries e LEFT JOIN prices p ON p.id = e.price WHERE due IS NOT amount",
     "%s: request %s: its tokens cost %lld nanos, and it was charged %lld"},
    {"SELECT printf('%016x%016x', high, low), hit + miss AS prompt,"
     " device + host + disk + computed AS rows FROM entries"
     " WHERE is_charged = 1 AND choices = 1 AND rows > 0 AND rows != prompt",
     "%s: request %s: %lld prompt tokens were charged, and units reported %lld"},
    {"SELECT printf('%016x%016x', high, low), output, made " CHARGED " AND made < output",
     "%s: request %s: %lld tokens were charged, and units made %lld"},
    /* If only a prompt's scores are requested, units generate one token for each answer, which is
     * not charged. A client that left may not have received it. */
    {"SELECT printf('%016x%016x', high, low), output, made " CHARGED " AND output = 0"
     " AND made > choices AND http_status != 499",
     "%s: request %s: %lld tokens were charged, though units made %lld"},
    {"WITH due AS (SELECT ended / 3600 AS hour, account, count(*) AS requests,"
     " exact_sum(hit) AS hit, exact_sum(miss) AS miss, exact_sum(output) AS output,"
     " exact_sum(amount) AS amount, exact_sum(list_amount) AS list " CHARGED " GROUP BY 1, 2)"
     " SELECT strftime('%Y-%m-%dT%H', coalesce(d.hour, h.hour) * 3600, 'unixepoch') || ' of '"
     " || " NAME_OF("coalesce(d.account, h.account)") ", coalesce(d.amount, 0),"
     " coalesce(h.amount, 0) FROM due d FULL JOIN hours h USING (hour, account)"
     " WHERE h.requests IS NOT d.requests OR h.hit IS NOT d.hit OR h.miss IS NOT d.miss"
     " OR h.output IS NOT d.output OR h.amount IS NOT d.amount OR h.list_amount IS NOT d.list",
     "%s: the hour %s is not the sum of its entries: %lld nanos, and it says %lld"},
    {"WITH due AS (SELECT account, exact_sum(amount) AS amount FROM (SELECT account, amount"
     " FROM top_ups UNION ALL SELECT account, -amount FROM entries) GROUP BY account)"
     " SELECT name, coalesce(d.amount, 0), balance FROM accounts a LEFT JOIN due d"
     " ON d.account = a.id WHERE coalesce(d.amount, 0) != balance",
     "%s: account %s: top-ups less charges are %lld nanos, and its balance is %lld"},
    {"WITH due AS (SELECT account, exact_sum(hit + miss + output) AS tokens " CHARGED
     " GROUP BY account) SELECT name, coalesce(d.tokens, 0), a.tokens FROM accounts a"
     " LEFT JOIN due d ON d.account = a.id WHERE coalesce(d.tokens, 0) != a.tokens",
     "%s: account %s: its entries have %lld tokens, and it says %lld"},
    {"WITH due AS (SELECT key, exact_sum(amount) AS amount FROM entries GROUP BY key)"
     " SELECT lower(substr(hex(sha256), 1, 12)), coalesce(d.amount, 0), spent FROM keys k"
     " LEFT JOIN due d ON d.key = k.id WHERE coalesce(d.amount, 0) != spent",
     "%s: key %s: its entries come to %lld nanos, and it has spent %lld"},
};
/* clang-format on */

static void ledger_verify_report(struct verify *verify, const char *line) {
    verify->verdict.breaches++;
    verify->breach(verify->context, line);
}

static enum status ledger_verify_apply(struct verify *verify, const struct rule *rule) {
    enum status status = STATUS_OK;
    char line[512];
    struct sqlite3_stmt *row = database_query(verify->file, verify->error, rule->sql, "");
    while (database_next(verify->file, row, &status, verify->error)) {
        snprintf(line, sizeof line, rule->format, database_path(verify->file),
                 database_text(row, 0), (long long)database_integer(row, 1),
                 (long long)database_integer(row, 2));
        ledger_verify_report(verify, line);
    }
    return status;
}

static enum status count_rows(struct verify *verify, struct error *error) {
    int64_t entries = 0, accounts = 0, hours = 0;
    enum status status =
        database_number(verify->file, &entries, error, "SELECT count(*) FROM entries", "");
    if (!status)
        status =
            database_number(verify->file, &accounts, error, "SELECT count(*) FROM accounts", "");
    if (!status)
        status = database_number(verify->file, &hours, error, "SELECT count(*) FROM hours", "");
    verify->verdict.entries += entries;
    verify->verdict.accounts += accounts;
    verify->verdict.hours += hours;
    return status;
}

/* SQLite's own check of its pages and indices. */
static enum status check_pages(struct verify *verify) {
    enum status status = STATUS_OK;
    char line[512];
    struct sqlite3_stmt *row =
        database_query(verify->file, verify->error, "PRAGMA integrity_check(20)", "");
    while (database_next(verify->file, row, &status, verify->error)) {
        const char *found = database_text(row, 0);
        snprintf(line, sizeof line, "%s: damaged: %s", database_path(verify->file), found);
        if (found[0] != 'o' || found[1] != 'k' || found[2]) ledger_verify_report(verify, line);
    }
    return status;
}

/* ---- units ---- */

/* `until`: a gateway without a recorded end may have continued after its last write. */
#define GATHERED                                                                                   \
    "CREATE TABLE tallies (instance INTEGER, gateway INTEGER, is_lost INTEGER,"                    \
    " counted_made INTEGER, counted_computed INTEGER, entered_made INTEGER,"                       \
    " entered_computed INTEGER, open INTEGER);"                                                    \
    "CREATE TABLE units (instance INTEGER, began INTEGER);"                                        \
    "CREATE TABLE gateways (id INTEGER, until INTEGER)"
#define UNSAID_END_S "10"

static enum status ledger_verify_gather(struct verify *verify, const char *from, const char *to,
                                        int columns) {
    enum status status = STATUS_OK, written = STATUS_OK;
    struct sqlite3_stmt *row = database_query(verify->file, verify->error, from, "");
    while (!written && database_next(verify->file, row, &status, verify->error)) {
        int64_t value[8] = {0};
        for (int i = 0; i < columns; i++)
            value[i] = database_integer(row, i);
        written = columns == 2
                      ? database_run(verify->all, verify->error, to, "ii", value[0], value[1])
                      : database_run(verify->all, verify->error, to, "iiiiiiii", value[0], value[1],
                                     value[2], value[3], value[4], value[5], value[6], value[7]);
    }
    return status ? status : written;
}

static enum status gather_units(struct verify *verify) {
    enum status status = ledger_verify_gather(
        verify,
        "SELECT instance, gateway, is_lost, counted_made, counted_computed, entered_made,"
        " entered_computed, open_made + open_computed FROM tallies",
        "INSERT INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, ?)", 8);
    if (!status)
        status = ledger_verify_gather(verify, "SELECT instance, began FROM units",
                                      "INSERT INTO units VALUES (?, ?)", 2);
    if (!status)
        status = ledger_verify_gather(
            verify, "SELECT id, coalesce(ended, seen + " UNSAID_END_S ") FROM gateways",
            "INSERT INTO gateways VALUES (?, ?)", 2);
    return status;
}

struct unit_sums {
    const char *name;
    long long counted, entered;
    bool is_whole; /* all gateways that it may have worked for have reported it */
};

static void examine(struct verify *verify, const struct unit_sums *sums, const char *what) {
    char line[256];
    if (sums->is_whole ? sums->counted == sums->entered : sums->counted >= sums->entered) return;
    snprintf(line, sizeof line,
             "unit %s: it has %s %lld tokens, and the entries of its gateways say %lld", sums->name,
             what, sums->counted, sums->entered);
    ledger_verify_report(verify, line);
}

/* A unit is verified when all its gateways have reported the same state of it, with no request
 * running. If a gateway died or ended before that report, its records are unknown, and the others'
 * records must only not exceed the unit's counts. */
static enum status verify_units(struct verify *verify) {
    static const char sql[] =
        "SELECT printf('%016x', instance), max(counted_made), exact_sum(entered_made),"
        " max(counted_computed), exact_sum(entered_computed), max(is_lost) = 0"
        " AND exact_sum(open) = 0"
        " AND min(counted_made) = max(counted_made)"
        " AND min(counted_computed) = max(counted_computed) AS at_rest,"
        " NOT EXISTS (SELECT 1 FROM gateways g WHERE g.until >="
        " (SELECT min(began) FROM units u WHERE u.instance = tallies.instance) AND NOT EXISTS"
        " (SELECT 1 FROM tallies t WHERE t.instance = tallies.instance AND t.gateway = g.id))"
        " FROM tallies GROUP BY instance";
    enum status status = STATUS_OK;
    struct sqlite3_stmt *row = database_query(verify->all, verify->error, sql, "");
    while (database_next(verify->all, row, &status, verify->error)) {
        bool at_rest = database_integer(row, 5), is_whole = database_integer(row, 6);
        struct unit_sums made = {database_text(row, 0), (long long)database_integer(row, 1),
                                 (long long)database_integer(row, 2), is_whole};
        struct unit_sums computed = {database_text(row, 0), (long long)database_integer(row, 3),
                                     (long long)database_integer(row, 4), is_whole};
        verify->verdict.units_judged += at_rest && is_whole;
        verify->verdict.units_open += !(at_rest && is_whole);
        if (at_rest) examine(verify, &made, "made");
        if (at_rest) examine(verify, &computed, "computed");
    }
    return status;
}

/* ---- all checks ---- */

static enum status verify_file(struct verify *verify, const char *path) {
    enum status status = database_open(path, DATABASE_REFUSE, &verify->file, verify->error);
    if (status) return status;
    status = check_pages(verify);
    /* one consistent snapshot */
    if (!status) status = database_make(verify->file, "BEGIN", verify->error);
    for (size_t i = 0; i < ARRAY_COUNT(rules) && !status; i++)
        status = ledger_verify_apply(verify, &rules[i]);
    if (!status) status = count_rows(verify, verify->error);
    if (!status) status = gather_units(verify);
    database_roll_back(verify->file);
    database_close(verify->file);
    verify->verdict.files++;
    return status;
}

enum status ledger_verify(const char *const *paths, size_t count,
                          void (*breach)(void *context, const char *line), void *context,
                          struct ledger_verdict *verdict_out, struct error *error) {
    struct verify verify = {.breach = breach, .context = context, .error = error};
    enum status status = database_open_memory(&verify.all, error);
    if (!status) status = database_make(verify.all, GATHERED, error);
    for (size_t i = 0; i < count && !status; i++)
        status = verify_file(&verify, paths[i]);
    if (!status) status = verify_units(&verify);
    database_close(verify.all);
    if (!status) *verdict_out = verify.verdict;
    return status;
}
