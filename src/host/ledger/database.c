/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "host/process/own_file.h"

#define APPLICATION_ID 0x4674684c /* "FthL" */
#define TURN_US 200               /* interval in us between attempts to lock */
#define TURNS_MAX 50000           /* 10 s */
#define STATEMENTS_MAX 96
#define LOG_PAGES 1000 /* pages of 4 KiB after which the WAL is checkpointed */

struct database {
    sqlite3 *connection;
    char *path;
    enum status last; /* status of the last failure */
    int log_pages;    /* pages after the last commit */
    uint32_t statement_count;
    struct {
        const char *sql;
        sqlite3_stmt *prepared;
    } statements[STATEMENTS_MAX];
};

/* Columns of a usage record in all schemas. */
/* clang-format off */
#define ENTRY_COLUMNS                                                                              \
    "id INTEGER PRIMARY KEY, high INTEGER NOT NULL, low INTEGER NOT NULL,"                         \
    " gateway INTEGER NOT NULL, sequence INTEGER NOT NULL, ended INTEGER NOT NULL,"                \
    " account INTEGER NOT NULL, key INTEGER NOT NULL, is_charged INTEGER NOT NULL,"                \
    " http_status INTEGER NOT NULL, choices INTEGER NOT NULL, hit INTEGER NOT NULL,"               \
    " miss INTEGER NOT NULL, output INTEGER NOT NULL, device INTEGER NOT NULL,"                    \
    " host INTEGER NOT NULL, disk INTEGER NOT NULL, computed INTEGER NOT NULL,"                    \
    " made INTEGER NOT NULL, recomputed INTEGER NOT NULL, units INTEGER NOT NULL,"                 \
    " price INTEGER NOT NULL REFERENCES prices, amount INTEGER NOT NULL,"                          \
    " list_amount INTEGER NOT NULL, ttft_ns INTEGER, total_ns INTEGER NOT NULL, model TEXT,"       \
    " name TEXT, cause TEXT"
/* clang-format on */

/* The schema, with one text per version. A file of version n is upgraded by the texts from n on.
 * Money is in nanos, prices in picos per token, times in seconds since 1970. A limit of 0 is none.
 * Ids of units and requests are signed 64-bit integers. */
static const char *const schemas[DATABASE_SCHEMA] = {
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    /* name: "account NAME" or "group NAME"; an absent tenant has generation 0 */
    "CREATE TABLE tenants (name TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " tenant TEXT NOT NULL DEFAULT '', created INTEGER NOT NULL, revoked INTEGER,"
    " is_operator INTEGER NOT NULL DEFAULT 0, is_prepaid INTEGER NOT NULL DEFAULT 0,"
    " priority INTEGER NOT NULL DEFAULT 0, weight INTEGER NOT NULL DEFAULT 100,"
    " requests_max INTEGER NOT NULL DEFAULT 0, requests_per_minute INTEGER NOT NULL DEFAULT 0,"
    " tokens_per_minute INTEGER NOT NULL DEFAULT 0, models TEXT NOT NULL DEFAULT '',"
    " balance INTEGER NOT NULL DEFAULT 0, requests INTEGER NOT NULL DEFAULT 0,"
    " tokens INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE keys (id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts,"
    " sha256 BLOB NOT NULL UNIQUE, created INTEGER NOT NULL, revoked INTEGER,"
    " requests_max INTEGER NOT NULL DEFAULT 0, requests_per_minute INTEGER NOT NULL DEFAULT 0,"
    " tokens_per_minute INTEGER NOT NULL DEFAULT 0, models TEXT NOT NULL DEFAULT '',"
    " budget INTEGER, spent INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE top_ups (id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts,"
    " amount INTEGER NOT NULL, time INTEGER NOT NULL);"
    "CREATE TABLE prices (id INTEGER PRIMARY KEY, hit INTEGER NOT NULL, miss INTEGER NOT NULL,"
    " output INTEGER NOT NULL, list_hit INTEGER NOT NULL, list_miss INTEGER NOT NULL,"
    " list_output INTEGER NOT NULL,"
    " UNIQUE (hit, miss, output, list_hit, list_miss, list_output));"
    "CREATE TABLE gateways (id INTEGER PRIMARY KEY, started INTEGER NOT NULL,"
    " seen INTEGER NOT NULL, ended INTEGER);"
    "CREATE TABLE entries (" ENTRY_COLUMNS ", UNIQUE (high, low));"
    "CREATE TABLE hours (hour INTEGER NOT NULL, account INTEGER NOT NULL,"
    " requests INTEGER NOT NULL, hit INTEGER NOT NULL, miss INTEGER NOT NULL,"
    " output INTEGER NOT NULL, amount INTEGER NOT NULL, list_amount INTEGER NOT NULL,"
    " PRIMARY KEY (hour, account)) WITHOUT ROWID;"
    "CREATE TABLE tallies (instance INTEGER NOT NULL, gateway INTEGER NOT NULL,"
    " time INTEGER NOT NULL, role INTEGER NOT NULL, ranks INTEGER NOT NULL,"
    " is_lost INTEGER NOT NULL, counted_made INTEGER NOT NULL, counted_computed INTEGER NOT NULL,"
    " entered_made INTEGER NOT NULL, entered_computed INTEGER NOT NULL,"
    " open_made INTEGER NOT NULL, open_computed INTEGER NOT NULL,"
    " PRIMARY KEY (instance, gateway)) WITHOUT ROWID;"
    "CREATE TABLE units (instance INTEGER PRIMARY KEY, began INTEGER NOT NULL,"
    " seen INTEGER NOT NULL);"
    "CREATE TABLE node_hours (hour INTEGER NOT NULL, instance INTEGER NOT NULL,"
    " role INTEGER NOT NULL, node_seconds INTEGER NOT NULL, cost INTEGER NOT NULL,"
    " PRIMARY KEY (hour, instance, role)) WITHOUT ROWID;",
    /* An entry is known by its end and its request, in this order: ids of requests are random, and
     * an index by them alone costs a page of its own with nearly every entry. */
    "ALTER TABLE entries RENAME TO entries_of_schema_1;"
    "CREATE TABLE entries (" ENTRY_COLUMNS ", UNIQUE (ended, high, low));"
    "INSERT INTO entries SELECT * FROM entries_of_schema_1 ORDER BY id;"
    "DROP TABLE entries_of_schema_1;",
};

/* ---- sums ---- */

/* SQLite's sum() fails if an interim sum exceeds 64 bits, and `+` then continues in floating point.
 * exact_sum() adds in 128 bits and saturates to 64 bits. Its memory is
 * aligned to 8 bytes only, so the sum is copied. */
__extension__ typedef __int128 wide;

static void database_add_exactly(sqlite3_context *context, int count, sqlite3_value **values) {
    wide sum;
    void *kept = sqlite3_aggregate_context(context, sizeof sum);
    (void)count;
    if (!kept) return;
    memcpy(&sum, kept, sizeof sum);
    sum += sqlite3_value_int64(values[0]);
    memcpy(kept, &sum, sizeof sum);
}

static void report_exactly(sqlite3_context *context) {
    const void *kept = sqlite3_aggregate_context(context, 0);
    wide reported = 0;
    if (kept) memcpy(&reported, kept, sizeof reported);
    if (reported > DATABASE_SUM_END) reported = DATABASE_SUM_END;
    if (reported < -(wide)DATABASE_SUM_END) reported = -(wide)DATABASE_SUM_END;
    sqlite3_result_int64(context, (int64_t)reported);
}

static int add_functions(sqlite3 *connection) {
    return sqlite3_create_function_v2(connection, "exact_sum", 1,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, NULL,
                                      database_add_exactly, report_exactly, NULL);
}

/* ---- errors ---- */

static enum status database_explain(const struct database *database, int code,
                                    struct error *error) {
    const char *path = database->path;
    switch (code & 0xff) {
    case SQLITE_FULL:
        return error_set(error, STATUS_FULL, "%.300s: its disk is full; free some space", path);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN: /* the files of the WAL */
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return error_set(error, STATUS_IO,
                         "%.300s: cannot be written; the user who runs this must own the file and "
                         "its directory, on a writable disk",
                         path);
    case SQLITE_NOTADB:
        return error_set(error, STATUS_CORRUPT,
                         "%.300s: is not a database; name one that Fathom has made, or a file that "
                         "does not exist yet",
                         path);
    case SQLITE_CORRUPT:
        return error_set(error, STATUS_CORRUPT,
                         "%.300s: is damaged (%s); restore a copy of it (docs/accounts.md)", path,
                         sqlite3_errmsg(database->connection));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(
            error, STATUS_IO,
            "%.300s: another process has locked it for 10 s; find that process (fuser)", path);
    case SQLITE_NOMEM:
        return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory", path);
    case SQLITE_ERROR:
        if (!strcmp(sqlite3_errmsg(database->connection), "integer overflow"))
            return error_set(error, STATUS_TOO_LARGE,
                             "%.300s: a sum exceeds 64 bits; report fewer hours (--day, "
                             "--hour), and see what `fathom ledger verify` finds",
                             path);
        /* fall through */
    default:
        return error_set(
            error, STATUS_IO, "%.300s: %s (%d); check that its disk has space and no errors", path,
            sqlite3_errmsg(database->connection), sqlite3_extended_errcode(database->connection));
    }
}

static enum status database_failed(struct database *database, int code, struct error *error) {
    database->last = database_explain(database, code, error);
    return database->last;
}

/* SQLite's own waits grow to 100 ms, longer than any transaction here. */
static int wait_for_turn(void *context, int turns) {
    (void)context;
    if (turns >= TURNS_MAX) return 0;
    usleep(TURN_US);
    return 1;
}

static int note_log(void *context, sqlite3 *connection, const char *name, int pages) {
    (void)connection;
    (void)name;
    ((struct database *)context)->log_pages = pages;
    return SQLITE_OK;
}

/* ---- statements ---- */

static sqlite3_stmt *database_prepare(struct database *database, const char *sql,
                                      struct error *error) {
    for (uint32_t i = 0; i < database->statement_count; i++)
        if (database->statements[i].sql == sql) return database->statements[i].prepared;
    sqlite3_stmt *prepared = NULL;
    int code = sqlite3_prepare_v3(database->connection, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                  &prepared, NULL);
    if (code != SQLITE_OK) {
        database_failed(database, code, error);
        return NULL;
    }
    check(database->statement_count < STATEMENTS_MAX);
    database->statements[database->statement_count].sql = sql;
    database->statements[database->statement_count++].prepared = prepared;
    return prepared;
}

static int bind_one(sqlite3_stmt *query, int place, char type, va_list *values) {
    if (type == 'i') return sqlite3_bind_int64(query, place, va_arg(*values, int64_t));
    if (type == 't')
        return sqlite3_bind_text(query, place, va_arg(*values, const char *), -1, SQLITE_STATIC);
    if (type == 'n') return sqlite3_bind_null(query, place);
    check(type == 'b' || type == 's');
    const void *data = va_arg(*values, const void *);
    size_t count = va_arg(*values, size_t);
    if (type == 'b') return sqlite3_bind_blob64(query, place, data, count, SQLITE_STATIC);
    return sqlite3_bind_text64(query, place, data, count, SQLITE_STATIC, SQLITE_UTF8);
}

/* A bound text or BLOB must live until the query has run. */
static sqlite3_stmt *database_bind(struct database *database, struct error *error, const char *sql,
                                   const char *types, va_list *values) {
    sqlite3_stmt *query = database_prepare(database, sql, error);
    if (!query) return NULL;
    sqlite3_reset(query);
    check(sqlite3_bind_parameter_count(query) == (int)strlen(types));
    for (int i = 0; types[i]; i++) {
        int code = bind_one(query, i + 1, types[i], values);
        if (code != SQLITE_OK) {
            database_failed(database, code, error);
            return NULL;
        }
    }
    return query;
}

struct sqlite3_stmt *database_query(struct database *database, struct error *error, const char *sql,
                                    const char *types, ...) {
    va_list values;
    va_start(values, types);
    sqlite3_stmt *query = database_bind(database, error, sql, types, &values);
    va_end(values);
    return query;
}

bool database_next(struct database *database, struct sqlite3_stmt *query, enum status *status_out,
                   struct error *error) {
    if (!query) *status_out = database->last;
    if (!query) return false;
    int code = sqlite3_step(query);
    if (code == SQLITE_ROW) return true;
    sqlite3_reset(query);
    *status_out = code == SQLITE_DONE ? STATUS_OK : database_failed(database, code, error);
    return false;
}

void database_end(struct sqlite3_stmt *query) {
    sqlite3_reset(query);
}

enum status database_run(struct database *database, struct error *error, const char *sql,
                         const char *types, ...) {
    va_list values;
    va_start(values, types);
    sqlite3_stmt *query = database_bind(database, error, sql, types, &values);
    va_end(values);
    if (!query) return database->last;
    int code = sqlite3_step(query);
    enum status status = code == SQLITE_ROW || code == SQLITE_DONE
                             ? STATUS_OK
                             : database_failed(database, code, error);
    sqlite3_reset(query);
    return status;
}

int64_t database_changes(const struct database *database) {
    return sqlite3_changes64(database->connection);
}

int64_t database_last_id(const struct database *database) {
    return sqlite3_last_insert_rowid(database->connection);
}

int64_t database_integer(struct sqlite3_stmt *row, int column) {
    return sqlite3_column_int64(row, column);
}

const char *database_text(struct sqlite3_stmt *row, int column) {
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? text : "";
}

struct bytes database_blob(struct sqlite3_stmt *row, int column) {
    const void *data = sqlite3_column_blob(row, column);
    return (struct bytes){data, (size_t)sqlite3_column_bytes(row, column)};
}

bool database_is_null(struct sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL;
}

enum status database_number(struct database *database, int64_t *number_out, struct error *error,
                            const char *sql, const char *types, ...) {
    enum status status = STATUS_OK;
    va_list values;
    va_start(values, types);
    sqlite3_stmt *query = database_bind(database, error, sql, types, &values);
    va_end(values);
    if (!database_next(database, query, &status, error)) return status;
    *number_out = database_integer(query, 0);
    database_end(query);
    return STATUS_OK;
}

/* ---- transactions ---- */

enum status database_make(struct database *database, const char *sql, struct error *error) {
    int code = sqlite3_exec(database->connection, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? STATUS_OK : database_failed(database, code, error);
}

enum status database_check_place(const struct database *database, struct error *error) {
    int moved = 0;
    int code = sqlite3_file_control(database->connection, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (code != SQLITE_OK || !moved) return STATUS_OK; /* a database in memory has no path */
    return error_set(error, STATUS_GONE,
                     "%.300s: was removed, replaced or moved, and writes would be lost; restore "
                     "that file, or restart this process",
                     database->path);
}

enum status database_begin(struct database *database, struct error *error) {
    return database_run(database, error, "BEGIN IMMEDIATE", "");
}

enum status database_finish(struct database *database, enum status status, struct error *error) {
    if (!status) status = database_run(database, error, "COMMIT", "");
    if (status) database_roll_back(database);
    return status;
}

void database_roll_back(struct database *database) {
    if (!sqlite3_get_autocommit(database->connection))
        sqlite3_exec(database->connection, "ROLLBACK", NULL, NULL, NULL);
}

enum status database_version(struct database *database, int64_t *version_out, struct error *error) {
    return database_number(database, version_out, error, "PRAGMA data_version", "");
}

void database_tidy(struct database *database) {
    if (database->log_pages < LOG_PAGES) return;
    database->log_pages = 0;
    sqlite3_wal_checkpoint_v2(database->connection, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* ---- opening ---- */

static enum status check_schema(struct database *database, int64_t *version_out,
                                struct error *error) {
    int64_t application = 0, tables = 0;
    enum status status =
        database_number(database, &application, error, "PRAGMA application_id", "");
    if (!status) status = database_number(database, version_out, error, "PRAGMA user_version", "");
    if (!status)
        status =
            database_number(database, &tables, error, "SELECT count(*) FROM sqlite_schema", "");
    if (status) return status;
    if (tables == 0 && application == 0 && *version_out == 0) return STATUS_OK; /* a new database */
    if (application != APPLICATION_ID)
        return error_set(error, STATUS_INVALID,
                         "%.300s: is the database of another program; name one that Fathom has "
                         "made, or a file that does not exist yet",
                         database->path);
    if (*version_out > DATABASE_SCHEMA)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.300s: was written by a newer Fathom (schema %lld; this one supports at "
                         "most %d); use the newer one, or the copy made before the upgrade",
                         database->path, (long long)*version_out, DATABASE_SCHEMA);
    return STATUS_OK;
}

/* Upgrades the schema in one transaction. A second process finds it done. */
static enum status bring_up(struct database *database, struct error *error) {
    int64_t version = 0;
    char words[96];
    enum status status = check_schema(database, &version, error);
    if (status || version == DATABASE_SCHEMA) return status;
    status = database_begin(database, error);
    if (!status) status = check_schema(database, &version, error);
    for (; !status && version < DATABASE_SCHEMA; version++)
        status = database_make(database, schemas[version], error);
    snprintf(words, sizeof words, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             APPLICATION_ID, DATABASE_SCHEMA);
    if (!status) status = database_make(database, words, error);
    return database_finish(database, status, error);
}

/* Checks the files that SQLite keeps next to a database, which are part of it. */
static enum status check_companions(int folder, const char *name, const char *path,
                                    struct error *error) {
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        char whole[NAME_MAX + 1];
        if (snprintf(whole, sizeof whole, "%s%s", name, suffixes[i]) >= (int)sizeof whole) continue;
        int file = own_file_openat(folder, whole, O_RDONLY, 0);
        if (file < 0 && (errno == ELOOP || errno == EPERM))
            return error_set(error, STATUS_INVALID, "%.300s%s: %s", path, suffixes[i],
                             own_file_why(errno));
        if (file >= 0) close(file);
    }
    return STATUS_OK;
}

/* Opens the file with mode 0600, which SQLite uses for its other files, too. */
static enum status database_open_file(int folder, const char *name, const char *path,
                                      enum database_missing missing, struct error *error) {
    int flags = O_RDWR | (missing == DATABASE_MAKE ? O_CREAT : 0);
    int file = own_file_openat(folder, name, flags, 0600);
    if (file < 0 && (errno == EACCES || errno == EROFS))
        file = own_file_openat(folder, name, O_RDONLY, 0);
    if (file < 0)
        return error_set(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                         "%.300s: cannot open this database: %s%s", path, own_file_why(errno),
                         errno == ENOENT && missing == DATABASE_REFUSE
                             ? "; `fathom account create` makes one"
                             : "");
    close(file);
    return check_companions(folder, name, path, error);
}

/* Resolves a link in the operator's path. Others must not be able to write to the target. */
static enum status find_file(const char *path, enum database_missing missing, struct error *error) {
    char whole[PATH_MAX];
    if (!realpath(path, whole) && snprintf(whole, sizeof whole, "%s", path) >= PATH_MAX)
        return error_set(error, STATUS_INVALID, "%.300s: this name is too long", path);
    char *end = strrchr(whole, '/');
    const char *name = end ? end + 1 : whole, *above = !end ? "." : end == whole ? "/" : whole;
    if (end) *end = 0;
    int folder = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_set(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                         "%.300s: cannot open this database's folder: %s", path, strerror(errno));
    enum status status = own_file_check_mode(folder, above, error);
    if (!status) status = database_open_file(folder, name, path, missing, error);
    close(folder);
    return status;
}

static enum status database_connect(struct database *database, struct error *error) {
    int code = sqlite3_open_v2(database->path, &database->connection,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK && !database->connection)
        return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory", database->path);
    if (code != SQLITE_OK) return database_failed(database, code, error);
    sqlite3_extended_result_codes(database->connection, 1);
    sqlite3_busy_handler(database->connection, wait_for_turn, NULL);
    code = add_functions(database->connection);
    return code == SQLITE_OK ? STATUS_OK : database_failed(database, code, error);
}

static enum status set_up(struct database *database, struct error *error) {
    enum status status = STATUS_OK;
    struct sqlite3_stmt *query = database_query(database, error, "PRAGMA journal_mode=WAL", "");
    if (!database_next(database, query, &status, error)) return status;
    bool is_log = !strcmp(database_text(query, 0), "wal");
    sqlite3_reset(query);
    if (!is_log)
        return error_set(error, STATUS_IO,
                         "%.300s: its directory cannot hold its log (WAL); put it on a "
                         "local disk",
                         database->path);
    sqlite3_wal_hook(database->connection, note_log, database); /* no checkpoint in a commit */
    return database_make(database, "PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF", error);
}

static enum status start(const char *path, struct database **database_out, struct error *error) {
    struct database *database = calloc(1, sizeof *database);
    if (database) database->path = strdup(path);
    if (!database || !database->path) {
        free(database);
        return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory", path);
    }
    enum status status = database_connect(database, error);
    if (status)
        database_close(database);
    else
        *database_out = database;
    return status;
}

enum status database_open(const char *path, enum database_missing missing,
                          struct database **database_out, struct error *error) {
    struct database *database = NULL;
    enum status status = path ? find_file(path, missing, error) : STATUS_OK;
    if (!status) status = start(path ? path : ":memory:", &database, error);
    if (status) return status;
    if (path) status = set_up(database, error);
    if (!status) status = bring_up(database, error);
    if (status)
        database_close(database);
    else
        *database_out = database;
    return status;
}

enum status database_open_memory(struct database **database_out, struct error *error) {
    return start(":memory:", database_out, error);
}

void database_close(struct database *database) {
    if (!database) return;
    for (uint32_t i = 0; i < database->statement_count; i++)
        sqlite3_finalize(database->statements[i].prepared);
    sqlite3_close(database->connection);
    free(database->path);
    free(database);
}

const char *database_path(const struct database *database) {
    return database->path;
}
