/* SPDX-License-Identifier: Apache-2.0
 * The database's file: made for its owner alone, refused with one line and a cure where it is
 * damaged, newer, of something else, read-only or on a full disk; what is committed survives, what
 * is not never was; two connections take turns. No file that another user chose is written to or
 * read.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ledger_desk.h"
#include "test_case.h"

TEST_AROUND(a_new_file_is_its_owners_alone, make_desk, clear_desk) {
    struct stat found;
    umask(0);
    struct database *database = open_desk();
    fine(database_run(database, &error, "INSERT INTO settings VALUES ('a', 1)", ""));
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(number_of(database, "PRAGMA user_version"), DATABASE_SCHEMA);
    assert_int_equal(number_of(database, "PRAGMA synchronous"), 2);
    database_close(database);
    assert_int_equal(database_open("/nowhere/at.db", DATABASE_MAKE, &database, &error),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(error.text, "/nowhere/at.db: cannot open"));
    snprintf(path + strlen(path), 2, "2");
    assert_int_equal(database_open(path, DATABASE_REFUSE, &database, &error), STATUS_NOT_FOUND);
    assert_non_null(strstr(error.text, "fathom account create"));
    path[strlen(path) - 1] = 0;
}

static void write_text(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void refuse(enum status status, const char *words) {
    struct database *database = NULL;
    assert_int_equal(database_open(path, DATABASE_MAKE, &database, &error), status);
    if (!strstr(error.text, words) || strchr(error.text, '\n')) fail_msg("%s", error.text);
}

TEST_AROUND(what_is_no_database_of_ours_is_refused, make_desk, clear_desk) {
    sqlite3 *other;
    write_text(
        "this is some text, long enough to be taken for a page of a database, or not at all");
    refuse(STATUS_CORRUPT, "is not a database");
    unlink(path);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "CREATE TABLE t (a)", NULL, NULL, NULL), SQLITE_OK);
    refuse(STATUS_INVALID, "of another program");
    sqlite3_close(other);
    unlink(path);
    database_close(open_desk());
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    refuse(STATUS_UNSUPPORTED, "newer Fathom (schema 99");
}

TEST_AROUND(a_file_of_schema_1_is_brought_up_with_all_that_is_in_it, make_desk, clear_desk) {
    struct database *database = open_desk();
    struct account_own own = {0};
    struct usage_store *store = calloc(1, sizeof *store);
    struct record_usage *usage = make_entry(1, "acme", 1, 2, 3);
    struct record *records[] = {&usage->record};
    uint32_t written = 0;
    make_account(database, "acme", NULL);
    *store = (struct usage_store){.database = database, .prices = &desk_prices, .own = &own};
    fine(usage_store_begin(store, NOON, &error));
    fine(usage_store_write(store, records, 1, NOON, &written, &error));
    database_close(database);
    make_schema_1(path);
    store->database = database = open_desk();
    assert_int_equal(number_of(database, "PRAGMA user_version"), DATABASE_SCHEMA);
    assert_int_equal(number_of(database, "SELECT count(*) FROM sqlite_schema WHERE sql LIKE"
                                         " '%UNIQUE (ended, high, low)%'"),
                     1);
    fine(usage_store_write(store, records, 1, NOON, &written, &error)); /* it is known */
    assert_int_equal(number_of(database, "SELECT count(*) + sum(high) FROM entries"), 2);
    assert_int_equal(number_of(database, "SELECT tokens FROM accounts"), 6);
    database_close(database);
    free(own.used);
    free(usage);
    free(store);
}

TEST_AROUND(a_damaged_page_is_reported, make_desk, clear_desk) {
    static const char trash[8192] = "trash";
    struct database *database = open_desk();
    make_account(database, "acme", NULL);
    fine(database_make(database, "PRAGMA wal_checkpoint(TRUNCATE)", &error));
    database_close(database);
    int file = open(path, O_WRONLY);
    for (int page = 1; page < 4; page++)
        assert_true(pwrite(file, trash, 4096, 4096 * page) == 4096);
    close(file);
    database = NULL;
    enum status status = database_open(path, DATABASE_MAKE, &database, &error);
    int64_t number;
    if (!status)
        status = database_number(database, &number, &error, "SELECT count(*) FROM settings", "");
    assert_int_equal(status, STATUS_CORRUPT);
    assert_non_null(strstr(error.text, "is damaged"));
    database_close(database);
}

TEST_AROUND(what_was_committed_is_there_and_nothing_else, make_desk, clear_desk) {
    struct database *database = open_desk();
    fine(database_begin(database, &error));
    fine(
        database_run(database, &error, "INSERT INTO settings VALUES ('kept', ?)", "i", INT64_C(5)));
    fine(database_finish(database, STATUS_OK, &error));
    fine(database_begin(database, &error));
    fine(
        database_run(database, &error, "INSERT INTO settings VALUES ('lost', ?)", "i", INT64_C(6)));
    database_close(database);
    database = open_desk();
    assert_int_equal(number_of(database, "SELECT count(*) FROM settings"), 1);
    assert_int_equal(number_of(database, "SELECT value FROM settings"), 5);
    database_close(database);
}

TEST_AROUND(another_connections_commit_changes_the_version, make_desk, clear_desk) {
    struct database *one = open_desk(), *two = open_desk();
    int64_t before, own, after;
    fine(database_version(one, &before, &error));
    fine(database_run(one, &error, "INSERT INTO settings VALUES ('a', 1)", ""));
    fine(database_version(one, &own, &error));
    fine(database_run(two, &error, "INSERT INTO settings VALUES ('b', 1)", ""));
    fine(database_version(one, &after, &error));
    assert_int_equal(before, own);
    assert_int_not_equal(own, after);
    database_close(one);
    database_close(two);
}

static void *add_thousand(void *context) {
    struct database *database = NULL;
    struct error own;
    (void)context;
    if (database_open(path, DATABASE_MAKE, &database, &own)) return &error;
    for (int i = 0; i < 200; i++) {
        enum status status = database_begin(database, &own);
        if (!status)
            status = database_run(database, &own,
                                  "UPDATE settings SET value = value + 1 WHERE name = 'sum'", "");
        status = database_finish(database, status, &own);
        if (status) return &error;
    }
    database_close(database);
    return NULL;
}

TEST_AROUND(several_writers_take_turns, make_desk, clear_desk) {
    struct database *database = open_desk();
    pthread_t threads[3];
    fine(database_run(database, &error, "INSERT INTO settings VALUES ('sum', 0)", ""));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_thousand, NULL), 0);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(number_of(database, "SELECT value FROM settings WHERE name = 'sum'"), 600);
    database_close(database);
}

/* A file that may not grow is what a full disk is. */
TEST_AROUND(a_full_disk_is_reported_and_what_was_there_stays, make_desk, clear_desk) {
    struct database *database = open_desk();
    struct rlimit before, small = {0};
    enum status status = STATUS_OK;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &small);
    int64_t written = 0;
    for (; written < 100 && !status; written += status == STATUS_OK) {
        status = database_begin(database, &error);
        if (!status)
            status =
                database_run(database, &error, "INSERT INTO settings VALUES (?, zeroblob(100000))",
                             "i", written);
        status = database_finish(database, status, &error);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    assert_true(status == STATUS_FULL || status == STATUS_IO);
    assert_in_range(written, 1, 99);
    assert_null(strchr(error.text, '\n'));
    assert_int_equal(number_of(database, "SELECT count(*) FROM settings"), written);
    fine(database_run(database, &error, "INSERT INTO settings VALUES (1000, 1)", ""));
    database_close(database);
}

static void command(const char *line) {
    assert_int_equal(setenv("P", path, 1), 0);
    assert_int_equal(setenv("F", folder, 1), 0);
    assert_int_equal(system(line), 0);
}

/* SQLite would write to the file that each name leads to, empty it, or take its pages for ours. */
TEST_AROUND(no_link_is_followed_to_what_sqlite_writes, make_desk, clear_desk) {
    static const char *const plants[] = {
        "ln -s $F/victim $P-wal", "ln -s $F/victim $P-shm",  "ln -s $F/victim $P-journal",
        "ln $F/victim $P-wal",    "ln -s $F/nothing $P-wal", "mkfifo $P-journal",
        "ln $P $F/second"};
    struct database *database = open_desk();
    fine(database_run(database, &error, "INSERT INTO settings VALUES ('a', 1)", ""));
    database_close(database);
    command("rm -f $P-wal $P-shm && cp $P $F/own && echo precious >$F/victim");
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        print_message("# %s\n", plants[i]);
        command(plants[i]);
        database = NULL;
        enum status status = database_open(path, DATABASE_MAKE, &database, &error);
        assert_true(status == STATUS_INVALID || status == STATUS_IO);
        assert_null(database);
        if (!strstr(error.text, "remove it") || !strstr(error.text, path))
            fail_msg("%s", error.text);
        command("test \"$(cat $F/victim)\" = precious && cmp $P $F/own && test ! -e $F/nothing");
        command("rm -f $P-wal $P-shm $P-journal $F/second");
    }
    database = open_desk();
    assert_int_equal(number_of(database, "SELECT value FROM settings"), 1);
    database_close(database);
    command("rm $F/own $F/victim");
}

/* The operator's own link to a database is followed, and not to a file of another user. */
TEST_AROUND(a_database_is_where_its_owner_alone_writes, make_desk, clear_desk) {
    database_close(open_desk());
    command("mkdir -m 700 $F/at && mv $P $F/at/ledger.db && ln -s $F/at/ledger.db $P");
    database_close(open_desk());
    command("chmod 777 $F/at");
    refuse(STATUS_INVALID, "chmod go-w");
    command("chmod 700 $F/at");
    if (geteuid() == 0) {
        command("chown 65534 $F/at/ledger.db");
        refuse(STATUS_IO, "expected a regular file of the user who runs this");
    }
    command("rm -r $F/at");
}
