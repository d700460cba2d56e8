/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_state.h"

#include "small_fleet.h"

TEST(parsed_bodies_and_streams_are_served_likewise) {
    struct small_load fast = small_few(5), parsed = small_few(5);
    struct simulator_options options = small_one_and_one(&fast);
    struct simulator_report whole = small_live(&options);
    options = small_one_and_one(&parsed);
    options.through_api = true;
    struct simulator_report streamed = small_live(&options);
    assert_int_equal(streamed.answered, 200);
    assert_int_equal(streamed.output_tokens, whole.output_tokens);
    assert_int_equal(streamed.hit_tokens, whole.hit_tokens);
    assert_true(streamed.user_speed_tokens == whole.user_speed_tokens);
}

/* Units of a whole fleet learn from the same steps as those of a sample: as many standing requests
 * come at once for each unit that answers them. */
TEST(standing_requests_come_as_many_for_each_unit) {
    for (uint32_t units = 1; units <= 3; units++) {
        struct small_load drawn = small_few(9);
        drawn.count = drawn.standing = 900;
        struct simulator_options options = small_one_and_one(&drawn);
        options.kinds[1].count = units;
        options.settle_ns = 1000000000;
        options.measure_ns = 1; /* nobody is answered by then */
        (void)small_live(&options);
        assert_int_equal(drawn.made, 256 * units + 1); /* and one that waits */
    }
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
    assert_int_equal(simulator_clients_arrival(&options, 99 * second), 99 * second);
    assert_int_equal(simulator_clients_arrival(&options, 100 * second), 100 * second);
    assert_int_equal(simulator_clients_arrival(&options, 110 * second), 105 * second);
    assert_int_equal(simulator_clients_arrival(&options, 120 * second), 110 * second);
    assert_int_equal(simulator_clients_arrival(&options, 130 * second), 120 * second);
    options.fault_count = 2; /* the second one begins behind the first */
    assert_int_equal(simulator_clients_arrival(&options, 123 * second), 111 * second);
    assert_int_equal(simulator_clients_arrival(&options, 150 * second), 120 * second);
    assert_int_equal(simulator_clients_arrival(&options, 160 * second), 130 * second);
}
