/* SPDX-License-Identifier: Apache-2.0
 * The harness of the benchmarks: their results as text for people or, with --json, as one JSON
 * object. A benchmark describes each kind of result as columns and gives rows of cells; the harness
 * prints a table or members of JSON.
 */
#pragma once

#include "bench/machine_limits.h"
#include "bench/stats.h"
#include "command/json_print.h"

/* A column: a member of a JSON object and a column of the table. */
struct harness_column {
    const char *member; /* "seconds", or "tcp.seconds" in an inner object. Columns of one object
                         * are adjacent. NULL: only in the table */
    const char *title;  /* NULL: only in the JSON */
    int width;          /* of the table's column; negative: left-aligned texts */
    int decimals;       /* in the table; HARNESS_FLAG: true or false in the JSON */
    double scale;       /* factor for the table; 0: 1 */
};
#define HARNESS_FLAG (-1)

struct harness_table {
    const struct harness_column *columns; /* [count] */
    size_t count;
};

/* Prints a member of an object, or an element of a list if `name` is NULL. Whole numbers are
 * printed in full. */
void harness_number(struct json_print *print, const char *name, double value);

/* Prints the columns' titles; nothing in JSON. */
void harness_titles(const struct json_print *print, const struct harness_table *table);
/* Prints a line of the table, or an object if any column is a member. `texts` and `numbers` are the
 * values of the columns of each kind, in order. A number that is not finite is null in JSON, and
 * blank in the table. */
void harness_row(struct json_print *print, const char *name, const struct harness_table *table,
                 const char *const *texts, const double *numbers);

/* Prints the machine's limits as an object or a line. `giga`: the object's unit is 1e9. */
void harness_limits(struct json_print *print, const char *name, const struct machine_limits *limits,
                    bool giga);

/* Print a series of values as an object, or as a line under these titles. `title` NULL: no line. */
void harness_stats_titles(const struct json_print *print);
void harness_stats(struct json_print *out, const char *name, const char *title, double scale,
                   const struct stats *stats);
