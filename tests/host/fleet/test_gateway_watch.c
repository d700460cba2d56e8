/* SPDX-License-Identifier: Apache-2.0
 * Protects what a fleet's manager reads of gateways: counters by their whole names, requests beyond a
 * limit from the histograms, and a gateway that does not answer is an error that leaves nothing behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/fleet/gateway_watch.h"

#define TEXT                                                                                       \
    "# HELP fathom_arrived_answers_total x\n"                                                      \
    "fathom_arrived_answers_total 70\nfathom_arrived_prompt_tokens_total 9000\n"                   \
    "fathom_prompt_cache_hit_tokens_total 100\nfathom_prompt_cache_miss_tokens_total 8000\n"       \
    "fathom_output_length_tokens_sum 640\nfathom_output_length_tokens_count 60\n"                  \
    "fathom_requests_queued 3\nfathom_requests_held 10\n"                                          \
    "fathom_time_to_first_token_seconds_bucket{le=\"1\"} 50\n"                                     \
    "fathom_time_to_first_token_seconds_bucket{le=\"2.5\"} 58\n"                                   \
    "fathom_time_to_first_token_seconds_bucket{le=\"+Inf\"} 62\n"                                  \
    "fathom_time_to_first_token_seconds_count 62\n"                                                \
    "fathom_time_per_output_token_seconds_bucket{le=\"0.1\"} 55\n"                                 \
    "fathom_time_per_output_token_seconds_bucket{le=\"+Inf\"} 60\n"                                \
    "fathom_time_per_output_token_seconds_count 60\n"

static void counters_and_missed_limits_are_read(void **state) {
    (void)state;
    struct record_fleet_load load = {.arrived_requests = 1};
    assert_true(gateway_watch_add_metrics(bytes_of(TEXT), 2000000000, 100000000, &load));
    assert_int_equal(load.arrived_requests, 71); /* gateways add up */
    assert_int_equal(load.arrived_tokens, 9000);
    assert_int_equal(load.hit_tokens, 100);
    assert_int_equal(load.miss_tokens, 8000);
    assert_int_equal(load.answers, 60);
    assert_int_equal(load.answer_tokens, 640);
    assert_int_equal(load.first_tokens, 62);
    assert_int_equal(load.late_first, 4); /* 2 s is rounded up to 2.5 s */
    assert_int_equal(load.slow_answers, 5);
    assert_int_equal(load.queued, 3);
    assert_int_equal(load.held, 10);
    assert_false(gateway_watch_add_metrics(bytes_of("hello\n"), 1, 1, &load));
}

static void a_gateway_that_is_not_there_is_an_error(void **state) {
    (void)state;
    struct fleet_file file = {.gateways = {.count = 1, .words = {"http://127.0.0.1:1"}}};
    struct gateway_watch *watch;
    static struct gateway_sight sight;
    struct error error;
    assert_int_equal(gateway_watch_open(&file, "abcdef", &watch, &error), STATUS_OK);
    assert_int_equal(gateway_watch_look(watch, &sight, &error), STATUS_GONE);
    assert_false(sight.has_load);
    assert_int_equal(sight.unit_count, 0);
    const struct record_fleet_action action = {.act = FLEET_ACT_DRAIN, .number = 3};
    assert_int_equal(gateway_watch_order(watch, &action, &error), STATUS_NOT_FOUND);
    gateway_watch_close(watch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_missed_limits_are_read),
        cmocka_unit_test(a_gateway_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
