/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The published anchors: 16,384 tokens of 4K prompts take a rank 2.090 s (the profile's 7,839
 * tokens/s); 88 requests of 4,989 tokens at 20 to 22 tokens/s each, 14.8k tokens/s a node. */
static void published_steps(void **state) {
    (void)state;
    struct hardware_prefill_rank prefill = {.tokens = 16384, .attended = 16384ull * 2048};
    assert_float_equal(hardware_prefill_ns(&prefill, 1) * 1e-9, 2.090, 0.03);
    struct hardware_decode_rank decode = {.requests = 88, .context = 88 * 4989};
    double step_s = hardware_decode_ns(&decode, 1) * 1e-9;
    assert_float_equal(88 * 8 / step_s, 14800, 600);
    assert_float_equal(1 / step_s, 21, 1);
}

/* One rank with more work holds up all of them, whoever it is. */
static void the_costliest_rank_is_the_step(void **state) {
    (void)state;
    struct hardware_prefill_rank even[2] = {{1024, 1 << 20, 0}, {1024, 1 << 20, 0}};
    struct hardware_prefill_rank odd[2] = {{1024, 1 << 25, 0}, {1024, 1 << 20, 0}};
    struct hardware_prefill_rank turned[2] = {{1024, 1 << 20, 0}, {1024, 1 << 25, 0}};
    assert_true(hardware_prefill_ns(odd, 2) > hardware_prefill_ns(even, 2));
    assert_float_equal(hardware_prefill_ns(odd, 2), hardware_prefill_ns(turned, 2), 0);
    struct hardware_decode_rank equal[2] = {{88, 400000}, {88, 400000}};
    struct hardware_decode_rank deep[2] = {{88, 800000}, {88, 0}};
    struct hardware_decode_rank wide[2] = {{160, 400000}, {16, 400000}};
    assert_true(hardware_decode_ns(deep, 2) > hardware_decode_ns(equal, 2));
    assert_true(hardware_decode_ns(wide, 2) > hardware_decode_ns(equal, 2));
}

static void costs_are_known(void **state) {
    (void)state;
    struct hardware_costs costs = hardware_costs_of_rank();
    assert_true(costs.token_ns > 0 && costs.attended_ns > 0 && costs.read_ns > 0);
    assert_true(costs.request_ns > 0 && costs.context_ns > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_steps),
        cmocka_unit_test(the_costliest_rank_is_the_step),
        cmocka_unit_test(costs_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
