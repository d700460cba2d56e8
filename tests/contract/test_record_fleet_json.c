/* SPDX-License-Identifier: Apache-2.0
 * Protects a gateway's report to the fleet's manager in JSON: it is read as it was written, and a
 * member that is missing or wrong is named.
 */
#include "base/arena.h"
#include "contract/record_fleet_json.h"
#include "contract/record_unit.h"
#include "test_case.h"

static char text[4096], memory[1 << 16];

static const struct record_fleet_gateway written = {.responds = 1,
                                                    .load = {.arrived_requests = 70,
                                                             .arrived_tokens = UINT64_C(1) << 40,
                                                             .ttft_misses = 4,
                                                             .tpot_misses = 5,
                                                             .requests_queued = 3,
                                                             .requests_held = 10},
                                                    .unit_count = 2};
static const struct fleet_gateway_unit units[2] = {{.instance = UINT64_C(0xabcdef0000030001),
                                                    .connection = 7,
                                                    .role = UNIT_PREFILL,
                                                    .observed_state = FLEET_UNIT_DRAINING,
                                                    .requests = 9,
                                                    .numerics = "amx3 \"x\""},
                                                   {.instance = 1,
                                                    .connection = 8,
                                                    .role = UNIT_BOTH,
                                                    .observed_state = FLEET_UNIT_STARTING,
                                                    .refused = 1}};

static const struct tree *tree_of(const char *json) {
    static struct arena arena;
    const struct tree *root;
    struct error error;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, bytes_of(json), "report", &root, &error), STATUS_OK);
    return root;
}

static const char *write_report(void) {
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    record_fleet_json_write(&writer, &written, units);
    assert_true(json_writer_fits(&writer));
    text[writer.count] = 0;
    return text;
}

TEST(a_report_is_read_as_it_was_written) {
    struct record_fleet_gateway read;
    struct fleet_gateway_unit read_units[2];
    const char *missing;
    assert_true(record_fleet_json_read(tree_of(write_report()), &read, read_units, 2, &missing));
    assert_memory_equal(&read, &written, sizeof read);
    assert_memory_equal(read_units, units, sizeof units);
    assert_true(record_fleet_json_read(tree_of(text), &read, read_units, 1, &missing));
    assert_int_equal(read.unit_count, 1);
}

/* Replaces a text in the report and reads it. */
static const char *missing_with(const char *old, const char *new) {
    static char changed[4096];
    struct record_fleet_gateway read;
    struct fleet_gateway_unit read_units[2];
    const char *missing = "", *at = strstr(write_report(), old);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_false(record_fleet_json_read(tree_of(changed), &read, read_units, 2, &missing));
    return missing;
}

TEST(what_is_missing_or_wrong_is_named) {
    assert_string_equal(missing_with("\"held\"", "\"hold\""), "held");
    assert_string_equal(missing_with("\"arrived_requests\":70", "\"arrived_requests\":-1"),
                        "arrived_requests");
    assert_string_equal(missing_with("\"queued\":3", "\"queued\":4294967296"), "queued");
    assert_string_equal(missing_with("\"prefill\"", "\"both of them\""), "role");
    assert_string_equal(missing_with("\"draining\"", "\"\""), "sight");
    assert_string_equal(missing_with("abcdef0000030001", "ABCDEF0000030001"), "instance");
    assert_string_equal(missing_with("\"refused\":true", "\"refused\":1"), "refused");
    assert_string_equal(missing_with("amx3", "a name of more than thirty-one bytes"), "numerics");
    assert_string_equal(missing_with("\"connection\":7", "\"connection\":null"), "connection");
}
