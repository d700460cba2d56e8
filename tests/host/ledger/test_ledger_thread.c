/* SPDX-License-Identifier: Apache-2.0
 * The ledger's thread: what it says is settled is in the file, also after kill -9 at any moment,
 * and nothing is there twice; what others change in the database is told within a second; what
 * cannot be written waits and is written later.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "host/ledger/ledger_thread.h"
#include "ledger_desk.h"
#include "test_case.h"

#define PATIENCE_NS INT64_C(60000000000)

static struct ledger *ledger;
static struct worker *worker;
static uint64_t committed;
static struct record_accounts *reported;

static void start_with(const struct ledger_prices *prices) {
    struct ledger_options options = {.path = path, .models = "m", .prices = *prices};
    committed = 0;
    fine(ledger_thread_open(&options, &ledger, &error));
    fine(worker_open("ledger", ledger_thread_work, ledger, &worker, &error));
    worker_call(worker);
}

static void start(void) {
    start_with(&desk_prices);
}

static void stop(void) {
    while (worker_waiting_bytes(worker))
        usleep(1000);
    assert_true(worker_close(worker, PATIENCE_NS));
    ledger_thread_close(ledger);
    free(reported);
    reported = NULL;
}

static void take(const struct record *record) {
    if (record->kind == RECORD_COMMITTED) {
        uint64_t sequence = ((const struct record_committed *)record)->sequence;
        assert_true(sequence > committed);
        committed = sequence;
        return;
    }
    assert_int_equal(record->kind, RECORD_ACCOUNTS);
    assert_true(record_valid(record, record->bytes));
    free(reported);
    reported = malloc(record->bytes);
    assert_non_null(reported);
    memcpy(reported, record, record->bytes);
}

static void await(int ms) {
    struct pollfd file = {worker_file(worker), POLLIN, 0};
    struct record_queue answers = {0};
    if (poll(&file, 1, ms) == 1) worker_take(worker, &answers);
    for (; record_queue_first(&answers); record_queue_drop(&answers))
        take(record_queue_first(&answers));
}

static void give(uint64_t sequence, const char *account) {
    struct record_usage *usage = make_entry(sequence, account, 1, 1, 1);
    worker_give(worker, &usage->record);
    free(usage);
}

static void await_settled(uint64_t sequence) {
    int64_t until = clock_now_ns() + PATIENCE_NS;
    while (committed < sequence && clock_now_ns() < until)
        await(100);
    assert_int_equal(committed, sequence);
}

TEST_AROUND(what_is_settled_is_written_down, make_desk, clear_desk) {
    start();
    for (uint64_t i = 1; i <= 10000; i++)
        give(i, "");
    await_settled(10000);
    struct database *database = open_desk();
    assert_int_equal(number_of(database, "SELECT count(*) FROM entries"), 10000);
    database_close(database);
    stop();
    database = open_desk();
    assert_int_equal(number_of(database, "SELECT count(*) FROM gateways WHERE ended IS NOT NULL"),
                     1);
    database_close(database);
}

TEST_AROUND(what_others_change_is_reported, make_desk, clear_desk) {
    struct database *database = open_desk();
    make_account(database, "acme", NULL);
    fine(account_store_top_up(database, "acme", 77, 1, &error));
    start();
    assert_int_equal(ledger_thread_accounts(ledger)->account_count, 1);
    assert_string_equal(ledger_thread_accounts(ledger)->currency, "USD");
    give(1, "acme");
    await_settled(1);
    for (int i = 0; i < 6; i++)
        await(100);
    assert_null(reported); /* its own entry is no news to the gateway */
    make_account(database, "other", NULL);
    int64_t until = clock_now_ns() + PATIENCE_NS;
    while (!reported && clock_now_ns() < until)
        await(100);
    assert_non_null(reported);
    assert_int_equal(reported->account_count, 2);
    assert_int_equal(reported->committed, 1);
    assert_int_equal(accounts_named(reported)[0].balance, 77 - 2220);
    assert_int_equal(accounts_named(reported)[0].others_requests, 0);
    database_close(database);
    stop();
}

TEST_AROUND(another_gateways_use_is_reported, make_desk, clear_desk) {
    struct database *database = open_desk();
    make_account(database, "acme", NULL);
    start();
    struct ledger *first = ledger;
    struct worker *first_worker = worker;
    start(); /* a second one at the same file */
    give(5, "acme");
    await_settled(5);
    struct ledger *other = ledger;
    struct worker *other_worker = worker;
    ledger = first;
    worker = first_worker;
    int64_t until = clock_now_ns() + PATIENCE_NS;
    while (!reported && clock_now_ns() < until)
        await(100);
    assert_non_null(reported);
    assert_int_equal(accounts_named(reported)[0].others_requests, 1);
    assert_int_equal(accounts_named(reported)[0].others_tokens, 3);
    stop();
    ledger = other;
    worker = other_worker;
    stop();
    database_close(database);
}

static atomic_ullong second_price; /* of the second model with prices of its own */

static struct ledger_price changing(const void *context, struct bytes model, int64_t unix_time) {
    struct token_price price = {.output = 1};
    (void)context;
    (void)unix_time;
    if (bytes_equal(model, BYTES_LITERAL("first"))) price.output = 5;
    if (bytes_equal(model, BYTES_LITERAL("second"))) price.output = atomic_load(&second_price);
    return (struct ledger_price){price, price};
}

/* A gateway of several names sets aside by each one's price: any that changes is news. */
TEST_AROUND(a_models_price_that_changes_is_reported, make_desk, clear_desk) {
    const struct ledger_prices prices = {
        .currency = "USD", .models = {"first", "second"}, .model_count = 2, .at = changing};
    atomic_store(&second_price, 7);
    start_with(&prices);
    const struct model_prices *known = &ledger_thread_accounts(ledger)->prices;
    assert_int_equal(known->others.output, 1);
    assert_int_equal(record_ledger_model_prices_find(known, BYTES_LITERAL("first"))->output, 5);
    assert_int_equal(record_ledger_model_prices_find(known, BYTES_LITERAL("second"))->output, 7);
    atomic_store(&second_price, 8);
    int64_t until = clock_now_ns() + PATIENCE_NS;
    while (!reported && clock_now_ns() < until)
        await(100);
    assert_non_null(reported);
    assert_int_equal(
        record_ledger_model_prices_find(&reported->prices, BYTES_LITERAL("first"))->output, 5);
    assert_int_equal(
        record_ledger_model_prices_find(&reported->prices, BYTES_LITERAL("second"))->output, 8);
    stop();
}

TEST_AROUND(what_cannot_be_written_waits_for_room, make_desk, clear_desk) {
    struct rlimit before, small;
    start();
    give(1, "");
    await_settled(1);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1; /* a full disk */
    setrlimit(RLIMIT_FSIZE, &small);
    give(2, "");
    for (int i = 0; i < 5; i++)
        await(100);
    assert_int_equal(committed, 1);
    setrlimit(RLIMIT_FSIZE, &before);
    give(3, "");
    await_settled(3);
    stop();
    struct database *database = open_desk();
    assert_int_equal(number_of(database, "SELECT count(*) FROM entries"), 3);
    database_close(database);
}

/* Nobody would find what is written into a file without a name. */
TEST_AROUND(nothing_is_settled_in_a_file_that_is_gone, make_desk, clear_desk) {
    char aside[sizeof path + 8];
    snprintf(aside, sizeof aside, "%s.aside", path);
    start();
    give(1, "");
    await_settled(1);
    assert_int_equal(rename(path, aside), 0);
    give(2, "");
    for (int i = 0; i < 5; i++)
        await(100);
    assert_int_equal(committed, 1);
    assert_int_equal(rename(aside, path), 0); /* somebody saw the line */
    give(3, "");
    await_settled(3);
    stop();
    struct database *database = open_desk();
    assert_int_equal(number_of(database, "SELECT count(*) FROM entries"), 3);
    database_close(database);
}

/* ---- kill -9 ---- */

static atomic_ullong *shared; /* what a killed process had been told is settled */

_Noreturn static void write_until_killed(uint64_t first) {
    start();
    for (uint64_t i = first;; i++) {
        give(i, "acme");
        if (i % 8 == 0) await(i % 64 ? 0 : 1);
        if (committed) atomic_store(shared, committed);
    }
}

TEST_AROUND(nothing_settled_is_lost_and_nothing_is_twice_after_kills, make_desk, clear_desk) {
    uint64_t first = 1;
    struct database *database = open_desk();
    make_account(database, "acme", NULL);
    database_close(database);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) write_until_killed(first);
        uint64_t begun = atomic_load(shared);
        while (atomic_load(shared) == begun)
            usleep(100);
        usleep((useconds_t)(round * 3779 % 20000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        database = open_desk();
        uint64_t last = atomic_load(shared);
        enum status status;
        struct sqlite3_stmt *row = database_query(
            database, &error, "SELECT count(*) FROM entries WHERE high <= ?", "i", (int64_t)last);
        assert_true(database_next(database, row, &status, &error));
        assert_int_equal(database_integer(row, 0), last);
        database_end(row);
        /* The next one begins among what was written and not told: it says some of it again. */
        first = last + 1;
        database_close(database);
    }
    database = open_desk();
    assert_int_equal(number_of(database, "SELECT count(*) - max(high) FROM entries"), 0);
    assert_int_equal(number_of(database, "SELECT tokens FROM accounts"),
                     3 * number_of(database, "SELECT count(*) FROM entries"));
    assert_int_equal(number_of(database, "SELECT balance FROM accounts"),
                     -number_of(database, "SELECT sum(amount) FROM entries"));
    database_close(database);
    munmap(shared, 4096);
}
