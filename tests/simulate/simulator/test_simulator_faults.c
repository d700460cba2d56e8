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
