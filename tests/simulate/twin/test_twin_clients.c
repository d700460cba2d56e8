/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/twin.h"

#include "small_fleet.h"

static void parsed_bodies_and_streams_are_served_likewise(void **state) {
    (void)state;
    struct small_load fast = small_few(5), parsed = small_few(5);
    struct twin_options options = small_one_and_one(&fast);
    struct twin_report whole = small_live(&options);
    options = small_one_and_one(&parsed);
    options.through_api = true;
    struct twin_report streamed = small_live(&options);
    assert_int_equal(streamed.answered, 200);
    assert_int_equal(streamed.output_tokens, whole.output_tokens);
    assert_int_equal(streamed.hit_tokens, whole.hit_tokens);
    assert_memory_equal(&streamed.ttft, &whole.ttft, sizeof whole.ttft);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parsed_bodies_and_streams_are_served_likewise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
