/* SPDX-License-Identifier: Apache-2.0
 * fathom unit: a unit in processes of its own: the unit machine and its engines, without clients.
 It connects to a gateway,
 * and comes back to it for ever. Several ranks are a job, and this process then their supervisor.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/pulse.h"
#include "exchange/ranks.h"
#include "host/rank_board.h"
#include "programs/crew.h"
#include "programs/unit_side.h"
#include "programs/wire_options.h"

struct unit_values {
    struct model_run_values run;
    struct rank_job_values job;
    struct unit_side_values unit;
    struct wire_values wire;
    struct crew_values crew;
    const char *board, *config;
};

static const struct option unit_rows[] = {
    {.name = "connect",
     .type = OPTION_TEXT,
     .help = "the gateway's address: ipc://PATH or tcp://HOST:PORT",
     .offset = offsetof(struct unit_values, wire.address)},
    {.name = "wire-gateway",
     .type = OPTION_TEXT,
     .help = "the gateway's public key file, of fathom keygen; needed between machines",
     .offset = offsetof(struct unit_values, wire.peers)},
    WIRE_KEY_OPTIONS(struct unit_values),
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct unit_values),
    UNIT_SIDE_OPTIONS(struct unit_values),
    CREW_OPTIONS(struct unit_values),
    {.name = "board",
     .type = OPTION_TEXT,
     .help = "where to give signs of life; set by the supervisor that starts the unit",
     .offset = offsetof(struct unit_values, board)},
    {.name = "config",
     .type = OPTION_TEXT,
     .help = "a YAML file with any of these options",
     .offset = offsetof(struct unit_values, config)},
};

const struct option_table unit_options[1] = {
    {.command = "unit",
     .arguments = "",
     .description = "Runs a unit: a model on one or more ranks that computes for a gateway.",
     .options = unit_rows,
     .option_count = ARRAY_COUNT(unit_rows)},
};

struct process {
    struct unit_values values;
    struct loop *loop;
    struct unit_side unit;
    struct crew *crew;
};

/* Now the supervisor may expect signs of life. */
static void say_ready(void *context, const char *url) {
    pulse_set(PULSE_IDLE);
}

static enum status process_run(struct process *process, struct error *error) {
    struct loop_parts parts = {.ready = say_ready};
    struct unit_values *values = &process->values;
    char name[256];
    enum status status = wire_options_read(&values->wire, false, &parts.wire, error);
    if (!status) status = loop_open(NULL, &process->loop, error);
    if (!status)
        status = unit_side_open(&process->unit, &values->run, &values->job, &values->unit, error);
    if (status) return status;
    model_run_name(process->unit.directory, NULL, name);
    unit_side_say(&process->unit, name);
    unit_side_join(&process->unit, &parts);
    return loop_run(process->loop, &parts, error);
}

/* Several ranks, started by a person: they run as a job under a supervisor, which is this process.
 */
static enum status process_supervise(struct process *process, struct error *error) {
    struct unit_values *values = &process->values;
    struct loop_parts parts = {.ready = NULL};
    struct crew_options options = {.table = unit_options,
                                   .values = values,
                                   .crew = &values->crew,
                                   .job = &values->job,
                                   .units = 1,
                                   .threads = values->run.threads,
                                   .address = values->wire.address};
    enum status status = loop_open(NULL, &process->loop, error);
    if (!status) status = crew_open(&options, process->loop, &process->crew, error);
    if (status) return status;
    crew_start(process->crew);
    return loop_run(process->loop, &parts, error);
}

static enum status process_start(struct process *process, struct error *error) {
    const struct unit_values *values = &process->values;
    if (values->job.ranks > 1 && !ranks_in_job()) return process_supervise(process, error);
    return process_run(process, error);
}

int program_unit(int argc, char **argv) {
    struct process process = {.loop = NULL};
    const struct unit_values *values = &process.values;
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(unit_options, argc, argv, &process.values, &result, &exit_code))
        return exit_code;
    if (!values->wire.address)
        return command_misused(unit_options, "--connect is missing: the gateway's address");
    if (unit_side_misused(unit_options, &values->unit, &exit_code)) return exit_code;
    if (values->board && rank_board_join(values->board, ranks_rank_ahead(), &error))
        return command_failed(unit_options, STATUS_IO, &error);
    if (rank_job_join(unit_options, &values->job, &exit_code)) return exit_code;
    enum status status = process_start(&process, &error);
    exit_code = status ? command_failed(unit_options, status, &error) : command_end(unit_options);
    crew_close(process.crew);
    if (process.loop && !loop_close(process.loop)) _exit(exit_code);
    unit_side_close(&process.unit, unit_options);
    wire_options_close(&process.values.wire);
    return exit_code;
}
