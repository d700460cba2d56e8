/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/sim_faults.h"

enum status sim_faults_listen(struct sim_faults *faults, struct outcome *outcome,
                              struct error *error) {
    const size_t each = SIM_FAULTS_REQUESTS_MAX * sizeof(struct simulator_ended);
    faults->memory = lazy_memory_take(2 * each);
    if (!faults->memory.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for what faults cost");
    struct simulator_ended *ends = faults->memory.start;
    faults->with = (struct fault_ends){.ends = ends, .max = SIM_FAULTS_REQUESTS_MAX};
    faults->without =
        (struct fault_ends){.ends = ends + SIM_FAULTS_REQUESTS_MAX, .max = SIM_FAULTS_REQUESTS_MAX};
    outcome->ends = &faults->with;
    return STATUS_OK;
}

/* Restarts the scenario without faults. It only reports the ends of requests. */
static enum status begin_again(struct sim_faults *faults, struct scenario *calm,
                               const struct load_trace *trace, struct error *error) {
    struct arena arena;
    struct simulator_options *options = &calm->options;
    faults->load = lazy_memory_take(scenario_load_bytes(calm, trace));
    if (!faults->load.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for what faults cost");
    arena_over(&arena, faults->load.start, faults->load.bytes);
    options->faults = NULL;
    options->fault_count = 0;
    options->context = &faults->without;
    options->ended = fault_costs_note;
    options->begun = NULL;
    options->sampled = NULL;
    return scenario_open_load(&arena, calm, trace, error);
}

static enum status run_calm(const struct scenario *calm, struct error *error) {
    struct simulator_report report;
    struct arena arena;
    struct lazy_memory world = lazy_memory_take(simulator_bytes(&calm->options));
    if (!world.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a fleet without faults");
    arena_over(&arena, world.start, world.bytes);
    enum status status = simulator_run(&calm->options, &arena, &report, error);
    if (!status) status = simulator_verify(&report, "without its faults, the run", error);
    lazy_memory_free(&world);
    return status;
}

enum status sim_faults_compare(struct sim_faults *faults, const struct scenario *scenario,
                               const struct load_trace *trace, struct outcome *outcome,
                               struct error *error) {
    struct scenario calm = *scenario;
    enum status status = begin_again(faults, &calm, trace, error);
    if (!status) status = run_calm(&calm, error);
    if (status) return status;
    if (faults->with.count < faults->with.max) faults->with.max = faults->with.count;
    fault_costs_add(&scenario->limits, scenario->options.faults, scenario->options.fault_count,
                    &faults->with, &faults->without, outcome->costs);
    return STATUS_OK;
}

void sim_faults_close(struct sim_faults *faults) {
    lazy_memory_free(&faults->load);
    lazy_memory_free(&faults->memory);
}
