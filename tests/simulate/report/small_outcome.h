/* SPDX-License-Identifier: Apache-2.0
 * A run that never was, for tests of what is written about runs.
 */
#pragma once

#include "base/json_writer.h"
#include "simulate/report/outcome.h"
#include "test_case.h"

static struct scenario small_scenario;
static struct outcome small_outcome;
static struct hardware small_hardware = {.gpus_per_node = 8};
static char small_memory[1 << 16], small_text[1 << 18];

__attribute__((unused)) static void small_outcome_make(void) {
    static const char tree[] = "{\"name\":\"a <run>\",\"x\":{\"value\":3,\"source\":\"a page\"}}";
    struct arena arena;
    arena_over(&arena, small_memory, sizeof small_memory);
    small_scenario = (struct scenario){
        .name = "a <run>",
        .prices = {.currency = "USD", .node_hour = 16, .calendar.tokens = {0.14, 0.55, 2.19}},
        .options = {.warm_ns = 1000000000, .measure_ns = 10000000000, .kind_count = 1, .seed = 5},
    };
    (void)!tree_parse(&arena, bytes_of(tree), "tree", &small_scenario.tree, NULL);
    small_scenario.options.kinds[0] = (struct simulator_unit_kind){
        .count = 2, .ranks = 8, .ranks_per_node = 8, .hardware = &small_hardware};
    outcome_listen(&small_outcome, &small_scenario);
    small_outcome.report = (struct simulator_report){.measured_s = 10, .answered = 20, .asked = 21};
    small_outcome.report.roles[UNIT_BOTH] = (struct simulator_role_counts){.units = 2,
                                                                           .ranks = 16,
                                                                           .nodes = 2,
                                                                           .steps = 100,
                                                                           .step_ns = 5e9,
                                                                           .prompt_tokens = 40000,
                                                                           .computed_tokens = 30000,
                                                                           .device_hits = 10000,
                                                                           .output_tokens = 2000,
                                                                           .pages_held = 1,
                                                                           .pages_total = 4};
}

__attribute__((unused)) static const char *
small_outcome_text(void (*write)(struct json_writer *, const struct outcome *)) {
    struct json_writer writer = {.out = small_text, .room = sizeof small_text - 1};
    write(&writer, &small_outcome);
    small_text[writer.count < writer.room ? writer.count : writer.room] = 0;
    return small_text;
}

/* What that text is as a tree, which lasts until the next one. */
__attribute__((unused)) static const struct tree *
small_outcome_tree(void (*write)(struct json_writer *, const struct outcome *)) {
    static char memory[1 << 20];
    struct arena arena;
    struct error error = {""};
    const struct tree *root;
    arena_over(&arena, memory, sizeof memory);
    struct bytes text = bytes_of(small_outcome_text(write));
    if (tree_parse(&arena, text, "run", &root, &error)) fail_msg("%s", error.text);
    return root;
}
