/* SPDX-License-Identifier: Apache-2.0
 * What tests of the ledger need alike: a file of their own, an account, entries and tallies with
 * chosen tokens, and prices that change at noon, other ones for the model "reasoner".
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "contract/machine.h"
#include "contract/record_unit.h"
#include "host/ledger/account_store.h"
#include "host/ledger/usage_store.h"

#define NOON (INT64_C(1795000000) / 86400 * 86400 + 43200)

static struct error error;
static char folder[64], path[128];

/* A folder that goes with the test; the database is in it. */
static int make_desk(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/fathom-ledger.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    return 0;
}

static int clear_desk(void **state) {
    static const char *const ends[] = {"", "-wal", "-shm", "2", "2-wal", "2-shm"};
    char name[160];
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
    return rmdir(folder);
}

static inline void fine(enum status status) {
    if (status) fail_msg("%s", error.text);
}

static inline struct database *open_desk(void) {
    struct database *database = NULL;
    fine(database_open(path, DATABASE_MAKE, &database, &error));
    return database;
}

static inline int64_t number_of(struct database *database, const char *sql) {
    int64_t number = 0;
    fine(database_number(database, &number, &error, sql, ""));
    return number;
}

/* Makes an account; what its key's SHA-256 begins with goes to prefix_out[8]. */
static inline void make_account(struct database *database, const char *name, uint8_t *prefix_out) {
    char key[ACCOUNT_KEY_TEXT];
    uint8_t digest[SHA256_BYTES];
    fine(account_store_create(database, name, &account_terms_unset, 1, key, &error));
    sha256_digest(key, strlen(key), digest);
    if (prefix_out) memcpy(prefix_out, digest, 8);
}

/* Turns a file of this build's schema into one of schema 1, with all that is in it. */
static inline void make_schema_1(const char *file) {
    static const char *const steps[] = {
        "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql ="
        " replace(sql, 'UNIQUE (ended, high, low)', 'UNIQUE (high, low)') WHERE name = 'entries';"
        " PRAGMA user_version=1",
        "REINDEX entries",
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        sqlite3 *other;
        assert_int_equal(sqlite3_open(file, &other), SQLITE_OK);
        assert_int_equal(sqlite3_exec(other, steps[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(other);
    }
}

/* Ended a second after noon; the caller frees it. */
static inline struct record_usage *make_entry_of(uint64_t sequence, const char *account,
                                                 const char *model, uint32_t hit, uint32_t miss,
                                                 uint32_t output) {
    struct record_usage fixed = {
        .request = {.high = sequence, .low = 7},
        .sequence = sequence,
        .unix_time = NOON,
        .is_charged = 1,
        .http_status = 200,
        .hit_tokens = hit,
        .miss_tokens = miss,
        .output_tokens = output,
        .choices = 1,
        .device_tokens = hit,
        .computed_tokens = miss,
        .made_tokens = output,
        .total_ns = INT64_C(1000000000),
        .model_bytes = (uint32_t)strlen(model),
        .end_bytes = 4,
    };
    memcpy(fixed.account, account, strlen(account));
    struct record_usage *usage = calloc(1, record_bytes(RECORD_USAGE, &fixed));
    assert_non_null(usage);
    *usage = fixed;
    record_set_head(usage, RECORD_USAGE);
    memcpy(entry_model(usage), model, fixed.model_bytes);
    memcpy(entry_end(usage), "stop", 4);
    assert_true(record_valid(usage, usage->record.bytes));
    return usage;
}

static inline struct record_usage *make_entry(uint64_t sequence, const char *account, uint32_t hit,
                                              uint32_t miss, uint32_t output) {
    return make_entry_of(sequence, account, "", hit, miss, output);
}

static inline struct record_unit_totals make_totals(uint64_t instance, uint32_t ranks) {
    return (struct record_unit_totals){
        .record = record_head(RECORD_UNIT_TOTALS, sizeof(struct record_unit_totals)),
        .instance = instance,
        .role = UNIT_DECODE,
        .rank_count = ranks};
}

static inline struct ledger_price morning_and_afternoon(const void *context, struct bytes model,
                                                        int64_t unix_time) {
    static const struct token_price cheap = {.hit = 10000, .miss = 100000, .output = 1000000},
                                    full = {.hit = 20000, .miss = 200000, .output = 2000000},
                                    thought = {.hit = 40000, .miss = 500000, .output = 7000000};
    bool is_morning = unix_time % 86400 < 43200;
    (void)context;
    return bytes_equal(model, BYTES_LITERAL("reasoner"))
               ? (struct ledger_price){is_morning ? cheap : thought, thought}
               : (struct ledger_price){is_morning ? cheap : full, full};
}

static const struct ledger_prices desk_prices = {
    .currency = "USD",
    .node_hour = INT64_C(16000000000),
    .models = {"reasoner"},
    .model_count = 1,
    .at = morning_and_afternoon,
};
