/* SPDX-License-Identifier: Apache-2.0
 * What a gateway is told: live accounts and keys alone, others' usage and not its own, models in
 * its own order, and salts that change with a purge and in no other way.
 */
#include "host/ledger/account_notify.h"
#include "ledger_desk.h"
#include "test_case.h"

static struct account_own own;

static struct record_accounts *report(struct database *database, const char *models) {
    struct record_accounts *record = NULL;
    fine(account_notify_read(database, &own, models, &record, &error));
    assert_true(record_valid(record, record->record.bytes));
    return record;
}

TEST_AROUND(revoked_ones_are_not_reported, make_desk, clear_desk) {
    struct database *database = open_desk();
    make_account(database, "a", NULL);
    make_account(database, "b", NULL);
    make_account(database, "c", NULL);
    fine(account_store_revoke(database, "b", NULL, 1, &error));
    struct record_accounts *record = report(database, "m");
    assert_int_equal(record->account_count, 2);
    assert_int_equal(record->key_count, 2);
    assert_string_equal(accounts_named(record)[1].name, "c");
    assert_int_equal(accounts_keys(record)[1].account, 1);
    assert_true(accounts_keys(record)[1].budget == ACCOUNT_BUDGET_ANY);
    assert_int_equal(accounts_named(record)[0].weight, ACCOUNT_WEIGHT);
    free(record);
    database_close(database);
}

TEST_AROUND(an_empty_database_reports_nobody, make_desk, clear_desk) {
    struct database *database = open_desk();
    struct record_accounts *record = report(database, "m");
    assert_int_equal(record->account_count + record->key_count, 0);
    free(record);
    database_close(database);
}

TEST_AROUND(what_others_used_is_what_is_not_ones_own, make_desk, clear_desk) {
    struct database *database = open_desk();
    make_account(database, "a", NULL);
    fine(database_make(database, "UPDATE accounts SET requests = 10, tokens = 1000, balance = -7",
                       &error));
    account_notify_own_add(&own, 1, 4, 300);
    struct record_accounts *record = report(database, "m");
    assert_int_equal(accounts_named(record)[0].others_requests, 6);
    assert_int_equal(accounts_named(record)[0].others_tokens, 700);
    assert_int_equal(accounts_named(record)[0].balance, -7);
    free(record);
    free(own.used);
    own = (struct account_own){0};
    database_close(database);
}

static struct tenant_salt salt_of(struct database *database, uint32_t account) {
    struct record_accounts *record = report(database, "m");
    struct tenant_salt salt = accounts_named(record)[account].tenant;
    free(record);
    return salt;
}

static bool is_same(struct tenant_salt a, struct tenant_salt b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

TEST_AROUND(a_purge_changes_the_salt_of_the_whole_group_and_of_no_other, make_desk, clear_desk) {
    struct database *database = open_desk();
    struct account_terms terms = account_terms_unset;
    struct tenant_salt before[3];
    for (int i = 0; i < 3; i++)
        make_account(database, (const char *[]){"a", "b", "c"}[i], NULL);
    terms.group = "a"; /* a group may be called as an account */
    fine(account_store_update(database, "b", NULL, &terms, &error));
    fine(account_store_update(database, "c", NULL, &terms, &error));
    for (uint32_t i = 0; i < 3; i++)
        before[i] = salt_of(database, i);
    assert_true(is_same(before[1], before[2]));
    assert_false(is_same(before[0], before[1]));
    fine(account_store_purge(database, "b", &error));
    assert_true(is_same(salt_of(database, 0), before[0]));
    assert_false(is_same(salt_of(database, 1), before[1]));
    assert_true(is_same(salt_of(database, 1), salt_of(database, 2)));
    struct tenant_salt once = salt_of(database, 1);
    fine(account_store_purge(database, "c", &error));
    assert_false(is_same(salt_of(database, 1), once));
    database_close(database);
}

TEST_AROUND(models_are_denied_in_the_gateways_order, make_desk, clear_desk) {
    assert_int_equal(account_notify_denied("a,b,c", ""), 0);
    assert_int_equal(account_notify_denied("a,b,c", "b"), 5);
    assert_int_equal(account_notify_denied("a,b,c", "c,a,zebra"), 2);
    assert_int_equal(account_notify_denied("a", "b"), 1);
    /* Clients may call the first one so, too. */
    assert_int_equal(account_notify_denied("a,b,c", "default"), 6);
    assert_int_equal(account_notify_denied("a,b,c", "c,default"), 2);
}

/* A file of an outsider may say anything; what no gateway takes must not end one. */
TEST_AROUND(rows_that_nothing_has_written_are_damage, make_desk, clear_desk) {
    static const char *const changes[] = {
        "name = '<script>' || char(27) || '[31m' || char(10)",
        "name = printf('%.*c', 100, 'x')",
        "tenant = printf('%.*c', 4000, 'x')",
        "priority = 77",
        "priority = -1",
        "weight = 0",
        "id = 4611686018427387904",
        "id = -1",
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct record_accounts *record = NULL;
        struct database *database = open_desk();
        char change[120];
        make_account(database, "acme", NULL);
        snprintf(change, sizeof change, "UPDATE accounts SET %s", changes[i]);
        fine(database_make(database, change, &error));
        if (account_notify_read(database, &own, "m", &record, &error) != STATUS_CORRUPT)
            fail_msg("taken: %s", changes[i]);
        database_close(database);
        clear_desk(NULL);
        make_desk(NULL);
    }
}
