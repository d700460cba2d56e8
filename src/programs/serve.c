/* SPDX-License-Identifier: Apache-2.0
 * fathom serve: the whole system on this machine: an API server and a chat page, the gateway, and
 * the units that compute. A single unit of one rank runs in this process. Several ranks or units
 * are separate processes, which this one starts, supervises and restarts.
 */
#include <unistd.h>

#include "base/check.h"
#include "programs/gateway_side.h"
#include "programs/log_options.h"
#include "programs/programs.h"
#include "programs/unit_side.h"
#include "programs/unit_supervisor.h"

struct serve_values {
    struct model_run_values run;
    struct rank_job_values job;
    struct unit_side_values unit;
    struct gateway_side_values gateway;
    struct unit_supervisor_values unit_supervisor;
    struct recorded_values record;
    struct log_values log;
    uint64_t units, prefill_units, prefill_ranks, decode_units, decode_ranks;
    const char *config;
};

#define AT(field) .offset = offsetof(struct serve_values, field)

static const struct option serve_rows[] = {
    MODEL_RUN_OPTIONS,
    {"units", OPTION_COUNT, "1",
     "units, each a whole copy of the model with --ranks ranks; when one fails, its requests "
     "continue in another, or in itself after its restart",
     AT(units), .minimum = 1, .maximum = UNIT_SUPERVISOR_UNITS_MAX, .group = OPTION_GROUP_FLEET},
    {"prefill-units", OPTION_COUNT, NULL,
     "units that only compute prompts; with --decode-units, instead of --units", AT(prefill_units),
     .maximum = UNIT_SUPERVISOR_UNITS_MAX, .group = OPTION_GROUP_FLEET},
    {"prefill-ranks", OPTION_COUNT, NULL, "ranks of each prefill unit; 0: --ranks",
     AT(prefill_ranks), .needs = "prefill-units", .maximum = LIMIT_RANKS,
     .group = OPTION_GROUP_FLEET},
    {"decode-units", OPTION_COUNT, NULL,
     "units that generate answers from prompts computed by prefill units", AT(decode_units),
     .maximum = UNIT_SUPERVISOR_UNITS_MAX, .group = OPTION_GROUP_FLEET},
    {"decode-ranks", OPTION_COUNT, NULL, "ranks of each decode unit; 0: --ranks", AT(decode_ranks),
     .needs = "decode-units", .maximum = LIMIT_RANKS, .group = OPTION_GROUP_FLEET},
    GATEWAY_SIDE_OPTIONS(struct serve_values),
    RANK_JOB_OPTIONS(struct serve_values),
    UNIT_SIDE_OPTIONS(struct serve_values),
    UNIT_SUPERVISOR_OPTIONS(struct serve_values),
    LOG_OPTIONS(struct serve_values),
    RECORDED_OPTIONS(struct serve_values),
    {"config", OPTION_TEXT, NULL, "a YAML file with any of these options", AT(config)},
};

const struct option_table serve_options = {
    .command = "serve",
    .arguments = "",
    .description =
        "Serves a model over the APIs of OpenAI (chats, completions and Responses, under /v1),\n"
        "Anthropic (/v1/messages), DeepSeek and Ollama (/api); a chat page at /.\n\n"
        "examples:\n"
        "  fathom serve                             the embedded model, on port 8000\n"
        "  fathom serve --model DIR --kv-dir CACHE  another one, with a KV storage on disk",
    .options = serve_rows,
    .option_count = ARRAY_COUNT(serve_rows),
};

/* The parts of a server. */
struct serve_server {
    struct serve_values values;
    struct loop *loop;
    struct unit_side unit;
    struct gateway_side gateway;
    struct unit_supervisor *unit_supervisor; /* NULL: the unit is here */
};

static enum status open_whole(struct serve_server *server, struct error *error) {
    const struct serve_values *values = &server->values;
    const struct kv_ranks_options no_transfers = {.host = NULL};
    uint64_t ranks = values->job.ranks, requests = ranks * unit_side_requests(&values->unit, ranks);
    const char *directory;
    struct shape shape;
    enum status status = gateway_side_open_loop(&values->gateway, requests, &server->loop, error);
    if (!status) status = unit_side_check(&values->run, &values->unit, ranks, &shape, error);
    if (!status) status = model_run_directory(values->run.model, &directory, error);
    if (!status)
        status = gateway_side_open(&server->gateway, &values->gateway, &values->record, directory,
                                   &shape, requests, error);
    if (status) return status;
    return unit_side_open(&server->unit, &values->run, &values->job, &values->unit, &values->record,
                          UNIT_BOTH, &no_transfers, server->loop, error);
}

static uint32_t list_units(const struct serve_values *values, uint32_t at, uint64_t count,
                           uint64_t ranks, enum unit_role role, struct supervised_unit *units) {
    uint32_t each = (uint32_t)(ranks ? ranks : values->job.ranks);
    for (uint64_t i = 0; i < count && at < UNIT_SUPERVISOR_UNITS_MAX; i++)
        units[at++] = (struct supervised_unit){each, role, role == UNIT_BOTH ? NULL : "127.0.0.1"};
    return at;
}

static bool is_apart(const struct serve_values *values) {
    return values->prefill_units || values->decode_units;
}

/* Writes units_out[UNIT_SUPERVISOR_UNITS_MAX] and returns their count. */
static uint32_t list_all_units(const struct serve_values *values,
                               struct supervised_unit *units_out) {
    if (!is_apart(values)) return list_units(values, 0, values->units, 0, UNIT_BOTH, units_out);
    uint32_t count = list_units(values, 0, values->prefill_units, values->prefill_ranks,
                                UNIT_PREFILL, units_out);
    return list_units(values, count, values->decode_units, values->decode_ranks, UNIT_DECODE,
                      units_out);
}

/* Opens the gateway here, with units as child processes. */
static enum status open_with_unit_supervisor(struct serve_server *server, struct error *error) {
    const struct serve_values *values = &server->values;
    struct supervised_unit units[UNIT_SUPERVISOR_UNITS_MAX];
    uint32_t unit_count = list_all_units(values, units);
    const struct unit_supervisor_options options = {.table = &serve_options,
                                                    .values = values,
                                                    .unit_supervisor = &values->unit_supervisor,
                                                    .job = &values->job,
                                                    .log = &values->log,
                                                    .model = values->run.model,
                                                    .device = values->run.device,
                                                    .force = values->run.force,
                                                    .kv_bytes = values->unit.kv_memory,
                                                    .units = units,
                                                    .unit_count = unit_count,
                                                    .threads = values->run.threads};
    uint64_t requests = 0;
    for (uint32_t i = 0; i < unit_count; i++)
        requests += units[i].ranks * unit_side_requests(&values->unit, units[i].ranks);
    const char *directory;
    struct shape shape;
    enum status status =
        unit_supervisor_check_device(&values->unit_supervisor, values->run.device, error);
    for (uint32_t i = 0; i < unit_count && !status; i++)
        status = unit_side_check(&values->run, &values->unit, units[i].ranks, &shape, error);
    if (!status) status = unit_side_check_form(&shape, is_apart(values), 1, &values->unit, error);
    if (!status) status = gateway_side_open_loop(&values->gateway, requests, &server->loop, error);
    if (!status) status = model_run_directory(values->run.model, &directory, error);
    if (!status)
        status = gateway_side_open_alone(&server->gateway, &values->gateway, &values->record,
                                         directory, requests, error);
    return status ? status
                  : unit_supervisor_open(&options, server->loop, &server->unit_supervisor, error);
}

static bool has_unit_supervisor(const struct serve_values *values) {
    return values->job.ranks > 1 || values->units > 1 || is_apart(values) ||
           values->unit_supervisor.hosts || values->unit_supervisor.hostfile;
}

/* Returns false if a step is still running: all memory must then stay until the process ends. */
static bool server_close(struct serve_server *server) {
    unit_supervisor_close(server->unit_supervisor);
    unit_side_leave(&server->unit);
    if (server->loop && !loop_close(server->loop)) return false;
    unit_side_close(&server->unit);
    gateway_side_close(&server->gateway);
    return true;
}

static void serve_say_ready(void *context, const char *const *urls) {
    const struct serve_server *server = context;
    if (!server->unit_supervisor) unit_side_say(&server->unit, server->gateway.name);
    gateway_side_say(&server->gateway, urls);
}

static enum status server_run(struct serve_server *server, struct error *error) {
    struct loop_parts parts = {.ready = serve_say_ready, .ready_context = server};
    gateway_side_join(&server->gateway, &parts);
    if (server->unit_supervisor) {
        unit_supervisor_wire(server->unit_supervisor, &parts.wire);
        parts.waits_for_unit = true;
        parts.job_of = unit_supervisor_job_of;
        parts.job_context = server->unit_supervisor;
        unit_supervisor_start(server->unit_supervisor);
    } else {
        unit_side_join(&server->unit, &parts);
    }
    return loop_run(server->loop, &parts, error);
}

int program_serve(void *given, const struct option_result *result) {
    struct serve_server server = {0};
    struct error error;
    int exit_code;
    server.values = *(const struct serve_values *)given;
    log_start(server.values.log.format, server.values.log.level, false);
    command_warn_idle(&server.values);
    if (unit_side_misused(&server.values.unit, &exit_code)) return exit_code;
    if (rank_job_misused(&server.values.job, &exit_code)) return exit_code;
    if (is_apart(&server.values) && (!server.values.prefill_units || !server.values.decode_units))
        return command_misused("--prefill-units and --decode-units go together");
    if (is_apart(&server.values) && server.values.units != 1)
        return command_misused("--units is for units that do both; how many there are "
                               "apart, --prefill-units and --decode-units say");
    if (server.values.prefill_units + server.values.decode_units > UNIT_SUPERVISOR_UNITS_MAX)
        return command_misused("at most %d units", UNIT_SUPERVISOR_UNITS_MAX);
    if (server.values.job.rendezvous)
        return command_misused("--rank-meeting: it starts its ranks itself; one that "
                               "others start is a fathom unit");
    enum status status = has_unit_supervisor(&server.values)
                             ? open_with_unit_supervisor(&server, &error)
                             : open_whole(&server, &error);
    if (!status) status = server_run(&server, &error);
    exit_code = command_end(status, &error);
    if (!server_close(&server)) _exit(exit_code);
    return exit_code;
}
