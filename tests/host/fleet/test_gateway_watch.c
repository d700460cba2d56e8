/* SPDX-License-Identifier: Apache-2.0
 * Protects the manager's view of gateways: one that does not answer is an error, and its report
 * says so; an order for a unit that no gateway knows is one, too.
 */
#include <unistd.h>

#include "host/fleet/gateway_watch.h"

#include "test_case.h"

TEST(a_gateway_that_is_not_there_is_an_error) {
    struct fleet_file file = {.gateways = {.count = 1, .words = {"http://127.0.0.1:1"}}};
    struct gateway_watch *watch;
    const struct record_fleet_gateway *report;
    struct error error;
    assert_int_equal(gateway_watch_open(&file, "abcdef", &watch, &error), STATUS_OK);
    assert_int_equal(gateway_watch_poll(watch, 0, &report, &error), STATUS_GONE);
    assert_true(record_valid(report, report->record.bytes));
    assert_false(report->responds);
    assert_int_equal(report->unit_count, 0);
    const struct record_fleet_action action = {.act = FLEET_ACT_DRAIN, .number = 3};
    assert_int_equal(gateway_watch_order(watch, &action, &error), STATUS_NOT_FOUND);
    gateway_watch_close(watch);
}
