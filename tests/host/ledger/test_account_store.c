/* SPDX-License-Identifier: Apache-2.0
 * Accounts in the database: what is made, limited, topped up and revoked is there and nothing else;
 * of keys the digest alone; a file of --accounts comes with its secret.
 */
#include "host/ledger/accounts_file.h"
#include "ledger_desk.h"
#include "test_case.h"

static struct account_view seen;
static struct account_key_view key_seen[8];
static int keys_seen;
static char seen_group[64], seen_models[64];

static void see(void *context, const struct account_view *account) {
    (void)context;
    seen = *account;
    keys_seen = 0;
    snprintf(seen_group, sizeof seen_group, "%s", account->group);
    snprintf(seen_models, sizeof seen_models, "%s", account->models);
}

static void see_key(void *context, const struct account_key_view *key) {
    (void)context;
    key_seen[keys_seen++] = *key;
}

static void look(struct database *database, const char *name) {
    const struct account_listener listener = {see, see_key, NULL};
    fine(account_store_list(database, name, &listener, &error));
}

TEST_AROUND(an_account_is_made_once_and_its_key_is_not_kept, make_desk, clear_desk) {
    struct database *database = open_desk();
    char key[ACCOUNT_KEY_TEXT], other[ACCOUNT_KEY_TEXT];
    fine(account_store_create(database, "acme", &account_terms_unset, 1, key, &error));
    assert_int_equal(strlen(key), 67);
    assert_memory_equal(key, "sk-", 3);
    assert_int_equal(account_store_create(database, "acme", &account_terms_unset, 1, other, &error),
                     STATUS_INVALID);
    assert_int_equal(account_store_create(database, "a b", &account_terms_unset, 1, other, &error),
                     STATUS_INVALID);
    fine(account_store_add_key(database, "acme", &account_terms_unset, 2, other, &error));
    look(database, "acme");
    assert_int_equal(seen.keys, 2);
    assert_int_equal(keys_seen, 2);
    assert_string_not_equal(key, other);
    fine(database_make(database, "PRAGMA wal_checkpoint(TRUNCATE)", &error));
    database_close(database);
    FILE *file = fopen(path, "r");
    static char bytes[1 << 20];
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(count > 4096);
    assert_null(memmem(bytes, count, key + 3, 16));
}

TEST_AROUND(terms_are_set_one_by_one, make_desk, clear_desk) {
    struct database *database = open_desk();
    struct account_terms terms = account_terms_unset;
    make_account(database, "acme", NULL);
    terms.requests_max = 8;
    terms.group = "lab";
    fine(account_store_update(database, "acme", NULL, &terms, &error));
    terms = account_terms_unset;
    terms.weight = 300;
    terms.is_prepaid = 1;
    terms.priority = ACCOUNT_HIGH;
    terms.models = "one,two";
    fine(account_store_update(database, "acme", NULL, &terms, &error));
    look(database, "acme");
    assert_int_equal(seen.requests_max, 8);
    assert_int_equal(seen.weight, 300);
    assert_int_equal(seen.is_prepaid, 1);
    assert_int_equal(seen.priority, ACCOUNT_HIGH);
    assert_string_equal(seen_group, "lab");
    assert_string_equal(seen_models, "one,two");
    terms = account_terms_unset;
    terms.group = "no group";
    assert_int_equal(account_store_update(database, "acme", NULL, &terms, &error), STATUS_INVALID);
    database_close(database);
}

TEST_AROUND(a_key_is_named_by_the_first_digits_of_its_digest, make_desk, clear_desk) {
    struct database *database = open_desk();
    struct account_terms terms = account_terms_unset;
    make_account(database, "acme", NULL);
    make_account(database, "other", NULL);
    look(database, "acme");
    char digits[13];
    snprintf(digits, sizeof digits, "%.12s", key_seen[0].sha256);
    terms.tokens_per_minute = 100;
    terms.budget = 5;
    fine(account_store_update(database, "acme", digits, &terms, &error));
    assert_int_equal(account_store_update(database, "other", digits, &terms, &error),
                     STATUS_NOT_FOUND);
    assert_int_equal(account_store_update(database, "acme", "12", &terms, &error), STATUS_INVALID);
    terms.weight = 2;
    assert_int_equal(account_store_update(database, "acme", digits, &terms, &error),
                     STATUS_INVALID);
    fine(account_store_revoke(database, "acme", digits, 9, &error));
    look(database, "acme");
    assert_int_equal(key_seen[0].tokens_per_minute, 100);
    assert_int_equal(key_seen[0].budget, 5);
    assert_int_equal(key_seen[0].revoked, 9);
    assert_int_equal(seen.keys + seen.revoked, 0);
    database_close(database);
}

TEST_AROUND(what_is_revoked_is_no_more_changed, make_desk, clear_desk) {
    struct database *database = open_desk();
    char key[ACCOUNT_KEY_TEXT];
    make_account(database, "acme", NULL);
    fine(account_store_revoke(database, "acme", NULL, 5, &error));
    assert_int_equal(account_store_top_up(database, "acme", 5, 5, &error), STATUS_INVALID);
    assert_int_equal(account_store_add_key(database, "acme", &account_terms_unset, 5, key, &error),
                     STATUS_INVALID);
    assert_non_null(strstr(error.text, "is revoked"));
    assert_int_equal(account_store_revoke(database, "nobody", NULL, 5, &error), STATUS_NOT_FOUND);
    look(database, "acme");
    assert_int_equal(seen.revoked, 5);
    database_close(database);
}

TEST_AROUND(top_ups_are_written_down_and_make_the_balance, make_desk, clear_desk) {
    struct database *database = open_desk();
    make_account(database, "acme", NULL);
    fine(account_store_top_up(database, "acme", 500, 5, &error));
    fine(account_store_top_up(database, "acme", -200, 5, &error));
    look(database, "acme");
    assert_int_equal(seen.balance, 300);
    assert_int_equal(number_of(database, "SELECT count(*) FROM top_ups"), 2);
    database_close(database);
}

/* SQLite would go on in floating point, and no proof would hold any more. */
TEST_AROUND(a_balance_grows_no_further_than_can_be_counted, make_desk, clear_desk) {
    struct database *database = open_desk();
    make_account(database, "acme", NULL);
    for (int sign = 1; sign >= -1; sign -= 2) {
        fine(account_store_top_up(database, "acme", sign * ACCOUNT_BALANCE_MAX, 5, &error));
        assert_int_equal(account_store_top_up(database, "acme", sign, 5, &error), STATUS_INVALID);
        assert_non_null(strstr(error.text, "the balance of 'acme' is "));
        assert_non_null(
            strstr(error.text, "9000000000.00, and a balance may be 9000000000 at most"));
        assert_int_equal(
            account_store_top_up(database, "acme", sign * ACCOUNT_BALANCE_MAX, 5, &error),
            STATUS_INVALID);
        fine(account_store_top_up(database, "acme", -sign * ACCOUNT_BALANCE_MAX, 5, &error));
    }
    assert_int_equal(number_of(database, "SELECT count(*) FROM top_ups"), 4);
    assert_int_equal(number_of(database, "SELECT balance = 0 AND typeof(balance) = 'integer'"
                                         " FROM accounts"),
                     1);
    fine(database_make(database, "UPDATE accounts SET balance = 1.8e19", &error));
    assert_int_equal(account_store_top_up(database, "acme", -5, 5, &error), STATUS_CORRUPT);
    database_close(database);
}

/* An outsider's file: it may be of anybody. */
TEST_AROUND(a_currency_that_is_none_is_damage, make_desk, clear_desk) {
    char currency[LEDGER_CURRENCY_BYTES];
    static const char *const changes[] = {"'<b>'", "'a\"'", "'12345678'", "x'1b5b'", "''"};
    struct database *database = open_desk();
    fine(database_make(database, "INSERT INTO settings VALUES ('currency', 'USD')", &error));
    fine(account_store_currency(database, currency, &error));
    assert_string_equal(currency, "USD");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char change[100];
        snprintf(change, sizeof change, "UPDATE settings SET value = %s WHERE name = 'currency'",
                 changes[i]);
        fine(database_make(database, change, &error));
        assert_int_equal(account_store_currency(database, currency, &error), STATUS_CORRUPT);
    }
    database_close(database);
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

TEST_AROUND(a_file_of_accounts_comes_with_its_secret, make_desk, clear_desk) {
    struct database *database = open_desk();
    char file[160], secret_file[170], text[80] = "";
    uint8_t secret[SHA256_BYTES];
    uint32_t count = 0;
    snprintf(file, sizeof file, "%s/who.yaml", folder);
    snprintf(secret_file, sizeof secret_file, "%s.secret", file);
    for (int i = 0; i < 64; i++)
        text[i] = "0123456789abcdef"[i % 16];
    write_file(secret_file, text);
    write_file(file, "accounts:\n  - {name: a, keys: [], group: lab, requests-max: 3}\n"
                     "  - {name: b, operator: true, keys: [\"sha256:"
                     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]}\n");
    fine(accounts_file_import(database, file, 4, &count, &error));
    assert_int_equal(count, 2);
    fine(account_store_secret(database, secret, &error));
    assert_int_equal(secret[0], 0x01);
    assert_int_equal(secret[31], 0xef);
    look(database, "a");
    assert_int_equal(seen.requests_max, 3);
    assert_string_equal(seen_group, "lab");
    look(database, "b");
    assert_int_equal(seen.is_operator, 1);
    assert_memory_equal(key_seen[0].sha256, "aaaaaaaa", 8);
    assert_int_equal(accounts_file_import(database, file, 4, &count, &error), STATUS_INVALID);
    text[0] = 'f';
    write_file(secret_file, text);
    write_file(file, "accounts:\n  - {name: c, keys: []}\n");
    assert_int_equal(accounts_file_import(database, file, 4, &count, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "another secret"));
    database_close(database);
    unlink(file);
    unlink(secret_file);
}
