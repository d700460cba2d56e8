/* SPDX-License-Identifier: Apache-2.0
 * Protects what a fleet's manager tells: the JSON that programs rely on, to the letter, and times.
 */
#include <unistd.h>

#include "host/fleet/fleet_status.h"

#include "test_case.h"

static struct fleet_file file;
static char memory[1 << 20], text[1 << 16];

static const char *write_with(void (*write)(struct json_writer *, const struct fleet_moment *),
                              const struct fleet_moment *reported) {
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    write(&writer, reported);
    assert_true(json_writer_fits(&writer));
    text[writer.count] = 0;
    return text;
}

TEST(status_has_the_shape_that_programs_rely_on) {
    struct arena arena;
    struct fleet_manager *manager;
    struct scale_rule_side side = {
        .unit_rate = 1, .unit_nodes = 4, .least = 1, .most = 4, .group = 1};
    file.name = "night";
    file.manager = (struct fleet_manager_options){.rule = {.sides = {side, side}},
                                                  .calendar = {.period_ns = 86400000000000},
                                                  .nodes = 9,
                                                  .first_number = 1};
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(fleet_manager_create(&arena, &file.manager, &manager), STATUS_OK);
    struct machine machine = fleet_manager_machine(manager);
    struct record_fleet_unit seen = {
        .number = 7, .role = UNIT_DECODE, .observed_state = FLEET_UNIT_SERVING, .requests = 2};
    record_set_head(&seen, RECORD_FLEET_UNIT);
    assert_int_equal(machine.receive(machine.self, &seen.record, 1), STATUS_OK);
    const struct kept_unit kept = {.number = 7, .job = "job 12 \"n3\""};
    const struct fleet_moment reported = {.file = &file,
                                          .manager = manager,
                                          .units = &kept,
                                          .unit_count = 1,
                                          .wall_ns = 1764244800000000000,
                                          .launcher = "slurm",
                                          .trouble = ""};
    assert_string_equal(
        write_with(fleet_status_write_json, &reported),
        "{\"units\":[{\"id\":7,\"role\":\"decode\",\"state\":\"serving\",\"nodes\":4,"
        "\"launcher\":\"slurm\",\"job\":\"job 12 \\\"n3\\\"\"}],"
        "\"wanted\":{\"prefill\":0,\"decode\":1},"
        "\"next\":{\"at\":null,\"action\":null,\"reason\":null}}\n");
    write_with(fleet_status_write_table, &reported);
    assert_non_null(strstr(text, "fleet night at 2025-11-27T12:00:00Z: 4 of 0 nodes"));
    assert_non_null(strstr(text, "     7 decode   serving        4         2  job 12"));
    write_with(fleet_status_write_metrics, &reported);
    assert_non_null(strstr(text, "\nfathom_fleet_units{role=\"decode\"} 1\n"));
}
