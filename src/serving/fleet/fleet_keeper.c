/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/fleet/fleet_keeper.h"

#include <string.h>

#include "base/check.h"
#include "base/number.h"

/* Has space for one action on each unit at each gateway, and for the end of each unit. */
#define OUTBOX_BYTES                                                                               \
    (MANAGED_UNITS_MAX * (LIMIT_FLEET_GATEWAYS * sizeof(struct record_fleet_action) +              \
                          sizeof(struct record_fleet_unit)))

struct fleet_keeper {
    struct fleet_keeper_options options;
    struct outbox outbox;
    struct fleet_manager *manager;
    struct machine machine; /* the manager's */
    uint32_t last_number, pinned[SCALE_SIDES];
    uint32_t unit_count;
    struct kept_unit units[MANAGED_UNITS_MAX];
    bool launcher_responds;
    int64_t launcher_ns; /* time of its last response */
    bool gateway_responds[LIMIT_FLEET_GATEWAYS];
    struct record_fleet_load loads[LIMIT_FLEET_GATEWAYS];
};

/* ---- units ---- */

const struct kept_unit *fleet_keeper_find(const struct fleet_keeper *keeper, uint32_t number) {
    for (uint32_t i = 0; i < keeper->unit_count; i++)
        if (keeper->units[i].number == number) return &keeper->units[i];
    return NULL;
}

static struct kept_unit *find(struct fleet_keeper *keeper, uint32_t number) {
    return (struct kept_unit *)(uintptr_t)fleet_keeper_find(keeper, number);
}

/* Adds a unit. A unit with both roles counts as a decode unit; it can only result from an
 * operator's order to a gateway. Returns NULL if the table is full. */
static struct kept_unit *add(struct fleet_keeper *keeper, uint32_t number, uint32_t role,
                             int64_t now_ns) {
    struct kept_unit *unit = find(keeper, number);
    if (unit || keeper->unit_count == MANAGED_UNITS_MAX) return unit;
    unit = &keeper->units[keeper->unit_count++];
    *unit = (struct kept_unit){.number = number,
                               .role = role == UNIT_PREFILL ? UNIT_PREFILL : UNIT_DECODE,
                               .launched = FLEET_UNIT_STARTING,
                               .ordered_ns = now_ns};
    keeper->last_number = max_u32(keeper->last_number, number);
    return unit;
}

static void fleet_keeper_forget(struct fleet_keeper *keeper, struct kept_unit *unit) {
    *unit = keeper->units[--keeper->unit_count];
}

/* The state of the unit at the gateways. If they differ, returns the state at a gateway that would
 * send requests to the unit, so that the order is repeated. FLEET_UNIT_STATE_COUNT: no gateway is
 * connected to it. */
static uint32_t state_at_gateways(const struct fleet_keeper *keeper, const struct kept_unit *unit) {
    uint32_t state = FLEET_UNIT_STATE_COUNT;
    for (uint32_t i = 0; i < keeper->options.gateway_count; i++) {
        const struct kept_report *report = &unit->reports[i];
        if (!report->connection) continue;
        if (state == FLEET_UNIT_STATE_COUNT || state == FLEET_UNIT_STARTING ||
            report->observed_state == FLEET_UNIT_SERVING)
            state = report->observed_state;
    }
    return state;
}

static bool has_role(const struct fleet_keeper *keeper, const struct kept_unit *unit,
                     uint32_t role) {
    for (uint32_t i = 0; i < keeper->options.gateway_count; i++)
        if (unit->reports[i].connection &&
            (unit->reports[i].role == role || unit->reports[i].role == UNIT_BOTH))
            return true;
    return false;
}

/* True if another unit of the role has the same numerics, so that an answer can continue there. */
static bool fleet_keeper_has_others(const struct fleet_keeper *keeper, const struct kept_unit *unit,
                                    uint32_t role) {
    for (uint32_t i = 0; i < keeper->unit_count; i++) {
        const struct kept_unit *other = &keeper->units[i];
        if (other != unit && state_at_gateways(keeper, other) == FLEET_UNIT_SERVING &&
            has_role(keeper, other, role) &&
            memcmp(other->numerics, unit->numerics, sizeof unit->numerics) == 0)
            return true;
    }
    return false;
}

uint32_t fleet_keeper_requests(const struct fleet_keeper *keeper, const struct kept_unit *unit) {
    uint32_t requests = 0;
    for (uint32_t i = 0; i < keeper->options.gateway_count; i++)
        requests += unit->reports[i].requests;
    return requests;
}

bool fleet_keeper_has_load(const struct fleet_keeper *keeper) {
    for (uint32_t i = 0; i < keeper->options.gateway_count; i++)
        if (!keeper->gateway_responds[i]) return false;
    return true;
}

/* ---- reports to the manager ---- */

static void pass(struct fleet_keeper *keeper, const struct record *record, int64_t now_ns) {
    check(record_valid(record, record->bytes));
    /* The outbox is emptied after each step. */
    check(machine_pass(&keeper->machine, record, now_ns + keeper->options.wall_ns));
}

static struct record_fleet_unit unit_record(const struct fleet_keeper *keeper,
                                            struct kept_unit *unit, uint32_t state) {
    if (state_at_gateways(keeper, unit) != FLEET_UNIT_STATE_COUNT)
        unit->stranded = !fleet_keeper_has_others(keeper, unit, UNIT_PREFILL) ||
                         !fleet_keeper_has_others(keeper, unit, UNIT_DECODE);
    struct record_fleet_unit record = {.number = unit->number,
                                       .role = unit->role,
                                       .observed_state = state,
                                       .requests = fleet_keeper_requests(keeper, unit),
                                       .drained_by_operator = unit->drained_by_operator,
                                       .stranded = unit->stranded};
    record_set_head(&record, RECORD_FLEET_UNIT);
    return record;
}

static void pass_unit(struct fleet_keeper *keeper, struct kept_unit *unit, uint32_t state,
                      int64_t now_ns) {
    struct record_fleet_unit record = unit_record(keeper, unit, state);
    pass(keeper, &record.record, now_ns);
}

static uint32_t fleet_keeper_state_of(const struct fleet_keeper *keeper,
                                      const struct kept_unit *unit) {
    uint32_t state = state_at_gateways(keeper, unit);
    return state == FLEET_UNIT_STATE_COUNT ? unit->launched : state;
}

/* True if the launcher responds but does not list the unit, although the unit has had the time to
 * appear. */
static bool fleet_keeper_is_gone(const struct fleet_keeper *keeper, const struct kept_unit *unit) {
    return keeper->launcher_responds && !unit->is_there &&
           keeper->launcher_ns - unit->ordered_ns >= keeper->options.list_delay_max_ns;
}

static void pass_units(struct fleet_keeper *keeper, int64_t now_ns) {
    bool sees = keeper->launcher_responds || fleet_keeper_has_load(keeper);
    for (uint32_t i = keeper->unit_count; i-- > 0;) {
        struct kept_unit *unit = &keeper->units[i];
        if (!fleet_keeper_is_gone(keeper, unit)) {
            if (sees) pass_unit(keeper, unit, fleet_keeper_state_of(keeper, unit), now_ns);
            continue;
        }
        struct record_fleet_unit gone = unit_record(keeper, unit, FLEET_UNIT_GONE);
        machine_outbox_put(&keeper->outbox, RECORD_FLEET_UNIT, &gone);
        pass(keeper, &gone.record, now_ns);
        fleet_keeper_forget(keeper, unit);
    }
}

static void pass_load(struct fleet_keeper *keeper, int64_t now_ns) {
    struct record_fleet_load sum = {.requests_queued = 0};
    if (!fleet_keeper_has_load(keeper)) return;
    for (uint32_t i = 0; i < keeper->options.gateway_count; i++) {
        const struct record_fleet_load *one = &keeper->loads[i];
        sum.arrived_requests += one->arrived_requests;
        sum.arrived_tokens += one->arrived_tokens;
        sum.hit_tokens += one->hit_tokens;
        sum.miss_tokens += one->miss_tokens;
        sum.completed += one->completed;
        sum.output_tokens += one->output_tokens;
        sum.first_tokens += one->first_tokens;
        sum.ttft_misses += one->ttft_misses;
        sum.tpot_requests += one->tpot_requests;
        sum.tpot_misses += one->tpot_misses;
        sum.requests_queued += one->requests_queued;
        sum.requests_held += one->requests_held;
    }
    record_set_head(&sum, RECORD_FLEET_LOAD);
    pass(keeper, &sum.record, now_ns);
}

/* ---- the manager's actions ---- */

static void put_action(struct fleet_keeper *keeper, const struct record_fleet_action *action) {
    bool fits = machine_outbox_put(&keeper->outbox, RECORD_FLEET_ACTION, action) != NULL;
    check(fits);
}

static void put_gateway_actions(struct fleet_keeper *keeper,
                                const struct record_fleet_action *action) {
    const struct kept_unit *unit = find(keeper, action->number);
    struct record_fleet_action order = *action;
    for (uint32_t i = 0; unit && i < keeper->options.gateway_count; i++) {
        if (!unit->reports[i].connection) continue;
        order.gateway = i;
        order.connection = unit->reports[i].connection;
        put_action(keeper, &order);
    }
    if (!order.connection) put_action(keeper, &order);
}

static void put_actions(struct fleet_keeper *keeper, int64_t now_ns) {
    struct outbox *outbox = keeper->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        const struct record_fleet_action *action = (const struct record_fleet_action *)record;
        if (action->act == FLEET_ACT_START) {
            struct kept_unit *unit = add(keeper, action->number, action->role, now_ns);
            check(unit);
            unit->launched = FLEET_UNIT_QUEUED;
        }
        if (action->act == FLEET_ACT_START || action->act == FLEET_ACT_STOP ||
            action->act == FLEET_ACT_KILL)
            put_action(keeper, action);
        else
            put_gateway_actions(keeper, action);
    }
    machine_outbox_clear(outbox);
}

/* ---- receiving ---- */

static void take_jobs(struct fleet_keeper *keeper, const struct record_fleet_jobs *jobs,
                      int64_t now_ns) {
    keeper->launcher_responds = jobs->responds;
    if (!jobs->responds) return;
    keeper->launcher_ns = now_ns;
    for (uint32_t i = 0; i < keeper->unit_count; i++)
        keeper->units[i].is_there = false;
    for (uint32_t i = 0; i < jobs->job_count; i++) {
        const struct launcher_job *job = &fleet_jobs(jobs)[i];
        struct kept_unit *unit = add(keeper, job->number, job->role, now_ns);
        if (!unit) continue;
        unit->is_there = true;
        unit->launched = job->pending ? FLEET_UNIT_QUEUED : FLEET_UNIT_STARTING;
        memcpy(unit->job, job->name, sizeof unit->job);
    }
}

/* The requests of a gateway that does not respond still count. */
static void take_gateway(struct fleet_keeper *keeper, const struct record_fleet_gateway *report,
                         int64_t now_ns) {
    uint32_t gateway = report->gateway;
    keeper->gateway_responds[gateway] = report->responds;
    keeper->loads[gateway] = report->load;
    for (uint32_t i = 0; i < keeper->unit_count; i++) {
        struct kept_report *before = &keeper->units[i].reports[gateway];
        uint32_t requests = report->responds ? 0 : before->requests;
        *before = (struct kept_report){.requests = requests};
    }
    for (uint32_t i = 0; i < report->unit_count; i++) {
        const struct fleet_gateway_unit *seen = &fleet_gateway_units(report)[i];
        struct kept_unit *unit =
            seen->number ? add(keeper, seen->number, seen->role, now_ns) : NULL;
        if (!unit) continue;
        unit->reports[gateway] = (struct kept_report){seen->connection, seen->role,
                                                      seen->observed_state, seen->requests};
        memcpy(unit->numerics, seen->numerics, sizeof unit->numerics);
        if (seen->role != UNIT_BOTH) unit->role = seen->role;
    }
}

/* The manager must have the unit before a command can name it. */
static enum status take_command(struct fleet_keeper *keeper,
                                const struct record_fleet_command *command, int64_t now_ns) {
    if (outbox_room(keeper->machine.outbox) < sizeof(struct record_fleet_action))
        return STATUS_FULL;
    struct kept_unit *unit = find(keeper, command->number);
    if (command->kind == FLEET_COMMAND_PIN) {
        keeper->pinned[fleet_manager_side_of(command->role)] = command->count;
    } else if (unit) {
        pass_unit(keeper, unit, fleet_keeper_state_of(keeper, unit), now_ns);
        unit->drained_by_operator = command->kind == FLEET_COMMAND_DRAIN;
    }
    pass(keeper, &command->record, now_ns);
    return STATUS_OK;
}

static void take_failed_launch(struct fleet_keeper *keeper, const struct record_fleet_unit *failed,
                               int64_t now_ns) {
    struct kept_unit *unit = find(keeper, failed->number);
    if (!unit || failed->observed_state != FLEET_UNIT_LAUNCH_FAILED) return;
    pass_unit(keeper, unit, FLEET_UNIT_LAUNCH_FAILED, now_ns);
    fleet_keeper_forget(keeper, unit);
}

static enum status fleet_keeper_receive(void *self, const struct record *record, int64_t now_ns) {
    struct fleet_keeper *keeper = self;
    if (record->kind == RECORD_FLEET_JOBS)
        take_jobs(keeper, (const struct record_fleet_jobs *)record, now_ns);
    else if (record->kind == RECORD_FLEET_GATEWAY)
        take_gateway(keeper, (const struct record_fleet_gateway *)record, now_ns);
    else if (record->kind == RECORD_FLEET_COMMAND)
        return take_command(keeper, (const struct record_fleet_command *)record, now_ns);
    else if (record->kind == RECORD_FLEET_UNIT)
        take_failed_launch(keeper, (const struct record_fleet_unit *)record, now_ns);
    else
        check(false);
    return STATUS_OK;
}

static void fleet_keeper_step(void *self, int64_t now_ns) {
    struct fleet_keeper *keeper = self;
    check(!keeper->outbox.used); /* the host takes all records after each step */
    pass_units(keeper, now_ns);
    pass_load(keeper, now_ns);
    keeper->machine.step(keeper->machine.self, now_ns + keeper->options.wall_ns);
    put_actions(keeper, now_ns);
}

/* The machine never asks for a wake-up: the host polls, and steps it after each poll. */
static int64_t fleet_keeper_next_wake_ns(const void *self) {
    (void)self;
    return MACHINE_NEVER;
}

/* ---- creation ---- */

size_t fleet_keeper_bytes(void) {
    return sizeof(struct fleet_keeper) + OUTBOX_BYTES + fleet_manager_bytes() + 64;
}

static void take_book(struct fleet_keeper *keeper, const struct fleet_book *book, int64_t now_ns) {
    keeper->last_number = book->last_number;
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        struct record_fleet_command command = {.kind = FLEET_COMMAND_PIN,
                                               .role = side == SCALE_PREFILL ? UNIT_PREFILL
                                                                             : UNIT_DECODE,
                                               .count = book->pinned[side]};
        record_set_head(&command, RECORD_FLEET_COMMAND);
        enum status status = take_command(keeper, &command, now_ns);
        check(status == STATUS_OK);
    }
    for (uint32_t i = 0; i < book->count; i++)
        add(keeper, book->units[i].number, book->units[i].role, now_ns)->drained_by_operator =
            book->units[i].drained_by_operator;
}

enum status fleet_keeper_create(struct arena *arena, const struct fleet_keeper_options *options,
                                const struct fleet_book *book, int64_t now_ns,
                                struct fleet_keeper **keeper_out) {
    struct fleet_keeper *keeper = arena_take_zeroed(arena, sizeof *keeper);
    char *memory = arena_take(arena, OUTBOX_BYTES);
    if (!keeper || !memory) return STATUS_NO_MEMORY;
    check(options->gateway_count <= LIMIT_FLEET_GATEWAYS);
    keeper->options = *options;
    keeper->options.manager.first_number = book->last_number + 1;
    keeper->outbox = (struct outbox){.memory = memory, .capacity = OUTBOX_BYTES};
    enum status status = fleet_manager_create(arena, &keeper->options.manager, &keeper->manager);
    if (status) return status;
    keeper->machine = fleet_manager_machine(keeper->manager);
    take_book(keeper, book, now_ns);
    *keeper_out = keeper;
    return STATUS_OK;
}

struct machine fleet_keeper_machine(struct fleet_keeper *keeper) {
    return (struct machine){.self = keeper,
                            .outbox = &keeper->outbox,
                            .receive = fleet_keeper_receive,
                            .step = fleet_keeper_step,
                            .next_wake_ns = fleet_keeper_next_wake_ns};
}

void fleet_keeper_set_wall(struct fleet_keeper *keeper, int64_t wall_ns) {
    keeper->options.wall_ns = wall_ns;
}

/* ---- views ---- */

struct fleet_manager *fleet_keeper_manager(struct fleet_keeper *keeper) {
    return keeper->manager;
}

void fleet_keeper_book(const struct fleet_keeper *keeper, struct fleet_book *book_out) {
    *book_out = (struct fleet_book){.last_number = keeper->last_number};
    memcpy(book_out->pinned, keeper->pinned, sizeof book_out->pinned);
    for (uint32_t i = 0; i < keeper->unit_count; i++)
        book_out->units[book_out->count++] = (struct fleet_book_unit){
            keeper->units[i].number, keeper->units[i].role, keeper->units[i].drained_by_operator};
}

const struct kept_unit *fleet_keeper_units(const struct fleet_keeper *keeper, uint32_t *count_out) {
    *count_out = keeper->unit_count;
    return keeper->units;
}
