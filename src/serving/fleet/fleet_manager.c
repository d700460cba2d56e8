/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/fleet/fleet_manager.h"

#include <math.h>

#include "base/check.h"
#include "base/number.h"
#include "contract/record_unit.h"
#include "serving/fleet/fleet_demand.h"
#include "serving/fleet/managed_units.h"
#include "serving/policy/end_drain.h"

#define OUTBOX_BYTES (MANAGED_UNITS_MAX * 2 * sizeof(struct record_fleet_action))
#define REPORT_AGAIN_NS ((int64_t)5000000000)
#define FAST_DECISIONS 6 /* averaging time of the present load, in decisions, at least */
#define WAIT_NS_FIRST ((int64_t)1000000000) /* after a failed start; doubled each time */
#define WAIT_DOUBLINGS_MAX 6
#define CHURN 2 /* cost of a start and a drain, as a multiple of the nodes' cost in that time */

struct fleet_manager {
    struct fleet_manager_options options;
    struct outbox outbox;
    struct managed_units units;
    struct fleet_demand demand;
    struct scale_state scale;
    struct scale_view view;     /* of the last choice */
    struct scale_choice choice; /* the last choice */
    bool has_chosen;
    uint32_t pinned[SCALE_SIDES];
    int64_t decided_ns, looked_ns;
    int64_t start_after_ns; /* no start before this time */
    uint32_t failures;      /* consecutive failed starts */
    int32_t direction[SCALE_SIDES];
    uint64_t starts_total, failed_total, lost_total, reversals_total;
};

/* ---- sending actions ---- */

static void fleet_manager_say(struct fleet_manager *manager, uint32_t index, enum fleet_act act,
                              enum scale_reason reason, int64_t now_ns) {
    const struct managed_unit *unit = &manager->units.units[index];
    bool has_role = act == FLEET_ACT_START || act == FLEET_ACT_ROLE;
    const struct record_fleet_action fixed = {
        .act = act, .number = unit->number, .role = has_role ? unit->role : 0, .reason = reason};
    if (!machine_outbox_put(&manager->outbox, RECORD_FLEET_ACTION, &fixed))
        return; /* will be sent again later */
    managed_units_report(&manager->units, index, act, reason, now_ns);
}

/* ---- more and fewer ---- */

static uint32_t count_starting(const struct fleet_manager *manager) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++)
        count += manager->units.units[i].state == MANAGED_ORDERED;
    return count;
}

/* The number of serving units. A starting unit does not count, because it may never serve. One that
 * was called back is reported as serving. */
static uint32_t fleet_manager_count_serving(const struct fleet_manager *manager, uint32_t role) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        const struct managed_unit *unit = &manager->units.units[i];
        count += unit->role == role && unit->state == MANAGED_SERVING &&
                 unit->observed_state == FLEET_UNIT_SERVING;
    }
    return count;
}

/* Nodes of all units, in any state. */
static uint32_t fleet_manager_count_nodes(const struct fleet_manager *manager) {
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        const struct managed_unit *unit = &manager->units.units[i];
        if (unit->state != MANAGED_NONE)
            nodes += manager->options.rule.sides[fleet_manager_side_of(unit->role)].unit_nodes;
    }
    return nodes;
}

static uint32_t nodes_until(const struct fleet_manager *manager, int64_t now_ns, int64_t until_ns) {
    uint32_t promised = node_calendar_promised(&manager->options.calendar, now_ns, until_ns);
    return manager->options.nodes - min_u32(promised, manager->options.nodes);
}

/* The unit of this role and state with the least work; of starting units, the last. */
static uint32_t find_idlest(const struct fleet_manager *manager, uint32_t role, uint32_t state) {
    uint32_t best = MANAGED_NOBODY;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        const struct managed_unit *unit = &manager->units.units[i];
        const struct managed_unit *other = &manager->units.units[best == MANAGED_NOBODY ? i : best];
        if (unit->role != role || unit->state != state) continue;
        bool is_idler = unit->requests < other->requests ||
                        (unit->requests == other->requests && unit->number > other->number);
        if (best == MANAGED_NOBODY || is_idler) best = i;
    }
    return best;
}

/* A unit of this role that is called back or not reported, so that stopping it costs nothing. */
static uint32_t find_unseen(const struct fleet_manager *manager, uint32_t role) {
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        const struct managed_unit *unit = &manager->units.units[i];
        if (unit->role == role && unit->state == MANAGED_SERVING &&
            unit->observed_state != FLEET_UNIT_SERVING)
            return i;
    }
    return MANAGED_NOBODY;
}

/* The unit that has drained for the shortest time: it has the most work left. */
static uint32_t find_drained(const struct fleet_manager *manager, uint32_t side) {
    uint32_t best = MANAGED_NOBODY;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        const struct managed_unit *unit = &manager->units.units[i];
        if (unit->state != MANAGED_DRAINING || unit->role != fleet_manager_role_of(side)) continue;
        if (unit->drained_by_operator || unit->leaves) continue;
        if (best == MANAGED_NOBODY || unit->since_ns > manager->units.units[best].since_ns)
            best = i;
    }
    return best;
}

static bool fleet_manager_call_back(struct fleet_manager *manager, uint32_t side,
                                    enum scale_reason reason, int64_t now_ns) {
    uint32_t index = find_drained(manager, side);
    if (index == MANAGED_NOBODY) return false;
    managed_units_call_back(&manager->units, index, now_ns);
    fleet_manager_say(manager, index, FLEET_ACT_RESUME, reason, now_ns);
    return true;
}

/* Converts a unit of the other role that is not needed there, because it drains or would have
 * to. */
static bool fleet_manager_convert(struct fleet_manager *manager, uint32_t side,
                                  enum scale_reason reason, int64_t now_ns) {
    uint32_t other = 1 - side;
    const struct scale_rule_side *sides = manager->options.rule.sides;
    if (!manager->options.converts || sides[side].unit_nodes != sides[other].unit_nodes)
        return false;
    uint32_t index = find_drained(manager, other);
    if (index != MANAGED_NOBODY) {
        managed_units_call_back(&manager->units, index, now_ns);
        fleet_manager_say(manager, index, FLEET_ACT_RESUME, reason, now_ns);
    } else if (fleet_manager_count_serving(manager, fleet_manager_role_of(other)) >
               manager->choice.wanted[other]) {
        index = find_idlest(manager, fleet_manager_role_of(other), MANAGED_SERVING);
    }
    if (index == MANAGED_NOBODY) return false;
    managed_units_assign(&manager->units, index, fleet_manager_role_of(side));
    fleet_manager_say(manager, index, FLEET_ACT_ROLE, reason, now_ns);
    return true;
}

static bool start(struct fleet_manager *manager, uint32_t side, enum scale_reason reason,
                  int64_t now_ns) {
    const struct fleet_manager_options *options = &manager->options;
    uint32_t nodes = fleet_manager_count_nodes(manager) + options->rule.sides[side].unit_nodes;
    if (now_ns < manager->start_after_ns || count_starting(manager) >= options->starts_at_once)
        return false;
    if (nodes > nodes_until(manager, now_ns, now_ns + options->rule.start_ns)) return false;
    uint32_t index = managed_units_order(&manager->units, fleet_manager_role_of(side), now_ns);
    if (index == MANAGED_NOBODY) return false;
    manager->starts_total++;
    fleet_manager_say(manager, index, FLEET_ACT_START, reason, now_ns);
    return true;
}

static bool give_up_one(struct fleet_manager *manager, uint32_t side, enum scale_reason reason,
                        int64_t now_ns) {
    uint32_t index = find_idlest(manager, fleet_manager_role_of(side), MANAGED_ORDERED);
    if (index != MANAGED_NOBODY) {
        managed_units_end(&manager->units, index, now_ns);
        fleet_manager_say(manager, index, FLEET_ACT_KILL, reason, now_ns);
        return true;
    }
    bool stays = fleet_manager_count_serving(manager, fleet_manager_role_of(side)) >
                 manager->choice.wanted[side];
    index = stays ? find_idlest(manager, fleet_manager_role_of(side), MANAGED_SERVING)
                  : find_unseen(manager, fleet_manager_role_of(side));
    if (index == MANAGED_NOBODY && reason == SCALE_PROMISED)
        index = find_idlest(manager, fleet_manager_role_of(side), MANAGED_SERVING);
    if (index == MANAGED_NOBODY) return false;
    managed_units_drain(&manager->units, index, now_ns);
    fleet_manager_say(manager, index, FLEET_ACT_DRAIN, reason, now_ns);
    return true;
}

static uint32_t count_side(const struct fleet_manager *manager, uint32_t side) {
    return managed_units_count(&manager->units, fleet_manager_role_of(side));
}

/* Handles growth first, so that spare units of the other side can still be converted. */
static void fleet_manager_follow(struct fleet_manager *manager, int64_t now_ns) {
    const struct scale_choice *choice = &manager->choice;
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        while (count_side(manager, side) < choice->wanted[side]) {
            enum scale_reason reason = choice->reason[side];
            if (!fleet_manager_call_back(manager, side, reason, now_ns) &&
                !fleet_manager_convert(manager, side, reason, now_ns) &&
                !start(manager, side, reason, now_ns))
                break;
        }
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        while (count_side(manager, side) > choice->wanted[side] &&
               give_up_one(manager, side, choice->reason[side], now_ns)) {
        }
}

/* ---- the choice ---- */

/* The time until which a returned unit must stay unneeded, so that its drain and its restart pay.
 * The interval is longer if nodes are cheap now, and at most a period. */
static int64_t later_ns(const struct fleet_manager *manager, int64_t now_ns) {
    const struct fleet_manager_options *options = &manager->options;
    const struct node_calendar *calendar = &options->calendar;
    double price = node_calendar_price(calendar, now_ns);
    double mean = node_calendar_price_mean(calendar);
    double churn_ns = CHURN * ((double)options->rule.start_ns + (double)options->drain_ns_max / 2);
    if (mean > 0) churn_ns *= price > 0 ? mean / price : INFINITY;
    return now_ns + (int64_t)fmin(churn_ns, (double)calendar->period_ns);
}

static void note_direction(struct fleet_manager *manager) {
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        int32_t change = (int32_t)manager->choice.wanted[side] - (int32_t)manager->view.units[side];
        int32_t direction = (change > 0) - (change < 0);
        if (!direction) continue;
        manager->reversals_total += direction == -manager->direction[side];
        manager->direction[side] = direction;
    }
}

/* Starts with a rest, because the actions of an earlier manager are unknown: it may have grown just
 * now. */
static void rest_first(struct fleet_manager *manager, int64_t now_ns) {
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        manager->scale.has_grown[side] = count_side(manager, side) > 0;
        manager->scale.grew_ns[side] = now_ns;
    }
}

static void fleet_manager_choose(struct fleet_manager *manager, int64_t now_ns) {
    const struct fleet_manager_options *options = &manager->options;
    struct scale_view *view = &manager->view;
    double rates[SCALE_SIDES];
    if (!manager->has_chosen) rest_first(manager, now_ns);
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        view->units[side] = count_side(manager, side);
        view->pinned[side] = manager->pinned[side];
        rates[side] = max_u32(view->units[side], 1) * options->rule.sides[side].unit_rate;
    }
    view->nodes_max = nodes_until(manager, now_ns, now_ns + options->drain_ns_max);
    fleet_demand_view(&manager->demand, rates, now_ns + options->rule.start_ns,
                      later_ns(manager, now_ns), view);
    manager->choice = scale_fleet(&manager->scale, &options->rule, view, now_ns);
    if (manager->has_chosen) note_direction(manager);
    manager->has_chosen = true;
    fleet_manager_follow(manager, now_ns);
}

/* ---- units that start, drain or end ---- */

static void end_one(struct fleet_manager *manager, uint32_t index, enum fleet_act act,
                    enum scale_reason reason, int64_t now_ns) {
    managed_units_end(&manager->units, index, now_ns);
    fleet_manager_say(manager, index, act, reason, now_ns);
}

/* The prefill rate of the other units that their load leaves free. */
static double spare_rate(const struct fleet_manager *manager) {
    const struct scale_rule_side *side = &manager->options.rule.sides[SCALE_PREFILL];
    double all = fleet_manager_count_serving(manager, UNIT_PREFILL) * side->unit_rate;
    return fmax(all - manager->view.demand[SCALE_PREFILL].now, 0);
}

/* True if the load was reported within the last two decisions. */
static bool knows_load(const struct fleet_manager *manager, int64_t now_ns) {
    return manager->demand.windows > 0 &&
           now_ns - manager->demand.last_ns <= 2 * manager->options.decide_ns;
}

/* Checks a draining unit. If no gateway reports it any more, it hangs or is about to end. If no
 * gateway reports at all, its state is unknown. */
static void look_draining(struct fleet_manager *manager, uint32_t index, int64_t now_ns) {
    const struct managed_unit *unit = &manager->units.units[index];
    const struct fleet_manager_options *options = &manager->options;
    struct end_drain_view view = {
        .requests = unit->requests,
        .alone =
            unit->stranded && unit->observed_state == FLEET_UNIT_DRAINING, /* else it may hang */
        .answer_tokens = fleet_demand_answer_tokens(&manager->demand),
        .token_ns = (double)options->tpot_limit_ns,
        .prompt_tokens = fleet_demand_prompt_tokens(&manager->demand),
        .spare_rate = fleet_manager_count_serving(manager, unit->role) ? spare_rate(manager) : 0,
        .drained_ns = now_ns - unit->since_ns,
        .drain_ns_max = options->drain_ns_max,
    };
    bool is_late = fleet_manager_count_nodes(manager) > nodes_until(manager, now_ns, now_ns);
    if (unit->observed_state == FLEET_UNIT_SERVING) return; /* the order was repeated above */
    if (unit->observed_state != FLEET_UNIT_DRAINING && !knows_load(manager, now_ns)) return;
    if (unit->drained_by_operator && !is_late) return;
    enum end_drain end = end_drain(&view);
    if (end == END_DRAIN_STOPS)
        end_one(manager, index, FLEET_ACT_STOP, (enum scale_reason)unit->reason, now_ns);
    else if (end == END_DRAIN_MOVES || is_late)
        end_one(manager, index, FLEET_ACT_KILL, (enum scale_reason)unit->reason, now_ns);
}

/* Checks an ordered unit. A start that takes too long has failed; another one may succeed. If no
 * gateway reports at all, it is unknown which units serve. */
static void look_ordered(struct fleet_manager *manager, uint32_t index, int64_t now_ns) {
    const struct managed_unit *unit = &manager->units.units[index];
    if (now_ns - unit->since_ns < manager->options.start_ns_max) return;
    if (!knows_load(manager, now_ns)) return;
    end_one(manager, index, FLEET_ACT_KILL, (enum scale_reason)unit->reason, now_ns);
    manager->failed_total++;
}

/* Checks a unit that has served: its launcher may list a dead host, or a stopped process, as
 * running for hours. */
static void look_served(struct fleet_manager *manager, uint32_t index, int64_t now_ns) {
    struct managed_unit *unit = &manager->units.units[index];
    bool is_received =
        unit->observed_state == FLEET_UNIT_SERVING || unit->observed_state == FLEET_UNIT_DRAINING;
    if (is_received || !knows_load(manager, now_ns)) unit->received_ns = now_ns;
    if (now_ns - unit->received_ns <= manager->options.rule.start_ns) return;
    manager->lost_total += unit->state == MANAGED_SERVING;
    end_one(manager, index, FLEET_ACT_KILL, (enum scale_reason)unit->reason, now_ns);
}

/* Repeats an action without a visible effect. */
static void remind(struct fleet_manager *manager, uint32_t index, int64_t now_ns) {
    const struct managed_unit *unit = &manager->units.units[index];
    enum scale_reason reason = (enum scale_reason)unit->reason;
    if (now_ns - unit->reported_ns < REPORT_AGAIN_NS) return;
    if (unit->state == MANAGED_ORDERED && !unit->reported_ns)
        fleet_manager_say(manager, index, FLEET_ACT_START, reason, now_ns);
    else if (unit->state == MANAGED_DRAINING && unit->observed_state == FLEET_UNIT_SERVING)
        fleet_manager_say(manager, index, FLEET_ACT_DRAIN, reason, now_ns);
    else if (unit->state == MANAGED_SERVING && unit->observed_state == FLEET_UNIT_DRAINING)
        fleet_manager_say(manager, index, FLEET_ACT_RESUME, reason, now_ns);
    else if (unit->state == MANAGED_SERVING && unit->seen_role != unit->role)
        fleet_manager_say(manager, index, FLEET_ACT_ROLE, reason, now_ns);
    else if (unit->state == MANAGED_STOPPING)
        fleet_manager_say(manager, index,
                          now_ns - unit->since_ns > manager->options.drain_ns_max
                              ? FLEET_ACT_KILL
                              : (enum fleet_act)unit->act,
                          reason, now_ns);
}

/* ---- the machine ---- */

static void fleet_manager_see(struct fleet_manager *manager, const struct record_fleet_unit *seen,
                              int64_t now_ns) {
    switch (managed_units_see(&manager->units, seen, now_ns)) {
    case MANAGED_GOES_ON:
    case MANAGED_ENDS:
        return;
    case MANAGED_BEGINS:
        manager->failures = 0;
        return;
    case MANAGED_LOST:
        manager->lost_total++;
        return;
    case MANAGED_FAILS:
        manager->failed_total++;
        manager->start_after_ns =
            now_ns + (WAIT_NS_FIRST << min_u32(manager->failures++, WAIT_DOUBLINGS_MAX));
        return;
    }
}

static void fleet_manager_obey(struct fleet_manager *manager,
                               const struct record_fleet_command *command, int64_t now_ns) {
    if (command->kind == FLEET_COMMAND_PIN) {
        manager->pinned[fleet_manager_side_of(command->role)] = command->count;
        return;
    }
    uint32_t index = managed_units_find(&manager->units, command->number);
    if (index == MANAGED_NOBODY) return;
    const struct managed_unit *unit = &manager->units.units[index];
    bool holds = command->kind == FLEET_COMMAND_DRAIN;
    managed_units_hold(&manager->units, index, holds);
    if (holds && unit->state == MANAGED_SERVING) {
        managed_units_drain(&manager->units, index, now_ns);
        fleet_manager_say(manager, index, FLEET_ACT_DRAIN, SCALE_PINNED, now_ns);
    } else if (!holds && unit->state == MANAGED_DRAINING) {
        managed_units_call_back(&manager->units, index, now_ns);
        fleet_manager_say(manager, index, FLEET_ACT_RESUME, SCALE_PINNED, now_ns);
    }
}

static enum status manager_receive(void *self, const struct record *record, int64_t now_ns) {
    struct fleet_manager *manager = self;
    switch (record->kind) {
    case RECORD_FLEET_LOAD:
        fleet_demand_add(&manager->demand, (const struct record_fleet_load *)record, now_ns);
        return STATUS_OK;
    case RECORD_FLEET_UNIT:
        fleet_manager_see(manager, (const struct record_fleet_unit *)record, now_ns);
        return STATUS_OK;
    case RECORD_FLEET_COMMAND:
        if (outbox_room(&manager->outbox) < sizeof(struct record_fleet_action)) return STATUS_FULL;
        fleet_manager_obey(manager, (const struct record_fleet_command *)record, now_ns);
        return STATUS_OK;
    default:
        check(false);
        return STATUS_INVALID;
    }
}

static void manager_step(void *self, int64_t now_ns) {
    struct fleet_manager *manager = self;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++)
        if (manager->units.units[i].state != MANAGED_NONE) remind(manager, i, now_ns);
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        uint32_t state = manager->units.units[i].state;
        if (state == MANAGED_DRAINING || state == MANAGED_SERVING) look_served(manager, i, now_ns);
        state = manager->units.units[i].state;
        if (state == MANAGED_DRAINING) look_draining(manager, i, now_ns);
        if (state == MANAGED_ORDERED) look_ordered(manager, i, now_ns);
    }
    manager->looked_ns = now_ns;
    bool is_due =
        now_ns - manager->decided_ns >= manager->options.decide_ns || now_ns < manager->decided_ns;
    if (!is_due || !knows_load(manager, now_ns)) return;
    manager->decided_ns = now_ns;
    fleet_manager_choose(manager, now_ns);
}

static int64_t manager_next_wake(const void *self) {
    const struct fleet_manager *manager = self;
    return manager->looked_ns + manager->options.decide_ns;
}

size_t fleet_manager_bytes(void) {
    return sizeof(struct fleet_manager) + OUTBOX_BYTES + 128;
}

enum status fleet_manager_create(struct arena *arena, const struct fleet_manager_options *options,
                                 struct fleet_manager **manager_out) {
    struct fleet_manager *manager = arena_take_zeroed(arena, sizeof *manager);
    char *memory = arena_take(arena, OUTBOX_BYTES);
    if (!manager || !memory) return STATUS_NO_MEMORY;
    manager->options = *options;
    manager->outbox = (struct outbox){.memory = memory, .capacity = OUTBOX_BYTES};
    if (options->first_number) manager->units.last_number = options->first_number - 1;
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        manager->pinned[side] = SCALE_FREE;
    int64_t fast_ns = FAST_DECISIONS * options->decide_ns;
    fleet_demand_open(
        &manager->demand,
        &(struct fleet_demand_rule){
            .period_ns = options->calendar.period_ns,
            .fast_ns = fast_ns > options->rule.start_ns / 2 ? fast_ns : options->rule.start_ns / 2,
            .quick_ns = options->decide_ns,
            .start_ns = options->rule.start_ns,
            .ttft_limit_ns = options->ttft_limit_ns,
            .missed_share = options->missed_share,
        });
    *manager_out = manager;
    return STATUS_OK;
}

struct machine fleet_manager_machine(struct fleet_manager *manager) {
    return (struct machine){.self = manager,
                            .outbox = &manager->outbox,
                            .receive = manager_receive,
                            .step = manager_step,
                            .next_wake_ns = manager_next_wake};
}

struct forecast_load *fleet_manager_forecast(struct fleet_manager *manager) {
    return &manager->demand.forecast;
}

/* ---- views ---- */

uint32_t fleet_manager_units(const struct fleet_manager *manager, struct managed_unit *units_out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        const struct managed_unit *unit = &manager->units.units[i];
        if (unit->state == MANAGED_NONE) continue;
        uint32_t at = count++;
        for (; at > 0 && units_out[at - 1].number > unit->number; at--)
            units_out[at] = units_out[at - 1];
        units_out[at] = *unit;
    }
    return count;
}

struct fleet_outlook fleet_manager_outlook(const struct fleet_manager *manager) {
    struct fleet_outlook outlook = {.has_load = manager->has_chosen,
                                    .nodes_max = manager->view.nodes_max,
                                    .nodes = fleet_manager_count_nodes(manager),
                                    .starts_total = manager->starts_total,
                                    .failed_total = manager->failed_total,
                                    .lost_total = manager->lost_total,
                                    .reversals_total = manager->reversals_total};
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        outlook.units[side] = count_side(manager, side);
        outlook.pinned[side] = manager->pinned[side];
        outlook.wanted[side] =
            manager->has_chosen ? manager->choice.wanted[side] : outlook.units[side];
        outlook.reason[side] = manager->choice.reason[side];
        outlook.demand[side] = manager->view.demand[side];
    }
    return outlook;
}

/* The manager's choice at a future time, if the load is as forecast. */
static struct scale_choice choose_at(const struct fleet_manager *manager, struct scale_state *state,
                                     const uint32_t *units, int64_t at_ns) {
    const struct fleet_manager_options *options = &manager->options;
    const struct forecast_load *forecast = &manager->demand.forecast;
    struct scale_view view = {.nodes_max =
                                  nodes_until(manager, at_ns, at_ns + options->drain_ns_max)};
    int64_t until_ns = later_ns(manager, at_ns), step_ns = options->calendar.period_ns / 288;
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        struct scale_demand *demand = &view.demand[side];
        demand->now = forecast_load_at(forecast, side, at_ns);
        demand->soon = forecast_load_at(forecast, side, at_ns + options->rule.start_ns);
        for (int64_t ns = at_ns; ns < until_ns; ns += step_ns)
            demand->later = fmax(demand->later, forecast_load_at(forecast, side, ns));
        view.units[side] = units[side];
        view.pinned[side] = manager->pinned[side];
    }
    return scale_fleet(state, &options->rule, &view, at_ns);
}

struct fleet_next fleet_manager_next(const struct fleet_manager *manager, int64_t now_ns) {
    const int64_t period_ns = manager->options.calendar.period_ns, step_ns = period_ns / 288;
    struct fleet_next next = {.is_known = false};
    struct scale_state state = manager->scale;
    struct scale_choice choice = manager->choice;
    uint32_t units[SCALE_SIDES] = {count_side(manager, SCALE_PREFILL),
                                   count_side(manager, SCALE_DECODE)};
    if (!manager->has_chosen) return next;
    for (int64_t at_ns = now_ns; at_ns < now_ns + period_ns; at_ns += step_ns) {
        if (at_ns > now_ns) choice = choose_at(manager, &state, units, at_ns);
        for (uint32_t side = 0; side < SCALE_SIDES; side++) {
            if (choice.wanted[side] == units[side]) continue;
            next =
                (struct fleet_next){.is_known = true,
                                    .at_ns = at_ns,
                                    .side = (enum scale_side)side,
                                    .change = (int32_t)choice.wanted[side] - (int32_t)units[side],
                                    .reason = choice.reason[side]};
            return next;
        }
    }
    return next;
}
