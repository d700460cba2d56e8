/* SPDX-License-Identifier: Apache-2.0
 * fathom sim: runs a scenario in the simulator (simulate/simulator/simulator.h) and prints the
 * results. Equal scenarios and seeds give equal output. Wall-clock times go to stderr.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/process/lazy_memory.h"
#include "programs/programs.h"
#include "programs/sim_against.h"
#include "programs/sim_day.h"
#include "programs/sim_faults.h"
#include "programs/sim_files.h"
#include "simulate/hardware/builtin.h"
#include "simulate/report/day_page.h"
#include "simulate/report/outcome_json.h"
#include "simulate/report/outcome_page.h"
#include "simulate/report/outcome_text.h"

#define TREES_BYTES ((size_t)256 << 20) /* a scenario uses little of it */

struct sim_values {
    const char *seed, *report, *against;
    struct option_texts set;
    bool json, list, verbose;
    double whole_hour;
};

#define AT(field) .offset = offsetof(struct sim_values, field)

static const struct option sim_rows[] = {
    {"seed", OPTION_TEXT, NULL, "the scenario's seed; the same seed gives the same run", AT(seed)},
    {"set", OPTION_TEXTS, NULL,
     "change the scenario: NAME=VALUE, where NAME is the path of a key, such as "
     "fleet.units[0].count or hardware.hbm_gbps; may be given several times",
     AT(set)},
    {"whole-hour", OPTION_NUMBER, "-1",
     "for a day: run only the segment with this hour, as a sample and then with all units",
     AT(whole_hour), .minimum = -1, .maximum = 23.99},
    {"against", OPTION_TEXT, NULL,
     "output of `fathom bench serve --json --each` against a real server: its requests replace the "
     "scenario's load, and its figures are printed next to the simulated ones",
     AT(against)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
    {"report", OPTION_TEXT, NULL, "write an HTML page with charts to this file", AT(report)},
    {"list", OPTION_FLAG, NULL,
     "print the names of built-in scenarios, hardware, models and prices", AT(list)},
    {"verbose", OPTION_FLAG, NULL, "print the run's speed and memory to stderr", AT(verbose)},
};

static const char *sim_scenario_name(uint32_t index) {
    return builtin_name(BUILTIN_SCENARIO, index);
}

const struct option_table sim_options = {
    .command = "sim",
    .arguments = "SCENARIO",
    .word = sim_scenario_name,
    .description =
        "Runs a fleet in virtual time: the same gateways and units that serve, on hardware that is "
        "a file of numbers. SCENARIO is a YAML file or a built-in name.\n\nexamples:\n"
        "  fathom sim small\n"
        "  fathom sim ep144 --set hardware.nic_gbps=200 --set fleet.units[0].count=5\n"
        "  fathom sim deepseek-day --verbose\n"
        "  fathom sim my-fleet.yaml --json",
    .options = sim_rows,
    .option_count = ARRAY_COUNT(sim_rows),
    .positional_max = 1,
};

struct sim_job {
    const struct sim_values *values;
    struct lazy_memory trees, world;
    void *trace_memory;
    struct scenario scenario;
    const struct load_trace *trace; /* NULL: the load is none */
    struct sim_faults faults;
    struct outcome *outcome;
    struct day_outcome *day;
    struct sim_against *against; /* NULL: the scenario's own load */
};

/* ---- the scenario ---- */

static enum status sim_prepare(struct sim_job *job, struct arena *arena, const char *name,
                               struct sim_files *files, struct error *error) {
    const struct tree *tree;
    const char *settings[OPTION_TEXTS_MAX + 1];
    char seed[64];
    size_t count = 0;
    enum status status = sim_files_read(name, arena, files, &tree, error);
    if (status) return status;
    struct scenario_library library = sim_files_library(files);
    for (size_t i = 0; i < job->values->set.count; i++)
        settings[count++] = job->values->set.texts[i];
    if (job->values->seed) {
        snprintf(seed, sizeof seed, "seed=%.40s", job->values->seed);
        settings[count++] = seed;
    }
    status = scenario_edit_prepare(arena, tree, settings, count, &library, &tree, error);
    if (!status) status = scenario_read(arena, tree, name, &job->scenario, error);
    if (!status && !job->scenario.name[0])
        snprintf(job->scenario.name, sizeof job->scenario.name, "%.60s", name);
    return status;
}

static enum status open_scenario(struct sim_job *job, const char *name, struct error *error) {
    struct arena arena;
    struct sim_files files;
    struct load_trace trace;
    job->trees = lazy_memory_take(TREES_BYTES);
    arena_over(&arena, job->trees.start, job->trees.bytes);
    enum status status = sim_prepare(job, &arena, name, &files, error);
    bool traced = !status && job->scenario.load.kind == SCENARIO_LOAD_TRACE;
    if (traced)
        status =
            sim_files_trace(&files, job->scenario.load.trace, &job->trace_memory, &trace, error);
    if (status || job->scenario.load.kind == SCENARIO_LOAD_DAY) return status;
    /* The trace's rows stay in their memory, since the scenario points to them. */
    struct load_trace *kept = arena_take(&arena, sizeof *kept);
    if (!kept) return error_set(error, STATUS_NO_MEMORY, "no memory for %.100s", name);
    if (traced) *kept = trace;
    if (traced) job->trace = kept;
    if (scenario_load_bytes(&job->scenario, traced ? kept : NULL) > TREES_BYTES / 2)
        return error_set(error, STATUS_TOO_LARGE,
                         "%.100s: the load's conversations need more than %zu MiB: lower "
                         "requests_per_s or think_s",
                         name, TREES_BYTES >> 21);
    return scenario_open_load(&arena, &job->scenario, traced ? kept : NULL, error);
}

/* ---- the run ---- */

/* True if the job also runs without faults, to find their cost. */
static bool compares(const struct sim_job *job) {
    return job->scenario.options.fault_count && !job->against;
}

static enum status run(struct sim_job *job, struct error *error) {
    struct arena arena;
    const struct simulator_options *options = &job->scenario.options;
    size_t bytes = simulator_bytes(options);
    job->outcome = malloc(sizeof *job->outcome);
    job->world = lazy_memory_take(bytes);
    if (!job->outcome || !job->world.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a fleet of %zu MiB", bytes >> 20);
    arena_over(&arena, job->world.start, job->world.bytes);
    outcome_listen(job->outcome, &job->scenario);
    if (job->against) sim_against_listen(job->against, &job->scenario.options);
    enum status status = STATUS_OK;
    if (compares(job)) status = sim_faults_listen(&job->faults, job->outcome, error);
    int64_t begin_ns = clock_now_ns();
    if (!status) status = simulator_run(options, &arena, &job->outcome->report, error);
    double seconds = (double)(clock_now_ns() - begin_ns) * 1e-9;
    if (!status && job->values->verbose)
        fprintf(stderr,
                "fathom sim: %.2f s; %.3g M records (%.3g M/s), %.3g M events; %zu MiB of memory "
                "reserved\n",
                seconds, (double)job->outcome->report.records * 1e-6,
                (double)job->outcome->report.records * 1e-6 / seconds,
                (double)job->outcome->report.events * 1e-6, bytes >> 20);
    lazy_memory_free(&job->world);
    if (status || !compares(job)) return status;
    return sim_faults_compare(&job->faults, &job->scenario, job->trace, job->outcome, error);
}

static enum status run_day(struct sim_job *job, struct error *error) {
    job->day = malloc(sizeof *job->day);
    if (!job->day) return error_set(error, STATUS_NO_MEMORY, "no memory for a day");
    return sim_day_run(&job->scenario, job->values->whole_hour, job->values->verbose, job->day,
                       error);
}

/* ---- results ---- */

static void sim_write_text(struct json_writer *writer, const void *subject) {
    const struct sim_job *job = subject;
    if (job->day)
        day_outcome_write_text(writer, job->day);
    else
        outcome_text_write(writer, job->outcome);
}

static void sim_write_json(struct json_writer *writer, const void *subject) {
    const struct sim_job *job = subject;
    if (job->day)
        day_outcome_write_json(writer, job->day);
    else
        outcome_json_write(writer, job->outcome);
}

static void sim_write_page(struct json_writer *writer, const void *subject) {
    const struct sim_job *job = subject;
    if (job->day)
        day_page_write(writer, job->day);
    else
        outcome_page_write(writer, job->outcome);
}

static enum status sim_show(const struct sim_job *job, struct error *error) {
    const struct sim_values *values = job->values;
    if (job->against)
        return sim_against_print(job->against, &job->outcome->report, values->json, error);
    enum status status =
        command_write("", NULL, values->json ? sim_write_json : sim_write_text, job, error);
    if (!status && values->report)
        status = command_write("--report", values->report, sim_write_page, job, error);
    return status;
}

int program_sim(void *given, const struct option_result *result) {
    struct sim_values *values = given;
    struct error error;
    if (values->list) {
        sim_files_list();
        return command_end(STATUS_OK, NULL);
    }
    if (result->positional_count == 0)
        return command_misused("which scenario? `fathom sim --list` names those that "
                               "are built in");
    struct sim_job job = {.values = values};
    enum status status = open_scenario(&job, result->positional[0], &error);
    bool day = !status && job.scenario.load.kind == SCENARIO_LOAD_DAY;
    if (day && values->against)
        status = error_set(&error, STATUS_INVALID,
                           "--against: a day has a load of its own; give another scenario");
    if (!status && values->against)
        status = sim_against_open(values->against, &job.against, &error);
    if (!status) status = day ? run_day(&job, &error) : run(&job, &error);
    if (!status) status = sim_show(&job, &error);
    if (!status && !day) status = simulator_verify(&job.outcome->report, "the run", &error);
    free(job.outcome);
    free(job.day);
    free(job.trace_memory);
    sim_against_close(job.against);
    sim_faults_close(&job.faults);
    lazy_memory_free(&job.world);
    lazy_memory_free(&job.trees);
    return command_end(status, &error);
}
