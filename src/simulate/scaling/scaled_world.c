/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scaling/scaled_world.h"

#include <math.h>

#include "base/check.h"
#include "contract/record_unit.h"
#include "simulate/kernel/fleet_dice.h"

#define UNITS_MAX MANAGED_UNITS_MAX
#define HOUR_NS 3.6e12
#define REACTIVE_TARGET 0.8    /* share of a unit's capacity */
#define REACTIVE_TOLERANCE 0.1 /* a ratio this near to 1 causes no change */
#define REACTIVE_NS ((int64_t)15000000000)
#define REACTIVE_LOOKS 20 /* it shrinks to the maximum over this many intervals */
#define DYNAMO_NS ((int64_t)180000000000)

struct scaled_unit {
    uint32_t number; /* 0: none */
    uint32_t role;
    bool serves, drains;
    int64_t ready_ns, drained_ns;
};

struct scaled_world {
    const struct scaled_options *options;
    struct scaled_outcome *outcome;
    int64_t now_ns;
    struct scaled_unit units[UNITS_MAX];
    uint32_t last_number;
    struct fleet_manager *manager;
    struct machine machine;
    double noise;                        /* factor on the load */
    double queue;                        /* waiting prompt tokens */
    double arrived, ended;               /* total requests */
    double arrived_tokens, ended_tokens; /* total tokens of their prompts */
    double late, slow;                   /* requests with a late first token; with slow tokens */
    double recent_arrived;               /* requests in the last interval of a rule */
    double utilisation[SCALE_SIDES];     /* in this window */
    uint32_t asked[SCALE_SIDES][REACTIVE_LOOKS];
    uint32_t asked_count;
    int64_t ruled_ns;
    double most[SCALE_SIDES]; /* tokens per second, maximum of the whole run */
    int direction[SCALE_SIDES];
    uint32_t before[SCALE_SIDES];
    uint64_t reversals[SCALE_SIDES];
    struct fleet_dice dice; /* for the noise */
};

const char *scaled_world_rule_name(enum scaled_rule rule) {
    static const char *const names[SCALED_RULE_COUNT] = {[SCALED_MANAGER] = "fathom",
                                                         [SCALED_STATIC] = "static",
                                                         [SCALED_CLAIRVOYANT] = "clairvoyant",
                                                         [SCALED_REACTIVE] = "reactive",
                                                         [SCALED_DYNAMO] = "dynamo"};
    check(rule < SCALED_RULE_COUNT);
    return names[rule];
}

static double prompt_tokens(const struct scaled_world *world) {
    const struct scaled_options *options = world->options;
    double times = options->prompts ? options->prompts(options->load, world->now_ns) : 1;
    return options->prompt_tokens * times;
}

/* ---- units ---- */

static struct scaled_unit *find(struct scaled_world *world, uint32_t number) {
    for (uint32_t i = 0; i < UNITS_MAX; i++)
        if (number && world->units[i].number == number) return &world->units[i];
    return NULL;
}

/* The number of units of a side that do not drain. */
static uint32_t count_units(const struct scaled_world *world, uint32_t side, bool only_serving) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < UNITS_MAX; i++) {
        const struct scaled_unit *unit = &world->units[i];
        count += unit->number && fleet_manager_side_of(unit->role) == side && !unit->drains &&
                 (unit->serves || !only_serving);
    }
    return count;
}

static uint32_t scaled_world_count_serving(const struct scaled_world *world, uint32_t side) {
    return count_units(world, side, true);
}

static uint32_t scaled_world_count_nodes(const struct scaled_world *world) {
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < UNITS_MAX; i++)
        if (world->units[i].number)
            nodes += world->options->manager.rule.sides[fleet_manager_side_of(world->units[i].role)]
                         .unit_nodes;
    return nodes;
}

static double answer_ns(const struct scaled_world *world) {
    return world->options->answer_tokens * (double)world->options->manager.tpot_limit_ns;
}

/* The number of requests of a unit. A draining unit has fewer and fewer, and none after its last
 * answer has ended. */
static double scaled_world_requests_of(const struct scaled_world *world,
                                       const struct scaled_unit *unit, double rate) {
    uint32_t side = fleet_manager_side_of(unit->role),
             count = scaled_world_count_serving(world, side);
    double stay_ns = side == SCALE_PREFILL ? 1e9 : answer_ns(world);
    double share = rate * stay_ns * 1e-9 / (count ? count : 1);
    if (!unit->serves) return 0;
    if (!unit->drains) return share;
    double left = 1 - (double)(world->now_ns - unit->drained_ns) / stay_ns;
    return left > 0 ? share * left : 0;
}

static struct scaled_unit *start(struct scaled_world *world, uint32_t number, uint32_t role) {
    struct scaled_unit *unit = NULL;
    for (uint32_t i = 0; i < UNITS_MAX && !unit; i++)
        if (!world->units[i].number) unit = &world->units[i];
    check(unit && number > world->last_number);
    *unit = (struct scaled_unit){.number = number,
                                 .role = role,
                                 .ready_ns = world->now_ns + world->options->manager.rule.start_ns};
    world->last_number = number;
    world->outcome->starts++;
    return unit;
}

static void advance_units(struct scaled_world *world) {
    for (uint32_t i = 0; i < UNITS_MAX; i++)
        world->units[i].serves |=
            world->units[i].number && world->now_ns >= world->units[i].ready_ns;
}

/* ---- load ---- */

static double wander(struct scaled_world *world) {
    const struct scaled_options *options = world->options;
    if (options->noise <= 0) return 1;
    double kept = exp(-(double)options->tick_ns / (double)options->noise_ns), sum = 0;
    for (int i = 0; i < 12; i++)
        sum += fleet_dice_draw(&world->dice); /* the sum of 12 has mean 6 and deviation 1 */
    world->noise = kept * world->noise + sqrt(1 - kept * kept) * (sum - 6) * options->noise;
    return exp(world->noise - options->noise * options->noise / 2);
}

static void flow(struct scaled_world *world, double rate) {
    const struct scaled_options *options = world->options;
    const struct scale_rule_side *sides = options->manager.rule.sides;
    double seconds = (double)options->tick_ns * 1e-9, requests = rate * seconds;
    double prompt = prompt_tokens(world);
    double prompts =
        scaled_world_count_serving(world, SCALE_PREFILL) * sides[SCALE_PREFILL].unit_rate;
    double answers =
        scaled_world_count_serving(world, SCALE_DECODE) * sides[SCALE_DECODE].unit_rate;
    world->queue = fmax(world->queue + requests * prompt - prompts * seconds, 0);
    double wait_s = world->queue / fmax(prompts, 1e-9);
    double limit_s = (double)options->manager.ttft_limit_ns * 1e-9;
    bool is_late = wait_s > limit_s;
    bool is_slow = rate * options->answer_tokens > answers * (1 + 1e-9);
    world->utilisation[SCALE_PREFILL] =
        (rate * prompt + world->queue / limit_s) / fmax(prompts, 1e-9);
    world->utilisation[SCALE_DECODE] = rate * options->answer_tokens / fmax(answers, 1e-9);
    /* Clients leave if they wait too long for a token, so the queue is never longer than a
     * minute. */
    world->queue = fmin(world->queue, 60 * fmax(prompts, 1));
    double through = is_slow ? answers / options->answer_tokens * seconds : requests;
    if (is_late) through = fmin(through, prompts / prompt * seconds);
    world->arrived += requests;
    world->ended += through;
    world->arrived_tokens += requests * prompt;
    world->ended_tokens += through * prompt;
    world->recent_arrived += requests;
    world->late += is_late ? requests : 0;
    world->slow += is_slow ? through : 0;
    if (world->now_ns < options->measure_ns) return;
    struct scaled_outcome *outcome = world->outcome;
    outcome->windows++;
    outcome->missed_windows += is_late || is_slow;
}

/* ---- the product's manager ---- */

static void scaled_world_give(struct scaled_world *world, const void *record) {
    check(record_valid(record, ((const struct record *)record)->bytes));
    check(machine_pass(&world->machine, record, world->now_ns));
}

static void scaled_world_notify_units(struct scaled_world *world, double rate) {
    struct managed_unit known[MANAGED_UNITS_MAX];
    uint32_t count = fleet_manager_units(world->manager, known);
    for (uint32_t i = 0; i < UNITS_MAX; i++) {
        const struct scaled_unit *unit = &world->units[i];
        if (!unit->number) continue;
        struct record_fleet_unit record = {
            .number = unit->number,
            .role = unit->role,
            .observed_state = unit->drains   ? FLEET_UNIT_DRAINING
                              : unit->serves ? FLEET_UNIT_SERVING
                                             : FLEET_UNIT_STARTING,
            .requests = (uint32_t)ceil(scaled_world_requests_of(world, unit, rate) - 1e-6)};
        record_set_head(&record, RECORD_FLEET_UNIT);
        scaled_world_give(world, &record);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct record_fleet_unit record = {
            .number = known[i].number, .role = known[i].role, .observed_state = FLEET_UNIT_GONE};
        if (find(world, known[i].number)) continue;
        record_set_head(&record, RECORD_FLEET_UNIT);
        scaled_world_give(world, &record);
    }
}

static void scaled_world_report_load(struct scaled_world *world) {
    const struct scaled_options *options = world->options;
    struct record_fleet_load load = {
        .arrived_requests = (uint64_t)world->arrived,
        .arrived_tokens = (uint64_t)world->arrived_tokens,
        .miss_tokens = (uint64_t)world->ended_tokens,
        .completed = (uint64_t)world->ended,
        .output_tokens = (uint64_t)(world->ended * options->answer_tokens),
        .first_tokens = (uint64_t)world->arrived,
        .ttft_misses = (uint64_t)world->late,
        .tpot_requests = (uint64_t)world->ended,
        .tpot_misses = (uint64_t)world->slow,
        .requests_queued = (uint32_t)fmin(world->queue / prompt_tokens(world), 1e9)};
    record_set_head(&load, RECORD_FLEET_LOAD);
    scaled_world_give(world, &load);
}

static void scaled_world_drain(struct scaled_world *world, struct scaled_unit *unit) {
    unit->drains = true;
    unit->drained_ns = world->now_ns;
}

static void scaled_world_perform(struct scaled_world *world,
                                 const struct record_fleet_action *action) {
    struct scaled_unit *unit = find(world, action->number);
    if (action->act == FLEET_ACT_START) {
        start(world, action->number, action->role);
        return;
    }
    if (!unit) return; /* it has ended */
    switch ((enum fleet_act)action->act) {
    case FLEET_ACT_DRAIN:
        if (unit->serves && !unit->drains) scaled_world_drain(world, unit);
        return;
    case FLEET_ACT_RESUME:
        unit->drains = false;
        return;
    case FLEET_ACT_ROLE:
        unit->role = action->role;
        return;
    case FLEET_ACT_STOP:
    case FLEET_ACT_KILL:
        *unit = (struct scaled_unit){0};
        return;
    case FLEET_ACT_START:
    case FLEET_ACT_COUNT:
        return;
    }
}

/* Executes the orders of the manager. */
static void scaled_world_obey(struct scaled_world *world) {
    const struct record *record = NULL;
    while ((record = machine_outbox_next(world->machine.outbox, record))) {
        check(record_valid(record, record->bytes));
        scaled_world_perform(world, (const struct record_fleet_action *)record);
    }
    machine_outbox_clear(world->machine.outbox);
}

static void manage(struct scaled_world *world, double rate) {
    scaled_world_notify_units(world, rate);
    scaled_world_report_load(world);
    world->machine.step(world->machine.self, world->now_ns);
    scaled_world_obey(world);
}

/* ---- simpler rules ---- */

static uint32_t units_for(const struct scale_rule_side *side, double rate, double share) {
    double units = ceil(rate / (side->unit_rate * share) - 1e-9);
    uint32_t count = units > side->least ? (uint32_t)units : side->least;
    return count < side->most ? count : side->most;
}

static void set_units(struct scaled_world *world, uint32_t side, uint32_t wanted, bool at_once,
                      double rate) {
    uint32_t count = count_units(world, side, false);
    for (; count < wanted; count++) {
        struct scaled_unit *unit =
            start(world, world->last_number + 1, fleet_manager_role_of(side));
        if (at_once) unit->ready_ns = world->now_ns;
    }
    for (uint32_t i = UNITS_MAX; i-- > 0 && count > wanted;) {
        struct scaled_unit *unit = &world->units[i];
        if (!unit->number || unit->drains || fleet_manager_side_of(unit->role) != side) continue;
        if (at_once || !unit->serves)
            *unit = (struct scaled_unit){0};
        else
            scaled_world_drain(world, unit);
        count--;
    }
    for (uint32_t i = 0; i < UNITS_MAX; i++) {
        struct scaled_unit *unit = &world->units[i];
        if (unit->number && unit->drains && scaled_world_requests_of(world, unit, rate) < 1)
            *unit = (struct scaled_unit){0};
    }
}

static double scaled_world_tokens_of(const struct scaled_world *world, uint32_t side) {
    return side == SCALE_PREFILL ? prompt_tokens(world) : world->options->answer_tokens;
}

/* Finds the maximum load of the whole run in tokens per second. */
static void find_most(struct scaled_world *world) {
    const struct scaled_options *options = world->options;
    int64_t now_ns = world->now_ns;
    for (world->now_ns = options->begin_ns; world->now_ns < options->end_ns;
         world->now_ns += options->tick_ns)
        for (uint32_t side = 0; side < SCALE_SIDES; side++)
            world->most[side] =
                fmax(world->most[side], options->arrivals(options->load, world->now_ns) *
                                            scaled_world_tokens_of(world, side));
    world->now_ns = now_ns;
}

static uint32_t react(struct scaled_world *world, uint32_t side) {
    const struct scale_rule_side *rule = &world->options->manager.rule.sides[side];
    uint32_t serving = scaled_world_count_serving(world, side), most = 0;
    double ratio = world->utilisation[side] / REACTIVE_TARGET;
    uint32_t wanted = serving;
    if (fabs(ratio - 1) > REACTIVE_TOLERANCE)
        wanted = units_for(rule, ratio * serving * rule->unit_rate, 1);
    world->asked[side][world->asked_count % REACTIVE_LOOKS] = wanted;
    for (uint32_t i = 0; i < REACTIVE_LOOKS; i++)
        if (world->asked[side][i] > most) most = world->asked[side][i];
    return most;
}

/* Expects the arrivals of the last interval again in the next one. For decode, the result is
 * corrected by the ratio of TPOT to its limit. (For prefill, the correction factor never increases
 * the result.) */
static uint32_t plan_dynamo(const struct scaled_world *world, uint32_t side, double interval_s) {
    const struct scaled_options *options = world->options;
    double rate = world->recent_arrived / interval_s * scaled_world_tokens_of(world, side);
    if (side == SCALE_DECODE) rate *= fmax(world->utilisation[side], 1);
    return units_for(&options->manager.rule.sides[side], rate, 1);
}

static void follow_rule(struct scaled_world *world, double rate) {
    const struct scaled_options *options = world->options;
    const struct scale_rule_side *sides = options->manager.rule.sides;
    enum scaled_rule rule = options->rule;
    int64_t interval_ns = rule == SCALED_REACTIVE ? REACTIVE_NS : DYNAMO_NS;
    bool is_due = world->now_ns - world->ruled_ns >= interval_ns;
    bool is_first = world->now_ns == options->begin_ns;
    if (is_first) find_most(world);
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        double tokens = scaled_world_tokens_of(world, side);
        if (rule == SCALED_CLAIRVOYANT)
            set_units(world, side, units_for(&sides[side], rate * tokens, 1), true, rate);
        else if (rule == SCALED_STATIC || is_first)
            set_units(world, side, units_for(&sides[side], world->most[side], 1), is_first, rate);
        else if (is_due && rule == SCALED_REACTIVE)
            set_units(world, side, react(world, side), false, rate);
        else if (is_due)
            set_units(world, side, plan_dynamo(world, side, (double)interval_ns * 1e-9), false,
                      rate);
    }
    if (!is_due && !is_first) return;
    world->asked_count++;
    world->ruled_ns = world->now_ns;
    world->recent_arrived = 0;
}

/* ---- a run ---- */

static void note_reversals(struct scaled_world *world) {
    struct scaled_outcome *outcome = world->outcome;
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        uint32_t count = count_units(world, side, false);
        int direction = (count > world->before[side]) - (count < world->before[side]);
        world->before[side] = count;
        if (!direction) continue;
        bool is_reversed = direction == -world->direction[side];
        world->direction[side] = direction;
        if (!is_reversed || world->now_ns < world->options->measure_ns) continue;
        if (++world->reversals[side] > outcome->reversals) outcome->reversals++;
    }
}

static void scaled_world_count(struct scaled_world *world) {
    const struct scaled_options *options = world->options;
    struct scaled_outcome *outcome = world->outcome;
    uint32_t nodes = scaled_world_count_nodes(world);
    int64_t period_ns = options->manager.calendar.period_ns;
    if (world->now_ns < options->measure_ns) return;
    outcome->node_hours += nodes * (double)options->tick_ns / HOUR_NS;
    if (nodes > outcome->nodes_max) outcome->nodes_max = nodes;
    int64_t within_ns = world->now_ns % period_ns, hour_ns = period_ns / 24;
    if (within_ns % hour_ns < hour_ns / 2 + options->tick_ns && within_ns % hour_ns >= hour_ns / 2)
        outcome->hour_nodes[within_ns / hour_ns] = nodes;
}

size_t scaled_world_bytes(void) {
    return sizeof(struct scaled_world) + fleet_manager_bytes() + 256;
}

enum status scaled_world_run(struct arena *arena, const struct scaled_options *options,
                             struct scaled_outcome *outcome_out) {
    struct scaled_world *world = arena_take_zeroed(arena, sizeof *world);
    if (!world) return STATUS_NO_MEMORY;
    *outcome_out = (struct scaled_outcome){.windows = 0};
    world->options = options;
    world->outcome = outcome_out;
    world->dice = (struct fleet_dice){.seed = options->seed};
    struct fleet_manager_options manager = options->manager;
    manager.first_number = 1;
    enum status status = fleet_manager_create(arena, &manager, &world->manager);
    if (status) return status;
    world->machine = fleet_manager_machine(world->manager);
    for (world->now_ns = options->begin_ns; world->now_ns < options->end_ns;
         world->now_ns += options->tick_ns) {
        double rate = options->arrivals(options->load, world->now_ns) * wander(world);
        advance_units(world);
        if (options->rule == SCALED_MANAGER)
            manage(world, rate);
        else
            follow_rule(world, rate);
        if (options->rule != SCALED_MANAGER && options->rule != SCALED_REACTIVE)
            advance_units(world);
        flow(world, rate);
        note_reversals(world);
        scaled_world_count(world);
    }
    double hours = (double)(options->end_ns - options->measure_ns) / HOUR_NS;
    outcome_out->nodes_mean = outcome_out->node_hours / hours;
    return STATUS_OK;
}
