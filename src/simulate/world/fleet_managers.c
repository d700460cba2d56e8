/* SPDX-License-Identifier: Apache-2.0
 * The process of a fleet manager in virtual time, and its faults. The keeper has all the state that
 * is lost with the process. The book, the jobs of the launcher and operators' commands survive.
 */
#include "simulate/world/fleet_managers.h"

#include "base/check.h"
#include "base/number.h"
#include "serving/gateway/fleet_report.h"
#include "simulate/world/fleet_state.h"

#define WALL_NS (1000 * DAY_NS)    /* wall-clock time at the start of a run */
#define LOOK_NS (FLEET_SECOND / 5) /* interval of polls */
#define ORPHAN_NS (FLEET_SECOND)   /* time until the manager must have found a running job */
#define LIST_DELAY_MAX_NS (FLEET_SECOND / 2) /* time until a launched job is visible */
#define GIVEN_NS (FLEET_SECOND / 10)         /* longest delay of a promised node */
#define BEGINS_NS_MAX (6 * FLEET_SECOND)     /* longest time until another manager starts */
/* Time after the fault phase until everything that was lost has been reported again. */
#define CALM_NS (12 * FLEET_SECOND)
/* in the fault phase, 1 in DIES_IN_LOOK_OF polls with actions kills the manager */
#define DIES_IN_LOOK_OF 50
/* in the fault phase, 1 in RECORDS_OF records is lost, and 1 is duplicated */
#define RECORDS_OF 24

static const char serves_no_more[] = "a role that is needed was left without a unit that serves";

static int64_t wall_ns(const struct world *world) {
    return WALL_NS + world->now_ns;
}

static bool strikes(const struct world *world) {
    return world->options.faults && world->now_ns < world->healed_ns;
}

/* ---- properties of the fleet ---- */

static double rate_between(struct fleet_dice *dice, double least, double most) {
    return least + fleet_dice_draw(dice) * (most - least);
}

static void choose_promise(struct fleet_managers *it) {
    struct node_calendar *calendar = &it->options.calendar;
    if (fleet_dice_below(&it->dice, 2)) return;
    it->promise_from_ns = fleet_dice_time(&it->dice, 0, DAY_NS / 2);
    it->promise_until_ns = it->promise_from_ns + DAY_NS / 3;
    it->promised = 1 + fleet_dice_below(&it->dice, it->options.nodes - 2);
    calendar->lines[calendar->count++] =
        (struct node_calendar_line){.from_ns = it->promise_from_ns,
                                    .until_ns = it->promise_until_ns,
                                    .promised = it->promised,
                                    .price = -1};
}

static void choose_options(struct world *world) {
    struct fleet_managers *it = &world->managers;
    struct fleet_dice *dice = &it->dice;
    uint32_t nodes = world->unit_count;
    struct scale_rule_side side = {.unit_nodes = 1, .least = 1, .most = nodes - 1, .group = 1};
    struct scale_rule_side sides[SCALE_SIDES] = {side, side};
    sides[SCALE_PREFILL].unit_rate = rate_between(dice, 500, 1500);
    sides[SCALE_DECODE].unit_rate = rate_between(dice, 200, 600);
    it->options = (struct fleet_manager_options){
        .rule = {.sides = {sides[0], sides[1]},
                 .reserve = 0.1,
                 .give_back = 0.1,
                 .rest_ns = fleet_dice_time(dice, FLEET_SECOND, 6 * FLEET_SECOND),
                 .start_ns = fleet_dice_time(dice, FLEET_SECOND / 2, 2 * FLEET_SECOND)},
        .calendar = {.period_ns = DAY_NS, .price = 1},
        .nodes = nodes,
        .ttft_limit_ns = fleet_dice_time(dice, FLEET_SECOND / 2, 4 * FLEET_SECOND),
        .tpot_limit_ns = fleet_dice_time(dice, 20 * FLEET_MS, 200 * FLEET_MS),
        .missed_share = 0.01,
        .decide_ns = LOOK_NS,
        .drain_ns_max = fleet_dice_time(dice, FLEET_SECOND, 5 * FLEET_SECOND),
        .start_ns_max = 6 * FLEET_SECOND,
        .converts = fleet_dice_below(dice, 2),
        .starts_at_once = 1 + fleet_dice_below(dice, nodes),
    };
    choose_promise(it);
}

/* ---- polling ---- */

/* Draws how often a record arrives: 0 to `most` times. */
static uint32_t fleet_managers_arrivals(struct world *world, uint32_t most) {
    uint32_t chance =
        strikes(world) ? fleet_dice_below(&world->managers.launches, RECORDS_OF) : RECORDS_OF;
    world->report->records_lost += chance == 0;
    world->report->records_doubled += chance == 1 && most > 1;
    return chance == 0 ? 0 : min_u32(chance == 1 ? 2 : 1, most);
}

/* Sends a record to the keeper. Returns false if the record is lost. */
static bool fleet_managers_pass(struct world *world, const void *record) {
    const struct record *head = record;
    uint32_t count = fleet_managers_arrivals(world, 2);
    check(record_valid(head, head->bytes));
    for (uint32_t i = 0; i < count; i++)
        check(machine_pass(&world->managers.machine, head, world->now_ns));
    return count > 0;
}

static void fleet_managers_look_at_launcher(struct world *world) {
    struct fleet_managers *it = &world->managers;
    struct {
        struct record_fleet_jobs fixed;
        struct launcher_job jobs[FLEET_JOBS_MAX];
    } record = {.fixed = {.responds = world->now_ns >= it->silent_ns}};
    it->launcher_responds = record.fixed.responds;
    for (uint32_t i = 0; i < FLEET_JOBS_MAX && it->launcher_responds; i++) {
        const struct fleet_unit_job *job = &it->jobs[i];
        if (job->number)
            record.jobs[record.fixed.job_count++] = (struct launcher_job){
                .number = job->number, .role = job->role, .pending = job->node == FLEET_NO_NODE};
    }
    record_set_head(&record.fixed, RECORD_FLEET_JOBS);
    it->launcher_responds &= fleet_managers_pass(world, &record);
}

static void look_at_gateway(struct world *world, uint32_t index) {
    const struct fleet_managers *it = &world->managers;
    const struct gateway *gateway = world->gateways[index].gateway;
    struct {
        struct record_fleet_gateway fixed;
        struct fleet_gateway_unit units[LIMIT_FLEET_UNITS];
    } record = {.fixed = {.responds = 0}};
    if (gateway && it->blind_ns[index] <= world->now_ns)
        fleet_report_fill(gateway, it->options.ttft_limit_ns, it->options.tpot_limit_ns,
                          &record.fixed, record.units);
    for (uint32_t i = 0; i < record.fixed.unit_count; i++)
        record.units[i].number = (uint32_t)(record.units[i].instance >> 32);
    record.fixed.gateway = index;
    record_set_head(&record.fixed, RECORD_FLEET_GATEWAY);
    fleet_managers_pass(world, &record);
}

/* Polls the gateways. Old reports are not passed on, since the keeper has the previous ones. */
static void fleet_managers_look_at_gateways(struct world *world) {
    bool is_stale = world->now_ns < world->managers.stale_ns;
    for (uint32_t i = 0; i < world->gateway_count && !is_stale; i++)
        look_at_gateway(world, i);
}

static void pass_wishes(struct world *world) {
    struct fleet_managers *it = &world->managers;
    for (uint32_t i = 0; i < it->wish_count; i++)
        fleet_managers_pass(world, &it->wishes[i]);
    it->wish_count = 0;
}

/* ---- invariants of decisions ---- */

/* The number of units of a role that serve and are not to drain, as last reported to the
 * manager. */
static uint32_t fleet_managers_count_serving(const struct world *world, uint32_t role) {
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t count = fleet_manager_units(world->managers.manager, units), serving = 0;
    for (uint32_t i = 0; i < count; i++)
        serving += units[i].role == role && units[i].state == MANAGED_SERVING &&
                   units[i].observed_state == FLEET_UNIT_SERVING;
    return serving;
}

static uint32_t promised_now(const struct world *world) {
    const struct fleet_managers *it = &world->managers;
    int64_t within_ns = wall_ns(world) % DAY_NS;
    bool holds = within_ns >= it->promise_from_ns && within_ns < it->promise_until_ns;
    return holds ? it->promised : 0;
}

static void verify_start(struct world *world) {
    uint32_t nodes = fleet_launcher_count(world) + 1 + promised_now(world);
    if (nodes > world->managers.options.nodes)
        world_breach(world, "a unit was started on nodes that there are not");
}

/* Logs the manager's view, for debugging a breach. */
static void report_view(struct world *world) {
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t count = fleet_manager_units(world->managers.manager, units);
    for (uint32_t i = 0; i < count; i++)
        world_log(world, managed_units_state_name(units[i].state), units[i].role, FLEET_LOG_NOWHERE,
                  units[i].number, units[i].observed_state);
}

/* Checks a unit that leaves its role. Only a command of an operator, or a promise, may leave
 * none. */
static void verify_leaving(struct world *world, const struct managed_unit *before,
                           const struct managed_unit *now,
                           const struct record_fleet_action *action) {
    bool is_asked = action->reason == SCALE_PINNED || action->reason == SCALE_PROMISED;
    if (now->observed_state != FLEET_UNIT_SERVING || is_asked) return;
    if (action->act == FLEET_ACT_ROLE && before->role == action->role) return;
    if (before->state != MANAGED_SERVING) return; /* the order is a repeated one */
    if (fleet_managers_count_serving(world, before->role) > 0) return;
    report_view(world);
    world_breach(world, serves_no_more);
}

static void verify_end(struct world *world, const struct managed_unit *now,
                       const struct record_fleet_action *action) {
    struct fleet_unit_job *job = fleet_launcher_find(world, action->number);
    if (!job || job->was_ended) return;
    job->was_ended = true;
    if (now->observed_state == FLEET_UNIT_SERVING)
        world_breach(world, "a unit that serves was ended before it drained");
    if (action->act == FLEET_ACT_STOP && now->requests)
        world_breach(world, "a unit was stopped that has requests");
}

static const struct managed_unit *find_managed(const struct managed_unit *units, uint32_t count,
                                               uint32_t number) {
    for (uint32_t i = 0; i < count; i++)
        if (units[i].number == number) return &units[i];
    return NULL;
}

static void verify_action(struct world *world, const struct record_fleet_action *action) {
    const struct fleet_managers *it = &world->managers;
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t count = fleet_manager_units(it->manager, units);
    const struct managed_unit *before = find_managed(it->view, it->view_count, action->number),
                              *now = find_managed(units, count, action->number);
    if (action->act == FLEET_ACT_START) verify_start(world);
    if (before && now && (action->act == FLEET_ACT_DRAIN || action->act == FLEET_ACT_ROLE))
        verify_leaving(world, before, now, action);
    if (now && (action->act == FLEET_ACT_STOP || action->act == FLEET_ACT_KILL))
        verify_end(world, now, action);
}

/* ---- execution ---- */

static void start(struct world *world, const struct record_fleet_action *action) {
    if (fleet_launcher_start(world, action->number, action->role)) return;
    world->report->launches_failed++;
    struct record_fleet_unit failed = {
        .number = action->number, .role = action->role, .observed_state = FLEET_UNIT_LAUNCH_FAILED};
    record_set_head(&failed, RECORD_FLEET_UNIT);
    fleet_managers_pass(world, &failed);
}

static void fleet_managers_order(struct world *world, const struct record_fleet_action *action) {
    uint32_t gateway = action->gateway;
    if (!action->connection || !world->gateways[gateway].gateway ||
        world->managers.blind_ns[gateway] > world->now_ns)
        return;
    if (action->act == FLEET_ACT_ROLE)
        fleet_gateway_ask_role(world, gateway, action->connection, action->role);
    else
        fleet_gateway_ask_drain(world, gateway, action->connection,
                                action->act == FLEET_ACT_RESUME);
}

static void note_action(struct world *world, const struct record_fleet_action *action) {
    static const char *const names[FLEET_ACT_COUNT] = {
        [FLEET_ACT_START] = "manager starts",      [FLEET_ACT_DRAIN] = "manager drains",
        [FLEET_ACT_RESUME] = "manager calls back", [FLEET_ACT_ROLE] = "manager converts",
        [FLEET_ACT_STOP] = "manager stops",        [FLEET_ACT_KILL] = "manager ends at once"};
    world_log(world, names[action->act], FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, action->number,
              action->reason);
    verify_action(world, action);
    world->report->acts[action->act]++;
}

static void fleet_managers_perform(struct world *world, const struct record_fleet_action *action) {
    if (action->act == FLEET_ACT_START)
        start(world, action);
    else if (action->act == FLEET_ACT_STOP || action->act == FLEET_ACT_KILL)
        fleet_launcher_stop(world, action->number, action->act == FLEET_ACT_KILL);
    else
        fleet_managers_order(world, action);
}

static void fleet_managers_die(struct world *world) {
    struct fleet_managers *it = &world->managers;
    it->keeper = NULL;
    it->manager = NULL;
    it->up_ns = world->now_ns + fleet_dice_time(&it->launches, FLEET_SECOND / 10, BEGINS_NS_MAX);
    it->look_ns = MACHINE_NEVER;
    world->report->manager_deaths++;
    world_log(world, "manager dies", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, 0, 0);
}

/* Executes the decided actions. If the process dies, the rest is lost. */
static void fleet_managers_obey(struct world *world) {
    struct fleet_managers *it = &world->managers;
    fleet_keeper_book(it->keeper, &it->book);
    struct outbox *outbox = it->machine.outbox;
    bool dies =
        outbox->used && strikes(world) && fleet_dice_below(&it->launches, DIES_IN_LOOK_OF) == 0;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        check(record_valid(record, record->bytes));
        if (record->kind != RECORD_FLEET_ACTION) continue;
        if (dies && fleet_dice_below(&it->launches, 2)) break;
        const struct record_fleet_action *action = (const struct record_fleet_action *)record;
        bool starts = action->act == FLEET_ACT_START;
        it->starts += starts;
        note_action(world, action);
        for (uint32_t left = fleet_managers_arrivals(world, starts ? 1 : 2); left-- > 0;)
            fleet_managers_perform(world, action);
    }
    machine_outbox_clear(outbox);
    if (dies) fleet_managers_die(world);
}

/* ---- invariants of the jobs ---- */

static void look_for_orphans(struct world *world) {
    struct fleet_managers *it = &world->managers;
    it->view_count = fleet_manager_units(it->manager, it->view);
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++) {
        struct fleet_unit_job *job = &it->jobs[i];
        bool is_known = !job->number || !it->launcher_responds ||
                        find_managed(it->view, it->view_count, job->number);
        if (is_known)
            job->unknown_ns = 0;
        else if (!job->unknown_ns)
            job->unknown_ns = world->now_ns;
        else if (world->now_ns - job->unknown_ns > ORPHAN_NS)
            world_breach(world, "a unit runs that its manager does not know");
    }
    struct fleet_outlook outlook = fleet_manager_outlook(it->manager);
    if (outlook.starts_total != it->starts)
        world_breach(world, "starts are not counted as they are");
}

/* Checks a promise, in runs without faults or long after the last fault. */
static void verify_promise(struct world *world) {
    const struct fleet_managers *it = &world->managers;
    int64_t within_ns = wall_ns(world) % DAY_NS - it->promise_from_ns;
    bool is_calm = !world->options.faults || world->now_ns > world->healed_ns + CALM_NS;
    bool is_seen =
        world->now_ns > it->begun_ns + GIVEN_NS; /* it may have begun within the promised time */
    if (!is_calm || !is_seen || within_ns < GIVEN_NS || !promised_now(world)) return;
    if (fleet_launcher_count(world) + it->promised > it->options.nodes)
        world_breach(world, "promised nodes were not given");
}

static void fleet_managers_look(struct world *world) {
    struct fleet_managers *it = &world->managers;
    it->look_ns = world->now_ns + LOOK_NS;
    fleet_managers_look_at_launcher(world);
    fleet_managers_look_at_gateways(world);
    pass_wishes(world);
    it->machine.step(it->machine.self, world->now_ns);
    fleet_managers_obey(world);
    if (!it->manager) return;
    fleet_keeper_book(it->keeper, &it->book);
    look_for_orphans(world);
    verify_promise(world);
}

/* ---- incarnations ---- */

/* Starts a manager. If one already runs, the new one exits, because the other holds the lock. */
static void begin(struct world *world) {
    struct fleet_managers *it = &world->managers;
    struct fleet_keeper_options options = {.manager = it->options,
                                           .gateway_count = world->gateway_count,
                                           .list_delay_max_ns = LIST_DELAY_MAX_NS,
                                           .wall_ns = WALL_NS};
    struct arena arena;
    it->up_ns = MACHINE_NEVER;
    if (it->manager) {
        world->report->managers_refused++;
        return;
    }
    arena_over(&arena, it->memory, fleet_keeper_bytes());
    enum status status =
        fleet_keeper_create(&arena, &options, &it->book, world->now_ns, &it->keeper);
    check(status == STATUS_OK);
    it->manager = fleet_keeper_manager(it->keeper);
    it->machine = fleet_keeper_machine(it->keeper);
    it->starts = it->view_count = 0;
    for (uint32_t i = 0; i < FLEET_JOBS_MAX; i++)
        it->jobs[i].was_ended = false;
    it->begun_ns = it->look_ns = world->now_ns;
    world->report->manager_lives++;
    world->report->adopted += fleet_launcher_count(world);
    world_log(world, "manager begins", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE,
              it->book.last_number + 1, 0);
}

/* ---- faults ---- */

static void kill_manager(struct world *world, struct fleet_dice *dice) {
    (void)dice;
    if (world->managers.manager) fleet_managers_die(world);
}

static void start_second(struct world *world, struct fleet_dice *dice) {
    (void)dice;
    begin(world);
}

static void silence_launcher(struct world *world, struct fleet_dice *dice) {
    world->managers.silent_ns =
        world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 2, 15 * FLEET_SECOND);
    world->report->launcher_silences++;
}

static void blind_manager(struct world *world, struct fleet_dice *dice) {
    world->managers.blind_ns[fleet_dice_below(dice, world->gateway_count)] =
        world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 5, 8 * FLEET_SECOND);
    world->report->blindings++;
}

static void make_stale(struct world *world, struct fleet_dice *dice) {
    world->managers.stale_ns =
        world->now_ns + fleet_dice_time(dice, FLEET_SECOND / 5, 6 * FLEET_SECOND);
    world->report->stale_times++;
}

static void fleet_managers_lose(struct world *world, struct fleet_dice *dice, uint32_t node) {
    fleet_launcher_lose_node(world, node,
                             world->now_ns + fleet_dice_time(dice, 0, 10 * FLEET_SECOND));
}

static void lose_node(struct world *world, struct fleet_dice *dice) {
    fleet_managers_lose(world, dice, fleet_dice_below(dice, world->unit_count));
}

static void lose_in_drain(struct world *world, struct fleet_dice *dice) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        if (!world->units[i].up || !world->units[i].draining || !world->units[i].open_count)
            continue;
        world->report->lost_in_drain++;
        fleet_managers_lose(world, dice, i);
        return;
    }
}

/* Another job preempts the nodes of a unit: first a signal, later a kill. */
static void preempt(struct world *world, struct fleet_dice *dice) {
    struct fleet_unit_host *unit = &world->units[fleet_dice_below(dice, world->unit_count)];
    if (!unit->up || unit->ends) return;
    unit->ends = true;
    world->report->preemptions++;
    fleet_units_ask_drain(world, unit->index);
}

static void wish(struct world *world, struct record_fleet_command command) {
    struct fleet_managers *it = &world->managers;
    if (it->wish_count == FLEET_WISHES_MAX) return;
    record_set_head(&command, RECORD_FLEET_COMMAND);
    it->wishes[it->wish_count++] = command;
    world->report->commands++;
}

static void operate(struct world *world, struct fleet_dice *dice) {
    struct fleet_managers *it = &world->managers;
    uint32_t chance = fleet_dice_below(dice, 3), side = fleet_dice_below(dice, SCALE_SIDES);
    uint32_t count = fleet_dice_below(dice, it->options.nodes);
    if (chance == 0) {
        wish(world, (struct record_fleet_command){.kind = FLEET_COMMAND_PIN,
                                                  .role = fleet_manager_role_of(side),
                                                  .count = count ? count : FLEET_UNPINNED});
        return;
    }
    for (uint32_t i = 0; i < it->book.count; i++)
        if (it->book.units[i].drained_by_operator == (chance == 2) && it->manager) {
            wish(world, (struct record_fleet_command){.kind = chance == 2 ? FLEET_COMMAND_RESUME
                                                                          : FLEET_COMMAND_DRAIN,
                                                      .number = it->book.units[i].number});
            return;
        }
}

#define STREAM_FIRST 64 /* other modules use the lower numbers */

static const struct fault_kind faults[] = {
    {30000, kill_manager}, {50000, start_second}, {60000, silence_launcher}, {40000, blind_manager},
    {40000, make_stale},   {40000, lose_node},    {6000, lose_in_drain},     {60000, preempt},
    {40000, operate},      {60000, operate},
};

/* The operators withdraw their commands. */
static void take_wishes_back(struct world *world) {
    struct fleet_managers *it = &world->managers;
    it->wish_count = 0;
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        wish(world, (struct record_fleet_command){.kind = FLEET_COMMAND_PIN,
                                                  .role = fleet_manager_role_of(side),
                                                  .count = FLEET_UNPINNED});
    for (uint32_t i = 0; i < it->book.count; i++)
        if (it->book.units[i].drained_by_operator && it->wish_count < FLEET_WISHES_MAX)
            wish(world, (struct record_fleet_command){.kind = FLEET_COMMAND_RESUME,
                                                      .number = it->book.units[i].number});
}

void fleet_managers_heal(struct world *world) {
    struct fleet_managers *it = &world->managers;
    fault_timetable_end(&it->faults);
    it->silent_ns = min_i64(it->silent_ns, world->now_ns);
    it->stale_ns = min_i64(it->stale_ns, world->now_ns);
    for (uint32_t i = 0; i < FLEET_GATEWAYS_MAX; i++)
        it->blind_ns[i] = min_i64(it->blind_ns[i], world->now_ns);
    for (uint32_t i = 0; i < FLEET_UNITS_MAX; i++)
        it->node_ns[i] = min_i64(it->node_ns[i], world->now_ns);
    if (!it->manager) it->up_ns = min_i64(it->up_ns, world->now_ns + FLEET_SECOND);
    take_wishes_back(world);
}

/* ---- runs ---- */

void fleet_managers_open(struct world *world, struct arena *arena) {
    struct fleet_managers *it = &world->managers;
    it->present = true;
    it->dice = (struct fleet_dice){.seed = world->options.seed, .stream = 60};
    it->launches = (struct fleet_dice){.seed = world->options.seed, .stream = 61};
    it->memory = arena_take(arena, fleet_keeper_bytes());
    check(it->memory);
    choose_options(world);
    world->report->has_roles = true;
    it->book.pinned[SCALE_PREFILL] = it->book.pinned[SCALE_DECODE] = FLEET_UNPINNED;
    it->look_ns = it->up_ns = MACHINE_NEVER;
    if (world->options.faults)
        fault_timetable_open(&it->faults, faults, ARRAY_COUNT(faults), world->options.seed,
                             STREAM_FIRST);
    it->up_ns = 0;
}

void fleet_managers_run(struct world *world) {
    struct fleet_managers *it = &world->managers;
    if (!it->present) return;
    fault_timetable_strike(&it->faults, world, world->now_ns);
    fleet_launcher_run(world);
    if (it->up_ns <= world->now_ns) begin(world);
    if (it->manager && it->look_ns <= world->now_ns) fleet_managers_look(world);
}

int64_t fleet_managers_wake_ns(const struct world *world) {
    const struct fleet_managers *it = &world->managers;
    if (!it->present) return MACHINE_NEVER;
    int64_t wake_ns = min_i64(it->up_ns, it->look_ns);
    wake_ns = min_i64(wake_ns, fault_timetable_next_ns(&it->faults));
    return min_i64(wake_ns, fleet_launcher_wake_ns(world));
}

bool fleet_managers_awaits(const struct world *world) {
    const struct fleet_managers *it = &world->managers;
    struct managed_unit units[MANAGED_UNITS_MAX];
    if (!it->present) return false;
    if (!it->manager) return true;
    uint32_t count = fleet_manager_units(it->manager, units), serving[SCALE_SIDES] = {0};
    struct fleet_outlook outlook = fleet_manager_outlook(it->manager);
    if (!outlook.has_load || count != fleet_launcher_count(world)) return true;
    for (uint32_t i = 0; i < count; i++) {
        const struct fleet_unit_job *job = fleet_launcher_find(world, units[i].number);
        if (units[i].state != MANAGED_SERVING || !job || job->node == FLEET_NO_NODE) return true;
        if (!world->units[job->node].up || world->units[job->node].draining) return true;
        serving[fleet_manager_side_of(units[i].role)]++;
    }
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        if (serving[side] != outlook.wanted[side]) return true;
    return false;
}

void fleet_managers_verify(struct world *world) {
    const struct fleet_managers *it = &world->managers;
    if (!it->present) return;
    struct fleet_outlook outlook = fleet_manager_outlook(it->manager);
    uint32_t up = 0;
    for (uint32_t i = 0; i < world->unit_count; i++)
        up += world->units[i].up;
    if (up != outlook.nodes || up != fleet_launcher_count(world))
        world_breach(world, "units, jobs and the manager's nodes are not equally many");
}
