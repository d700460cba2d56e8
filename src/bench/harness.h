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
    const char *member; /* "seconds", or "tcp.seconds": of an object in the row's; columns of one
                         * object follow each other. NULL: in the table alone */
    const char *title;  /* NULL: in the JSON alone */
    int width;          /* of the table's column; negative: it has texts, on the left */
    int decimals;       /* in the table; HARNESS_FLAG: it is true or false in the JSON */
    double scale;       /* the table has this times the number; 0: 1 */
};
#define HARNESS_FLAG (-1)

struct harness_table {
    const struct harness_column *columns; /* [count] */
    size_t count;
};

/* A member; `name` NULL: an element. Whole numbers are printed in full. */
void harness_number(struct json_print *print, const char *name, double value);

/* Text alone: the columns' titles. */
void harness_titles(const struct json_print *print, const struct harness_table *table);
/* A line of the table, or an object, if any column is a member. `texts` and `numbers` are the values of the columns of either
 * kind, in order. A number that is not finite is null, and blank in the table. */
void harness_row(struct json_print *print, const char *name, const struct harness_table *table,
                 const char *const *texts, const double *numbers);

/* The machine's limit, as an object or a line. `giga`: the object's unit is 1e9. */
void harness_limits(struct json_print *print, const char *name, const struct machine_limits *limits,
                    bool giga);

/* A series of values: an object, or a line under these titles; `title` NULL: no line. */
void harness_stats_titles(const struct json_print *print);
void harness_stats(struct json_print *out, const char *name, const char *title, double scale,
                   const struct stats *stats);
