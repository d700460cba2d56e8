/* SPDX-License-Identifier: Apache-2.0
 * fathom unit: runs a unit (the unit machine and its engines) in separate processes, without
 * clients. It connects to gateways and always reconnects. Several ranks form a job, and this
 * process is then their supervisor.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/heartbeat.h"
#include "compute/exchange/job.h"
#include "host/process/agent/agent_facts.h"
#include "host/process/ranks/rank_health.h"
#include "programs/drain_option.h"
#include "programs/log_options.h"
#include "programs/programs.h"
#include "programs/unit_side.h"
#include "programs/unit_supervisor.h"
#include "programs/wire_options.h"

struct unit_values {
    struct model_run_values run;
    struct rank_job_values job;
    struct unit_side_values unit;
    struct wire_values wire;
    struct unit_supervisor_values unit_supervisor;
    struct recorded_values record;
    struct log_values log;
    const char *role, *kv_listen, *kv_control;
    double kv_seconds, drain_timeout;
    uint64_t kv_send_rate;
    const char *kv_push;
    const char *health, *config;
};

#define AT(field) .offset = offsetof(struct unit_values, field)

static const struct option unit_rows[] = {
    {"connect", OPTION_LIST, NULL,
     "the gateway's address: ipc://PATH or tcp://HOST:PORT; separate several gateways that share "
     "the unit by commas",
     AT(wire.address)},
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct unit_values),
    UNIT_SIDE_OPTIONS(struct unit_values),
    UNIT_SUPERVISOR_OPTIONS(struct unit_values),
    LOG_OPTIONS(struct unit_values),
    RECORDED_OPTIONS(struct unit_values),
    {"role", OPTION_CHOICE, "both",
     "the unit's role: prompts, answers, or both; prefill and decode require --kv-listen", AT(role),
     .choices = "both|prefill|decode", .group = OPTION_GROUP_FLEET},
    DRAIN_TIMEOUT_OPTION(struct unit_values, drain_timeout),
    {"wire-gateway", OPTION_TEXT, NULL,
     "the public key file of the gateway or gateways, from fathom keygen; required between "
     "machines",
     AT(wire.peers), .group = OPTION_GROUP_FLEET},
    WIRE_KEY_OPTIONS(struct unit_values),
    {"kv-listen", OPTION_TEXT, NULL,
     "numeric address or interface of this machine for transfers of KV pages with other units' "
     "ranks; the network must be private",
     AT(kv_listen), .group = OPTION_GROUP_FLEET},
    {"kv-control", OPTION_TEXT, NULL,
     "address on which rank 0 sends the other ranks their orders for KV blocks: ipc://PATH or "
     "tcp://HOST:PORT; required with --rank-meeting and --kv-listen, --kv-dir or --kv-host",
     AT(kv_control), .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_FLEET},
    {"kv-seconds", OPTION_NUMBER, "30",
     "seconds for the transfer of a prompt's KV blocks from another unit; missing blocks are then "
     "loaded or computed again",
     AT(kv_seconds), .needs = "kv-listen", .minimum = 0.001, .maximum = 86400,
     .group = OPTION_GROUP_FLEET},
    {"kv-send-rate", OPTION_BYTES, NULL,
     "maximum bytes of KV blocks that each rank sends per second; 0: no limit", AT(kv_send_rate),
     .needs = "kv-listen", .group = OPTION_GROUP_FLEET},
    {"instance", OPTION_TEXT, NULL,
     "12 hexadecimal digits that name the unit in GET /debug/fleet, the last 6 its number there; a "
     "fleet's manager sets them to identify its units",
     AT(unit.instance), .group = OPTION_GROUP_FLEET},
    {"board", OPTION_TEXT, NULL,
     "where to write heartbeats; set by the supervisor that starts the unit", AT(health),
     .group = OPTION_GROUP_FLEET},
    {"kv-push", OPTION_CHOICE, "layer",
     "when a step's KV blocks are sent to another unit: each layer when it is written, or all when "
     "the step is done",
     AT(kv_push), .choices = "layer|step", .needs = "kv-listen", .group = OPTION_GROUP_EXPERIMENTS},
    {"config", OPTION_TEXT, NULL, "a YAML file with any of these options", AT(config)},
};

const struct option_table unit_options = {
    .command = "unit",
    .arguments = "",
    .description = "Runs a unit: a model on one or more ranks that computes for a gateway.",
    .options = unit_rows,
    .option_count = ARRAY_COUNT(unit_rows),
};

struct unit_process {
    struct unit_values values;
    struct loop *loop;
    struct unit_side unit;
    struct unit_supervisor *unit_supervisor;
};

/* From now on the supervisor may expect heartbeats. */
static void unit_program_say_ready(void *context, const char *const *urls) {
    heartbeat_set(HEARTBEAT_IDLE);
}

static enum unit_role unit_program_role_of(const struct unit_values *values) {
    if (strcmp(values->role, "prefill") == 0) return UNIT_PREFILL;
    return strcmp(values->role, "decode") == 0 ? UNIT_DECODE : UNIT_BOTH;
}

static struct kv_ranks_options kv_options(const struct unit_values *values) {
    return (struct kv_ranks_options){.host = values->kv_listen,
                                     .storage = unit_side_storage(&values->unit, values->job.ranks),
                                     .control = values->kv_control,
                                     .seconds_max = values->kv_seconds,
                                     .bytes_per_second = values->kv_send_rate,
                                     .by_step = strcmp(values->kv_push, "step") == 0};
}

/* The services of a rank other than 0, in addition to its steps: KV pages and grammar masks. */
struct rank_services {
    struct model_run_values run;
    struct rank_job_values job;
    struct unit_side_values unit;
    struct kv_ranks_options kv;
    struct kv_agent *agent;
    struct grammar_mask_worker *grammar_mask_worker;
    struct engine *engine;
};

static enum status open_agent(struct rank_services *rank_services, struct engine *engine,
                              uint32_t rank, struct error *error) {
    unit_side_name_pages(&rank_services->kv, engine);
    rank_services->kv.rank = rank;
    enum status status = kv_ranks_agent_open(&rank_services->kv, &rank_services->agent, error);
    if (status) return status;
    struct engine_loads loads = kv_ranks_agent_loads(rank_services->agent);
    engine_set_loads(engine, &loads);
    return STATUS_OK;
}

static enum status rank_services_options(void *context, struct model_options *options_out,
                                         struct error *error) {
    const struct rank_services *rank_services = context;
    return unit_side_options(&rank_services->run, &rank_services->job, &rank_services->unit,
                             options_out, error);
}

static enum status rank_services_opened(void *context, struct engine *engine, uint32_t rank,
                                        struct error *error) {
    struct rank_services *rank_services = context;
    enum status status = unit_side_open_grammar_mask_worker(
        &rank_services->run, &rank_services->unit, rank_services->job.ranks, engine,
        &rank_services->grammar_mask_worker, error);
    if (status) return status;
    const struct engine_masks masks = grammar_mask_worker_masks(rank_services->grammar_mask_worker);
    engine_set_masks(engine, &masks);
    rank_services->engine = engine;
    return kv_ranks_wanted(&rank_services->kv) ? open_agent(rank_services, engine, rank, error)
                                               : STATUS_OK;
}

static void rank_services_closing(void *context) {
    struct rank_services *rank_services = context;
    const struct engine_loads no_loads = {0};
    const struct engine_masks no_masks = {0};
    if (rank_services->engine) engine_set_loads(rank_services->engine, &no_loads);
    if (rank_services->engine) engine_set_masks(rank_services->engine, &no_masks);
    rank_services->engine = NULL;
    kv_ranks_agent_close(rank_services->agent);
    rank_services->agent = NULL;
    grammar_mask_worker_close(rank_services->grammar_mask_worker);
    rank_services->grammar_mask_worker = NULL;
}

/* Called before the rank is known. */
static void prepare_ranks(const struct unit_values *values) {
    static struct rank_services rank_services;
    rank_services.run = values->run;
    rank_services.unit = values->unit;
    rank_services.job = values->job;
    rank_services.kv = kv_options(values);
    const struct rank_group_side side = {&rank_services, rank_services_options,
                                         rank_services_opened, rank_services_closing};
    if (values->job.ranks > 1) rank_group_local(&side);
}

static bool is_instance(const char *text) {
    return strlen(text) == UNIT_INSTANCE_DIGITS &&
           strspn(text, "0123456789abcdef") == UNIT_INSTANCE_DIGITS;
}

/* Replaces an interface's name by its address, so that many machines can use one command line.
 * Returns false after printing that the interface has no address. */
static bool find_kv_address(struct unit_values *values, int *exit_code_out) {
    static char found[64];
    const char *text = values->kv_listen;
    if (!text || agent_facts_read_address(text, found)) {
        values->kv_listen = text ? found : NULL;
        return true;
    }
    *exit_code_out =
        command_misused("--kv-listen: expected a numeric address, or an interface that "
                        "is up and has one; found '%.60s'",
                        text);
    return false;
}

static bool is_misused(const struct unit_values *values, int *exit_code_out) {
    struct kv_ranks_options kv = kv_options(values);
    if (!values->wire.address)
        *exit_code_out = command_misused("--connect is missing: the gateway's address");
    else if (unit_program_role_of(values) != UNIT_BOTH && !values->kv_listen)
        *exit_code_out = command_misused("--role %s needs --kv-listen: this machine's "
                                         "address, for the prompts' KV blocks",
                                         values->role);
    else if (values->unit.instance && !is_instance(values->unit.instance))
        *exit_code_out =
            command_misused("--instance: expected %d hexadecimal digits, found '%.40s'",
                            UNIT_INSTANCE_DIGITS, values->unit.instance);
    else if (kv_ranks_wanted(&kv) && rank_job_is_rank(&values->job) && !kv.control)
        *exit_code_out =
            command_misused("--kv-listen, --kv-dir and --kv-host with several ranks need "
                            "--kv-control: an address for rank 0, e.g. ipc:///tmp/unit1.ranks");
    else
        return unit_side_misused(&values->unit, exit_code_out);
    return true;
}

static enum status unit_program_process_run(struct unit_process *process, struct error *error) {
    struct unit_values *values = &process->values;
    struct loop_parts parts = {.ready = unit_program_say_ready,
                               .finish_ns_max = drain_option_end_ns(values->drain_timeout)};
    char name[256];
    enum status status = wire_options_read(&values->wire, false, &parts.wire, error);
    if (!status) status = loop_open(NULL, 0, &process->loop, error);
    const struct kv_ranks_options kv = kv_options(values);
    if (!status)
        status = unit_side_open(&process->unit, &values->run, &values->job, &values->unit,
                                &values->record, unit_program_role_of(values), &kv, process->loop,
                                error);
    if (status) return status;
    model_run_name(process->unit.directory, NULL, name);
    unit_side_say(&process->unit, name);
    unit_side_join(&process->unit, &parts);
    return loop_run(process->loop, &parts, error);
}

/* For several ranks, or one on another host, started by a user: runs them as a job. This process is
 * their supervisor. */
static enum status process_supervise(struct unit_process *process, struct error *error) {
    struct unit_values *values = &process->values;
    struct loop_parts parts = {.ready = NULL};
    const struct supervised_unit unit = {(uint32_t)values->job.ranks, unit_program_role_of(values),
                                         values->kv_listen};
    struct unit_supervisor_options options = {.table = &unit_options,
                                              .values = values,
                                              .unit_supervisor = &values->unit_supervisor,
                                              .job = &values->job,
                                              .log = &values->log,
                                              .model = values->run.model,
                                              .device = values->run.device,
                                              .force = values->run.force,
                                              .kv_bytes = values->unit.kv_memory,
                                              .units = &unit,
                                              .unit_count = 1,
                                              .threads = values->run.threads,
                                              .finish_ns_max =
                                                  drain_option_end_ns(values->drain_timeout),
                                              .address = values->wire.address};
    enum status status =
        unit_supervisor_check_device(&values->unit_supervisor, values->run.device, error);
    if (!status) status = loop_open(NULL, 0, &process->loop, error);
    if (!status)
        status = unit_supervisor_open(&options, process->loop, &process->unit_supervisor, error);
    if (status) return status;
    unit_supervisor_start(process->unit_supervisor);
    return loop_run(process->loop, &parts, error);
}

static enum status process_start(struct unit_process *process, struct error *error) {
    const struct unit_values *values = &process->values;
    bool spreads =
        values->job.ranks > 1 || values->unit_supervisor.hosts || values->unit_supervisor.hostfile;
    if (spreads && !values->health && !rank_job_is_rank(&values->job))
        return process_supervise(process, error);
    return unit_program_process_run(process, error);
}

int program_unit(void *given, const struct option_result *result) {
    struct unit_process process = {.loop = NULL};
    const struct unit_values *values = &process.values;
    struct error error;
    int exit_code;
    process.values = *(const struct unit_values *)given;
    log_start(values->log.format, values->log.level, true);
    command_warn_idle(values);
    if (!find_kv_address(&process.values, &exit_code) || is_misused(values, &exit_code))
        return exit_code;
    if (values->health && rank_health_join(values->health, job_rank_assigned(), &error))
        return command_failed(STATUS_IO, &error);
    prepare_ranks(values);
    rank_job_watch(values->unit_supervisor.rank_timeout,
                   values->health ? RANK_HEALTH_STARTS_AGAIN : EXIT_CODE_FAILED, values->health);
    if (rank_job_begin(RANK_JOB_JOINED, &values->job, &exit_code)) return exit_code;
    enum status status = process_start(&process, &error);
    exit_code = command_end(status, &error);
    unit_supervisor_close(process.unit_supervisor);
    unit_side_leave(&process.unit);
    if (process.loop && !loop_close(process.loop)) _exit(exit_code);
    unit_side_close(&process.unit);
    wire_options_close(&process.values.wire);
    return exit_code;
}
