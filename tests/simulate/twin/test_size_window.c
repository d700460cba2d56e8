/* SPDX-License-Identifier: Apache-2.0
 * A sample of a fleet never has more units for its load than the fleet has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "simulate/twin/size_window.h"

static struct size_fleet fleet_of(uint32_t prefill, uint32_t decode) {
    return (struct size_fleet){
        .kinds = {{.role = UNIT_PREFILL, .ranks = 32}, {.role = UNIT_DECODE, .ranks = 144}},
        .counts = {prefill, decode},
        .kind_count = 2};
}

static void a_sample_has_no_more_units_for_its_load_than_the_fleet(void **state) {
    (void)state;
    for (uint32_t prefill = 1; prefill < 90; prefill++)
        for (uint32_t decode = 1; decode < 40; decode++) {
            struct size_fleet fleet = fleet_of(prefill, decode);
            struct size_sample sample = size_window_sample(&fleet);
            assert_true(sample.counts[0] >= 1 && sample.counts[1] >= 1);
            assert_true(sample.counts[0] + sample.counts[1] <= LIMIT_FLEET_UNITS);
            assert_true(sample.counts[0] <= sample.share * prefill + 1e-9);
            assert_true(sample.counts[1] <= sample.share * decode + 1e-9);
        }
}

static void a_small_fleet_is_run_whole(void **state) {
    (void)state;
    struct size_fleet fleet = fleet_of(4, 1);
    struct size_sample sample = size_window_sample(&fleet);
    assert_int_equal(sample.counts[0], 4);
    assert_int_equal(sample.counts[1], 1);
    assert_true(sample.share == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_has_no_more_units_for_its_load_than_the_fleet),
        cmocka_unit_test(a_small_fleet_is_run_whole),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
