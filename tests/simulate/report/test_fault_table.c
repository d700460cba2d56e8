/* SPDX-License-Identifier: Apache-2.0
 * What faults cost is written by kind, in shares of the requests that were there, and not at all
 * where nothing was compared.
 */
#include "simulate/report/fault_table.h"

#include "simulate/report/outcome_json.h"
#include "small_outcome.h"
#include "test_case.h"

static void make_costs(void) {
    small_outcome_make();
    small_scenario.limits = (struct fault_limits){.ttft_ns = 2000000000, .tpot_ns = 50000000};
    small_outcome.costs[SIMULATOR_FAULT_NODE_DIES] = (struct fault_cost){.times = 2,
                                                                         .requests = 400,
                                                                         .failed = 1,
                                                                         .ttft_missed = 10,
                                                                         .ttft_without = 4,
                                                                         .tpot_missed = 6};
    small_outcome.costs[SIMULATOR_FAULT_CROWD] =
        (struct fault_cost){.times = 1}; /* nobody was there */
}

TEST(a_row_has_shares_with_faults_and_without) {
    make_costs();
    const char *text = small_outcome_text(fault_table_text);
    assert_non_null(strstr(
        text,
        "node-dies         2       400       1       2.5 % (  1.0 %)       1.5 % (  0.0 %)\n"));
    assert_non_null(strstr(text, "crowd             1         0       0       0.0 % (  0.0 %)"));
    assert_null(strstr(text, "unit-dies"));
    text = small_outcome_text(fault_table_html);
    assert_non_null(
        strstr(text, "<td>node-dies</td><td class=\"n\">2</td><td class=\"n\">400</td>"));
    assert_non_null(strstr(text, "<td class=\"n\">2.5 %</td><td class=\"n\">1.0 %</td>"));
}

TEST(json_counts_requests) {
    double value;
    make_costs();
    const struct tree *root = small_outcome_tree(outcome_json_write);
    const struct tree *kinds = tree_member(tree_member(root, "faults"), "kinds");
    assert_int_equal(tree_count(kinds), 2);
    assert_true(tree_get_number(tree_member(tree_at(kinds, 0), "ttft_missed"), &value) &&
                value == 10);
    assert_true(tree_get_number(tree_member(tree_at(kinds, 0), "ttft_missed_without"), &value) &&
                value == 4);
}

TEST(nothing_is_said_where_nothing_was_compared) {
    small_outcome_make();
    assert_string_equal(small_outcome_text(fault_table_text), "");
    assert_string_equal(small_outcome_text(fault_table_html), "");
    assert_string_equal(small_outcome_text(fault_table_json), "");
}
