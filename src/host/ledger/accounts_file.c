/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/accounts_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "contract/record_ledger.h"
#include "host/ledger/account_notify.h"
#include "host/ledger/account_store.h"
#include "host/process/configuration/yaml_tree.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)
#define TREE_BYTES_PER_BYTE 64 /* yaml_tree.h */

/* ---- parsing ---- */

struct accounts_reading {
    struct bytes text;
    struct arena *arena; /* for terminated texts */
    const char *path;
    struct database *database;
    int64_t now;
    int64_t last_account, last_key; /* largest ids before the file is read */
    struct error *error;
};

/* The line of the last occurrence of the word, from 1. */
static uint32_t accounts_file_line_of(const struct accounts_reading *reading, const char *word) {
    uint32_t line = 1, found = 1;
    size_t count = strlen(word);
    for (size_t at = 0; at < reading->text.count; at++) {
        if (count && count <= reading->text.count - at &&
            memcmp(reading->text.data + at, word, count) == 0)
            found = line;
        line += reading->text.data[at] == '\n';
    }
    return found;
}

static enum status accounts_file_wrong(const struct accounts_reading *reading, const char *word,
                                       const char *what, const char *cure) {
    return error_set(reading->error, STATUS_INVALID, "%.200s, line %u: '%.80s' %s; %s",
                     reading->path, accounts_file_line_of(reading, word), word, what, cure);
}

static int accounts_file_digit_of(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return -1;
}

/* Parses exactly `count` bytes in hexadecimal digits. */
static bool accounts_file_read_hex(const char *text, uint8_t *out, size_t count) {
    if (strlen(text) != 2 * count) return false;
    for (size_t i = 0; i < count; i++) {
        int high = accounts_file_digit_of(text[2 * i]),
            low = accounts_file_digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static enum status accounts_file_read_key(const struct accounts_reading *reading, int64_t account,
                                          const char *text) {
    uint8_t sha256[SHA256_BYTES];
    size_t word = sizeof ACCOUNT_DIGEST_WORD - 1;
    int64_t found = 0;
    if (strncmp(text, ACCOUNT_DIGEST_WORD, word) != 0 ||
        !accounts_file_read_hex(text + word, sha256, sizeof sha256))
        return accounts_file_wrong(
            reading, text, "is not the SHA-256 of an API key",
            "write sha256: and 64 hexadecimal digits, as `fathom keygen --api-key` does");
    enum status status = database_number(reading->database, &found, reading->error,
                                         "SELECT id FROM keys WHERE sha256 = ? AND id > ?", "bi",
                                         sha256, sizeof sha256, reading->last_key);
    if (found)
        return accounts_file_wrong(reading, text, "stands here twice",
                                   "a key belongs to one account: draw another one");
    if (status) return status;
    return account_store_insert_key(reading->database, account, sha256, reading->now,
                                    reading->error);
}

static enum status check_name(const struct accounts_reading *reading, const char *name,
                              const char *of) {
    struct error why;
    if (!account_store_check_name(name, of, &why)) return STATUS_OK;
    return error_set(reading->error, STATUS_INVALID, "%.200s, line %u: %s", reading->path,
                     accounts_file_line_of(reading, name), why.text);
}

/* A member's string, terminated; "" if it is absent. */
static enum status accounts_file_read_text(const struct accounts_reading *reading,
                                           const struct tree *account, const char *name,
                                           const char **text_out) {
    const struct tree *value = tree_member(account, name);
    struct bytes text = {"", 0};
    *text_out = "";
    if (!value) return STATUS_OK;
    if (!tree_get_string(value, &text) || memchr(text.data, 0, text.count))
        return accounts_file_wrong(reading, name, "is not a text",
                                   "write one, in quotes if need be");
    *text_out = arena_copy(reading->arena, text).data;
    return *text_out ? STATUS_OK
                     : error_set(reading->error, STATUS_NO_MEMORY, "%.200s: out of memory",
                                 reading->path);
}

static enum status accounts_file_read_number(const struct accounts_reading *reading,
                                             const struct tree *account, const char *name,
                                             uint32_t *out) {
    const char *text;
    char *end;
    *out = 0;
    enum status status = accounts_file_read_text(reading, account, name, &text);
    if (status || !tree_member(account, name)) return status;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || !number || number > UINT32_MAX)
        return accounts_file_wrong(reading, name, "is not a whole number from 1 to 4294967295",
                                   "write one, or leave it out for no limit");
    *out = (uint32_t)number;
    return STATUS_OK;
}

static enum status accounts_file_read_flag(const struct accounts_reading *reading,
                                           const struct tree *account, const char *name,
                                           bool *out) {
    static const char *const words[][2] = {
        {"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};
    const char *text;
    *out = false;
    enum status status = accounts_file_read_text(reading, account, name, &text);
    if (status || !tree_member(account, name)) return status;
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        for (int yes = 0; yes < 2; yes++)
            if (strcasecmp(text, words[i][yes]) == 0) {
                *out = yes;
                return STATUS_OK;
            }
    return accounts_file_wrong(reading, name, "is neither true nor false", "write one of them");
}

static enum status accounts_file_check_members(const struct accounts_reading *reading,
                                               const struct tree *account) {
    static const char *const known[] = {"name", "group", "keys", "requests-max", "operator"};
    struct tree_cursor cursor = {0};
    const struct tree *value;
    struct bytes key;
    while (tree_next_member(account, &cursor, &key, &value)) {
        bool found = false;
        for (size_t i = 0; i < ARRAY_COUNT(known); i++)
            found = found || bytes_equal(key, bytes_of(known[i]));
        if (!found)
            return accounts_file_wrong(reading, key.data, "is not a member of an account",
                                       "there are name, group, keys, requests-max and operator");
    }
    return STATUS_OK;
}

static enum status accounts_file_read_keys(const struct accounts_reading *reading, int64_t account,
                                           const char *name, const struct tree *keys) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < tree_count(keys) && !status; i++) {
        struct bytes text;
        if (!tree_get_string(tree_at(keys, i), &text) || memchr(text.data, 0, text.count))
            return accounts_file_wrong(reading, name, "has a key that is not a text",
                                       "write sha256: and 64 hexadecimal digits");
        const char *key = arena_copy(reading->arena, text).data;
        status = key ? accounts_file_read_key(reading, account, key)
                     : error_set(reading->error, STATUS_NO_MEMORY, "%.200s: out of memory",
                                 reading->path);
    }
    return status;
}

static enum status read_account(const struct accounts_reading *reading, const struct tree *entry) {
    const struct tree *keys = tree_member(entry, "keys");
    struct account_terms terms = account_terms_unset;
    const char *name = "";
    uint32_t requests_max = 0;
    bool is_operator = false;
    int64_t id = 0;
    enum status status = accounts_file_check_members(reading, entry);
    if (!status) status = accounts_file_read_text(reading, entry, "name", &name);
    if (!status) status = accounts_file_read_text(reading, entry, "group", &terms.group);
    if (!status) status = accounts_file_read_number(reading, entry, "requests-max", &requests_max);
    if (!status) status = accounts_file_read_flag(reading, entry, "operator", &is_operator);
    if (!status) status = check_name(reading, name, "an account");
    if (!status && tree_member(entry, "group"))
        status = check_name(reading, terms.group, "a group");
    if (!status && (!keys || tree_kind(keys) != TREE_ARRAY))
        status = accounts_file_wrong(reading, name, "has no list of keys",
                                     "write keys: [], or the keys");
    if (status) return status;
    status = database_number(reading->database, &id, reading->error,
                             "SELECT id FROM accounts WHERE name = ? AND id > ?", "ti", name,
                             reading->last_account);
    if (id)
        return accounts_file_wrong(reading, name, "names two accounts", "give each its own name");
    terms.requests_max = requests_max;
    terms.is_operator = is_operator;
    if (!status)
        status = account_store_insert(reading->database, name, &terms, reading->now, &id,
                                      reading->error);
    return status ? status : accounts_file_read_keys(reading, id, name, keys);
}

static enum status accounts_file_read_accounts(struct accounts_reading *reading,
                                               const struct tree *list, uint32_t *count_out) {
    size_t key_count = 0, count = tree_count(list);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count; i++)
        key_count += tree_count(tree_member(tree_at(list, i), "keys"));
    if (count > LIMIT_ACCOUNTS || key_count > LIMIT_ACCOUNT_KEYS)
        return error_set(
            reading->error, STATUS_INVALID,
            "%.200s: %zu accounts and %zu keys; at most %d and %d are possible: remove "
            "old ones",
            reading->path, count, key_count, LIMIT_ACCOUNTS, LIMIT_ACCOUNT_KEYS);
    status = database_number(reading->database, &reading->last_account, reading->error,
                             "SELECT coalesce(max(id), 0) FROM accounts", "");
    if (!status)
        status = database_number(reading->database, &reading->last_key, reading->error,
                                 "SELECT coalesce(max(id), 0) FROM keys", "");
    for (size_t i = 0; i < count && !status; i++)
        status = read_account(reading, tree_at(list, i));
    *count_out = (uint32_t)count;
    return status;
}

static enum status accounts_file_read_root(struct accounts_reading *reading, uint32_t *count_out) {
    const struct tree *root = NULL;
    enum status status =
        yaml_tree_parse_words(reading->arena, reading->text, reading->path, &root, reading->error);
    if (status) return status;
    const struct tree *list = tree_member(root, "accounts");
    struct tree_cursor cursor = {0};
    const struct tree *value;
    struct bytes key;
    bool alone = tree_next_member(root, &cursor, &key, &value) &&
                 !tree_next_member(root, &cursor, &key, &value);
    if (!alone || !list || tree_kind(list) != TREE_ARRAY)
        return error_set(
            reading->error, STATUS_INVALID,
            "%.200s: expected 'accounts:' and a list of accounts, each with 'name' and "
            "'keys' (docs/api.md has an example)",
            reading->path);
    return accounts_file_read_accounts(reading, list, count_out);
}

/* Inserts the file's accounts into a database that has none of them, within the caller's
 * transaction. */
static enum status accounts_file_enter(struct bytes text, const char *path,
                                       struct database *database, int64_t now, uint32_t *count_out,
                                       struct error *error) {
    size_t bytes = TREE_BYTES_PER_BYTE * (text.count + 64);
    struct arena arena;
    void *memory = malloc(bytes);
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "%.200s: out of memory", path);
    arena_over(&arena, memory, bytes);
    struct accounts_reading reading = {.text = text,
                                       .arena = &arena,
                                       .path = path,
                                       .database = database,
                                       .now = now,
                                       .error = error};
    enum status status = accounts_file_read_root(&reading, count_out);
    free(memory);
    return status;
}

enum status accounts_file_parse(struct bytes text, const char *path,
                                const uint8_t secret[SHA256_BYTES],
                                struct record_accounts **record_out, struct error *error) {
    const struct account_own none = {0};
    struct database *database = NULL;
    uint32_t count = 0;
    enum status status = database_open(NULL, DATABASE_MAKE, &database, error);
    if (status) return status;
    status = database_begin(database, error);
    if (!status) status = account_store_set_secret(database, secret, error);
    if (!status) status = accounts_file_enter(text, path, database, 0, &count, error);
    status = database_finish(database, status, error);
    if (!status) status = account_notify_read(database, &none, "", record_out, error);
    database_close(database);
    return status;
}

/* ---- the secret ---- */

/* Creates the secret atomically: it is written under another name first. If two processes do so,
 * both use the first one. */
static enum status make_secret(const char *path, struct error *error) {
    char draft[PATH_MAX], text[2 * SHA256_BYTES + 1];
    uint8_t secret[SHA256_BYTES];
    account_store_draw(secret);
    account_store_write_hex(secret, text);
    snprintf(draft, sizeof draft, "%.*s.%ld", PATH_MAX - 32, path, (long)getpid());
    int file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool whole = file >= 0 && dprintf(file, "%s\n", text) > 0 && fsync(file) == 0;
    int failure = errno;
    if (file >= 0) close(file);
    bool linked = whole && (link(draft, path) == 0 || errno == EEXIST);
    if (whole && !linked) failure = errno;
    if (file >= 0) unlink(draft);
    if (linked) return STATUS_OK;
    return error_set(
        error, STATUS_IO,
        "cannot write %.300s: %s; the tenants' secret is a file next to the accounts' file", path,
        strerror(failure));
}

static enum status accounts_file_read_secret(const char *path, uint8_t secret_out[SHA256_BYTES],
                                             struct error *error) {
    struct bytes text;
    char digits[2 * SHA256_BYTES + 1] = {0};
    enum status status =
        access(path, F_OK) != 0 && errno == ENOENT ? make_secret(path, error) : STATUS_OK;
    if (!status) status = file_take(path, 4096, &text, error);
    if (status) return status;
    bool whole = text.count >= 2 * SHA256_BYTES &&
                 (text.count == 2 * SHA256_BYTES || text.data[2 * SHA256_BYTES] == '\n');
    if (whole) memcpy(digits, text.data, 2 * SHA256_BYTES);
    free((void *)(uintptr_t)text.data);
    if (whole && accounts_file_read_hex(digits, secret_out, SHA256_BYTES)) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%.300s, line 1: expected a secret of 64 hexadecimal digits; restore the old "
                     "one, or remove the file for a new one (cached blocks are then not found)",
                     path);
}

/* Reads the file's text, which the caller frees, and its secret. */
static enum status accounts_file_take(const char *path, struct bytes *text_out,
                                      uint8_t secret_out[SHA256_BYTES], struct error *error) {
    char secret_path[PATH_MAX];
    int count = snprintf(secret_path, sizeof secret_path, "%s.secret", path);
    if (count >= PATH_MAX)
        return error_set(error, STATUS_INVALID, "the name of the accounts' file is too long");
    enum status status = file_take(path, FILE_BYTES_MAX, text_out, error);
    if (status) return status;
    status = accounts_file_read_secret(secret_path, secret_out, error);
    if (status) free((void *)(uintptr_t)text_out->data);
    return status;
}

enum status accounts_file_read(const char *path, struct record_accounts **record_out,
                               struct error *error) {
    uint8_t secret[SHA256_BYTES];
    struct bytes text;
    enum status status = accounts_file_take(path, &text, secret, error);
    if (status) return status;
    status = accounts_file_parse(text, path, secret, record_out, error);
    free((void *)(uintptr_t)text.data);
    return status;
}

/* ---- importing the file into a ledger ---- */

/* Existing accounts have blocks under the existing secret. */
static enum status import_secret(struct database *database, const uint8_t secret[SHA256_BYTES],
                                 const char *path, struct error *error) {
    uint8_t own[SHA256_BYTES];
    int64_t accounts = 0;
    bool found = false;
    enum status status =
        database_number(database, &accounts, error, "SELECT count(*) FROM accounts", "");
    if (!status) status = account_store_find_secret(database, own, &found, error);
    if (!status && found && accounts > 0 && memcmp(own, secret, SHA256_BYTES) != 0)
        status = error_set(error, STATUS_INVALID,
                           "%.200s has accounts under another secret than %.200s.secret; import "
                           "into a file that does not exist yet",
                           database_path(database), path);
    return status ? status : account_store_set_secret(database, secret, error);
}

enum status accounts_file_import(struct database *database, const char *path, int64_t now,
                                 uint32_t *count_out, struct error *error) {
    uint8_t secret[SHA256_BYTES];
    struct bytes text;
    enum status status = accounts_file_take(path, &text, secret, error);
    if (status) return status;
    status = database_begin(database, error);
    if (!status) status = import_secret(database, secret, path, error);
    if (!status) status = accounts_file_enter(text, path, database, now, count_out, error);
    if (!status) status = account_store_check_room(database, error);
    free((void *)(uintptr_t)text.data);
    return database_finish(database, status, error);
}
