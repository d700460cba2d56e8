/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/usage_store.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/sha256.h"
#include "contract/record_unit.h"

#define HOUR_S 3600
#define RANKS_OF_NODE 8

static struct ledger_price usage_store_ledger_prices_at(const struct ledger_prices *prices,
                                                        struct bytes model, int64_t unix_time) {
    return prices->at ? prices->at(prices->context, model, unix_time)
                      : (struct ledger_price){.now = {0}};
}

struct model_prices usage_store_ledger_prices_reported(const struct ledger_prices *prices,
                                                       int64_t unix_time) {
    struct model_prices reported = {.named_count = prices->model_count};
    reported.others = usage_store_ledger_prices_at(prices, BYTES_LITERAL(""), unix_time).now;
    for (uint32_t i = 0; i < prices->model_count; i++) {
        struct bytes model = bytes_of(prices->models[i]);
        check(model.count < LEDGER_MODEL_BYTES);
        memcpy(reported.named[i].model, model.data, model.count);
        reported.named[i].price = usage_store_ledger_prices_at(prices, model, unix_time).now;
    }
    return reported;
}

/* ---- gateways ---- */

static enum status usage_store_check_currency(struct usage_store *store, struct error *error) {
    const char *wanted = store->prices->currency;
    enum status status = STATUS_OK;
    if (!*wanted) return status;
    struct sqlite3_stmt *row = database_query(
        store->database, error, "SELECT value FROM settings WHERE name = 'currency'", "");
    if (!database_next(store->database, row, &status, error))
        return status ? status
                      : database_run(store->database, error,
                                     "INSERT INTO settings VALUES ('currency', ?)", "t", wanted);
    if (strcmp(database_text(row, 0), wanted) != 0)
        status = error_set(error, STATUS_INVALID,
                           "%.200s counts in %.8s, and these prices are in %.8s; give it prices of "
                           "its own currency, or another file",
                           database_path(store->database), database_text(row, 0), wanted);
    database_end(row);
    return status;
}

enum status usage_store_begin(struct usage_store *store, int64_t now, struct error *error) {
    check(getrandom(&store->gateway, sizeof store->gateway, 0) == sizeof store->gateway);
    store->gateway &= INT64_MAX;
    enum status status = database_begin(store->database, error);
    if (status) return status;
    status = usage_store_check_currency(store, error);
    if (!status)
        status = database_run(store->database, error,
                              "INSERT INTO gateways (id, started, seen) VALUES (?1, ?2, ?2)", "ii",
                              store->gateway, now);
    return database_finish(store->database, status, error);
}

enum status usage_store_end(struct usage_store *store, int64_t now, struct error *error) {
    return database_run(store->database, error, "UPDATE gateways SET ended = ? WHERE id = ?", "ii",
                        now, store->gateway);
}

/* ---- sums ---- */

/* The sum of that hour, account and key, added if it is missing. Half of the slots stay free. */
static struct usage_sum *find_sum(struct usage_store *store, const struct usage_sum *of) {
    uint64_t hash =
        hash_word(hash_word((uint64_t)of->hour, (uint64_t)of->account), (uint64_t)of->key);
    for (;; hash++) {
        uint32_t place = (uint32_t)(hash % ARRAY_COUNT(store->sums));
        struct usage_sum *sum = &store->sums[place];
        if (sum->requests > 0 &&
            (sum->hour != of->hour || sum->account != of->account || sum->key != of->key))
            continue;
        if (sum->requests == 0) {
            store->used[store->sum_count++] = place;
            *sum = (struct usage_sum){.hour = of->hour, .account = of->account, .key = of->key};
        }
        return sum;
    }
}

static enum status write_sum(struct usage_store *store, const struct usage_sum *sum,
                             struct error *error) {
    struct database *database = store->database;
    enum status status = database_run(database, error,
                                      "INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                                      " ON CONFLICT DO UPDATE SET " DATABASE_ADD_USAGE,
                                      "iiiiiiii", sum->hour, sum->account, sum->requests, sum->hit,
                                      sum->miss, sum->output, sum->amount, sum->list_amount);
    /* clang-format off */
    if (!status && sum->account)
        status = database_run(
            database, error,
            "UPDATE accounts SET balance = " DATABASE_TAKE("balance", "?")
            ", requests = " DATABASE_ADD("requests", "?")
            ", tokens = " DATABASE_ADD("tokens", "?") " WHERE id = ?",
            "iiii", sum->amount, sum->requests, sum->hit + sum->miss + sum->output, sum->account);
    /* clang-format on */
    if (!status && sum->key)
        status = database_run(database, error,
                              "UPDATE keys SET spent = " DATABASE_ADD("spent", "?") " WHERE id = ?",
                              "ii", sum->amount, sum->key);
    return status;
}

static enum status usage_store_write_sums(struct usage_store *store, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < store->sum_count && !status; i++)
        status = write_sum(store, &store->sums[store->used[i]], error);
    return status;
}

static void report_own(struct usage_store *store) {
    for (uint32_t i = 0; i < store->sum_count; i++) {
        const struct usage_sum *sum = &store->sums[store->used[i]];
        if (sum->account)
            account_notify_own_add(store->own, sum->account, (uint64_t)sum->requests,
                                   (uint64_t)(sum->hit + sum->miss + sum->output));
    }
}

static void forget_sums(struct usage_store *store) {
    for (uint32_t i = 0; i < store->sum_count; i++)
        store->sums[store->used[i]].requests = 0;
    store->sum_count = 0;
}

/* ---- usage records ---- */

/* *id_out: the row of that price, inserted if missing. */
static enum status find_price(struct usage_store *store, const struct ledger_price *price,
                              int64_t *id_out, struct error *error) {
    const struct token_price *now = &price->now, *list = &price->list;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < ARRAY_COUNT(store->prices_used); i++) {
        const struct price_row *used = &store->prices_used[i];
        *id_out = used->id;
        if (used->id && !memcmp(&used->price, price, sizeof *price)) return STATUS_OK;
    }
    status = database_run(
        store->database, error,
        "INSERT OR IGNORE INTO prices (hit, miss, output, list_hit, list_miss, list_output)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        "iiiiii", (int64_t)now->hit, (int64_t)now->miss, (int64_t)now->output, (int64_t)list->hit,
        (int64_t)list->miss, (int64_t)list->output);
    if (status) return status;
    status = database_number(
        store->database, id_out, error,
        "SELECT id FROM prices WHERE hit = ? AND miss = ? AND output = ? AND list_hit = ?"
        " AND list_miss = ? AND list_output = ?",
        "iiiiii", (int64_t)now->hit, (int64_t)now->miss, (int64_t)now->output, (int64_t)list->hit,
        (int64_t)list->miss, (int64_t)list->output);
    if (status) return status;
    store->prices_used[store->price_next++ % ARRAY_COUNT(store->prices_used)] =
        (struct price_row){*price, *id_out};
    return STATUS_OK;
}

/* The ids of the account and key; 0: none. */
static enum status find_payer(struct usage_store *store, const struct record_usage *usage,
                              struct usage_sum *out, struct error *error) {
    uint8_t until[SHA256_BYTES];
    if (!usage->account[0]) return STATUS_OK;
    enum status status =
        database_number(store->database, &out->account, error,
                        "SELECT id FROM accounts WHERE name = ?", "t", usage->account);
    if (status || !out->account || record_zeros(usage->key, sizeof usage->key)) return status;
    memset(until, 0xff, sizeof until);
    memcpy(until, usage->key, sizeof usage->key);
    return database_number(store->database, &out->key, error,
                           "SELECT id FROM keys WHERE sha256 BETWEEN ? AND ? AND account = ?",
                           "bbi", usage->key, sizeof usage->key, until, sizeof until, out->account);
}

static enum status usage_store_insert(struct usage_store *store, const struct record_usage *usage,
                                      int64_t ended, int64_t price_row, const struct usage_sum *of,
                                      struct error *error) {
    static const char sql[] =
        "INSERT OR IGNORE INTO entries (high, low, gateway, sequence, ended, account, key,"
        " is_charged, http_status, choices, hit, miss, output, device, host, disk, computed, made,"
        " recomputed, units, price, amount, list_amount, ttft_ns, total_ns, model, name, cause)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
        "?)";
    return database_run(
        store->database, error, sql, "iiiiiiiiiiiiiiiiiiiiiiiiisss", (int64_t)usage->request.high,
        (int64_t)usage->request.low, store->gateway, (int64_t)usage->sequence, ended, of->account,
        of->key, (int64_t)usage->is_charged, (int64_t)usage->http_status, (int64_t)usage->choices,
        of->hit, of->miss, of->output, (int64_t)usage->device_tokens, (int64_t)usage->host_tokens,
        (int64_t)usage->disk_tokens, (int64_t)usage->computed_tokens, (int64_t)usage->made_tokens,
        (int64_t)usage->recomputed_tokens, (int64_t)usage->stay_count, price_row, of->amount,
        of->list_amount, usage->ttft_ns, usage->total_ns, entry_model(usage),
        (size_t)usage->model_bytes, entry_name(usage), (size_t)usage->name_bytes, entry_end(usage),
        (size_t)usage->end_bytes);
}

static bool is_kept(const struct record_usage *usage) {
    return usage->is_charged || usage->made_tokens || usage->computed_tokens;
}

static void add_to_sum(struct usage_store *store, const struct usage_sum *of) {
    struct usage_sum *sum = find_sum(store, of);
    sum->requests++;
    sum->hit += of->hit;
    sum->miss += of->miss;
    sum->output += of->output;
    sum->amount = sum_i64(sum->amount, of->amount);
    sum->list_amount = sum_i64(sum->list_amount, of->list_amount);
}

static enum status usage_store_write_usage(struct usage_store *store,
                                           const struct record_usage *usage, struct error *error) {
    int64_t ended = record_ledger_usage_ended(usage);
    struct bytes model = {entry_model(usage), usage->model_bytes};
    struct ledger_price price = usage_store_ledger_prices_at(store->prices, model, ended);
    int64_t price_row = 0;
    struct usage_sum of = {.hour = ended / HOUR_S,
                           .hit = usage->hit_tokens,
                           .miss = usage->miss_tokens,
                           .output = usage->output_tokens};
    if (!is_kept(usage)) return STATUS_OK;
    enum status status = find_price(store, &price, &price_row, error);
    if (!status) status = find_payer(store, usage, &of, error);
    if (usage->is_charged) {
        of.amount = record_ledger_token_price_amount(&price.now, (uint64_t)of.hit,
                                                     (uint64_t)of.miss, (uint64_t)of.output);
        of.list_amount = record_ledger_token_price_amount(&price.list, (uint64_t)of.hit,
                                                          (uint64_t)of.miss, (uint64_t)of.output);
    }
    if (!status) status = usage_store_insert(store, usage, ended, price_row, &of, error);
    bool is_new = !status && database_changes(store->database) > 0;
    if (is_new && usage->is_charged) add_to_sum(store, &of);
    return status;
}

/* ---- units ---- */

static enum status add_node_time(struct usage_store *store, const struct record_unit_totals *totals,
                                 int64_t from, int64_t to, struct error *error) {
    int64_t nodes = (totals->rank_count + RANKS_OF_NODE - 1) / RANKS_OF_NODE;
    enum status status = STATUS_OK;
    while (from < to && !status) {
        int64_t hour_end = (from / HOUR_S + 1) * HOUR_S, until = to < hour_end ? to : hour_end;
        int64_t seconds = nodes * (until - from);
        /* clang-format off */
        status = database_run(
            store->database, error,
            "INSERT INTO node_hours VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET node_seconds = " DATABASE_ADD("node_seconds", "excluded.node_seconds")
            ", cost = " DATABASE_ADD("cost", "excluded.cost"),
            "iiiii", from / HOUR_S, (int64_t)totals->instance, (int64_t)totals->role, seconds,
            seconds * (store->prices->node_hour / HOUR_S));
        /* clang-format on */
        from = until;
    }
    return status;
}

/* Adds the time until now to a unit if any gateway saw it recently. */
static enum status see_unit(struct usage_store *store, const struct record_unit_totals *totals,
                            int64_t now, struct error *error) {
    struct database *database = store->database;
    int64_t seen = now;
    enum status status =
        database_number(database, &seen, error, "SELECT seen FROM units WHERE instance = ?", "i",
                        (int64_t)totals->instance);
    if (!status && seen >= now - USAGE_STORE_GAP_S)
        status = add_node_time(store, totals, seen, now, error);
    if (status) return status;
    return database_run(database, error,
                        "INSERT INTO units VALUES (?1, ?2, ?2) ON CONFLICT DO UPDATE"
                        " SET seen = max(seen, excluded.seen)",
                        "ii", (int64_t)totals->instance, now);
}

static enum status write_totals(struct usage_store *store, const struct record_unit_totals *totals,
                                int64_t now, struct error *error) {
    enum status status = see_unit(store, totals, now, error);
    if (status) return status;
    return database_run(
        store->database, error,
        "INSERT INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET time = excluded.time, role = excluded.role, ranks = excluded.ranks,"
        " is_lost = max(is_lost, excluded.is_lost)," /* a loss is permanent */
        " counted_made = excluded.counted_made, counted_computed = excluded.counted_computed,"
        " entered_made = excluded.entered_made, entered_computed = excluded.entered_computed,"
        " open_made = excluded.open_made, open_computed = excluded.open_computed",
        "iiiiiiiiiiii", (int64_t)totals->instance, store->gateway, now, (int64_t)totals->role,
        (int64_t)totals->rank_count, (int64_t)totals->is_lost,
        (int64_t)totals->counted.output_tokens,
        (int64_t)(totals->counted.prompt_tokens + totals->counted.recomputed_tokens),
        (int64_t)totals->entered.made_tokens, (int64_t)totals->entered.computed_tokens,
        (int64_t)totals->open.made_tokens, (int64_t)totals->open.computed_tokens);
}

/* ---- a transaction ---- */

static enum status usage_store_write_one(struct usage_store *store, const struct record *record,
                                         int64_t now, struct error *error) {
    if (record->kind == RECORD_USAGE)
        return usage_store_write_usage(store, (const struct record_usage *)record, error);
    check(record->kind == RECORD_UNIT_TOTALS);
    return write_totals(store, (const struct record_unit_totals *)record, now, error);
}

enum status usage_store_write(struct usage_store *store, struct record *const *records,
                              uint32_t count, int64_t now, uint32_t *written_out,
                              struct error *error) {
    uint32_t written = 0;
    enum status status = database_begin(store->database, error);
    while (!status && written < count && store->sum_count < USAGE_SUMS_MAX)
        status = usage_store_write_one(store, records[written++], now, error);
    if (!status) status = usage_store_write_sums(store, error);
    if (!status)
        status = database_run(store->database, error, "UPDATE gateways SET seen = ? WHERE id = ?",
                              "ii", now, store->gateway);
    status = database_finish(store->database, status, error);
    if (status) {
        memset(store->prices_used, 0, sizeof store->prices_used); /* new rows were rolled back */
    } else {
        report_own(store);
        *written_out = written;
    }
    forget_sums(store);
    return status;
}
