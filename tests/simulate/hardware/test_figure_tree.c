/* SPDX-License-Identifier: Apache-2.0
 * Protects how numbers are taken out of trees: with or without their source, and what is missing,
 * unknown or out of range is named with its path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hardware_of.h"
#include "simulate/hardware/figure_tree.h"

struct pair {
    double speed, price;
};

static const struct figure_row rows[] = {
    {"speed", offsetof(struct pair, speed), 1, 10, false, 0},
    {"price", offsetof(struct pair, price), 0, 10, true, 7},
};

static enum status read_pair(const char *text, struct pair *pair) {
    const struct figure_place root = {.object = tree_of(text), .file = "f", .error = &error};
    const struct figure_place below = figure_tree_place_below(&root, "a");
    static const char *const others[] = {"name", NULL};
    return figure_tree_place_read(&below, rows, 2, others, pair);
}

static void is_refused(const char *text, const char *message) {
    struct pair pair;
    assert_int_equal(read_pair(text, &pair), STATUS_INVALID);
    assert_string_equal(error.text, message);
}

static void a_figure_stands_alone_or_beside_its_source(void **state) {
    (void)state;
    struct pair pair;
    assert_int_equal(read_pair("a: {speed: 2, name: x, source: s}", &pair), STATUS_OK);
    assert_true(pair.speed == 2 && pair.price == 7);
    assert_int_equal(
        read_pair("a: {speed: {value: 2.5, source: s, fitted: true}, price: 1}", &pair), STATUS_OK);
    assert_true(pair.speed == 2.5 && pair.price == 1);
}

static void what_is_wrong_is_named_with_its_path(void **state) {
    (void)state;
    is_refused("b: 1", "f: a: it is missing");
    is_refused("a: 1", "f: a: expected keys");
    is_refused("a: {price: 1}", "f: a.speed: it is missing");
    is_refused("a: {speed: 1, sped: 2}", "f: a.sped: no such key is known");
    is_refused("a: {speed: 11}", "f: a.speed: expected 1 to 10, found 11");
    is_refused("a: {speed: fast}", "f: a.speed: expected a number, or {value: …, source: …}");
}

static void a_table_is_linear_between_its_rows_and_level_outside(void **state) {
    (void)state;
    static const char *const columns[] = {"x", "y", NULL};
    struct figure_table table;
    const struct tree *tree = tree_of("{columns: [x, y], rows: [[1, 10], [3, 30], [4, 0]]}");
    const struct figure_place place = {.object = tree, .file = "f", .error = &error};
    assert_int_equal(figure_tree_place_table(&place, columns, NULL, &tree_arena, &table),
                     STATUS_OK);
    assert_true(figure_tree_table_between(&table, 1, 0) == 10);
    assert_true(figure_tree_table_between(&table, 1, 2) == 20);
    assert_true(figure_tree_table_between(&table, 1, 3) == 30);
    assert_true(figure_tree_table_between(&table, 1, 3.5) == 15);
    assert_true(figure_tree_table_between(&table, 1, 9) == 0);
}

static void a_table_with_other_columns_is_refused(void **state) {
    (void)state;
    static const char *const columns[] = {"x", "y", NULL};
    struct figure_table table;
    struct figure_place place = {.file = "f", .path = "t", .error = &error};
    place.object = tree_of("{columns: [x, z], rows: [[1, 10]]}");
    assert_int_equal(figure_tree_place_table(&place, columns, NULL, &tree_arena, &table),
                     STATUS_INVALID);
    assert_string_equal(error.text, "f: t.columns: expected y as number 2");
    place.object = tree_of("{columns: [x, y], rows: [[1, 10], [2]]}");
    assert_int_equal(figure_tree_place_table(&place, columns, NULL, &tree_arena, &table),
                     STATUS_INVALID);
    assert_string_equal(error.text, "f: t.rows: number 2: expected 2 numbers of 0 or more");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_figure_stands_alone_or_beside_its_source, begin_tree),
        cmocka_unit_test_setup(what_is_wrong_is_named_with_its_path, begin_tree),
        cmocka_unit_test_setup(a_table_is_linear_between_its_rows_and_level_outside, begin_tree),
        cmocka_unit_test_setup(a_table_with_other_columns_is_refused, begin_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
