/* SPDX-License-Identifier: Apache-2.0
 * Numbers out of a tree, with the places that they come from: a figure is a number alone, or
 *
 *   {value: 3352, source: "where it stands", fitted: true}
 *
 * Which keys an object may have is a table; what is missing, unknown or out of range is named with
 * its whole path. Any object may have `source` and `note` beside its figures.
 */
#ifndef SIMULATE_HARDWARE_FIGURE_TREE_H
#define SIMULATE_HARDWARE_FIGURE_TREE_H

#include <stddef.h>

#include "base/status.h"
#include "base/tree.h"

struct figure_place {          /* an object that is read */
    const struct tree *object; /* NULL: there is none */
    const char *file;          /* for messages */
    char path[96];             /* "stages.decode", or empty at the root */
    struct error *error;
};

struct figure_row {
    const char *key;
    size_t offset; /* of a double in the struct */
    double minimum, maximum;
    bool optional; /* then `fallback` where it is missing */
    double fallback;
};

/* The member at `key`, which may be missing. */
struct figure_place figure_place_below(const struct figure_place *place, const char *key);

/* Writes each row's number into the struct. `others`: keys that somebody else reads, ended by NULL;
 * or NULL. STATUS_INVALID names what is wrong. */
enum status figure_place_read(const struct figure_place *place, const struct figure_row *rows,
                              size_t row_count, const char *const *others, void *out) MUST_USE;

/* Texts of at most `room` bytes with their terminator. */
enum status figure_place_text(const struct figure_place *place, const char *key, char *out,
                              size_t room) MUST_USE;

/* {columns: […], rows: [[…], …]}: `columns` as given, ended by NULL; every number in 0..1e15. The
 * numbers lie in the arena, row behind row. `others`: further keys; NULL: none. */
struct figure_table {
    uint32_t row_count, column_count;
    const double *at; /* [row_count][column_count] */
};

enum status figure_place_table(const struct figure_place *place, const char *const *columns,
                               const char *const *others, struct arena *arena,
                               struct figure_table *table_out) MUST_USE;

/* Piecewise linear in the first column, which rises; outside of it as at its ends. */
double figure_table_between(const struct figure_table *table, uint32_t column, double at);

#endif
