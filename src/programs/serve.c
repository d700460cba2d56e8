/* SPDX-License-Identifier: Apache-2.0
 * fathom serve: the whole system in one process: an API server and a chat page, the gateway, one
 * combined unit, the engine on this machine's CPU.
 */
#include <unistd.h>

#include "base/check.h"
#include "programs/gateway_side.h"
#include "programs/unit_side.h"

struct serve_values {
    struct model_run_values run;
    struct rank_job_values job;
    struct unit_side_values unit;
    struct gateway_side_values gateway;
    const char *config;
};

static const struct option serve_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct serve_values),
    GATEWAY_SIDE_OPTIONS(struct serve_values),
    UNIT_SIDE_OPTIONS(struct serve_values),
    {.name = "config",
     .type = OPTION_TEXT,
     .help = "a YAML file with any of these options",
     .offset = offsetof(struct serve_values, config)},
};

const struct option_table serve_options[1] = {
    {.command = "serve",
     .arguments = "",
     .description = "Serves a model: the OpenAI-compatible API under /v1, a chat page at /.",
     .options = serve_rows,
     .option_count = ARRAY_COUNT(serve_rows)},
};

/* All that one server is made of. */
struct server {
    struct serve_values values;
    struct loop *loop;
    struct unit_side unit;
    struct gateway_side gateway;
};

static enum status server_open(struct server *server, struct error *error) {
    const struct serve_values *values = &server->values;
    enum status status = gateway_side_open_loop(&values->gateway, &server->loop, error);
    if (!status)
        status = unit_side_open(&server->unit, &values->run, &values->job, &values->unit, error);
    if (status) return status;
    uint64_t ranks = values->job.ranks;
    return gateway_side_open(&server->gateway, &values->gateway, server->unit.directory,
                             model_shape(rank_group_model(server->unit.group)),
                             ranks * unit_side_requests(&values->unit, ranks), error);
}

/* False: a step is still being computed, and everything must stay until the process ends. */
static bool server_close(struct server *server) {
    if (server->loop && !loop_close(server->loop)) return false;
    unit_side_close(&server->unit, serve_options);
    gateway_side_close(&server->gateway);
    return true;
}

static void say_ready(void *context, const char *url) {
    const struct server *server = context;
    unit_side_say(&server->unit, server->gateway.name);
    gateway_side_say(&server->gateway, url);
}

int program_serve(int argc, char **argv) {
    struct server server = {0};
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(serve_options, argc, argv, &server.values, &result, &exit_code))
        return exit_code;
    if (unit_side_misused(serve_options, &server.values.unit, &exit_code)) return exit_code;
    if (rank_job_begin_server(serve_options, &server.values.job, &exit_code)) return exit_code;
    enum status status = server_open(&server, &error);
    if (!status) {
        struct loop_parts parts = {.ready = say_ready, .ready_context = &server};
        unit_side_join(&server.unit, &parts);
        gateway_side_join(&server.gateway, &parts);
        status = loop_run(server.loop, &parts, &error);
    }
    exit_code = status ? command_failed(serve_options, status, &error) : command_end(serve_options);
    if (!server_close(&server)) _exit(exit_code);
    return exit_code;
}
