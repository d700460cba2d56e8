/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/fleet_keeper.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/fleet/fleet_status.h"
#include "host/process/log/log.h"

#define REPORTED_BYTES ((size_t)256 << 10)
#define LOOK_NS_MAX ((int64_t)1000000000)
#define LOOK_EARLY_NS ((int64_t)50000000) /* rather that much too soon than a whole look too late */
#define HISTORY_BYTES_MAX ((size_t)64 << 20)

struct fleet_keeper {
    const struct fleet_file *file;
    char mark[FLEET_MARK_DIGITS + 1];
    struct unit_launcher launcher;
    struct gateway_watch *watch;
    struct fleet_manager *manager;
    struct machine machine;
    void *memory;
    uint32_t unit_count;
    struct kept_unit units[MANAGED_UNITS_MAX];
    struct fleet_book book; /* as it was written last */
    struct gateway_sight sight;
    bool launcher_known;          /* who is there, of its last look */
    int64_t launcher_ns;          /* when that was; 0: never */
    struct error launcher_error;  /* why it is not known */
    char trouble[512], said[512]; /* of this look, and the last that the log said */
    int64_t history_ns;           /* the last line's time */
    char *reported;               /* [REPORTED_BYTES] */
};

static int64_t wall_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- units ---- */

static struct kept_unit *find(struct fleet_keeper *keeper, uint32_t number) {
    for (uint32_t i = 0; i < keeper->unit_count; i++)
        if (keeper->units[i].number == number) return &keeper->units[i];
    return NULL;
}

static struct kept_unit *add(struct fleet_keeper *keeper, uint32_t number, uint32_t role) {
    struct kept_unit *unit = find(keeper, number);
    if (unit || keeper->unit_count == MANAGED_UNITS_MAX) return unit;
    unit = &keeper->units[keeper->unit_count++];
    *unit = (struct kept_unit){.number = number, .role = role, .ordered_ns = clock_now_ns()};
    if (number > keeper->book.last_number) keeper->book.last_number = number;
    return unit;
}

static void fleet_keeper_forget(struct fleet_keeper *keeper, struct kept_unit *unit) {
    *unit = keeper->units[--keeper->unit_count];
}

static bool same_book(const struct fleet_book *a, const struct fleet_book *b) {
    if (a->last_number != b->last_number || a->count != b->count) return false;
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        if (a->pinned[side] != b->pinned[side]) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->units[i].number != b->units[i].number || a->units[i].role != b->units[i].role ||
            a->units[i].held != b->units[i].held)
            return false;
    return true;
}

/* Writes the state that a new manager needs. */
static void fleet_keeper_write_book(struct fleet_keeper *keeper) {
    struct fleet_book book = keeper->book;
    struct error error;
    book.count = 0;
    for (uint32_t i = 0; i < keeper->unit_count; i++)
        book.units[book.count++] = (struct fleet_book_unit){
            keeper->units[i].number, keeper->units[i].role, keeper->units[i].held};
    if (same_book(&book, &keeper->book)) return;
    if (fleet_folder_write_book(keeper->file->folder, &book, &error))
        log_say(LOG_ERROR, "fleet", "its book cannot be written why=%s", error.text);
    else
        keeper->book = book;
}

/* ---- looking ---- */

static void see_launched(void *context, const struct launch_seen *seen) {
    struct fleet_keeper *keeper = context;
    struct kept_unit *unit = find(keeper, seen->number);
    if (!unit) {
        unit = add(keeper, seen->number, seen->role);
        if (!unit) return;
        log_say(LOG_INFO, "fleet", "takes a unit over unit=%u role=%s job=%s", seen->number,
                record_unit_role_name(seen->role), seen->job);
    }
    unit->is_there = true;
    unit->launched = seen->waits ? FLEET_SEEN_QUEUED : FLEET_SEEN_STARTING;
    memcpy(unit->job, seen->job, sizeof unit->job);
}

static void note_trouble(struct fleet_keeper *keeper, const char *text) {
    if (!keeper->trouble[0]) snprintf(keeper->trouble, sizeof keeper->trouble, "%s", text);
}

/* A look may be a connection to each host, or a question to a controller that others ask, too: one is taken
 * for each choice of the manager, while gateways are asked more often. */
static void fleet_keeper_look_at_launcher(struct fleet_keeper *keeper) {
    struct unit_launcher *launcher = &keeper->launcher;
    int64_t now_ns = clock_now_ns();
    if (!keeper->launcher_ns ||
        now_ns - keeper->launcher_ns >= keeper->file->manager.decide_ns - LOOK_EARLY_NS) {
        keeper->launcher_ns = now_ns;
        for (uint32_t i = 0; i < keeper->unit_count; i++)
            keeper->units[i].is_there = false;
        keeper->launcher_known =
            !launcher->look(launcher->self, see_launched, keeper, &keeper->launcher_error);
    }
    for (uint32_t i = 0; i < keeper->unit_count; i++)
        keeper->units[i].sight = keeper->units[i].launched;
    if (!keeper->launcher_known) note_trouble(keeper, keeper->launcher_error.text);
}

static void fleet_keeper_look_at_gateways(struct fleet_keeper *keeper) {
    struct error error;
    if (gateway_watch_look(keeper->watch, &keeper->sight, &error)) note_trouble(keeper, error.text);
    for (uint32_t i = 0; i < keeper->sight.unit_count; i++) {
        const struct watched_unit *seen = &keeper->sight.units[i];
        struct kept_unit *unit = find(keeper, seen->number);
        if (!unit) unit = add(keeper, seen->number, seen->role);
        if (!unit) continue;
        if (seen->refused)
            log_say(LOG_WARNING, "fleet", "a gateway refuses a unit unit=%u", seen->number);
        if (seen->role != UNIT_BOTH) unit->role = seen->role;
        unit->requests = seen->requests;
        unit->alone = seen->alone;
        unit->sight = seen->sight;
    }
}

/* A unit that neither the launcher nor a gateway knows is gone, if the launcher answers and the unit has
 * had the time to appear. */
static bool fleet_keeper_is_gone(const struct fleet_keeper *keeper, const struct kept_unit *unit) {
    return keeper->launcher_known && !unit->is_there &&
           keeper->launcher_ns - unit->ordered_ns >= keeper->launcher.shows_ns;
}

static void say_trouble(struct fleet_keeper *keeper) {
    if (strcmp(keeper->trouble, keeper->said) == 0) return;
    if (keeper->trouble[0])
        log_say(LOG_WARNING, "fleet", "cannot be seen whole, what runs is left alone why=%s",
                keeper->trouble);
    else
        log_say(LOG_INFO, "fleet", "can be seen whole again");
    memcpy(keeper->said, keeper->trouble, sizeof keeper->said);
}

/* ---- telling the manager ---- */

static void fleet_keeper_report(struct fleet_keeper *keeper, const struct record *record,
                                int64_t wall_ns);

static void fleet_keeper_notify_unit(struct fleet_keeper *keeper, const struct kept_unit *unit,
                                     uint32_t sight, int64_t wall_ns) {
    struct record_fleet_unit record = {.number = unit->number,
                                       .role = unit->role,
                                       .sight = sight,
                                       .requests = unit->requests,
                                       .held = unit->held,
                                       .alone = unit->alone};
    record_set_head(&record, RECORD_FLEET_UNIT);
    fleet_keeper_report(keeper, &record.record, wall_ns);
}

static void fleet_keeper_notify_units(struct fleet_keeper *keeper, int64_t wall_ns) {
    for (uint32_t i = keeper->unit_count; i-- > 0;) {
        struct kept_unit *unit = &keeper->units[i];
        if (fleet_keeper_is_gone(keeper, unit)) {
            log_say(LOG_INFO, "fleet", "a unit is gone unit=%u role=%s job=%s", unit->number,
                    record_unit_role_name(unit->role), unit->job);
            fleet_keeper_notify_unit(keeper, unit, FLEET_SEEN_GONE, wall_ns);
            fleet_keeper_forget(keeper, unit);
        } else if (keeper->launcher_known || keeper->sight.has_load) {
            fleet_keeper_notify_unit(keeper, unit, unit->sight, wall_ns);
        }
        if (keeper->unit_count == 0) break;
    }
}

static void say_order(const struct record_fleet_order *order) {
    char units[12] = "auto";
    if (order->count != FLEET_UNPINNED) snprintf(units, sizeof units, "%u", order->count);
    if (order->wish == FLEET_WISH_PIN)
        log_say(LOG_INFO, "fleet", "an operator's order wish=%s role=%s units=%s", "pin",
                record_unit_role_name(order->role), units);
    else
        log_say(LOG_INFO, "fleet", "an operator's order wish=%s unit=%u",
                order->wish == FLEET_WISH_DRAIN ? "drain" : "resume", order->number);
}

static void obey_orders(struct fleet_keeper *keeper, int64_t wall_ns) {
    struct record_fleet_order order;
    while (fleet_folder_take_order(keeper->file->folder, &order)) {
        struct kept_unit *unit = find(keeper, order.number);
        if (order.wish == FLEET_WISH_PIN) {
            keeper->book.pinned[order.role == UNIT_PREFILL ? SCALE_PREFILL : SCALE_DECODE] =
                order.count;
            keeper->book.count = UINT32_MAX; /* it is to be written */
        } else if (unit) {
            unit->held = order.wish == FLEET_WISH_DRAIN;
        }
        say_order(&order);
        fleet_keeper_report(keeper, &order.record, wall_ns);
    }
}

/* ---- carrying out ---- */

static bool push(const char **words, uint32_t *count, const char *word) {
    if (*count + 1 >= LAUNCH_WORDS_MAX) return false;
    words[(*count)++] = word;
    words[*count] = NULL;
    return true;
}

static bool fleet_keeper_push_all(const char **words, uint32_t *count,
                                  const struct fleet_words *more) {
    bool fits = true;
    for (uint32_t i = 0; i < more->count; i++)
        fits &= push(words, count, more->words[i]);
    return fits;
}

static enum status fleet_keeper_launch(struct fleet_keeper *keeper, uint32_t number, uint32_t role,
                                       struct error *error) {
    const struct fleet_file *file = keeper->file;
    const uint32_t side = role == UNIT_PREFILL ? SCALE_PREFILL : SCALE_DECODE;
    const char *words[LAUNCH_WORDS_MAX],
        *fixed[] = {
            "unit",        "--connect",     file->connect, "--role", record_unit_role_name(role),
            "--kv-listen", file->kv_listen, "--instance",  NULL};
    char instance[2 * FLEET_MARK_DIGITS + 1], log_path[FLEET_PATH_BYTES];
    uint32_t count = 0;
    snprintf(instance, sizeof instance, "%s%06x", keeper->mark, number & 0xffffff);
    snprintf(log_path, sizeof log_path, "%.400s/logs/unit-%u.log", file->folder, number);
    bool fits = fleet_keeper_push_all(words, &count, &file->program);
    for (uint32_t i = 0; fixed[i]; i++)
        fits &= push(words, &count, fixed[i]);
    fits &= push(words, &count, instance);
    fits &= fleet_keeper_push_all(words, &count, &file->arguments[SCALE_SIDES]);
    fits &= fleet_keeper_push_all(words, &count, &file->arguments[side]);
    if (!fits) return error_set(error, STATUS_TOO_LARGE, "a unit's command line is too long");
    struct launch_order order = {.number = number,
                                 .role = (enum unit_role)role,
                                 .nodes = file->manager.rule.sides[side].unit_nodes,
                                 .instance = instance,
                                 .words = words,
                                 .log_path = log_path};
    return keeper->launcher.start(keeper->launcher.self, &order, error);
}

/* Writes the unit to the book before it starts, so that the next manager looks for it. */
static void start(struct fleet_keeper *keeper, const struct record_fleet_action *action,
                  int64_t wall_ns) {
    struct error error;
    struct kept_unit *unit = add(keeper, action->number, action->role);
    check(unit);
    unit->launched = unit->sight = FLEET_SEEN_QUEUED;
    fleet_keeper_write_book(keeper);
    log_say(LOG_INFO, "fleet", "starts a unit unit=%u role=%s why=%s", action->number,
            record_unit_role_name(action->role),
            scale_fleet_reason_name((enum scale_reason)action->reason));
    if (!fleet_keeper_launch(keeper, action->number, action->role, &error)) return;
    log_say(LOG_WARNING, "fleet", "a unit could not be launched unit=%u why=%s", action->number,
            error.text);
    fleet_keeper_notify_unit(keeper, unit, FLEET_SEEN_REFUSED, wall_ns);
    fleet_keeper_forget(keeper, find(keeper, action->number));
}

static void fleet_keeper_perform(struct fleet_keeper *keeper,
                                 const struct record_fleet_action *action, int64_t wall_ns) {
    static const char *const names[FLEET_ACT_COUNT] = {
        [FLEET_ACT_START] = "start",    [FLEET_ACT_DRAIN] = "drain",
        [FLEET_ACT_BACK] = "call back", [FLEET_ACT_ROLE] = "convert",
        [FLEET_ACT_STOP] = "end",       [FLEET_ACT_KILL] = "end at once"};
    struct kept_unit *unit = find(keeper, action->number);
    struct error error;
    if (action->act == FLEET_ACT_START) {
        start(keeper, action, wall_ns);
        return;
    }
    log_say(LOG_INFO, "fleet", "acts on a unit act=%s unit=%u requests=%u why=%s",
            names[action->act], action->number, unit ? unit->requests : 0,
            scale_fleet_reason_name((enum scale_reason)action->reason));
    if (action->act == FLEET_ACT_STOP || action->act == FLEET_ACT_KILL) {
        keeper->launcher.stop(keeper->launcher.self, action->number, action->act == FLEET_ACT_KILL);
        return;
    }
    if (gateway_watch_order(keeper->watch, action, &error))
        log_say(LOG_WARNING, "fleet", "an order did not reach a unit unit=%u why=%s",
                action->number, error.text);
}

/* Records that arrive while an order is performed follow it. */
static void fleet_keeper_drain_outbox(struct fleet_keeper *keeper, int64_t wall_ns) {
    struct outbox *outbox = keeper->machine.outbox;
    while (outbox->used) {
        const struct record_fleet_action *action =
            (const struct record_fleet_action *)machine_outbox_next(outbox, NULL);
        struct record_fleet_action copy = *action;
        uint32_t bytes = copy.record.bytes;
        memmove(outbox->memory, outbox->memory + bytes, outbox->used - bytes);
        outbox->used -= bytes;
        fleet_keeper_perform(keeper, &copy, wall_ns);
    }
}

static void fleet_keeper_report(struct fleet_keeper *keeper, const struct record *record,
                                int64_t wall_ns) {
    struct machine *machine = &keeper->machine;
    check(record_valid(record, record->bytes));
    if (machine->receive(machine->self, record, wall_ns) == STATUS_FULL)
        log_say(LOG_WARNING, "fleet", "the manager has too much to say");
}

/* ---- what others read ---- */

static void fleet_keeper_write_reported(struct fleet_keeper *keeper, const char *name,
                                        void (*write)(struct json_writer *writer,
                                                      const struct fleet_moment *reported),
                                        const struct fleet_moment *reported) {
    struct json_writer writer = {.out = keeper->reported, .room = REPORTED_BYTES};
    struct error error;
    write(&writer, reported);
    if (!json_writer_fits(&writer)) return;
    struct bytes text = {keeper->reported, writer.count};
    if (fleet_folder_write(keeper->file->folder, name, text, &error))
        log_say(LOG_WARNING, "fleet", "its status cannot be written why=%s", error.text);
}

static void write_history(struct fleet_keeper *keeper, int64_t wall_ns) {
    int64_t part_ns = keeper->file->manager.calendar.period_ns / FORECAST_PARTS;
    struct fleet_outlook outlook = fleet_manager_outlook(keeper->manager);
    struct error error;
    char line[256];
    if (!outlook.has_load || wall_ns - keeper->history_ns < part_ns) return;
    keeper->history_ns = wall_ns;
    const struct forecast_load *forecast = fleet_manager_forecast(keeper->manager);
    snprintf(line, sizeof line, "%.3f,%.3f,%.3f,%u,%u,%u,%u,%u\n", (double)wall_ns / 1e9,
             forecast->recent[SCALE_PREFILL], forecast->recent[SCALE_DECODE],
             outlook.units[SCALE_PREFILL], outlook.units[SCALE_DECODE],
             outlook.wanted[SCALE_PREFILL], outlook.wanted[SCALE_DECODE], outlook.nodes);
    if (fleet_folder_append(keeper->file->folder, "history.csv", line, &error))
        log_say(LOG_WARNING, "fleet", "its history cannot be written why=%s", error.text);
}

static void publish(struct fleet_keeper *keeper, int64_t wall_ns) {
    const struct fleet_moment reported = {.file = keeper->file,
                                          .manager = keeper->manager,
                                          .units = keeper->units,
                                          .unit_count = keeper->unit_count,
                                          .wall_ns = wall_ns,
                                          .launcher = keeper->launcher.name,
                                          .trouble = keeper->trouble};
    fleet_keeper_write_book(keeper);
    fleet_keeper_write_reported(keeper, "status.json", fleet_status_write_json, &reported);
    fleet_keeper_write_reported(keeper, "status.txt", fleet_status_write_table, &reported);
    fleet_keeper_write_reported(keeper, "metrics.prom", fleet_status_write_metrics, &reported);
    write_history(keeper, wall_ns);
}

/* ---- life ---- */

void fleet_keeper_look(struct fleet_keeper *keeper) {
    keeper->trouble[0] = 0;
    fleet_keeper_look_at_launcher(keeper);
    fleet_keeper_look_at_gateways(keeper);
    say_trouble(keeper);
    int64_t wall_ns = wall_now_ns();
    fleet_keeper_notify_units(keeper, wall_ns);
    obey_orders(keeper, wall_ns);
    if (keeper->sight.has_load) fleet_keeper_report(keeper, &keeper->sight.load.record, wall_ns);
    keeper->machine.step(keeper->machine.self, wall_ns);
    fleet_keeper_drain_outbox(keeper, wall_ns);
    publish(keeper, wall_ns);
}

void fleet_keeper_run(struct fleet_keeper *keeper, const volatile int *ends) {
    int64_t between_ns = keeper->file->manager.decide_ns;
    if (between_ns > LOOK_NS_MAX) between_ns = LOOK_NS_MAX;
    while (!*ends) {
        int64_t began_ns = clock_now_ns();
        fleet_keeper_look(keeper);
        int64_t left_ns = between_ns - (clock_now_ns() - began_ns);
        if (left_ns > 0 && !*ends) poll(NULL, 0, (int)(left_ns / 1000000) + 1);
    }
    log_say(LOG_INFO, "fleet", "its manager ends, what runs goes on units=%u", keeper->unit_count);
}

/* Reads the loads of the days before. */
static void fleet_keeper_learn(struct fleet_keeper *keeper) {
    char path[FLEET_PATH_BYTES], line[256];
    double at_s, rates[SCALE_SIDES];
    snprintf(path, sizeof path, "%.400s/history.csv", keeper->file->folder);
    FILE *history = fopen(path, "re");
    if (!history) return;
    while (fgets(line, sizeof line, history))
        if (fleet_folder_read_history(line, &at_s, rates)) {
            keeper->history_ns = (int64_t)(at_s * 1e9);
            forecast_load_add(fleet_manager_forecast(keeper->manager), rates, keeper->history_ns);
        }
    fclose(history);
}

static void fleet_keeper_take_over(struct fleet_keeper *keeper) {
    const struct fleet_book *book = &keeper->book;
    int64_t wall_ns = wall_now_ns();
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        struct record_fleet_order order = {.wish = FLEET_WISH_PIN,
                                           .role = side ? UNIT_DECODE : UNIT_PREFILL,
                                           .count = book->pinned[side]};
        record_set_head(&order, RECORD_FLEET_ORDER);
        fleet_keeper_report(keeper, &order.record, wall_ns);
    }
    for (uint32_t i = 0; i < book->count; i++) {
        struct kept_unit *unit = add(keeper, book->units[i].number, book->units[i].role);
        if (unit) unit->held = book->units[i].held;
    }
}

static enum status open_manager(struct fleet_keeper *keeper, struct error *error) {
    struct fleet_manager_options options = keeper->file->manager;
    size_t bytes = fleet_manager_bytes();
    struct arena arena;
    options.first_number = keeper->book.last_number + 1;
    keeper->memory = malloc(bytes);
    keeper->reported = malloc(REPORTED_BYTES);
    if (!keeper->memory || !keeper->reported)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the fleet's manager");
    arena_over(&arena, keeper->memory, bytes);
    enum status status = fleet_manager_create(&arena, &options, &keeper->manager);
    if (status) return error_set(error, status, "no memory for the fleet's manager");
    keeper->machine = fleet_manager_machine(keeper->manager);
    return STATUS_OK;
}

static enum status open_launcher(struct fleet_keeper *keeper, struct error *error) {
    static const char *const ssh[] = {"ssh", "-oBatchMode=yes", "-oConnectTimeout=5", NULL};
    const struct fleet_file *file = keeper->file;
    const struct launch_hosts_options hosts = {
        .hosts = file->hosts.words,
        .host_count = file->hosts.count,
        .host_units = file->host_units,
        .remote_shell = file->remote_shell.count ? file->remote_shell.words : ssh};
    if (strcmp(file->launcher, "slurm") == 0)
        return launch_slurm_open(keeper->mark, file->slurm.words, &keeper->launcher, error);
    if (strcmp(file->launcher, "hosts") == 0)
        return launch_hosts_open(keeper->mark, &hosts, &keeper->launcher, error);
    return launch_local_open(keeper->mark, &keeper->launcher, error);
}

enum status fleet_keeper_open(const struct fleet_file *file, struct fleet_keeper **keeper_out,
                              struct error *error) {
    struct fleet_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper) return error_set(error, STATUS_NO_MEMORY, "no memory for the fleet's manager");
    keeper->file = file;
    launcher_mark(file->name, keeper->mark);
    enum status status = fleet_folder_make(file->folder, error);
    if (!status) status = fleet_folder_lock(file->folder, error);
    if (!status) status = fleet_folder_read_book(file->folder, &keeper->book, error);
    if (!status) status = open_manager(keeper, error);
    if (!status) status = open_launcher(keeper, error);
    if (!status) status = gateway_watch_open(file, keeper->mark, &keeper->watch, error);
    if (status) {
        fleet_keeper_close(keeper);
        return status;
    }
    fleet_keeper_learn(keeper);
    fleet_keeper_take_over(keeper);
    *keeper_out = keeper;
    return STATUS_OK;
}

void fleet_keeper_close(struct fleet_keeper *keeper) {
    if (!keeper) return;
    gateway_watch_close(keeper->watch);
    if (keeper->launcher.close) keeper->launcher.close(keeper->launcher.self);
    free(keeper->memory);
    free(keeper->reported);
    free(keeper);
}
