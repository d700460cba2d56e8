/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator.h"

#include "small_fleet.h"

static void two_gateways_share_the_units(void **state) {
    (void)state;
    struct small_load drawn = small_few(4);
    struct simulator_options options = small_one_and_one(&drawn);
    options.gateways = 2;
    struct simulator_report report = small_live(&options);
    assert_int_equal(report.answered, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_gateways_share_the_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
