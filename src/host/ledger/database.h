/* SPDX-License-Identifier: Apache-2.0
 * The file in which accounts, keys and the ledger lie: one SQLite database in WAL mode, made with
 * mode 0600 where there is none. A commit is durable when it returns (synchronous=FULL). A file of
 * an older schema is brought up to this one when it is opened; one of a newer schema is refused.
 *
 * A connection belongs to one thread at a time. Several connections, also of several processes on
 * one host, may write: each waits for its turn (at most 10 s).
 *
 * Sums are whole numbers up to DATABASE_SUM_END of either sign, and stay there: DATABASE_ADD and
 * exact_sum() keep what SQLite would turn into a floating-point number, or fail at.
 *
 * Statements are found by the address of their text, which is a literal, and prepared once.
 * database.c has the schema. What fails says so in one line with the cure, and is STATUS_CORRUPT
 * for a damaged file, STATUS_UNSUPPORTED for a newer one, STATUS_FULL for a full disk, STATUS_IO
 * for the rest.
 */
#ifndef HOST_LEDGER_DATABASE_H
#define HOST_LEDGER_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define DATABASE_SCHEMA 2 /* that this build writes */

#define DATABASE_SUM_END INT64_MAX

/* A column, or another expression, and what is added to it or taken off. */
#define DATABASE_ADD(column, more) "min(" column " + " more ", 9223372036854775807)"
#define DATABASE_TAKE(column, less) "max(" column " - " less ", -9223372036854775807)"
/* An hour's sums, of a row that comes again. */
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

/* `missing`: what to do where there is no file. `path` NULL: a private database in memory. */
enum status database_open(const char *path, enum database_missing missing,
                          struct database **database_out, struct error *error) MUST_USE;

/* A database in memory, without tables. */
enum status database_open_memory(struct database **database_out, struct error *error) MUST_USE;
void database_close(struct database *database); /* NULL: nothing */
const char *database_path(const struct database *database);

/* STATUS_GONE, with words: the file that is open is not the one of its name any more, because somebody
 * removed, replaced or moved it; what is written into it then is lost with the process. */
enum status database_check_place(const struct database *database, struct error *error) MUST_USE;

/* A transaction that writes. What is not committed never was. */
enum status database_begin(struct database *database, struct error *error) MUST_USE;
enum status database_commit(struct database *database, struct error *error) MUST_USE;
void database_roll_back(struct database *database);

/* Runs several statements without values, as tables are made. */
enum status database_make(struct database *database, const char *sql, struct error *error) MUST_USE;

/* A statement with its values bound, one for each letter of `types`:
 *   i  int64_t    t  const char * (NULL: null)    b  const void *, size_t (a BLOB)
 *   s  const char *, size_t (a text)    n  null, without a value
 * What is bound is looked at until the query ends. NULL: it failed, and `error` says how;
 * database_next and what follows from it give the status. It is good until the next query of the
 * same text. */
struct sqlite3_stmt *database_query(struct database *database, struct error *error, const char *sql,
                                    const char *types, ...);

/* The next row of a query; false: there is none (*status_out is STATUS_OK), or it failed. While there
 * is a row *status_out stays as it is. Who leaves before the last row ends the query himself. */
bool database_next(struct database *database, struct sqlite3_stmt *query, enum status *status_out,
                   struct error *error);

void database_end(struct sqlite3_stmt *query);

/* Runs a query that returns no rows, or discards its rows. */
enum status database_run(struct database *database, struct error *error, const char *sql,
                         const char *types, ...) MUST_USE;

/* Rows that the last INSERT, UPDATE or DELETE changed; and the id of the last row put in. */
int64_t database_changes(const struct database *database);
int64_t database_last_id(const struct database *database);

/* A row's columns, from 0. Texts and BLOBs are valid until the next row. A null is 0, or "". */
int64_t database_integer(struct sqlite3_stmt *row, int column);
const char *database_text(struct sqlite3_stmt *row, int column);
struct bytes database_blob(struct sqlite3_stmt *row, int column);
bool database_is_null(struct sqlite3_stmt *row, int column);

/* A number of a query with one row; 0 where it has none. */
enum status database_number(struct database *database, const char *sql, int64_t *number_out,
                            struct error *error) MUST_USE;

/* Changes when another connection has committed something. */
enum status database_version(struct database *database, int64_t *version_out,
                             struct error *error) MUST_USE;

/* Brings what is committed from the log into the file, when the log has become long. Without it the
 * file's own connection never does so in the middle of a commit. */
void database_tidy(struct database *database);

#endif
