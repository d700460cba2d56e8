/* SPDX-License-Identifier: Apache-2.0
 * Protects the runner of a fleet whose gateways do not answer: it leaves all as it is and tells
 * that, keeps its book, and takes operators' commands, which the log tells. What it does beside
 * gateways is tests/programs/test_fleet_program.py.
 */
#include <unistd.h>

#include "base/file.h"
#include "host/fleet/fleet_runner.h"
#include "host/process/private_room.h"

#include "../heard.h"
#include "test_case.h"

static void give(const char *folder, uint32_t count) {
    struct record_fleet_command command = {
        .kind = FLEET_COMMAND_PIN, .role = UNIT_DECODE, .count = count};
    struct error error;
    assert_int_equal(fleet_folder_write_command(folder, &command, &error), STATUS_OK);
}

TEST(without_gateways_it_starts_nothing_and_says_so) {
    char folder[] = "/tmp/fleet-runner-XXXXXX", path[128];
    struct scale_rule_side side = {
        .unit_rate = 1, .unit_nodes = 1, .least = 1, .most = 4, .group = 1};
    struct fleet_file file = {.name = "nobody's",
                              .folder = mkdtemp(folder),
                              .launcher = "local",
                              .connect = "ipc:///nowhere",
                              .kv_listen = "127.0.0.1",
                              .gateways = {.count = 1, .words = {"http://127.0.0.1:1"}},
                              .program = {.count = 1, .words = {"/bin/false"}}};
    struct fleet_runner *runner;
    struct fleet_book book;
    struct error error;
    struct bytes text;
    int ends = 0;
    file.manager = (struct fleet_manager_options){.rule = {.sides = {side, side}},
                                                  .calendar = {.period_ns = 86400000000000},
                                                  .nodes = 9,
                                                  .decide_ns = 10000000};
    assert_int_equal(fleet_runner_open(&file, &runner, &error), STATUS_OK);
    received_begin("info");
    give(folder, FLEET_UNPINNED);
    fleet_runner_run_round(runner);
    assert_non_null(
        strstr(received_news(), "an operator's order wish=pin role=decode units=auto\n"));
    give(folder, 3);
    fleet_runner_run_round(runner);
    assert_non_null(strstr(received_news(), "an operator's order wish=pin role=decode units=3\n"));
    received_end();
    ends = 1;
    fleet_runner_run(runner, &ends);
    fleet_runner_close(runner);
    snprintf(path, sizeof path, "%s/status.txt", folder);
    assert_int_equal(file_take(path, 1 << 16, &text, &error), STATUS_OK);
    assert_non_null(
        strstr(text.data, "cannot be seen: http://127.0.0.1:1: no gateway listens there"));
    assert_non_null(strstr(text.data, "the load is not known yet"));
    free((void *)(uintptr_t)text.data);
    assert_int_equal(fleet_folder_read_book(folder, &book, &error), STATUS_OK);
    assert_int_equal(book.pinned[SCALE_DECODE], 3);
    assert_int_equal(book.count, 0);
    private_room_remove(folder);
}
