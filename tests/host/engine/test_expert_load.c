/* SPDX-License-Identifier: Apache-2.0
 * Protects the averages of experts' loads: after enough reports they are the reports' shares, an
 * old one fades over choices, silence changes nothing, layers do not mix, and the largest allowed
 * reports do not overflow.
 */
#include "host/engine/expert_load.h"

#include "test_case.h"

static uint64_t memory[64];

TEST(averages_are_the_reports_shares_and_fade) {
    struct expert_load load;
    assert_in_range(expert_load_bytes(2, 4), 1, sizeof memory);
    expert_load_open(&load, 2, 4, 1000, memory);
    for (int i = 0; i < 1000; i++)
        expert_load_add(&load, 1, (uint32_t[4]){50, 30, 20, 0});
    const uint64_t *loads = expert_load_of(&load, 1);
    assert_in_range(loads[0] * 100 / (loads[0] + loads[1] + loads[2]), 49, 50);
    assert_in_range(loads[1] * 100 / (loads[0] + loads[1] + loads[2]), 29, 30);
    assert_int_equal(loads[3], 0);
    assert_true(load.choices[1] == 100000 && load.choices[0] == 0);
    assert_int_equal(expert_load_of(&load, 0)[0], 0);
    uint64_t before = loads[0];
    expert_load_add(&load, 1, (uint32_t[4]){0});
    assert_true(loads[0] == before);
    for (int i = 0; i < 10; i++) /* as many choices as are remembered: 1/e is left */
        expert_load_add(&load, 1, (uint32_t[4]){0, 0, 0, 100});
    assert_in_range(loads[0] * 1000 / before, 350, 400);
    expert_load_restart(&load);
    assert_true(load.choices[1] == 0 && loads[0] > 0);
}

TEST(the_largest_reports_do_not_overflow) {
    struct expert_load load;
    expert_load_open(&load, 1, 2, UINT64_C(1) << 26, memory);
    for (int i = 0; i < 200; i++)
        expert_load_add(&load, 0, (uint32_t[2]){(1u << 26) - 2, 1});
    uint64_t all = expert_load_of(&load, 0)[0];
    assert_true(all > (UINT64_C(1) << 26) * EXPERT_LOAD_UNIT);
    assert_true(all < (UINT64_C(1) << 27) * EXPERT_LOAD_UNIT);
}
