/* SPDX-License-Identifier: Apache-2.0
 * What a day came to: windows stand in the day's order whenever they ran, their means are those of
 * their counters, and text and JSON have each figure.
 */
#include <math.h>

#include "base/tree.h"
#include "small_day.h"
#include "test_case.h"

TEST(windows_stand_in_the_days_order) {
    small_day_make();
    assert_int_equal(small_day.window_count, 2);
    assert_true(small_day.windows[0].segment.hour == 0 && small_day.windows[0].whole);
    assert_true(small_day.windows[1].segment.hour == 6 && !small_day.windows[1].whole);
}

TEST(a_windows_means_are_those_of_its_counters) {
    small_day_make();
    const struct day_window_outcome *window = &small_day.windows[1];
    assert_true(window->speed == 21);
    assert_true(window->requests_gpu == 80);
    assert_true(window->kv_tokens == 5000);
    assert_true(window->hit_share == 0.5625);
    assert_true(window->input_of_offered == 1); /* 2,000 a second of half of 4,000 */
    assert_true(window->output_of_offered == 1);
    assert_true(window->decode_step_s > 0.0499 && window->decode_step_s < 0.0501);
    assert_true(window->prefill_busy > 0.499 && window->prefill_busy < 0.501);
}

TEST(a_layers_balance_is_the_days_mean) {
    small_day_make();
    assert_true(day_outcome_balance(&small_day, 1, 2) == 1.3125); /* 18 h of 1.25, 6 h of 1.5 */
    assert_true(fabs(day_outcome_balance(&small_day, 0, 2) - 1.1) < 1e-12);
}

TEST(json_has_every_figure_and_window) {
    static char memory[1 << 20];
    struct arena arena;
    struct error error;
    const struct tree *root;
    small_day_make();
    struct bytes text = bytes_of(small_day_text(day_outcome_write_json));
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, text, "day", &root, &error), STATUS_OK);
    assert_int_equal(tree_count(tree_member(root, "figures")), small_day.figure_count);
    assert_int_equal(tree_count(tree_member(root, "windows")), 2);
    const struct tree *layers = tree_member(root, "expert_balance_by_layer");
    assert_int_equal(tree_count(tree_member(layers, "prefill")), 3); /* of four, one is dense */
    assert_int_equal(tree_count(tree_member(layers, "decode")), 3);
}

TEST(text_says_what_kind_a_figure_is) {
    small_day_make();
    const char *text = small_day_text(day_outcome_write_text);
    assert_non_null(strstr(text, "cost_usd_per_day"));
    assert_non_null(strstr(text, "prediction, its data fitted a parameter"));
    assert_non_null(strstr(text, "whole fleet"));
}
