/* SPDX-License-Identifier: Apache-2.0
 * The accounts' file: what it says becomes accounts, keys and salts; what is wrong with it is said
 * with the line; the secret is made once and stays.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_ledger.h"
#include "host/ledger/account_store.h"
#include "host/ledger/accounts_file.h"
#include "test_case.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "BBbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const uint8_t secret[SHA256_BYTES] = {1, 2, 3};
static struct error error;

static struct record_accounts *parse_with(const char *text, const uint8_t *with) {
    struct record_accounts *record = NULL;
    if (accounts_file_parse(bytes_of(text), "who.yaml", with, &record, &error) == STATUS_OK)
        assert_true(record_valid(record, record->record.bytes));
    else
        assert_null(record);
    return record;
}

static const struct account *account_of(const struct record_accounts *record, uint32_t number) {
    return accounts_named(record) + number;
}

static const struct account_key *key_of(const struct record_accounts *record, uint32_t number) {
    return accounts_keys(record) + number;
}

TEST(accounts_are_read_from_their_file) {
    struct record_accounts *record = parse_with("accounts:\n"
                                                "  - name: acme\n"
                                                "    keys: [\"sha256:" A64 "\", sha256:" B64 "]\n"
                                                "    requests-max: 8\n"
                                                "    operator: yes\n"
                                                "  - {name: b.2_-, keys: []}\n",
                                                secret);
    if (!record) fail_msg("%s", error.text);
    assert_int_equal(record->account_count, 2);
    assert_int_equal(record->key_count, 2);
    assert_string_equal(account_of(record, 0)->name, "acme");
    assert_int_equal(account_of(record, 0)->limits.requests_max, 8);
    assert_int_equal(account_of(record, 0)->is_operator, 1);
    assert_string_equal(account_of(record, 1)->name, "b.2_-");
    assert_int_equal(
        account_of(record, 1)->limits.requests_max + account_of(record, 1)->is_operator, 0);
    assert_int_equal(key_of(record, 0)->sha256[31], 0xaa);
    assert_int_equal(key_of(record, 1)->sha256[0], 0xbb);
    free(record);
}

static bool same(const struct record_accounts *record, uint32_t a, uint32_t b) {
    return memcmp(&account_of(record, a)->tenant, &account_of(record, b)->tenant,
                  sizeof(struct tenant_salt)) == 0;
}

TEST(a_tenant_is_an_account_or_a_group) {
    static const char text[] = "accounts:\n"
                               "  - {name: a, keys: []}\n"
                               "  - {name: b, keys: []}\n"
                               "  - {name: c, keys: [], group: a}\n"
                               "  - {name: d, keys: [], group: a}\n"
                               "  - {name: e, keys: [], group: b}\n";
    static const uint8_t other[SHA256_BYTES] = {9};
    struct record_accounts *record = parse_with(text, secret), *again = parse_with(text, secret);
    struct record_accounts *elsewhere = parse_with(text, other);
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < a; b++)
            assert_int_equal(same(record, a, b), a == 3 && b == 2);
    assert_memory_equal(record, again, record->record.bytes); /* for every gateway alike */
    assert_memory_not_equal(&account_of(record, 0)->tenant, &account_of(elsewhere, 0)->tenant,
                            sizeof(struct tenant_salt));
    free(record);
    free(again);
    free(elsewhere);
}

TEST(it_says_what_is_wrong_and_where) {
    static const struct {
        const char *text, *part, *line;
    } cases[] = {
        {"", "expected 'accounts:'", ""},
        {"accounts: 7\n", "expected 'accounts:'", ""},
        {"accounts: []\nother: 1\n", "expected 'accounts:'", ""},
        {"accounts:\n  - name: ab\n", "'ab' has no list of keys", "line 2"},
        {"accounts:\n  - keys: []\n", "not a name of an account", ""},
        {"accounts:\n  - name: ab\n    keys: [[a]]\n", "a key that is not a text", "line 2"},
        {"accounts:\n  - name: a\n    keyz: []\n", "'keyz' is not a member of an account",
         "line 3"},
        {"accounts:\n  - {name: a, keys: [], operator: perhaps}\n", "neither true nor false",
         "line 2"},
        {"accounts:\n  - {name: a, name: b, keys: []}\n", "the key stands here twice: name",
         "line 2"},
        {"accounts:\n  - name: a\n    keys: []\n    requests-max: many\n", "requests-max",
         "line 4"},
        {"accounts:\n  - {name: a, keys: [], requests-max: 0}\n", "leave it out for no limit",
         "line 2"},
        {"accounts:\n  - {name: a, keys: [], requests-max: 0x10}\n", "whole number", "line 2"},
        {"accounts:\n  - name: a b\n    keys: []\n", "not a name of an account", "line 2"},
        {"accounts:\n  - name: a\n    group: \"\"\n    keys: []\n", "not a name of a group", ""},
        {"accounts:\n  - name: a\n    keys:\n      - sk-secret\n", "fathom keygen --api-key",
         "line 4"},
        {"accounts:\n  - name: a\n    keys: [sha256:" A64 "a]\n", "64 hexadecimal", "line 3"},
        {"accounts:\n  - {name: a, keys: []}\n  - {name: a, keys: []}\n", "names two", "line 3"},
        {"accounts:\n  - {name: a, keys: [sha256:" A64 "]}\n  - {name: b, keys: [sha256:" A64
         "]}\n",
         "belongs to one account", "line 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct record_accounts *record = parse_with(cases[i].text, secret);
        assert_null(record);
        if (strncmp(error.text, "who.yaml", 8) || !strstr(error.text, cases[i].part) ||
            !strstr(error.text, cases[i].line))
            fail_msg("case %zu: %s", i, error.text);
    }
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

TEST(the_secret_is_made_once) {
    char directory[] = "/tmp/fathom-accounts-XXXXXX", path[64], beside[80];
    struct record_accounts *first = NULL, *then = NULL;
    struct stat facts;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/who.yaml", directory);
    snprintf(beside, sizeof beside, "%s.secret", path);
    assert_int_equal(accounts_file_read(path, &first, &error), STATUS_NOT_FOUND);
    write_file(path, "accounts:\n  - {name: a, keys: []}\n");
    assert_int_equal(accounts_file_read(path, &first, &error), STATUS_OK);
    assert_int_equal(accounts_file_read(path, &then, &error), STATUS_OK);
    assert_memory_equal(first, then, first->record.bytes);
    assert_int_equal(stat(beside, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    free(then);
    unlink(beside);
    assert_int_equal(accounts_file_read(path, &then, &error), STATUS_OK);
    assert_memory_not_equal(first, then, first->record.bytes); /* another service */
    write_file(beside, "short\n");
    struct record_accounts *none = NULL;
    assert_int_equal(accounts_file_read(path, &none, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "who.yaml.secret, line 1"));
    free(first);
    free(then);
    unlink(beside);
    unlink(path);
    assert_int_equal(rmdir(directory), 0); /* nothing else was left */
}

TEST(a_drawn_key_fits_its_line) {
    char key[ACCOUNT_KEY_TEXT], digest[ACCOUNT_DIGEST_TEXT], text[256];
    uint8_t hash[SHA256_BYTES];
    account_store_draw_key(key, digest);
    snprintf(text, sizeof text, "accounts: [{name: a, keys: ['%s']}]", digest);
    struct record_accounts *record = parse_with(text, secret);
    assert_non_null(record);
    sha256_digest(key, strlen(key), hash);
    assert_memory_equal(hash, key_of(record, 0)->sha256, sizeof hash);
    free(record);
}
