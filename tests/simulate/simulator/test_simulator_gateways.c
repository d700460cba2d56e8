/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator.h"

#include "small_fleet.h"

TEST(two_gateways_share_the_units) {
    struct small_load drawn = small_few(4);
    struct simulator_options options = small_one_and_one(&drawn);
    options.gateways = 2;
    struct simulator_report report = small_live(&options);
    assert_int_equal(report.answered, 200);
}
