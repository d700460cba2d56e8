/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/fleet/managed_units.h"

#include "base/check.h"
#include "base/number.h"

#define BACK_SHOWS_NS ((int64_t)10000000000) /* until then an older report may still arrive */

const char *managed_units_state_name(uint32_t state) {
    static const char *const names[MANAGED_STATE_COUNT] = {
        [MANAGED_NONE] = "none",       [MANAGED_ORDERED] = "starting",
        [MANAGED_SERVING] = "serving", [MANAGED_DRAINING] = "draining",
        [MANAGED_STOPPING] = "ending",
    };
    check(state < MANAGED_STATE_COUNT);
    return names[state];
}

uint32_t managed_units_find(const struct managed_units *units, uint32_t number) {
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++)
        if (units->units[i].state != MANAGED_NONE && units->units[i].number == number) return i;
    return MANAGED_NOBODY;
}

static uint32_t managed_units_find_free(const struct managed_units *units) {
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++)
        if (units->units[i].state == MANAGED_NONE) return i;
    return MANAGED_NOBODY;
}

static void managed_units_enter(struct managed_unit *unit, enum managed_state state,
                                int64_t now_ns) {
    unit->state = state;
    unit->since_ns = now_ns;
    unit->reported_ns = 0;
    unit->received_ns = now_ns;
}

static enum managed_state state_seen(uint32_t state) {
    if (state == FLEET_UNIT_SERVING) return MANAGED_SERVING;
    return state == FLEET_UNIT_DRAINING ? MANAGED_DRAINING : MANAGED_ORDERED;
}

static void managed_units_take_over(struct managed_units *units,
                                    const struct record_fleet_unit *seen, int64_t now_ns) {
    uint32_t index = managed_units_find_free(units);
    if (index == MANAGED_NOBODY) return;
    units->units[index] = (struct managed_unit){.number = seen->number,
                                                .role = seen->role,
                                                .observed_state = seen->observed_state,
                                                .requests = seen->requests,
                                                .stranded = seen->stranded,
                                                .seen_role = seen->role,
                                                .drained_by_operator = seen->drained_by_operator};
    managed_units_enter(&units->units[index], state_seen(seen->observed_state), now_ns);
    units->units[index].reported_ns = now_ns; /* possibly sent by an earlier manager */
}

static enum managed_end managed_units_leave(struct managed_unit *unit) {
    enum managed_end end = MANAGED_LOST;
    if (unit->state == MANAGED_STOPPING || unit->state == MANAGED_DRAINING) end = MANAGED_ENDS;
    if (unit->state == MANAGED_ORDERED) end = MANAGED_FAILS;
    *unit = (struct managed_unit){.state = MANAGED_NONE};
    return end;
}

/* A unit that drains without an order has lost its nodes: its launcher has asked it to end. */
enum managed_end managed_units_see(struct managed_units *units,
                                   const struct record_fleet_unit *seen, int64_t now_ns) {
    bool is_gone =
        seen->observed_state == FLEET_UNIT_GONE || seen->observed_state == FLEET_UNIT_LAUNCH_FAILED;
    uint32_t index = managed_units_find(units, seen->number);
    units->last_number = max_u32(units->last_number, seen->number);
    if (index == MANAGED_NOBODY) {
        if (!is_gone) managed_units_take_over(units, seen, now_ns);
        return MANAGED_GOES_ON;
    }
    struct managed_unit *unit = &units->units[index];
    if (is_gone) return managed_units_leave(unit);
    unit->observed_state = seen->observed_state;
    unit->requests = seen->requests;
    unit->stranded = seen->stranded;
    unit->seen_role = seen->role;
    if (unit->state == MANAGED_SERVING && seen->observed_state == FLEET_UNIT_DRAINING &&
        (unit->act != FLEET_ACT_RESUME || now_ns - unit->reported_ns > BACK_SHOWS_NS)) {
        managed_units_enter(unit, MANAGED_DRAINING, now_ns);
        unit->leaves = true;
    }
    if (unit->state != MANAGED_ORDERED || seen->observed_state != FLEET_UNIT_SERVING)
        return MANAGED_GOES_ON;
    unit->role = seen->role;
    managed_units_enter(unit, MANAGED_SERVING, now_ns);
    return MANAGED_BEGINS;
}

uint32_t managed_units_order(struct managed_units *units, uint32_t role, int64_t now_ns) {
    uint32_t index = managed_units_find_free(units);
    if (index == MANAGED_NOBODY) return index;
    units->units[index] = (struct managed_unit){.number = ++units->last_number, .role = role};
    managed_units_enter(&units->units[index], MANAGED_ORDERED, now_ns);
    return index;
}

void managed_units_drain(struct managed_units *units, uint32_t index, int64_t now_ns) {
    check(units->units[index].state == MANAGED_SERVING);
    managed_units_enter(&units->units[index], MANAGED_DRAINING, now_ns);
}

void managed_units_call_back(struct managed_units *units, uint32_t index, int64_t now_ns) {
    check(units->units[index].state == MANAGED_DRAINING);
    managed_units_enter(&units->units[index], MANAGED_SERVING, now_ns);
}

void managed_units_end(struct managed_units *units, uint32_t index, int64_t now_ns) {
    uint32_t state = units->units[index].state;
    check(state != MANAGED_NONE && state != MANAGED_STOPPING);
    managed_units_enter(&units->units[index], MANAGED_STOPPING, now_ns);
}

void managed_units_assign(struct managed_units *units, uint32_t index, uint32_t role) {
    check(units->units[index].state == MANAGED_SERVING);
    units->units[index].role = role;
    units->units[index].reported_ns = 0;
}

void managed_units_hold(struct managed_units *units, uint32_t index, bool drained) {
    units->units[index].drained_by_operator = drained;
}

void managed_units_report(struct managed_units *units, uint32_t index, enum fleet_act act,
                          enum scale_reason reason, int64_t now_ns) {
    struct managed_unit *unit = &units->units[index];
    unit->act = act;
    unit->reason = reason;
    unit->reported_ns = now_ns;
}

uint32_t managed_units_count(const struct managed_units *units, uint32_t role) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MANAGED_UNITS_MAX; i++) {
        const struct managed_unit *unit = &units->units[i];
        count += unit->role == role &&
                 (unit->state == MANAGED_ORDERED || unit->state == MANAGED_SERVING);
    }
    return count;
}
