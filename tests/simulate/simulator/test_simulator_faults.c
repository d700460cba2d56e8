/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_faults.h"

#include "small_fleet.h"

/* Two units of each kind, two gateways, a storage, and one fault of every kind. */
TEST(nobody_is_lost_whatever_fails) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct small_load drawn = small_few(seed);
        struct simulator_fault faults[SIMULATOR_FAULT_KIND_COUNT];
        struct simulator_options options = small_one_and_one(&drawn);
        for (uint32_t i = 0; i < SIMULATOR_FAULT_KIND_COUNT; i++)
            faults[i] = (struct simulator_fault){
                .at_ns = (int64_t)(random_uniform(seed, 3, i) * 4e9),
                .lasts_ns = (int64_t)(random_uniform(seed, 4, i) * 3e9) + 1,
                .kind = i,
                .unit = (uint32_t)(random_uniform(seed, 5, i) * 4),
                .factor = 3};
        faults[SIMULATOR_FAULT_RACK_DIES].other = 3;
        faults[SIMULATOR_FAULT_UNITS_CUT].other = (faults[SIMULATOR_FAULT_UNITS_CUT].unit + 2) % 4;
        options.gateways = 2;
        options.kinds[0].count = options.kinds[1].count = 2;
        options.kinds[0].page_count = 300;
        options.kinds[0].kv_storage = options.kinds[1].kv_storage = seed % 2;
        options.storage_bytes = options.host_bytes = 1e10;
        options.faults = faults;
        options.fault_count = SIMULATOR_FAULT_KIND_COUNT;
        struct simulator_report report = small_live(&options);
        assert_int_equal(report.asked, 200);
        assert_int_equal(report.answered, 200);
    }
}

TEST(a_fault_of_what_is_not_there_is_named) {
    struct small_load drawn = small_few(1);
    struct simulator_fault fault = {
        .kind = SIMULATOR_FAULT_RANK_SLOW, .unit = 1, .other = 4, .factor = 2};
    struct simulator_options options = small_one_and_one(&drawn);
    struct simulator_report report;
    struct error error;
    struct arena arena;
    char memory[1];
    options.faults = &fault;
    options.fault_count = 1;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(simulator_run(&options, &arena, &report, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "rank-slow"));
}

/* What would come within 20 s comes within 10 s; what is behind comes 10 s earlier. */
TEST(a_crowd_brings_requests_earlier_and_none_is_new) {
    const int64_t second = 1000000000;
    struct simulator_fault crowds[2] = {{.at_ns = 100 * second,
                                         .lasts_ns = 10 * second,
                                         .kind = SIMULATOR_FAULT_CROWD,
                                         .factor = 2},
                                        {.at_ns = 105 * second,
                                         .lasts_ns = 10 * second,
                                         .kind = SIMULATOR_FAULT_CROWD,
                                         .factor = 3}};
    struct simulator_options options = {.faults = crowds, .fault_count = 1};
    assert_int_equal(simulator_faults_arrival(&options, 99 * second), 99 * second);
    assert_int_equal(simulator_faults_arrival(&options, 100 * second), 100 * second);
    assert_int_equal(simulator_faults_arrival(&options, 110 * second), 105 * second);
    assert_int_equal(simulator_faults_arrival(&options, 120 * second), 110 * second);
    assert_int_equal(simulator_faults_arrival(&options, 130 * second), 120 * second);
    options.fault_count = 2; /* the second one begins behind the first */
    assert_int_equal(simulator_faults_arrival(&options, 123 * second), 111 * second);
    assert_int_equal(simulator_faults_arrival(&options, 150 * second), 120 * second);
    assert_int_equal(simulator_faults_arrival(&options, 160 * second), 130 * second);
}
