/* SPDX-License-Identifier: Apache-2.0
 * Entries become rows once, with the price of the hour in which they ended; balances, hours and
 * what keys have spent follow in the same transaction; units' time becomes node-hours once, whoever
 * saw them.
 */
#include "ledger_desk.h"
#include "test_case.h"

static struct account_own own;

static int clear_own(void **state) {
    free(own.used);
    own = (struct account_own){0};
    return clear_desk(state);
}

static struct usage_store *begin_store(struct database *database) {
    struct usage_store *store = calloc(1, sizeof *store);
    assert_non_null(store);
    *store = (struct usage_store){.database = database, .prices = &desk_prices, .own = &own};
    fine(usage_store_begin(store, NOON, &error));
    return store;
}

static void write_one(struct usage_store *store, void *record, int64_t now) {
    struct record *records[] = {record};
    uint32_t written = 0;
    fine(usage_store_write(store, records, 1, now, &written, &error));
    assert_int_equal(written, 1);
}

TEST_AROUND(an_entry_twice_counts_once, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    make_account(database, "acme", NULL);
    struct record_usage *usage = make_entry(1, "acme", 100, 10, 5);
    write_one(store, usage, NOON);
    struct record *twice[] = {&usage->record, &usage->record};
    uint32_t written = 0;
    fine(usage_store_write(store, twice, 2, NOON, &written, &error));
    assert_int_equal(number_of(database, "SELECT count(*) FROM entries"), 1);
    /* 100 * 0.02 + 10 * 0.2 + 5 * 2 millionths */
    assert_int_equal(number_of(database, "SELECT amount FROM entries"), 14000);
    assert_int_equal(number_of(database, "SELECT balance FROM accounts"), -14000);
    assert_int_equal(number_of(database, "SELECT tokens FROM accounts"), 115);
    assert_int_equal(number_of(database, "SELECT requests FROM hours"), 1);
    assert_int_equal(own.used[1].requests, 1);
    assert_int_equal(own.used[1].tokens, 115);
    free(usage);
    free(store);
    database_close(database);
}

TEST_AROUND(the_price_is_that_of_the_hour_in_which_it_ended, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    make_account(database, "acme", NULL);
    struct record_usage *usage = make_entry(1, "acme", 0, 0, 1000);
    usage->unix_time = NOON - 2;
    write_one(store, usage, NOON); /* in the morning, at half the price */
    usage->request.high = 2;
    usage->total_ns = INT64_C(2000000000);
    write_one(store, usage, NOON);
    assert_int_equal(number_of(database, "SELECT sum(amount) FROM entries"), 3000000);
    assert_int_equal(number_of(database, "SELECT sum(list_amount) FROM hours"), 4000000);
    assert_int_equal(number_of(database, "SELECT count(*) FROM hours"), 2);
    assert_int_equal(number_of(database, "SELECT count(*) FROM prices"), 2);
    free(usage);
    free(store);
    database_close(database);
}

TEST_AROUND(the_price_is_that_of_the_name_that_was_asked_for, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    make_account(database, "acme", NULL);
    static const char *const names[] = {"reasoner", "reasoner", "chat", "reason", "reasoner"};
    for (uint64_t i = 0; i < 5; i++) { /* the last in the morning, when all cost the same */
        struct record_usage *usage = make_entry_of(i + 1, "acme", names[i], 100, 10, 1000);
        if (i == 4) usage->unix_time = NOON - 7200;
        write_one(store, usage, NOON);
        free(usage);
    }
    assert_int_equal(number_of(database, "SELECT sum(amount) FROM entries"
                                         " WHERE model = 'reasoner' AND high < 5"),
                     2 * (4000 + 5000 + 7000000));
    assert_int_equal(number_of(database, "SELECT sum(amount) FROM entries WHERE model = 'chat'"),
                     2000 + 2000 + 2000000);
    assert_int_equal(number_of(database, "SELECT amount FROM entries WHERE model = 'reason'"),
                     2000 + 2000 + 2000000);
    assert_int_equal(number_of(database, "SELECT amount FROM entries WHERE high = 5"),
                     1000 + 1000 + 1000000);
    assert_int_equal(number_of(database, "SELECT list_amount FROM entries WHERE high = 5"),
                     4000 + 5000 + 7000000);
    assert_int_equal(number_of(database, "SELECT count(*) FROM prices"), 3);
    free(store);
    database_close(database);
}

TEST_AROUND(what_is_not_charged_costs_nothing, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    make_account(database, "acme", NULL);
    struct record_usage *usage = make_entry(1, "acme", 0, 0, 0);
    usage->is_charged = 0;
    write_one(store, usage, NOON); /* refused: it is not even written down */
    usage->request.high = 2;
    usage->miss_tokens = usage->computed_tokens = 50; /* units have worked for it */
    write_one(store, usage, NOON);
    assert_int_equal(number_of(database, "SELECT count(*) FROM entries"), 1);
    assert_int_equal(number_of(database, "SELECT sum(amount) FROM entries"), 0);
    assert_int_equal(number_of(database, "SELECT count(*) FROM hours"), 0);
    assert_int_equal(number_of(database, "SELECT balance + requests FROM accounts"), 0);
    free(usage);
    free(store);
    database_close(database);
}

TEST_AROUND(a_key_counts_what_it_has_spent, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    struct record_usage *usage = make_entry(1, "acme", 0, 0, 5);
    make_account(database, "other", NULL);
    make_account(database, "acme", usage->key);
    write_one(store, usage, NOON);
    assert_int_equal(number_of(database, "SELECT spent FROM keys WHERE account = 2"), 10000);
    assert_int_equal(number_of(database, "SELECT spent FROM keys WHERE account = 1"), 0);
    free(usage);
    usage = make_entry(2, "", 0, 0, 5); /* nobody in particular */
    write_one(store, usage, NOON);
    assert_int_equal(number_of(database, "SELECT account FROM entries WHERE high = 2"), 0);
    free(usage);
    free(store);
    database_close(database);
}

TEST_AROUND(more_payers_than_fit_are_written_in_turn, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    enum { COUNT = 2 * USAGE_SUMS_MAX + 100 };
    static struct record *records[COUNT];
    uint32_t written = 0, rounds = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        struct record_usage *usage = make_entry(i + 1, "", 0, 0, 1);
        usage->unix_time += 3600 * (int64_t)i;
        records[i] = &usage->record;
    }
    for (uint32_t done = 0; done < COUNT; done += written, rounds++)
        fine(usage_store_write(store, records + done, COUNT - done, NOON, &written, &error));
    assert_int_equal(rounds, 3);
    assert_int_equal(number_of(database, "SELECT count(*) FROM hours"), COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        free(records[i]);
    free(store);
    database_close(database);
}

TEST_AROUND(a_units_time_counts_once_for_all_who_see_it, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *one = begin_store(database), *two = begin_store(database);
    struct record_unit_totals totals = make_totals(7, 9); /* two nodes */
    write_one(one, &totals, NOON - 10);
    write_one(two, &totals, NOON - 5);
    write_one(one, &totals, NOON + 20);
    write_one(two, &totals, NOON + 20 + USAGE_STORE_GAP_S + 1); /* it was away meanwhile */
    assert_int_equal(number_of(database, "SELECT sum(node_seconds) FROM node_hours"), 2 * 30);
    assert_int_equal(number_of(database, "SELECT min(node_seconds) FROM node_hours"), 2 * 10);
    assert_int_equal(number_of(database, "SELECT count(*) FROM node_hours"), 2);
    assert_int_equal(number_of(database, "SELECT sum(cost) FROM node_hours"),
                     60 * (desk_prices.node_hour / 3600));
    assert_int_equal(number_of(database, "SELECT count(*) FROM tallies"), 2);
    free(one);
    free(two);
    database_close(database);
}

/* No sum becomes a floating-point number, and no entry waits because of one. */
TEST_AROUND(sums_stay_at_their_ends, make_desk, clear_own) {
    static const char *const whole[] = {
        "SELECT count(*) FROM hours WHERE requests = 9223372036854775807 AND hit = requests AND"
        " miss = requests AND output = requests AND amount = requests AND list_amount = requests",
        "SELECT count(*) FROM accounts WHERE balance = -9223372036854775807 AND requests ="
        " 9223372036854775807 AND tokens = requests",
        "SELECT count(*) FROM keys WHERE spent = 9223372036854775807",
        "SELECT count(*) FROM hours, accounts, keys WHERE typeof(amount) = 'integer' AND"
        " typeof(balance) = 'integer' AND typeof(spent) = 'integer'",
        "SELECT count(*) FROM node_hours WHERE cost = 9223372036854775807 AND node_seconds = cost",
    };
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    struct record_usage *usage = make_entry(1, "acme", 100, 10, 5);
    struct record_unit_totals totals = make_totals(7, 8);
    make_account(database, "acme", usage->key);
    write_one(store, usage, NOON);
    write_one(store, &totals, NOON);
    write_one(store, &totals, NOON + 10);
    fine(database_make(database,
                       "UPDATE hours SET requests = 9223372036854775807, hit = 9223372036854775806,"
                       " miss = 9223372036854775803, output ="
                       " 9223372036854775807, amount = 9223372036854775800, list_amount ="
                       " 9223372036854775807; UPDATE accounts SET balance = -9223372036854775807,"
                       " requests = 9223372036854775807, tokens = 9223372036854775800;"
                       " UPDATE keys SET spent = 9223372036854775800;"
                       " UPDATE node_hours SET node_seconds = 9223372036854775800,"
                       " cost = 9223372036854775800",
                       &error));
    usage->request.low++;
    usage->sequence++;
    write_one(store, usage, NOON);
    write_one(store, &totals, NOON + 20);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (number_of(database, whole[i]) != 1) fail_msg("%s", whole[i]);
    database_close(database);
    free(usage);
    free(store);
}

TEST_AROUND(a_ledger_has_one_currency, make_desk, clear_own) {
    struct database *database = open_desk();
    struct usage_store *store = begin_store(database);
    struct ledger_prices prices = desk_prices;
    memcpy(prices.currency, "CNY", 4);
    struct usage_store other = {.database = database, .prices = &prices, .own = &own};
    assert_int_equal(usage_store_begin(&other, NOON, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "counts in USD"));
    prices = (struct ledger_prices){.currency = ""}; /* none at all: the file's stays */
    fine(usage_store_begin(&other, NOON, &error));
    fine(usage_store_end(store, NOON, &error));
    assert_int_equal(number_of(database, "SELECT count(*) FROM gateways WHERE ended > 0"), 1);
    free(store);
    database_close(database);
}
