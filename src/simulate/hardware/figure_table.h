/* SPDX-License-Identifier: Apache-2.0
 * A table of numbers in a tree: {columns: [names], rows: [[numbers], …]}.
 */
#pragma once

#include "simulate/hardware/tree_keys.h"

struct figure_table {
    uint32_t row_count, column_count;
    const double *at; /* [row_count][column_count] */
};

/* Reads the table. `columns` must be as given, terminated by NULL, and every number in 0..1e15. The
 * numbers are stored in the arena, row by row. */
enum status figure_table_read(const struct tree_place *place, const struct tree *tree,
                              const char *const *columns, struct arena *arena,
                              struct figure_table *table_out) MUST_USE;

/* Interpolates linearly in the first column, which ascends. Outside of it the values at its ends
 * hold. */
double figure_table_between(const struct figure_table *table, uint32_t column, double at);
