/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/figure_tree.h"

#include <string.h>

#include "base/check.h"
#include "base/format.h"

#define FIGURE_MAX 1e15
#define TABLE_ROWS_MAX 65536

static const char *const notes[] = {"source", "note", NULL};

static enum status refuse(const struct figure_place *place, const char *key, const char *what) {
    return error_set(place->error, STATUS_INVALID, "%.200s: %s%s%.60s: %s", place->file,
                     place->path, place->path[0] && key[0] ? "." : "", key, what);
}

struct figure_place figure_tree_place_below(const struct figure_place *place, const char *key) {
    struct figure_place below = {
        .object = tree_member(place->object, key), .file = place->file, .error = place->error};
    format_text(below.path, sizeof below.path, "%s%s%s", place->path, place->path[0] ? "." : "",
                key);
    return below;
}

static bool figure_tree_is_one_of(const char *key, const char *const *keys) {
    for (; keys && *keys; keys++)
        if (!strcmp(key, *keys)) return true;
    return false;
}

/* Reads a figure: a number, or an object with a value. */
static bool get_figure(const struct tree *member, double *out) {
    if (tree_get_number(member, out)) return true;
    return tree_get_number(tree_member(member, "value"), out);
}

static enum status read_row(const struct figure_place *place, const struct figure_row *row,
                            void *out) {
    double value;
    const struct tree *member = tree_member(place->object, row->key);
    if (!member && !row->optional) return refuse(place, row->key, "it is missing");
    if (!member) {
        value = row->fallback;
    } else if (!get_figure(member, &value)) {
        return refuse(place, row->key, "expected a number, or {value: …, source: …}");
    } else if (!(value >= row->minimum && value <= row->maximum)) {
        return error_set(place->error, STATUS_INVALID,
                         "%.200s: %s%s%.60s: expected %g to %g, found %g", place->file, place->path,
                         place->path[0] ? "." : "", row->key, row->minimum, row->maximum, value);
    }
    memcpy((char *)out + row->offset, &value, sizeof value);
    return STATUS_OK;
}

static bool figure_tree_is_known(const char *key, const struct figure_row *rows, size_t row_count,
                                 const char *const *others) {
    for (size_t i = 0; i < row_count; i++)
        if (!strcmp(key, rows[i].key)) return true;
    return figure_tree_is_one_of(key, others) || figure_tree_is_one_of(key, notes);
}

enum status figure_tree_place_read(const struct figure_place *place, const struct figure_row *rows,
                                   size_t row_count, const char *const *others, void *out) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    if (!place->object) return refuse(place, "", "it is missing");
    if (tree_kind(place->object) != TREE_OBJECT) return refuse(place, "", "expected keys");
    while (tree_next_member(place->object, &cursor, &key, &value))
        if (!figure_tree_is_known(key.data, rows, row_count, others))
            return refuse(place, key.data, "no such key is known");
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < row_count; i++)
        status = read_row(place, &rows[i], out);
    return status;
}

enum status figure_tree_place_text(const struct figure_place *place, const char *key, char *out,
                                   size_t room) {
    struct bytes text;
    if (!tree_get_string(tree_member(place->object, key), &text))
        return refuse(place, key, "expected a text");
    if (text.count >= room) return refuse(place, key, "the text is too long");
    memcpy(out, text.data, text.count);
    out[text.count] = '\0';
    return STATUS_OK;
}

/* ---- tables ---- */

static enum status check_columns(const struct figure_place *place, const char *const *columns,
                                 uint32_t *count_out) {
    const struct tree *found = tree_member(place->object, "columns");
    uint32_t count = 0;
    struct bytes text;
    for (; columns[count]; count++)
        if (!tree_get_string(tree_at(found, count), &text) ||
            !bytes_equal(text, bytes_of(columns[count])))
            return error_set(place->error, STATUS_INVALID,
                             "%.200s: %s.columns: expected %s as number %u", place->file,
                             place->path, columns[count], count + 1);
    if (tree_count(found) != count) return refuse(place, "columns", "there are too many");
    *count_out = count;
    return STATUS_OK;
}

enum status figure_tree_place_table(const struct figure_place *place, const char *const *columns,
                                    const char *const *others, struct arena *arena,
                                    struct figure_table *table_out) {
    static const char *const parts[] = {"columns", "rows", NULL};
    struct figure_table table = {0};
    enum status status = figure_tree_place_read(place, NULL, 0, others ? others : parts, NULL);
    if (!status) status = check_columns(place, columns, &table.column_count);
    if (status) return status;
    const struct tree *rows = tree_member(place->object, "rows");
    size_t count = tree_count(rows);
    if (count == 0 || count > TABLE_ROWS_MAX)
        return refuse(place, "rows", "expected one row or more");
    table.row_count = (uint32_t)count;
    double *at = arena_take(arena, count * table.column_count * sizeof *at);
    if (!at)
        return error_set(place->error, STATUS_NO_MEMORY, "%.200s: no memory for %s", place->file,
                         place->path);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < table.column_count; c++) {
            double *value = &at[i * table.column_count + c];
            if (tree_count(tree_at(rows, i)) != table.column_count ||
                !tree_get_number(tree_at(tree_at(rows, i), c), value) || !(*value >= 0) ||
                *value > FIGURE_MAX)
                return error_set(place->error, STATUS_INVALID,
                                 "%.200s: %s.rows: number %u: expected %u numbers of 0 or more",
                                 place->file, place->path, i + 1, table.column_count);
        }
    table.at = at;
    *table_out = table;
    return STATUS_OK;
}

double figure_tree_table_between(const struct figure_table *table, uint32_t column, double at) {
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
