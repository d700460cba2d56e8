/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/scale_fleet.h"

#include <math.h>

#include "base/check.h"
#include "base/number.h"

#define NEARLY 1e-9 /* tolerance in units, for rounding errors */

const char *scale_fleet_reason_name(enum scale_reason reason) {
    static const char *const names[SCALE_REASON_COUNT] = {
        [SCALE_ENOUGH] = "as many as are needed",
        [SCALE_LOAD] = "the load wants more",
        [SCALE_FORECAST] = "more is expected by the time a unit has started",
        [SCALE_LIMIT] = "a limit is missed",
        [SCALE_LEAST] = "fewer than there always have to be",
        [SCALE_NEAR] = "with one unit fewer it would be near its limits",
        [SCALE_RETURNS] = "the load comes back too soon to give a unit away",
        [SCALE_RESTS] = "it grew not long ago",
        [SCALE_SPARE] = "load and forecast allow fewer",
        [SCALE_PROMISED] = "nodes are promised to others",
        [SCALE_PINNED] = "an operator wants so many",
    };
    check(reason < SCALE_REASON_COUNT);
    return names[reason];
}

uint32_t scale_fleet_units(const struct scale_rule_side *side, double rate, double free_share) {
    double units = ceil(rate / (side->unit_rate * (1 - free_share)) - NEARLY);
    uint32_t count = units > 0 ? (uint32_t)fmin(units, 1e6) : 0;
    return side->extra + (count + side->group - 1) / side->group * side->group;
}

uint32_t scale_fleet_nodes(const struct scale_rule *rule, const uint32_t units[SCALE_SIDES]) {
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < SCALE_SIDES; i++)
        nodes += units[i] * rule->sides[i].unit_nodes;
    return nodes;
}

static uint32_t scale_fleet_within(const struct scale_rule_side *side, uint32_t units) {
    return min_u32(max_u32(units, side->least), side->most);
}

static bool grew_within(const struct scale_state *state, uint32_t index, int64_t time_ns,
                        int64_t now_ns) {
    return state->has_grown[index] && now_ns - state->grew_ns[index] < time_ns;
}

/* The reason why the side needs more units than it has. */
static enum scale_reason why_more(const struct scale_rule *rule, const struct scale_view *view,
                                  uint32_t index) {
    const struct scale_rule_side *side = &rule->sides[index];
    if (view->units[index] < side->least) return SCALE_LEAST;
    uint32_t now = scale_fleet_units(side, view->demand[index].now, rule->reserve);
    return now > view->units[index] ? SCALE_LOAD : SCALE_FORECAST;
}

/* The number of units to keep, at least the needed ones. */
static uint32_t scale_fleet_keep(const struct scale_state *state, const struct scale_rule *rule,
                                 const struct scale_view *view, uint32_t index, uint32_t needed,
                                 int64_t now_ns, enum scale_reason *reason_out) {
    const struct scale_rule_side *side = &rule->sides[index];
    const struct scale_demand *demand = &view->demand[index];
    double near = fmax(demand->now, demand->soon), free = rule->reserve + rule->give_back;
    uint32_t units = view->units[index];
    uint32_t near_units = scale_fleet_within(side, scale_fleet_units(side, near, free));
    uint32_t later_units =
        scale_fleet_within(side, scale_fleet_units(side, demand->later, rule->reserve));
    uint32_t kept = min_u32(units, max_u32(needed, max_u32(near_units, later_units)));
    *reason_out = SCALE_ENOUGH;
    if (units <= needed) return min_u32(units, side->most);
    *reason_out = near_units >= units ? SCALE_NEAR : SCALE_RETURNS;
    if (kept == units) return kept;
    *reason_out = SCALE_RESTS;
    int64_t rest_ns = state->was_rash[index] ? 2 * rule->rest_ns : rule->rest_ns;
    if (units <= side->most && grew_within(state, index, rest_ns, now_ns)) return units;
    *reason_out = SCALE_SPARE;
    return kept;
}

static uint32_t choose_side(const struct scale_state *state, const struct scale_rule *rule,
                            const struct scale_view *view, uint32_t index, int64_t now_ns,
                            enum scale_reason *reason_out, uint32_t *needed_out) {
    const struct scale_rule_side *side = &rule->sides[index];
    const struct scale_demand *demand = &view->demand[index];
    uint32_t units = view->units[index];
    if (view->pinned[index] != SCALE_FREE) {
        *reason_out = SCALE_PINNED;
        return *needed_out = view->pinned[index];
    }
    uint32_t needed = scale_fleet_within(
        side, scale_fleet_units(side, fmax(demand->now, demand->soon), rule->reserve));
    *needed_out = needed;
    if (needed > units) {
        *reason_out = why_more(rule, view, index);
        return needed;
    }
    if (view->missed[index] && units < side->most &&
        !grew_within(state, index, rule->start_ns, now_ns)) {
        double free = rule->reserve + rule->give_back;
        uint32_t near = scale_fleet_units(side, fmax(demand->now, demand->soon), free);
        *reason_out = SCALE_LIMIT;
        return *needed_out = scale_fleet_within(side, max_u32(near, units + side->group));
    }
    if (view->missed[index]) *needed_out = needed = units; /* ordered units will help */
    return scale_fleet_keep(state, rule, view, index, needed, now_ns, reason_out);
}

enum scale_cut { SCALE_CUT_UNNEEDED, SCALE_CUT_GROWTH, SCALE_CUT_RUNNING };

/* Chooses the side that gives up a unit if nodes are short. On the side with the most spare
 * capacity, first unneeded units go, then orders, then running units. Running units therefore stay
 * if both sides want more, and noise moves nothing between the sides. */
static uint32_t find_spare(const struct scale_rule *rule, const struct scale_view *view,
                           const struct scale_choice *choice, const uint32_t *needed) {
    uint32_t best = SCALE_SIDES;
    enum scale_cut first = SCALE_CUT_RUNNING;
    double most = -1;
    for (uint32_t i = 0; i < SCALE_SIDES; i++) {
        const struct scale_rule_side *side = &rule->sides[i];
        double load = fmax(view->demand[i].now, view->demand[i].soon);
        double spare = choice->wanted[i] * side->unit_rate / fmax(load, side->unit_rate * 1e-6);
        enum scale_cut cut = choice->wanted[i] > needed[i]        ? SCALE_CUT_UNNEEDED
                             : choice->wanted[i] > view->units[i] ? SCALE_CUT_GROWTH
                                                                  : SCALE_CUT_RUNNING;
        if (choice->wanted[i] <= side->least || cut > first) continue;
        if (cut == first && spare <= most) continue;
        best = i;
        first = cut;
        most = spare;
    }
    return best;
}

static void scale_fleet_note_change(struct scale_state *state, const struct scale_rule *rule,
                                    uint32_t index, uint32_t wanted, uint32_t units,
                                    int64_t now_ns) {
    if (wanted > units) {
        state->was_rash[index] =
            state->has_shrunk[index] && now_ns - state->shrank_ns[index] < rule->rest_ns;
        state->has_grown[index] = true;
        state->grew_ns[index] = now_ns;
    } else if (wanted < units) {
        state->has_shrunk[index] = true;
        state->shrank_ns[index] = now_ns;
    }
}

struct scale_choice scale_fleet(struct scale_state *state, const struct scale_rule *rule,
                                const struct scale_view *view, int64_t now_ns) {
    struct scale_choice choice;
    uint32_t needed[SCALE_SIDES];
    for (uint32_t i = 0; i < SCALE_SIDES; i++)
        choice.wanted[i] = choose_side(state, rule, view, i, now_ns, &choice.reason[i], &needed[i]);
    while (scale_fleet_nodes(rule, choice.wanted) > view->nodes_max) {
        uint32_t side = find_spare(rule, view, &choice, needed);
        if (side == SCALE_SIDES) break;
        choice.wanted[side]--;
        choice.reason[side] = SCALE_PROMISED;
    }
    for (uint32_t i = 0; i < SCALE_SIDES; i++)
        scale_fleet_note_change(state, rule, i, choice.wanted[i], view->units[i], now_ns);
    return choice;
}
