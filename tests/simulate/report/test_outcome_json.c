/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome_json.h"

#include "small_outcome.h"
#include "test_case.h"

TEST(a_run_is_one_json_object) {
    double value;
    small_outcome_make();
    const struct tree *root = small_outcome_tree(outcome_json_write);
    assert_true(tree_count(tree_member(root, "figures")) > 10);
    const struct tree *both = tree_member(tree_member(root, "roles"), "both");
    assert_true(tree_get_number(tree_member(both, "output_tokens"), &value) && value == 2000);
    const struct tree *x = tree_member(tree_member(root, "parameters"), "x");
    assert_true(tree_get_number(tree_member(x, "value"), &value) && value == 3);
}

TEST(published_figures_are_numbers_or_ranges) {
    static const struct day_figure figures[] = {
        {.name = "a", .unit = "u", .published_count = 1, .published = {4}},
        {.name = "b", .unit = "u", .published_count = 2, .published = {20, 22}},
        {.name = "c", .unit = "u"}};
    char text[1024];
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    outcome_json_figures(&writer, figures, 3);
    text[writer.count] = 0;
    assert_non_null(strstr(text, "\"published\":4,"));
    assert_non_null(strstr(text, "\"published\":[20,22],"));
    assert_non_null(strstr(text, "\"published\":null,"));
}
