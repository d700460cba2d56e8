/* SPDX-License-Identifier: Apache-2.0
 * A day of two segments, for the tests of what is written of a day.
 */
#pragma once

#include <string.h>

#include "base/json_writer.h"
#include "simulate/report/day_outcome.h"

static struct scenario small_day_scenario;
static struct day_outcome small_day;
static struct model_figures small_day_model = {
    .layers = 4, .dense_layers = 1, .kv_bytes_per_token = 70272};
static struct outcome small_day_window;
static char small_day_memory[1 << 20];

/* The later segment joins first. */
static void small_day_make(void) {
    struct simulator_options options = {.model = &small_day_model,
                                        .kinds = {{.count = 3, .ranks = 32, .ranks_per_node = 8},
                                                  {.count = 1, .ranks = 144, .ranks_per_node = 8}},
                                        .kind_count = 2};
    const struct day_segment late = {6, 18, 4000, 1000, 2, 6, 3},
                             early = {0, 6, 8000, 2000, 2, 6, 3};
    memset(&small_day_scenario, 0, sizeof small_day_scenario);
    memset(&small_day, 0, sizeof small_day);
    strcpy(small_day_scenario.name, "a <day>");
    strcpy(small_day_scenario.prices.currency, "USD");
    small_day_scenario.prices.node_hour = 16;
    small_day_scenario.prices.calendar.tokens = (struct token_prices){0.14, 0.55, 2.19};
    small_day_scenario.options = options;
    small_day.scenario = &small_day_scenario;
    small_day.profile = (struct day_profile){87.3, 2090};
    small_day_window.report = (struct simulator_report){
        .measured_s = 10, .user_speed_tokens = 5000 * 21, .user_tokens = 5000};
    small_day_window.report.roles[UNIT_PREFILL] =
        (struct simulator_role_counts){.units = 3,
                                       .ranks = 96,
                                       .steps = 5,
                                       .step_ns = 15e9,
                                       .prompt_tokens = 20000,
                                       .computed_tokens = 8750,
                                       .hit_tokens = 11250,
                                       .disk_hits = 11250};
    small_day_window.report.roles[UNIT_DECODE] =
        (struct simulator_role_counts){.units = 1,
                                       .ranks = 144,
                                       .steps = 200,
                                       .step_ns = 10e9,
                                       .output_tokens = 5000,
                                       .rows = 200 * 144 * 80,
                                       .context = (uint64_t)200 * 144 * 80 * 5000};
    for (uint32_t i = 0; i < 4; i++) {
        small_day_window.report.roles[UNIT_PREFILL].layer_balance[i] = i ? 1.1 : 1;
        small_day_window.report.roles[UNIT_DECODE].layer_balance[i] = i ? 1 + 0.125 * i : 1;
    }
    day_outcome_add(&small_day, &late, &late, false, &small_day_window, &options);
    for (uint32_t i = 1; i < 4; i++)
        small_day_window.report.roles[UNIT_DECODE].layer_balance[i] = 1 + 0.25 * i;
    day_outcome_add(&small_day, &early, &early, true, &small_day_window, &options);
    day_outcome_end(&small_day);
}

static const char *small_day_text(void (*write)(struct json_writer *, const struct day_outcome *)) {
    struct json_writer writer = {.out = small_day_memory, .room = sizeof small_day_memory - 1};
    write(&writer, &small_day);
    small_day_memory[writer.count < writer.room ? writer.count : writer.room] = 0;
    return small_day_memory;
}
