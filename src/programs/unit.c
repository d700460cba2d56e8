/* SPDX-License-Identifier: Apache-2.0
 * fathom unit: a unit in processes of its own: the unit machine and its engines, without clients.
 * It connects to a gateway, and comes back to it for ever.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "programs/unit_side.h"
#include "programs/wire_options.h"

struct unit_values {
    struct model_run_values run;
    struct rank_job_values job;
    struct unit_side_values unit;
    struct wire_values wire;
    const char *role, *config;
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
};

static enum status process_run(struct process *process, struct error *error) {
    struct loop_parts parts = {.ready = NULL};
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

int program_unit(int argc, char **argv) {
    struct process process = {.loop = NULL};
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(unit_options, argc, argv, &process.values, &result, &exit_code))
        return exit_code;
    if (!process.values.wire.address)
        return command_misused(unit_options, "--connect is missing: the gateway's address");
    if (unit_side_misused(unit_options, &process.values.unit, &exit_code)) return exit_code;
    if (rank_job_begin_server(unit_options, &process.values.job, &exit_code)) return exit_code;
    enum status status = process_run(&process, &error);
    exit_code = status ? command_failed(unit_options, status, &error) : command_end(unit_options);
    if (process.loop && !loop_close(process.loop)) _exit(exit_code);
    unit_side_close(&process.unit, unit_options);
    wire_options_close(&process.values.wire);
    return exit_code;
}
