/* SPDX-License-Identifier: Apache-2.0
 * Numbers of a tree together with their places. A figure is a number alone, or
 *
 *   {value: 3352, source: "where it is published", fitted: true}
 *
 * A table lists the keys that an object may have. Errors name the whole path of a value that is
 * missing, unknown or out of range. Any object may have `source` and `note` in addition to its
 * figures.
 */
#ifndef SIMULATE_HARDWARE_FIGURE_TREE_H
#define SIMULATE_HARDWARE_FIGURE_TREE_H

#include <stddef.h>

#include "base/status.h"
#include "base/tree.h"

struct figure_place {          /* an object to read */
    const struct tree *object; /* NULL: it is missing */
    const char *file;          /* for messages */
    char path[96];             /* "stages.decode", or empty at the root */
    struct error *error;
};

struct figure_row {
    const char *key;
    size_t offset; /* of a double in the struct */
    double minimum, maximum;
    bool optional; /* `fallback` is used if it is missing */
    double fallback;
};

/* The member with that key, which may be missing. */
struct figure_place figure_tree_place_below(const struct figure_place *place, const char *key);

/* Writes each row's number into the struct. `others`: keys that other functions read, terminated by
 * NULL; or NULL. STATUS_INVALID names the error. */
enum status figure_tree_place_read(const struct figure_place *place, const struct figure_row *rows,
                                   size_t row_count, const char *const *others, void *out) MUST_USE;

/* Reads a text of at most `room` bytes including its terminator. */
enum status figure_tree_place_text(const struct figure_place *place, const char *key, char *out,
                                   size_t room) MUST_USE;

/* Reads {columns: […], rows: [[…], …]}. `columns` must be as given, terminated by NULL, and every
 * number in 0..1e15. The numbers are stored in the arena, row by row. `others`: further keys; NULL:
 * none. */
struct figure_table {
    uint32_t row_count, column_count;
    const double *at; /* [row_count][column_count] */
};

enum status figure_tree_place_table(const struct figure_place *place, const char *const *columns,
                                    const char *const *others, struct arena *arena,
                                    struct figure_table *table_out) MUST_USE;

/* Interpolates linearly in the first column, which ascends. Outside of it the values at its ends
 * hold. */
double figure_tree_table_between(const struct figure_table *table, uint32_t column, double at);

#endif
