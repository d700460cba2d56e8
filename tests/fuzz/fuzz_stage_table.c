/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a table of stage times. What is accepted gives each of its points back, and steps
 * whose stages take some finite time, with dense and with sparse attention.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "simulate/hardware/stage_rates.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct stage_table *table, enum stage_phase phase, enum stage_part part) {
    const struct stage_grid *grid = &table->grids[phase][part];
    for (uint32_t row = 0; row < grid->tokens.count; row++)
        for (uint32_t column = 0; column < grid->context.count; column++)
            check(stage_table_us(table, phase, part, grid->tokens.at[row],
                                 grid->context.at[column]) == grid->us[row][column]);
}

static void run_steps(const struct stage_table *table) {
    const struct hardware_stages stages = {.table = table};
    const struct step_load works[] = {
        {.prompt_tokens = 1000, .attended = 400000, .cached = 77},
        {.answer_rows = 77, .answer_tokens = 77, .context = 123456},
    };
    for (size_t i = 0; i < 2 * ARRAY_COUNT(works); i++) {
        const struct model_figures model = {.index_top_k = i < ARRAY_COUNT(works) ? 0 : 256};
        const struct step_load *work = &works[i % ARRAY_COUNT(works)];
        struct stage_times times = stage_rates_times(&stages, &model, work, work == works);
        double us = times.attention_0 + times.attention_1 + times.shared + times.dense;
        check(isfinite(us) && us >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct stage_table *table = malloc(sizeof *table);
    struct error error = {""};
    check(table);
    enum status status =
        stage_table_read((struct bytes){(const char *)data, size}, "fuzz", table, &error);
    check((status == STATUS_OK) == (error.text[0] == '\0') && !strchr(error.text, '\n'));
    for (int phase = 0; status == STATUS_OK && phase < STAGE_PHASE_COUNT; phase++)
        for (int part = 0; part < STAGE_PART_COUNT; part++)
            look_up(table, (enum stage_phase)phase, (enum stage_part)part);
    if (status == STATUS_OK) run_steps(table);
    free(table);
    return 0;
}
