/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a table of stage times. What is accepted gives each of its points back, and steps
 * that take some finite time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "simulate/hardware.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct stage_table *table, enum stage_table_phase phase,
                    enum stage_part part) {
    const struct stage_grid *grid = &table->grids[phase][part];
    for (uint32_t row = 0; row < grid->tokens.count; row++)
        for (uint32_t column = 0; column < grid->context.count; column++)
            check(stage_table_us(table, phase, part, grid->tokens.at[row],
                                 grid->context.at[column]) == grid->us[row][column]);
}

static void run_steps(const struct stage_table *table) {
    const struct hardware_prefill_rank prefill = {1000, 400000, 77};
    const struct hardware_decode_rank decode = {77, 123456};
    double ns = hardware_prefill_ns(table, &prefill, 1) + hardware_decode_ns(table, &decode, 1);
    struct hardware_costs costs = hardware_costs_of_rank(table);
    check(isfinite(ns) && ns > 0 && isfinite(costs.token_ns) && isfinite(costs.context_ns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct stage_table *table = malloc(sizeof *table);
    struct error error = {""};
    check(table);
    enum status status =
        stage_table_read((struct bytes){(const char *)data, size}, "fuzz", table, &error);
    check((status == STATUS_OK) == (error.text[0] == '\0') && !strchr(error.text, '\n'));
    for (int phase = 0; status == STATUS_OK && phase < STAGE_TABLE_PHASE_COUNT; phase++)
        for (int part = 0; part < STAGE_PART_COUNT; part++)
            look_up(table, (enum stage_table_phase)phase, (enum stage_part)part);
    if (status == STATUS_OK) run_steps(table);
    free(table);
    return 0;
}
