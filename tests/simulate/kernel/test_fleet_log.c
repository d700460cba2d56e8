/* SPDX-License-Identifier: Apache-2.0
 * Protects the log of a simulated fleet: the last events, from the last one back, each with what is
 * known of it.
 */
#include "simulate/kernel/fleet_log.h"

#include "contract/record.h"
#include "test_case.h"

static struct fleet_log events;
static char line[FLEET_LOG_LINE_BYTES];

TEST(a_line_has_what_is_known_of_its_event) {
    events.count = 0;
    fleet_log_add(&events, 1500000, "healed", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, 0, 7);
    fleet_log_request(&events, 2000000, "KV_DONE", 3, 1,
                      (struct request_id){.low = 5 * 64 + 2, .attempt = 4}, 8, 9);
    assert_true(fleet_log_line(&events, 1, line, sizeof line) > 0);
    assert_string_equal(line, "    1.500 ms: healed 0 7");
    assert_true(fleet_log_line(&events, 0, line, sizeof line) > 0);
    assert_string_equal(line, "    2.000 ms unit 3.1 client 5.2 attempt 4: KV_DONE 8 9");
    assert_int_equal(fleet_log_line(&events, 2, line, sizeof line), 0);
}

TEST(only_the_last_events_are_kept) {
    events.count = 0;
    for (uint64_t i = 0; i < 2 * FLEET_LOG_EVENTS + 3; i++)
        fleet_log_add(&events, 0, "turn", 0, FLEET_LOG_NOWHERE, i, 0);
    assert_true(fleet_log_line(&events, FLEET_LOG_EVENTS - 1, line, sizeof line) > 0);
    assert_string_equal(line, "    0.000 ms unit 0: turn 4099 0");
    assert_int_equal(fleet_log_line(&events, FLEET_LOG_EVENTS, line, sizeof line), 0);
}
