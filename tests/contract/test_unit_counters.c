/* SPDX-License-Identifier: Apache-2.0
 * A counter that is described in one line has to reach every sum: over ranks, where what all of
 * them count alike is taken once, and over units.
 */
#include "contract/unit_counters.h"

#include "test_case.h"

/* Every counter holds `first` plus its place in the table. */
static struct unit_counters counted(uint64_t first) {
    struct unit_counters counters;
    uint64_t values[sizeof counters / sizeof(uint64_t)] = {0};
    for (size_t i = 0; i < unit_counter_count; i++)
        values[unit_counter_table[i].offset / sizeof *values] = first + i;
    memcpy(&counters, values, sizeof counters);
    return counters;
}

TEST(every_member_is_in_the_table_once) {
    assert_int_equal(unit_counter_count * sizeof(uint64_t), sizeof(struct unit_counters));
    for (size_t i = 0; i < unit_counter_count; i++)
        assert_int_equal(unit_counter_table[i].offset, i * sizeof(uint64_t));
}

TEST(ranks_add_up_but_for_what_all_count_alike) {
    struct unit_counters sum = counted(100), rank = counted(200), none = {0}, half = counted(50);
    unit_counters_renew_rank(&sum, &none, &half);
    unit_counters_renew_rank(&sum, &half, &rank);
    for (size_t i = 0; i < unit_counter_count; i++) {
        bool each = unit_counter_table[i].ranks == COUNTED_BY_EACH;
        assert_int_equal(unit_counters_value(&sum, &unit_counter_table[i]),
                         each ? 300 + 2 * i : 200 + i);
    }
    assert_int_equal(sum.steps, 200);
}

TEST(units_add_up) {
    struct unit_counters sum = counted(100), unit = counted(200);
    unit_counters_add_unit(&sum, &unit);
    for (size_t i = 0; i < unit_counter_count; i++)
        assert_int_equal(unit_counters_value(&sum, &unit_counter_table[i]), 300 + 2 * i);
}

TEST(lines_of_one_metric_stand_together_and_the_first_has_the_help) {
    for (size_t i = 0; i < unit_counter_count; i++) {
        bool first =
            i == 0 || strcmp(unit_counter_table[i].metric, unit_counter_table[i - 1].metric);
        assert_int_equal(first, unit_counter_table[i].help[0] != 0);
        for (size_t k = 0; k + 1 < i && first; k++)
            assert_string_not_equal(unit_counter_table[k].metric, unit_counter_table[i].metric);
    }
}
