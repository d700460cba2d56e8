/* SPDX-License-Identifier: Apache-2.0
 * fathom serve: the whole system on this machine: an API server and a chat page, the gateway, and
 * the units that compute. One unit of one rank lives in this process; several ranks, or several
 * units, are processes of their own, which this one starts, looks after and starts again.
 */
#include <unistd.h>

#include "base/check.h"
#include "exchange/ranks.h"
#include "programs/crew.h"
#include "programs/gateway_side.h"
#include "programs/unit_side.h"

struct serve_values {
    struct model_run_values run;
    struct rank_job_values job;
    struct unit_side_values unit;
    struct gateway_side_values gateway;
    struct crew_values crew;
    uint64_t units;
    const char *config;
};

static const struct option serve_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct serve_values),
    GATEWAY_SIDE_OPTIONS(struct serve_values),
    UNIT_SIDE_OPTIONS(struct serve_values),
    CREW_OPTIONS(struct serve_values),
    {.name = "units",
     .type = OPTION_COUNT,
     .fallback = "1",
     .help =
         "units, each a whole copy of the model with so many ranks; what one was computing when "
         "it fails goes on in another, or in itself when it is there again",
     .offset = offsetof(struct serve_values, units),
     .minimum = 1,
     .maximum = CREW_UNITS_MAX},
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
    struct crew *crew; /* NULL: the unit is here */
};

static enum status open_whole(struct server *server, struct error *error) {
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

/* The gateway alone, and units as children. */
static enum status open_with_crew(struct server *server, struct error *error) {
    const struct serve_values *values = &server->values;
    const struct crew_options options = {.table = serve_options,
                                         .values = values,
                                         .crew = &values->crew,
                                         .job = &values->job,
                                         .units = values->units,
                                         .threads = values->run.threads};
    uint64_t ranks = values->job.ranks;
    uint64_t requests = values->units * ranks * unit_side_requests(&values->unit, ranks);
    const char *directory;
    enum status status = gateway_side_open_loop(&values->gateway, &server->loop, error);
    if (!status) status = model_run_directory(values->run.model, &directory, error);
    if (!status)
        status =
            gateway_side_open_alone(&server->gateway, &values->gateway, directory, requests, error);
    return status ? status : crew_open(&options, server->loop, &server->crew, error);
}

static bool has_crew(const struct serve_values *values) {
    return values->job.ranks > 1 || values->units > 1;
}

/* False: a step is still being computed, and everything must stay until the process ends. */
static bool server_close(struct server *server) {
    crew_close(server->crew);
    if (server->loop && !loop_close(server->loop)) return false;
    unit_side_close(&server->unit, serve_options);
    gateway_side_close(&server->gateway);
    return true;
}

static void say_ready(void *context, const char *url) {
    const struct server *server = context;
    if (!server->crew) unit_side_say(&server->unit, server->gateway.name);
    gateway_side_say(&server->gateway, url);
}

static enum status server_run(struct server *server, struct error *error) {
    struct loop_parts parts = {.ready = say_ready, .ready_context = server};
    gateway_side_join(&server->gateway, &parts);
    if (server->crew) {
        parts.wire.address = crew_address(server->crew);
        parts.waits_for_unit = true;
        crew_start(server->crew);
    } else {
        unit_side_join(&server->unit, &parts);
    }
    return loop_run(server->loop, &parts, error);
}

int program_serve(int argc, char **argv) {
    struct server server = {0};
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(serve_options, argc, argv, &server.values, &result, &exit_code))
        return exit_code;
    if (unit_side_misused(serve_options, &server.values.unit, &exit_code)) return exit_code;
    if (rank_job_misused(serve_options, &server.values.job, &exit_code)) return exit_code;
    if (ranks_in_job())
        return command_misused(serve_options, "it starts its ranks itself; run it without mpirun");
    enum status status =
        has_crew(&server.values) ? open_with_crew(&server, &error) : open_whole(&server, &error);
    if (!status) status = server_run(&server, &error);
    exit_code = status ? command_failed(serve_options, status, &error) : command_end(serve_options);
    if (!server_close(&server)) _exit(exit_code);
    return exit_code;
}
