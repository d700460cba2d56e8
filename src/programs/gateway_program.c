/* SPDX-License-Identifier: Apache-2.0
 * fathom gateway: serves the API and the chat page and routes requests to units, in a process
 * without weights. The units, which run the model, connect to it from this or other machines.
 */
#include <unistd.h>

#include "base/check.h"
#include "command/model_run.h"
#include "programs/gateway_side.h"
#include "programs/log_options.h"
#include "programs/programs.h"
#include "programs/wire_options.h"

#define REQUEST_MEMORY ((uint64_t)64 << 10) /* per request, for the default of --requests */

struct gateway_values {
    struct gateway_side_values gateway;
    struct wire_values wire;
    struct recorded_values record;
    struct log_values log;
    uint64_t requests;
    const char *model, *config;
};

#define AT(field) .offset = offsetof(struct gateway_values, field)

static const struct option gateway_rows[] = {
    {"listen", OPTION_TEXT, NULL,
     "address for units: ipc://PATH or tcp://HOST:PORT (port *: a free one)", AT(wire.address)},
    {"model", OPTION_TEXT, NULL,
     "directory of the checkpoint that the units serve, for its shape and its text (default: the "
     "model that comes with Fathom)",
     AT(model)},
    GATEWAY_SIDE_OPTIONS(struct gateway_values),
    {"wire-allow", OPTION_TEXT, NULL, "a file with the public keys of accepted units, one per line",
     AT(wire.peers), .group = OPTION_GROUP_FLEET},
    WIRE_KEY_OPTIONS(struct gateway_values),
    LOG_OPTIONS(struct gateway_values),
    RECORDED_OPTIONS(struct gateway_values),
    {"requests", OPTION_COUNT, "0",
     "maximum requests, waiting or running; others are refused with Retry-After; 0: one for each "
     "64 KiB of --request-memory",
     AT(requests), .maximum = LIMIT_GATEWAY_REQUESTS, .group = OPTION_GROUP_TUNING},
    {"request-memory", OPTION_BYTES, "1GiB",
     "memory for prompts and answers, about 40 KiB for 5,000 and 1,200 tokens, used as needed; a "
     "request that does not fit is refused with Retry-After",
     AT(gateway.request_memory), .group = OPTION_GROUP_TUNING},
    {"config", OPTION_TEXT, NULL, "a YAML file with any of these options", AT(config)},
};

const struct option_table gateway_options = {
    .command = "gateway",
    .arguments = "",
    .description = "Serves what units compute: chats and text completions in OpenAI's form "
                   "under /v1, a chat page at /.",
    .options = gateway_rows,
    .option_count = ARRAY_COUNT(gateway_rows),
};

struct gateway_process {
    struct gateway_values values;
    struct loop *loop;
    struct gateway_side gateway;
};

static void gateway_program_log_ready(void *context, const char *const *urls) {
    const struct gateway_process *process = context;
    gateway_side_say(&process->gateway, urls);
}

static enum status gateway_program_run(struct gateway_process *process, struct error *error) {
    struct loop_parts parts = {.ready = gateway_program_log_ready, .ready_context = process};
    struct gateway_values *values = &process->values;
    const char *directory;
    if (!values->requests) values->requests = 1 + values->gateway.request_memory / REQUEST_MEMORY;
    enum status status = wire_options_read(&values->wire, true, &parts.wire, error);
    if (!status) status = model_run_directory(values->model, &directory, error);
    if (!status)
        status = gateway_side_open_loop(&values->gateway, values->requests, &process->loop, error);
    if (!status)
        status = gateway_side_open_alone(&process->gateway, &values->gateway, &values->record,
                                         directory, values->requests, error);
    if (status) return status;
    gateway_side_join(&process->gateway, &parts);
    return loop_run(process->loop, &parts, error);
}

int program_gateway(void *given, const struct option_result *result) {
    struct gateway_process process = {.loop = NULL};
    struct error error;
    int exit_code;
    process.values = *(const struct gateway_values *)given;
    log_start(process.values.log.format, process.values.log.level, false);
    command_warn_idle(&process.values);
    if (!process.values.wire.address)
        return command_misused("--listen is missing: where units connect");
    enum status status = gateway_program_run(&process, &error);
    exit_code = command_end(status, &error);
    /* a step is still running; its memory must not be freed */
    if (process.loop && !loop_close(process.loop)) _exit(exit_code);
    gateway_side_close(&process.gateway);
    wire_options_close(&process.values.wire);
    return exit_code;
}
