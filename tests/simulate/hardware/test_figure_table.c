/* SPDX-License-Identifier: Apache-2.0
 * Protects tables of numbers: what is between their rows, and which are refused.
 */

#include "hardware_of.h"
#include "simulate/hardware/figure_table.h"
#include "test_case.h"

TEST_AROUND(a_table_is_linear_between_its_rows_and_level_outside, begin_tree, NULL) {
    static const char *const columns[] = {"x", "y", NULL};
    struct figure_table table;
    const struct tree *tree = tree_of("{columns: [x, y], rows: [[1, 10], [3, 30], [4, 0]]}");
    const struct tree_place place = {.file = "f", .error = &error};
    assert_int_equal(figure_table_read(&place, tree, columns, &tree_arena, &table), STATUS_OK);
    assert_true(figure_table_between(&table, 1, 0) == 10);
    assert_true(figure_table_between(&table, 1, 2) == 20);
    assert_true(figure_table_between(&table, 1, 3) == 30);
    assert_true(figure_table_between(&table, 1, 3.5) == 15);
    assert_true(figure_table_between(&table, 1, 9) == 0);
}

TEST_AROUND(a_table_with_other_columns_is_refused, begin_tree, NULL) {
    static const char *const columns[] = {"x", "y", NULL};
    struct figure_table table;
    const struct tree_place place = {.file = "f", .path = "t", .error = &error};
    const struct tree *tree;
    tree = tree_of("{columns: [x, z], rows: [[1, 10]]}");
    assert_int_equal(figure_table_read(&place, tree, columns, &tree_arena, &table), STATUS_INVALID);
    assert_string_equal(error.text, "f: t.columns: expected y as number 2");
    tree = tree_of("{columns: [x, y], rows: [[1, 10], [2]]}");
    assert_int_equal(figure_table_read(&place, tree, columns, &tree_arena, &table), STATUS_INVALID);
    assert_string_equal(error.text, "f: t.rows: number 2: expected 2 numbers of 0 or more");
}
