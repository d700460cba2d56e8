/* SPDX-License-Identifier: Apache-2.0
 * The day of a scenario: the published one is read as it stands, and what is wrong names its key.
 */
#include "simulate/scenario/scenario_day.h"

#include "base/check.h"
#include "host/process/configuration/yaml_tree.h"
#include "simulate/hardware/builtin.h"
#include "simulate/scenario/scenario_edit.h"
#include "test_case.h"

static char memory[4 << 20];
static struct arena arena;
static struct error error;
static struct day_options day;

static enum status read_day(const char *setting) {
    const struct tree *tree;
    struct tree_place place = {.file = "deepseek-day", .path = "load", .error = &error};
    arena_over(&arena, memory, sizeof memory);
    struct bytes text = builtin_text(BUILTIN_SCENARIO, bytes_of("deepseek-day"));
    enum status status = yaml_tree_parse(&arena, text, "deepseek-day", &tree, &error);
    if (!status && setting) status = scenario_edit_set(&arena, tree, setting, &tree, &error);
    if (status) return status;
    tree = tree_member(tree_member(tree, "load"), "day");
    return scenario_day_read(&place, tree, &day);
}

TEST(the_published_day_is_read_whole) {
    struct day_segment segments[DAY_SEGMENTS_MAX];
    double nodes = 0;
    assert_int_equal(read_day(NULL), STATUS_OK);
    assert_true(day.input_tokens == 608e9 && day.output_tokens == 168e9);
    assert_int_equal(day.step_count, 12);
    uint32_t count = day_segments(&day, segments);
    for (uint32_t i = 0; i < count; i++)
        nodes +=
            segments[i].hours * (18.0 * segments[i].decode_units + 4.0 * segments[i].prefill_units);
    assert_true(nodes / 24 > 226.749 && nodes / 24 < 226.751);
}

TEST(what_is_wrong_of_a_day_names_its_key) {
    static const struct {
        const char *setting, *says;
    } cases[] = {
        {"load.day.hours=[1,2]", "load.day.hours: expected a list of 24 numbers"},
        {"load.day.hours[3]=\"x\"", "load.day.hours[3]: expected a number"},
        {"load.day.nodes[0].hour=1", "load.day.nodes[0]: the first change is at hour 0"},
        {"load.day.nodes[2].hour=5", "load.day.nodes[2]: the first change is at hour 0"},
        {"load.day.nodes[1].decode_units=0", "load.day.nodes[1].decode_units"},
        {"load.day.moments.kv_tokens=2", "load.day.moments: no lengths have these means"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(read_day(cases[i].setting), STATUS_INVALID);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu: %s", i, error.text);
    }
}
