/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/fleet_runner.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/fleet/fleet_status.h"
#include "host/fleet/gateway_watch.h"
#include "host/fleet/launcher.h"
#include "host/process/child_process.h"
#include "host/process/log/log.h"

#define REPORTED_BYTES ((size_t)256 << 10)
#define POLL_NS_MAX ((int64_t)1000000000)
/* this much too early is better than a whole interval too late */
#define POLL_EARLY_NS ((int64_t)50000000)
#define HISTORY_BYTES_MAX ((size_t)64 << 20)

struct fleet_runner {
    const struct fleet_file *file;
    char tag[FLEET_TAG_DIGITS + 1];
    struct unit_launcher launcher;
    struct gateway_watch *watch;
    struct fleet_keeper *keeper;
    struct machine machine; /* machine of the keeper */
    void *memory;
    struct fleet_book book; /* last version written */
    int64_t launcher_ns;    /* time of the last query of the launcher; 0: never */
    bool launcher_responds;
    struct error launcher_error;    /* reason why it does not respond */
    char trouble[512], logged[512]; /* trouble of this round, and the last one logged */
    int64_t history_ns;             /* time of the last line */
    char *reported;                 /* [REPORTED_BYTES] */
    struct record_fleet_jobs *jobs; /* current response, [MANAGED_UNITS_MAX] jobs */
};

static int64_t wall_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool same_book(const struct fleet_book *a, const struct fleet_book *b) {
    if (a->last_number != b->last_number || a->count != b->count) return false;
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        if (a->pinned[side] != b->pinned[side]) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->units[i].number != b->units[i].number || a->units[i].role != b->units[i].role ||
            a->units[i].drained_by_operator != b->units[i].drained_by_operator)
            return false;
    return true;
}

static void fleet_runner_write_book(struct fleet_runner *runner) {
    struct fleet_book book;
    struct error error;
    fleet_keeper_book(runner->keeper, &book);
    if (same_book(&book, &runner->book)) return;
    if (fleet_folder_write_book(runner->file->folder, &book, &error))
        log_say(LOG_ERROR, "fleet", "its book cannot be written why=%s", error.text);
    else
        runner->book = book;
}

static void fleet_runner_perform_all(struct fleet_runner *runner);

/* ---- polling ---- */

static void fleet_runner_pass(struct fleet_runner *runner, const struct record *record) {
    check(record_valid(record, record->bytes));
    while (runner->machine.receive(runner->machine.self, record, clock_now_ns()) == STATUS_FULL) {
        runner->machine.step(runner->machine.self, clock_now_ns());
        fleet_runner_perform_all(runner);
    }
}

static void note_launched(void *context, const struct launched_unit *unit) {
    struct fleet_runner *runner = context;
    if (runner->jobs->job_count == MANAGED_UNITS_MAX) return;
    if (!fleet_keeper_find(runner->keeper, unit->number))
        log_say(LOG_INFO, "fleet", "takes a unit over unit=%u role=%s job=%s", unit->number,
                record_unit_role_name(unit->role), unit->job);
    struct launcher_job *job = &fleet_jobs(runner->jobs)[runner->jobs->job_count++];
    *job =
        (struct launcher_job){.number = unit->number, .role = unit->role, .pending = unit->pending};
    memcpy(job->name, unit->job, sizeof job->name);
}

static void note_trouble(struct fleet_runner *runner, const char *text) {
    if (!runner->trouble[0]) snprintf(runner->trouble, sizeof runner->trouble, "%s", text);
}

/* Polls the launcher at the manager's interval, less often than gateways: it may connect to each
 * host, or query a controller that others use. */
static void fleet_runner_poll_launcher(struct fleet_runner *runner) {
    struct unit_launcher *launcher = &runner->launcher;
    int64_t now_ns = clock_now_ns();
    if (!runner->launcher_ns ||
        now_ns - runner->launcher_ns >= runner->file->manager.decide_ns - POLL_EARLY_NS) {
        runner->launcher_ns = now_ns;
        *runner->jobs = (struct record_fleet_jobs){.responds = 1};
        runner->launcher_responds =
            !launcher->list(launcher->self, note_launched, runner, &runner->launcher_error);
        if (!runner->launcher_responds) *runner->jobs = (struct record_fleet_jobs){.responds = 0};
        record_set_head(runner->jobs, RECORD_FLEET_JOBS);
        fleet_runner_pass(runner, &runner->jobs->record);
    }
    if (!runner->launcher_responds) note_trouble(runner, runner->launcher_error.text);
}

static void fleet_runner_poll_gateways(struct fleet_runner *runner) {
    struct error error;
    for (uint32_t i = 0; i < runner->file->gateways.count; i++) {
        const struct record_fleet_gateway *report;
        if (gateway_watch_poll(runner->watch, i, &report, &error)) note_trouble(runner, error.text);
        fleet_runner_pass(runner, &report->record);
        for (uint32_t unit = 0; unit < report->unit_count; unit++)
            if (fleet_gateway_units(report)[unit].number &&
                fleet_gateway_units(report)[unit].refused)
                log_say(LOG_WARNING, "fleet", "a gateway refuses a unit unit=%u",
                        fleet_gateway_units(report)[unit].number);
    }
}

static void say_trouble(struct fleet_runner *runner) {
    if (strcmp(runner->trouble, runner->logged) == 0) return;
    if (runner->trouble[0])
        log_say(LOG_WARNING, "fleet", "cannot be seen whole, what runs is left alone why=%s",
                runner->trouble);
    else
        log_say(LOG_INFO, "fleet", "can be seen whole again");
    memcpy(runner->logged, runner->trouble, sizeof runner->logged);
}

static void log_command(const struct record_fleet_command *command) {
    char units[12] = "auto";
    if (command->count != FLEET_UNPINNED) snprintf(units, sizeof units, "%u", command->count);
    if (command->kind == FLEET_COMMAND_PIN)
        log_say(LOG_INFO, "fleet", "an operator's order wish=%s role=%s units=%s", "pin",
                record_unit_role_name(command->role), units);
    else
        log_say(LOG_INFO, "fleet", "an operator's order wish=%s unit=%u",
                command->kind == FLEET_COMMAND_DRAIN ? "drain" : "resume", command->number);
}

static void obey_commands(struct fleet_runner *runner) {
    struct record_fleet_command command;
    while (fleet_folder_take_command(runner->file->folder, &command)) {
        log_command(&command);
        fleet_runner_pass(runner, &command.record);
    }
}

/* ---- actions ---- */

static enum status fleet_runner_launch(struct fleet_runner *runner, uint32_t number, uint32_t role,
                                       struct error *error) {
    const struct fleet_file *file = runner->file;
    const uint32_t side = role == UNIT_PREFILL ? SCALE_PREFILL : SCALE_DECODE;
    struct command_line line = {.count = 0};
    char instance[2 * FLEET_TAG_DIGITS + 1], log_path[FLEET_PATH_BYTES];
    snprintf(instance, sizeof instance, "%s%06x", runner->tag, number & 0xffffff);
    snprintf(log_path, sizeof log_path, "%.400s/logs/unit-%u.log", file->folder, number);
    const char *const fixed[] = {
        "unit",        "--connect",     file->connect, "--role", record_unit_role_name(role),
        "--kv-listen", file->kv_listen, "--instance",  instance, NULL};
    bool fits = command_line_add_all(&line, file->program.words) &&
                command_line_add_all(&line, fixed) &&
                command_line_add_all(&line, file->arguments[SCALE_SIDES].words) &&
                command_line_add_all(&line, file->arguments[side].words);
    if (!fits) return error_set(error, STATUS_TOO_LARGE, "a unit's command line is too long");
    struct launch_request request = {.number = number,
                                     .role = (enum unit_role)role,
                                     .nodes = file->manager.rule.sides[side].unit_nodes,
                                     .instance = instance,
                                     .argv = line.words,
                                     .log_path = log_path};
    return runner->launcher.start(runner->launcher.self, &request, error);
}

static void start(struct fleet_runner *runner, const struct record_fleet_action *action) {
    struct error error;
    log_say(LOG_INFO, "fleet", "starts a unit unit=%u role=%s why=%s", action->number,
            record_unit_role_name(action->role),
            scale_fleet_reason_name((enum scale_reason)action->reason));
    if (!fleet_runner_launch(runner, action->number, action->role, &error)) return;
    log_say(LOG_WARNING, "fleet", "a unit could not be launched unit=%u why=%s", action->number,
            error.text);
    struct record_fleet_unit failed = {
        .number = action->number, .role = action->role, .observed_state = FLEET_UNIT_LAUNCH_FAILED};
    record_set_head(&failed, RECORD_FLEET_UNIT);
    fleet_runner_pass(runner, &failed.record);
}

static void fleet_runner_perform(struct fleet_runner *runner,
                                 const struct record_fleet_action *action) {
    static const char *const names[FLEET_ACT_COUNT] = {
        [FLEET_ACT_START] = "start",      [FLEET_ACT_DRAIN] = "drain",
        [FLEET_ACT_RESUME] = "call back", [FLEET_ACT_ROLE] = "convert",
        [FLEET_ACT_STOP] = "end",         [FLEET_ACT_KILL] = "end at once"};
    const struct kept_unit *unit = fleet_keeper_find(runner->keeper, action->number);
    struct error error;
    if (action->act == FLEET_ACT_START) {
        start(runner, action);
        return;
    }
    log_say(LOG_INFO, "fleet", "acts on a unit act=%s unit=%u requests=%u why=%s",
            names[action->act], action->number,
            unit ? fleet_keeper_requests(runner->keeper, unit) : 0,
            scale_fleet_reason_name((enum scale_reason)action->reason));
    if (action->act == FLEET_ACT_STOP || action->act == FLEET_ACT_KILL) {
        runner->launcher.stop(runner->launcher.self, action->number, action->act == FLEET_ACT_KILL);
        return;
    }
    if (gateway_watch_order(runner->watch, action, &error))
        log_say(LOG_WARNING, "fleet", "an order did not reach a unit unit=%u why=%s",
                action->number, error.text);
}

static void say_gone(const struct record_fleet_unit *unit) {
    log_say(LOG_INFO, "fleet", "a unit is gone unit=%u role=%s", unit->number,
            record_unit_role_name(unit->role));
}

/* Writes units to the book before they start, so that the next manager looks for them. */
static void fleet_runner_perform_all(struct fleet_runner *runner) {
    struct outbox *outbox = runner->machine.outbox;
    fleet_runner_write_book(runner);
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));)
        if (record->kind == RECORD_FLEET_UNIT)
            say_gone((const struct record_fleet_unit *)record);
        else
            fleet_runner_perform(runner, (const struct record_fleet_action *)record);
    machine_outbox_clear(outbox);
}

/* ---- status ---- */

static void fleet_runner_write_reported(struct fleet_runner *runner, const char *name,
                                        void (*write)(struct json_writer *writer,
                                                      const struct fleet_moment *reported),
                                        const struct fleet_moment *reported) {
    struct json_writer writer = {.out = runner->reported, .room = REPORTED_BYTES};
    struct error error;
    write(&writer, reported);
    if (!json_writer_fits(&writer)) return;
    struct bytes text = {runner->reported, writer.count};
    if (fleet_folder_write(runner->file->folder, name, text, &error))
        log_say(LOG_WARNING, "fleet", "its status cannot be written why=%s", error.text);
}

static void write_history(struct fleet_runner *runner, int64_t wall_ns) {
    int64_t part_ns = runner->file->manager.calendar.period_ns / FORECAST_PARTS;
    struct fleet_outlook outlook = fleet_manager_outlook(fleet_keeper_manager(runner->keeper));
    struct error error;
    char line[256];
    if (!outlook.has_load || wall_ns - runner->history_ns < part_ns) return;
    runner->history_ns = wall_ns;
    const struct forecast_load *forecast =
        fleet_manager_forecast(fleet_keeper_manager(runner->keeper));
    snprintf(line, sizeof line, "%.3f,%.3f,%.3f,%u,%u,%u,%u,%u\n", (double)wall_ns / 1e9,
             forecast->recent[SCALE_PREFILL], forecast->recent[SCALE_DECODE],
             outlook.units[SCALE_PREFILL], outlook.units[SCALE_DECODE],
             outlook.wanted[SCALE_PREFILL], outlook.wanted[SCALE_DECODE], outlook.nodes);
    if (fleet_folder_append(runner->file->folder, "history.csv", line, &error))
        log_say(LOG_WARNING, "fleet", "its history cannot be written why=%s", error.text);
}

static void publish(struct fleet_runner *runner, int64_t wall_ns) {
    struct fleet_moment reported = {.file = runner->file,
                                    .manager = fleet_keeper_manager(runner->keeper),
                                    .wall_ns = wall_ns,
                                    .launcher = runner->launcher.name,
                                    .trouble = runner->trouble};
    reported.units = fleet_keeper_units(runner->keeper, &reported.unit_count);
    fleet_runner_write_book(runner);
    fleet_runner_write_reported(runner, "status.json", fleet_status_write_json, &reported);
    fleet_runner_write_reported(runner, "status.txt", fleet_status_write_table, &reported);
    fleet_runner_write_reported(runner, "metrics.prom", fleet_status_write_metrics, &reported);
    write_history(runner, wall_ns);
}

/* ---- rounds ---- */

void fleet_runner_run_round(struct fleet_runner *runner) {
    runner->trouble[0] = 0;
    fleet_keeper_set_wall(runner->keeper, wall_now_ns() - clock_now_ns());
    fleet_runner_poll_launcher(runner);
    fleet_runner_poll_gateways(runner);
    say_trouble(runner);
    obey_commands(runner);
    runner->machine.step(runner->machine.self, clock_now_ns());
    fleet_runner_perform_all(runner);
    publish(runner, wall_now_ns());
}

void fleet_runner_run(struct fleet_runner *runner, const volatile int *ends) {
    int64_t between_ns = runner->file->manager.decide_ns;
    if (between_ns > POLL_NS_MAX) between_ns = POLL_NS_MAX;
    while (!*ends) {
        int64_t began_ns = clock_now_ns();
        fleet_runner_run_round(runner);
        int64_t left_ns = between_ns - (clock_now_ns() - began_ns);
        if (left_ns > 0 && !*ends) poll(NULL, 0, (int)(left_ns / 1000000) + 1);
    }
    log_say(LOG_INFO, "fleet", "its manager ends, running units continue units=%u",
            runner->book.count);
}

/* Reads the loads of earlier days. */
static void fleet_runner_learn(struct fleet_runner *runner) {
    char path[FLEET_PATH_BYTES], line[256];
    double at_s, rates[SCALE_SIDES];
    snprintf(path, sizeof path, "%.400s/history.csv", runner->file->folder);
    FILE *history = fopen(path, "re");
    if (!history) return;
    while (fgets(line, sizeof line, history))
        if (fleet_folder_read_history(line, &at_s, rates)) {
            runner->history_ns = (int64_t)(at_s * 1e9);
            forecast_load_add(fleet_manager_forecast(fleet_keeper_manager(runner->keeper)), rates,
                              runner->history_ns);
        }
    fclose(history);
}

static enum status open_keeper(struct fleet_runner *runner, struct error *error) {
    const struct fleet_keeper_options options = {.manager = runner->file->manager,
                                                 .gateway_count = runner->file->gateways.count,
                                                 .list_delay_max_ns =
                                                     runner->launcher.list_delay_max_ns,
                                                 .wall_ns = wall_now_ns() - clock_now_ns()};
    size_t bytes = fleet_keeper_bytes();
    struct arena arena;
    runner->memory = malloc(bytes);
    runner->reported = malloc(REPORTED_BYTES);
    runner->jobs =
        calloc(1, sizeof *runner->jobs + MANAGED_UNITS_MAX * sizeof(struct launcher_job));
    if (!runner->memory || !runner->reported || !runner->jobs)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the fleet's manager");
    arena_over(&arena, runner->memory, bytes);
    enum status status =
        fleet_keeper_create(&arena, &options, &runner->book, clock_now_ns(), &runner->keeper);
    if (status) return error_set(error, status, "no memory for the fleet's manager");
    runner->machine = fleet_keeper_machine(runner->keeper);
    return STATUS_OK;
}

static enum status open_launcher(struct fleet_runner *runner, struct error *error) {
    static const char *const ssh[] = {"ssh", "-oBatchMode=yes", "-oConnectTimeout=5", NULL};
    const struct fleet_file *file = runner->file;
    const struct launch_hosts_options hosts = {
        .hosts = file->hosts.words,
        .host_count = file->hosts.count,
        .units_per_host_max = file->host_units,
        .remote_shell = file->remote_shell.count ? file->remote_shell.words : ssh};
    if (strcmp(file->launcher, "slurm") == 0)
        return launch_slurm_open(runner->tag, file->slurm.words, &runner->launcher, error);
    if (strcmp(file->launcher, "hosts") == 0)
        return launch_hosts_open(runner->tag, &hosts, &runner->launcher, error);
    return launch_local_open(runner->tag, &runner->launcher, error);
}

enum status fleet_runner_open(const struct fleet_file *file, struct fleet_runner **runner_out,
                              struct error *error) {
    struct fleet_runner *runner = calloc(1, sizeof *runner);
    if (!runner) return error_set(error, STATUS_NO_MEMORY, "no memory for the fleet's manager");
    runner->file = file;
    launcher_tag(file->name, runner->tag);
    enum status status = fleet_folder_make(file->folder, error);
    if (!status) status = fleet_folder_lock(file->folder, error);
    if (!status) status = fleet_folder_read_book(file->folder, &runner->book, error);
    if (!status) status = open_launcher(runner, error);
    if (!status) status = open_keeper(runner, error);
    if (!status) status = gateway_watch_open(file, runner->tag, &runner->watch, error);
    if (status) {
        fleet_runner_close(runner);
        return status;
    }
    fleet_runner_learn(runner);
    *runner_out = runner;
    return STATUS_OK;
}

void fleet_runner_close(struct fleet_runner *runner) {
    if (!runner) return;
    gateway_watch_close(runner->watch);
    if (runner->launcher.close) runner->launcher.close(runner->launcher.self);
    free(runner->memory);
    free(runner->reported);
    free(runner->jobs);
    free(runner);
}
