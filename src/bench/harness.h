/* SPDX-License-Identifier: Apache-2.0
 * The harness of the benchmarks: their results as text for people or, with --json, as one JSON
 * object. A benchmark describes each kind of result as
 * columns and gives rows of cells; the harness prints a table or members of JSON.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "bench/machine_limits.h"
#include "bench/stats.h"
#include "command/json_print.h"

struct harness {
    bool json;
    struct json_print print;
};

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

void harness_begin(struct harness *harness, bool json);
/* Prints the end of the object. */
void harness_end(struct harness *harness);

/* JSON alone: objects and arrays, and single members; `name` NULL: an element. */
void harness_open(struct harness *harness, const char *name, char bracket);
void harness_close(struct harness *harness);
void harness_text(struct harness *harness, const char *name, const char *text);
void harness_number(struct harness *harness, const char *name, double value);

/* Text alone. */
void harness_say(const struct harness *harness, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Text alone: the columns' titles. */
void harness_titles(const struct harness *harness, const struct harness_table *table);
/* A line of the table, or an object. `texts` and `numbers` are the values of the columns of either
 * kind, in order. A number that is not finite is null, and blank in the table. */
void harness_row(struct harness *harness, const char *name, const struct harness_table *table,
                 const char *const *texts, const double *numbers);

/* The machine's limit, as an object or a line. `giga`: the object's unit is 1e9. */
void harness_limits(struct harness *harness, const char *name, const struct machine_limits *limits,
                    bool giga);

/* A series of values: an object, or a line under these titles; `title` NULL: no line. */
void harness_stats_titles(const struct harness *harness);
void harness_stats(struct harness *out, const char *name, const char *title, double scale,
                   const struct stats *stats);

#endif
