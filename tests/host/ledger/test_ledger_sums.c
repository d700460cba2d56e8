/* SPDX-License-Identifier: Apache-2.0
 * Sums over several hosts' ledgers: accounts of one name are one, a unit that two hosts saw is one,
 * and a range of hours is a range of hours.
 */
#include "host/ledger/ledger_sums.h"
#include "ledger_desk.h"
#include "test_case.h"

static char second[140];

static void fill(const char *file, uint64_t first, uint32_t output, int64_t hours_later) {
    struct database *database = NULL;
    struct account_own own = {0};
    struct usage_store *store = calloc(1, sizeof *store);
    struct record_unit_totals totals = make_totals(7, 8);
    struct record_usage *usage = make_entry(first, "acme", 10, 20, output);
    struct record *records[] = {&usage->record, &totals.record};
    uint32_t written = 0;
    fine(database_open(file, DATABASE_MAKE, &database, &error));
    if (!number_of(database, "SELECT count(*) FROM accounts")) make_account(database, "acme", NULL);
    *store = (struct usage_store){.database = database, .prices = &desk_prices, .own = &own};
    fine(usage_store_begin(store, NOON, &error));
    usage->unix_time += 3600 * hours_later;
    fine(usage_store_write(store, records, 2, NOON, &written, &error));
    fine(usage_store_write(store, records + 1, 1, NOON + 36, &written, &error));
    database_close(database);
    free(own.used);
    free(usage);
    free(store);
}

static struct ledger_account accounts_seen[4];
static struct ledger_hour hours_seen[4];
static int account_count, hour_count, row_count;
static int64_t row_output;

static void see_account(void *context, const struct ledger_account *account) {
    (void)context;
    assert_string_equal(account->name, "acme");
    accounts_seen[account_count++] = *account;
}

static void see_hour(void *context, const struct ledger_hour *hour) {
    (void)context;
    hours_seen[hour_count++] = *hour;
}

static void see_row(void *context, int64_t hour, const struct ledger_account *account) {
    (void)context;
    row_count++;
    row_output += account->usage.output_tokens;
}

static void look(int64_t from_hour, int64_t to_hour, const char *account) {
    const char *paths[] = {path, second};
    struct ledger_range range = {from_hour, to_hour, account};
    struct ledger_sums *sums = NULL;
    account_count = hour_count = row_count = 0;
    row_output = 0;
    fine(ledger_sums_open(paths, 2, &range, &sums, &error));
    assert_string_equal(ledger_sums_currency(sums), "USD");
    fine(ledger_sums_accounts(sums, see_account, NULL, &error));
    fine(ledger_sums_hours(sums, see_hour, NULL, &error));
    fine(ledger_sums_rows(sums, see_row, NULL, &error));
    ledger_sums_close(sums);
}

TEST_AROUND(two_files_are_one_report, make_desk, clear_desk) {
    int64_t hour = NOON / 3600;
    snprintf(second, sizeof second, "%s2", path);
    fill(path, 1, 100, 0);
    fill(second, 2, 1000, 1);
    look(INT64_MIN, INT64_MAX, NULL);
    assert_int_equal(account_count, 1);
    assert_int_equal(accounts_seen[0].usage.requests, 2);
    assert_int_equal(accounts_seen[0].usage.output_tokens, 1100);
    assert_int_equal(hour_count, 2);
    assert_int_equal(hours_seen[0].hour, hour);
    assert_int_equal(hours_seen[0].usage.output_tokens, 100);
    assert_true(hours_seen[0].nodes[UNIT_DECODE] > 0.0099 &&
                hours_seen[0].nodes[UNIT_DECODE] < 0.0101);
    assert_int_equal(hours_seen[0].cost, 36 * (desk_prices.node_hour / 3600));
    assert_int_equal(row_count, 2);
    assert_int_equal(row_output, 1100);
    look(hour + 1, hour + 2, NULL);
    assert_int_equal(accounts_seen[0].usage.output_tokens, 1000);
    assert_int_equal(hour_count, 1);
    look(INT64_MIN, INT64_MAX, "somebody else");
    assert_int_equal(account_count, 0);
}

TEST_AROUND(files_of_two_currencies_are_not_one_report, make_desk, clear_desk) {
    struct ledger_range range = {INT64_MIN, INT64_MAX, NULL};
    struct ledger_sums *sums = NULL;
    struct database *database = NULL;
    snprintf(second, sizeof second, "%s2", path);
    const char *paths[] = {path, second};
    fill(path, 1, 100, 0);
    fine(database_open(second, DATABASE_MAKE, &database, &error));
    fine(database_make(database, "INSERT INTO settings VALUES ('currency', 'CNY')", &error));
    database_close(database);
    assert_int_equal(ledger_sums_open(paths, 2, &range, &sums, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "report them apart"));
}

static enum status open_after(const char *change) {
    const char *paths[] = {path};
    struct ledger_range range = {INT64_MIN, INT64_MAX, NULL};
    struct ledger_sums *sums = NULL;
    struct database *database = NULL;
    fine(database_open(path, DATABASE_MAKE, &database, &error));
    fine(database_make(database, change, &error));
    database_close(database);
    account_count = 0;
    enum status status = ledger_sums_open(paths, 1, &range, &sums, &error);
    if (!status) status = ledger_sums_accounts(sums, see_account, NULL, &error);
    ledger_sums_close(sums);
    return status;
}

/* A file of an outsider may say anything. */
TEST_AROUND(what_cannot_be_an_hour_or_a_sum_is_refused_in_words, make_desk, clear_desk) {
    fill(path, 1, 30, 0);
    fill(path, 2, 30, 1);
    assert_int_equal(open_after("UPDATE hours SET amount = 9223372036854775000"), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "exceeds 64 bits"));
    assert_int_equal(open_after("UPDATE hours SET amount = 1"), STATUS_OK);
    assert_int_equal(open_after("UPDATE hours SET hour = hour + 100000000"), STATUS_CORRUPT);
    assert_non_null(strstr(error.text, "it has an hour 100"));
    assert_int_equal(open_after("UPDATE hours SET hour = hour - 100000000"), STATUS_OK);
    assert_int_equal(open_after("UPDATE node_hours SET hour = -1"), STATUS_CORRUPT);
}
