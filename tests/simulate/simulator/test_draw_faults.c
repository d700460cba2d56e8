/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/draw_faults.h"

#include "test_case.h"

#define SECOND ((int64_t)1000000000)
#define MAX 4096

static struct simulator_options fleet(void) {
    return (struct simulator_options){.kinds = {{.count = 3, .ranks = 4}, {.count = 5, .ranks = 6}},
                                      .kind_count = 2,
                                      .gateways = 2};
}

static struct fault_rates rates_of(double per_hour) {
    struct fault_rates rates;
    for (uint32_t i = 0; i < SIMULATOR_FAULT_KIND_COUNT; i++)
        rates.kinds[i] = (struct fault_rate){per_hour, 10, 3};
    return rates;
}

TEST(faults_come_at_their_rate_by_time_and_where_something_is) {
    static struct simulator_fault faults[MAX];
    struct simulator_options options = fleet();
    struct fault_rates rates = rates_of(60);
    uint32_t counts[SIMULATOR_FAULT_KIND_COUNT] = {0};
    uint32_t count = draw_faults(&options, &rates, SECOND, 3601 * SECOND, 7, faults, MAX);
    for (uint32_t i = 0; i < count; i++) {
        counts[faults[i].kind]++;
        assert_true(faults[i].at_ns >= SECOND && faults[i].at_ns < 3601 * SECOND);
        assert_true(i == 0 || faults[i].at_ns >= faults[i - 1].at_ns);
        assert_true(faults[i].lasts_ns >= SECOND / 10 && faults[i].lasts_ns <= 100 * SECOND);
    }
    options.faults = faults;
    options.fault_count = count;
    assert_null(simulator_faults_wrong(&options));
    for (uint32_t i = 0; i < SIMULATOR_FAULT_KIND_COUNT; i++)
        assert_in_range(counts[i], 35, 90); /* 60 and three deviations */
}

/* A rate that changes leaves the other kinds' faults where they are. */
TEST(each_kind_has_its_own_chance) {
    static struct simulator_fault all[MAX], some[MAX];
    struct simulator_options options = fleet();
    struct fault_rates rates = rates_of(60);
    uint32_t count = draw_faults(&options, &rates, 0, 600 * SECOND, 3, all, MAX), kept = 0;
    rates.kinds[SIMULATOR_FAULT_UNIT_DIES].per_hour = 0;
    uint32_t fewer = draw_faults(&options, &rates, 0, 600 * SECOND, 3, some, MAX);
    for (uint32_t i = 0; i < count; i++)
        if (all[i].kind != SIMULATOR_FAULT_UNIT_DIES) {
            assert_memory_equal(&all[i], &some[kept], sizeof all[i]);
            kept++;
        }
    assert_true(kept == fewer && kept < count);
}

TEST(a_fleet_of_one_unit_is_not_cut_in_two) {
    static struct simulator_fault faults[MAX];
    struct simulator_options options = {
        .kinds = {{.count = 1, .ranks = 1}}, .kind_count = 1, .gateways = 1};
    struct fault_rates rates = rates_of(60);
    uint32_t count = draw_faults(&options, &rates, 0, 3600 * SECOND, 1, faults, MAX);
    for (uint32_t i = 0; i < count; i++)
        assert_true(faults[i].kind != SIMULATOR_FAULT_UNITS_CUT);
    options.faults = faults;
    options.fault_count = count;
    assert_null(simulator_faults_wrong(&options));
}

TEST(no_more_are_drawn_than_there_is_room_for) {
    struct simulator_fault faults[5];
    struct simulator_options options = fleet();
    struct fault_rates rates = rates_of(3600);
    assert_int_equal(draw_faults(&options, &rates, 0, 3600 * SECOND, 1, faults, 5), 5);
}
