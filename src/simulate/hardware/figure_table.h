/* SPDX-License-Identifier: Apache-2.0
 * A table of numbers in a tree: {columns: [names], rows: [[numbers], …]}.
 */
#pragma once

#include "simulate/hardware/tree_keys.h"

struct figure_table {
    uint32_t row_count, column_count;
    const double *at; /* [row_count][column_count] */
};

/* Reads a table. Its columns must be `columns` (terminated by NULL), and every number must be in
 * 0..1e15. The numbers are stored in the arena, row by row. */
enum status figure_table_read(const struct tree_place *place, const struct tree *tree,
                              const char *const *columns, struct arena *arena,
                              struct figure_table *table_out) MUST_USE;

/* Interpolates a column linearly over the first column, which is ascending. Outside of its range,
 * the value at the nearer end is used. */
double figure_table_between(const struct figure_table *table, uint32_t column, double at);
