/* SPDX-License-Identifier: Apache-2.0
 * The database of accounts, keys and the ledger: one SQLite file in WAL mode, created with mode
 * 0600 if missing. A commit is durable when it returns (synchronous=FULL). A file of an older
 * schema is upgraded when it is opened; a newer schema is rejected.
 *
 * A connection belongs to one thread at a time. Several connections, also of several processes on
 * one host, may write: each waits for its turn (at most 10 s).
 *
 * Sums are integers that saturate at +-DATABASE_SUM_END: DATABASE_ADD and exact_sum() prevent
 * SQLite from failing or from converting them to floating point.
 *
 * Statements are identified by the address of their text, a literal, and prepared once. database.c
 * has the schema. Errors are one line with the cure: STATUS_CORRUPT for a damaged file,
 * STATUS_UNSUPPORTED for a newer one, STATUS_FULL for a full disk, STATUS_IO for the rest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define DATABASE_SCHEMA 2 /* schema version of this build */

#define DATABASE_SUM_END INT64_MAX

/* Adds to, or subtracts from, a column or another expression. */
#define DATABASE_ADD(column, more) "min(" column " + " more ", 9223372036854775807)"
#define DATABASE_TAKE(column, less) "max(" column " - " less ", -9223372036854775807)"
/* Updates a row of an hour's sums on conflict. */
/* clang-format off */
#define DATABASE_ADD_USAGE                                           \
    "requests = " DATABASE_ADD("requests", "excluded.requests")      \
    ", hit = " DATABASE_ADD("hit", "excluded.hit")                   \
    ", miss = " DATABASE_ADD("miss", "excluded.miss")                \
    ", output = " DATABASE_ADD("output", "excluded.output")          \
    ", amount = " DATABASE_ADD("amount", "excluded.amount")          \
    ", list_amount = " DATABASE_ADD("list_amount", "excluded.list_amount")
/* clang-format on */

struct database;
struct sqlite3_stmt;

enum database_missing { DATABASE_MAKE, DATABASE_REFUSE };

/* Opens a database; `missing` selects what happens without a file. `path` NULL: a private database
 * in memory. */
enum status database_open(const char *path, enum database_missing missing,
                          struct database **database_out, struct error *error) MUST_USE;

/* Opens a database in memory without tables. */
enum status database_open_memory(struct database **database_out, struct error *error) MUST_USE;
void database_close(struct database *database); /* NULL is allowed */
const char *database_path(const struct database *database);

/* Returns STATUS_GONE if the path no longer refers to the open file, because it was removed,
 * replaced or moved: later writes would be lost with the process. */
enum status database_check_place(const struct database *database, struct error *error) MUST_USE;

/* A transaction for writing. Without database_finish it has no effect. */
enum status database_begin(struct database *database, struct error *error) MUST_USE;
/* Commits a transaction if `status` is STATUS_OK, and rolls it back if it is not, or the commit
 * fails. Returns the first failure. */
enum status database_finish(struct database *database, enum status status,
                            struct error *error) MUST_USE;
void database_roll_back(struct database *database);

/* Runs several statements without values, such as CREATE TABLE. */
enum status database_make(struct database *database, const char *sql, struct error *error) MUST_USE;

/* Prepares a statement and binds its values, one for each letter of `types`:
 *   i  int64_t    t  const char * (NULL: null)    b  const void *, size_t (a BLOB)
 *   s  const char *, size_t (a text)    n  null, without a value
 * The values are borrowed until the query ends. Returns NULL with an error on failure;
 * database_next then returns the status. The query is valid until the next query of the same
 * text. */
struct sqlite3_stmt *database_query(struct database *database, struct error *error, const char *sql,
                                    const char *types, ...);

/* Steps to the next row of a query. Returns false after the last row (*status_out is STATUS_OK) or
 * on failure. If there is a row, *status_out is unchanged. A caller that stops before the last row
 * must call database_end. */
bool database_next(struct database *database, struct sqlite3_stmt *query, enum status *status_out,
                   struct error *error);

void database_end(struct sqlite3_stmt *query);

/* Runs a query that returns no rows, or discards its rows. */
enum status database_run(struct database *database, struct error *error, const char *sql,
                         const char *types, ...) MUST_USE;

/* The number of rows changed by the last INSERT, UPDATE or DELETE; the id of the last inserted
 * row. */
int64_t database_changes(const struct database *database);
int64_t database_last_id(const struct database *database);

/* Columns of a row, from 0. Texts and BLOBs are valid until the next row. A null is 0, or "". */
int64_t database_integer(struct sqlite3_stmt *row, int column);
const char *database_text(struct sqlite3_stmt *row, int column);
struct bytes database_blob(struct sqlite3_stmt *row, int column);
bool database_is_null(struct sqlite3_stmt *row, int column);

/* Stores the number in the first row of a query. Without a row, *number_out is unchanged. */
enum status database_number(struct database *database, int64_t *number_out, struct error *error,
                            const char *sql, const char *types, ...) MUST_USE;

/* A number that changes when another connection has committed. */
enum status database_version(struct database *database, int64_t *version_out,
                             struct error *error) MUST_USE;

/* Checkpoints the WAL into the file if it has become long. This connection never does that during a
 * commit. */
void database_tidy(struct database *database);
