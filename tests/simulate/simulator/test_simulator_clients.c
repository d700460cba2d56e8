/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator.h"

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
