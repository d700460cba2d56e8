/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/figure_table.h"

#include "base/check.h"

#define FIGURE_MAX 1e15
#define TABLE_ROWS_MAX 65536

static enum status check_columns(const struct tree_place *place, const struct tree *found,
                                 const char *const *columns, uint32_t *count_out) {
    struct tree_place below = tree_keys_below(place, "columns");
    uint32_t count = 0;
    struct bytes text;
    for (; columns[count]; count++)
        if (!tree_get_string(tree_at(found, count), &text) ||
            !bytes_equal(text, bytes_of(columns[count])))
            return tree_keys_refuse(&below, "expected %s as number %u", columns[count], count + 1);
    if (tree_count(found) != count) return tree_keys_refuse(&below, "there are too many");
    *count_out = count;
    return STATUS_OK;
}

static bool read_row(const struct tree *row, uint32_t count, double *out) {
    if (tree_count(row) != count) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!tree_get_number(tree_at(row, i), &out[i]) || !(out[i] >= 0 && out[i] <= FIGURE_MAX))
            return false;
    return true;
}

enum status figure_table_read(const struct tree_place *place, const struct tree *tree,
                              const char *const *columns, struct arena *arena,
                              struct figure_table *table_out) {
    const struct tree *rows = tree_member(tree, "rows");
    struct tree_place below = tree_keys_below(place, "rows");
    struct figure_table table = {.row_count = (uint32_t)tree_count(rows)};
    enum status status =
        check_columns(place, tree_member(tree, "columns"), columns, &table.column_count);
    if (status) return status;
    if (table.row_count == 0 || table.row_count > TABLE_ROWS_MAX)
        return tree_keys_refuse(&below, "expected one row or more");
    double *at = arena_take(arena, (size_t)table.row_count * table.column_count * sizeof *at);
    if (!at)
        return error_set(place->error, STATUS_NO_MEMORY, "%.200s: no memory for %s", place->file,
                         place->path);
    for (uint32_t i = 0; i < table.row_count; i++)
        if (!read_row(tree_at(rows, i), table.column_count, at + (size_t)i * table.column_count))
            return tree_keys_refuse(&below, "number %u: expected %u numbers of 0 or more", i + 1,
                                    table.column_count);
    table.at = at;
    *table_out = table;
    return STATUS_OK;
}

double figure_table_between(const struct figure_table *table, uint32_t column, double at) {
    const uint32_t width = table->column_count, last = table->row_count - 1;
    uint32_t row = 0;
    check(column < width);
    while (row < last && table->at[(row + 1) * width] <= at)
        row++;
    const double *low = table->at + row * width;
    if (row == last || at <= low[0]) return low[column];
    const double *high = low + width;
    return low[column] + (high[column] - low[column]) * (at - low[0]) / (high[0] - low[0]);
}
