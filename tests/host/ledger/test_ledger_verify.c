/* SPDX-License-Identifier: Apache-2.0
 * The proof of a ledger: a sound one has no breach, each thing that is changed in it by hand is
 * one, and a unit at rest must have counted what gateways' entries say, over all files.
 */
#include "host/ledger/ledger_verify.h"
#include "ledger_desk.h"
#include "test_case.h"

static char last[512];

static void note(void *context, const char *line) {
    (void)context;
    snprintf(last, sizeof last, "%s", line);
}

static void fill(uint64_t first, struct record_unit_totals *totals) {
    struct database *database = open_desk();
    struct account_own own = {0};
    struct usage_store *store = calloc(1, sizeof *store);
    struct record_usage *usage = make_entry(first, "acme", 10, 20, 30);
    struct record *records[] = {&usage->record, &totals->record};
    uint32_t written = 0;
    make_account(database, "acme", usage->key);
    fine(account_store_top_up(database, "acme", 1000, 1, &error));
    *store = (struct usage_store){.database = database, .prices = &desk_prices, .own = &own};
    fine(usage_store_begin(store, NOON, &error));
    fine(usage_store_write(store, records, 2, NOON, &written, &error));
    database_close(database);
    free(own.used);
    free(usage);
    free(store);
}

static struct record_unit_totals totals_of(uint64_t counted, uint64_t entered) {
    struct record_unit_totals totals = make_totals(7, 8);
    totals.counted.output_tokens = counted;
    totals.entered.made_tokens = entered;
    totals.counted.prompt_tokens = 20;
    totals.counted.recomputed_tokens = 3;
    totals.entered.computed_tokens = 23;
    return totals;
}

static struct ledger_verdict verify(size_t count, const char *const *paths) {
    struct ledger_verdict verdict = {0};
    last[0] = 0;
    fine(ledger_verify(paths, count, note, NULL, &verdict, &error));
    return verdict;
}

static int64_t breaches_after(const char *change) {
    const char *paths[] = {path};
    struct record_unit_totals totals = totals_of(30, 30);
    fill(1, &totals);
    struct database *database = open_desk();
    fine(database_make(database, change, &error));
    database_close(database);
    int64_t breaches = verify(1, paths).breaches;
    clear_desk(NULL);
    make_desk(NULL);
    return breaches;
}

TEST_AROUND(a_sound_ledger_has_no_breach, make_desk, clear_desk) {
    const char *paths[] = {path};
    struct record_unit_totals totals = totals_of(30, 30);
    fill(1, &totals);
    struct ledger_verdict verdict = verify(1, paths);
    if (verdict.breaches) fail_msg("%s", last);
    assert_int_equal(verdict.entries, 1);
    assert_int_equal(verdict.accounts, 1);
    assert_int_equal(verdict.units_judged, 1);
}

TEST_AROUND(each_change_by_hand_is_found, make_desk, clear_desk) {
    assert_int_equal(breaches_after("SELECT 1"), 0);
    assert_true(breaches_after("UPDATE entries SET amount = amount + 1") > 0);
    assert_true(breaches_after("UPDATE entries SET miss = miss + 1, device = device + 1") > 0);
    assert_true(breaches_after("UPDATE entries SET device = 9") > 0);
    assert_true(breaches_after("UPDATE entries SET made = 1") > 0);
    assert_true(breaches_after("UPDATE entries SET output = 0, amount = 0, list_amount = 0") > 0);
    assert_true(breaches_after("DELETE FROM entries") > 0);
    assert_true(breaches_after("DELETE FROM hours") > 0);
    assert_true(breaches_after("UPDATE hours SET list_amount = 1") > 0);
    assert_true(breaches_after("UPDATE accounts SET balance = balance + 1") > 0);
    assert_true(breaches_after("UPDATE accounts SET tokens = tokens + 1") > 0);
    assert_true(breaches_after("UPDATE keys SET spent = 0") > 0);
    assert_true(breaches_after("DELETE FROM top_ups") > 0);
    assert_true(breaches_after("UPDATE tallies SET entered_computed = 22") > 0);
    assert_true(breaches_after("DELETE FROM prices") > 0);
}

/* With all sums as they are without the answer. */
#define WITHOUT_ANSWER                                                                             \
    "UPDATE entries SET output = 0, amount = (SELECT (e.hit * p.hit + e.miss * p.miss + 500) / "   \
    "1000"                                                                                         \
    " FROM entries e JOIN prices p ON p.id = e.price), list_amount = amount;"                      \
    "UPDATE hours SET output = 0, amount = (SELECT amount FROM entries),"                          \
    " list_amount = (SELECT list_amount FROM entries);"                                            \
    "UPDATE accounts SET balance = 1000 - (SELECT amount FROM entries),"                           \
    " tokens = (SELECT hit + miss FROM entries);"                                                  \
    "UPDATE keys SET spent = (SELECT amount FROM entries);"

TEST_AROUND(an_answer_that_was_made_and_not_charged_is_found, make_desk, clear_desk) {
    assert_int_equal(breaches_after(WITHOUT_ANSWER), 1);
    assert_non_null(strstr(last, "though units made 30"));
    assert_int_equal(breaches_after(WITHOUT_ANSWER "UPDATE entries SET http_status = 499"), 0);
    assert_int_equal(breaches_after(WITHOUT_ANSWER "UPDATE entries SET made = choices"), 0);
}

/* What is no whole number, or is at the end of its range, is a breach like others: the proof goes
 * on. */
TEST_AROUND(numbers_at_their_ends_do_not_stop_the_proof, make_desk, clear_desk) {
    assert_true(breaches_after("UPDATE accounts SET balance = 1.8e19") > 0);
    assert_true(breaches_after("UPDATE accounts SET balance = balance + 0.0, tokens = 1e30") > 0);
    assert_true(breaches_after("UPDATE keys SET spent = 1e19") > 0);
    assert_true(breaches_after("UPDATE hours SET amount = 'x', hit = x'00'") > 0);
    assert_true(breaches_after("UPDATE entries SET amount = 9223372036854775807") > 0);
    assert_true(breaches_after("UPDATE entries SET hit = 9223372036854775807, amount ="
                               " -9223372036854775808, output = 'abc'") > 0);
    assert_true(breaches_after("INSERT INTO top_ups (account, amount, time) SELECT account,"
                               " 9223372036854775807, 1 FROM top_ups") > 0);
    assert_true(breaches_after("UPDATE tallies SET entered_made = 9223372036854775807") > 0);
    assert_true(breaches_after("UPDATE prices SET hit = 9223372036854775807") > 0);
    assert_true(breaches_after("UPDATE top_ups SET amount = 1e3 + 0.5") > 0);
}

/* Interim sums may be larger than 64 bits hold, as long as their end is not. */
TEST_AROUND(more_than_64_bits_of_top_ups_and_charges_are_proved, make_desk, clear_desk) {
    assert_int_equal(breaches_after("INSERT INTO top_ups (account, amount, time) VALUES"
                                    " (1, 9000000000000000000, 1), (1, 9000000000000000000, 1),"
                                    " (1, -9000000000000000000, 1), (1, -9000000000000000000, 1)"),
                     0);
}

TEST_AROUND(a_request_that_was_entered_twice_is_found, make_desk, clear_desk) {
    /* With all sums as two entries make them. */
    static const char twice[] =
        "CREATE TEMP TABLE again AS SELECT * FROM entries;"
        "UPDATE again SET id = 2, ended = ended + 1; INSERT INTO entries SELECT * FROM again;"
        "UPDATE hours SET requests = 2, hit = 2 * hit, miss = 2 * miss, output = 2 * output,"
        " amount = 2 * amount, list_amount = 2 * list_amount;"
        "UPDATE accounts SET balance = 2 * balance - 1000, tokens = 2 * tokens;"
        "UPDATE keys SET spent = 2 * spent";
    assert_int_equal(breaches_after(twice), 1);
}

TEST_AROUND(a_units_tokens_are_summed_over_files, make_desk, clear_desk) {
    char first[130];
    struct record_unit_totals totals = totals_of(50, 30);
    totals.entered.computed_tokens = 13;
    fill(1, &totals);
    memcpy(first, path, sizeof path);
    snprintf(path + strlen(path), 2, "2");
    totals.entered.made_tokens = 20;
    totals.entered.computed_tokens = 10;
    fill(2, &totals);
    const char *paths[] = {first, path};
    assert_int_equal(verify(1, paths).breaches, 2); /* one alone lacks the other's */
    struct ledger_verdict both = verify(2, paths);
    path[strlen(path) - 1] = 0;
    if (both.breaches) fail_msg("%s", last);
    assert_int_equal(both.units_judged, 1);
}

TEST_AROUND(a_unit_with_something_under_way_is_not_judged, make_desk, clear_desk) {
    const char *paths[] = {path};
    struct record_unit_totals totals = totals_of(50, 30);
    totals.open.made_tokens = 3;
    fill(1, &totals);
    struct ledger_verdict verdict = verify(1, paths);
    assert_int_equal(verdict.breaches, 0);
    assert_int_equal(verdict.units_open, 1);
}

/* A gateway that died before it told of a unit: what it entered of its work nobody knows. */
TEST_AROUND(a_unit_of_a_gateway_that_died_unheard_is_not_judged, make_desk, clear_desk) {
    const char *paths[] = {path};
    struct record_unit_totals totals = totals_of(50, 30);
    fill(1, &totals);
    assert_int_equal(verify(1, paths).breaches, 1);
    struct database *database = open_desk();
    struct account_own own = {0};
    struct usage_store *store = calloc(1, sizeof *store);
    *store = (struct usage_store){.database = database, .prices = &desk_prices, .own = &own};
    fine(usage_store_begin(store, NOON - 5, &error));
    assert_int_equal(verify(1, paths).breaches, 0);
    assert_int_equal(verify(1, paths).units_open, 1);
    fine(usage_store_end(store, NOON - 1, &error)); /* it had ended before the unit began */
    assert_int_equal(verify(1, paths).breaches, 1);
    fine(database_make(database,
                       "UPDATE gateways SET ended = NULL;"
                       " UPDATE tallies SET entered_made = 51",
                       &error));
    assert_int_equal(verify(1, paths).breaches, 1); /* too many is too many */
    database_close(database);
    free(store);
}

/* Its connection broke and came back: what it did for requests that were given up is nobody's, and
 * what it had done before is not told again. */
TEST_AROUND(a_unit_that_was_lost_and_came_back_is_not_judged, make_desk, clear_desk) {
    const char *paths[] = {path};
    struct record_unit_totals lost = totals_of(30, 30), again = totals_of(50, 10);
    struct database *database = open_desk();
    struct account_own own = {0};
    struct usage_store *store = calloc(1, sizeof *store);
    struct record *records[] = {&lost.record, &again.record};
    uint32_t written = 0;
    lost.is_lost = 1;
    *store = (struct usage_store){.database = database, .prices = &desk_prices, .own = &own};
    fine(usage_store_begin(store, NOON, &error));
    fine(usage_store_write(store, records, 2, NOON, &written, &error));
    database_close(database);
    struct ledger_verdict verdict = verify(1, paths);
    if (verdict.breaches) fail_msg("%s", last);
    assert_int_equal(verdict.units_open, 1);
    free(store);
}
