/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/choose_roles.h"

#include "base/check.h"
#include "contract/record_unit.h"

const char *choose_roles_reason_name(enum roles_reason reason) {
    static const char *const names[ROLES_REASON_COUNT] = {
        [ROLES_CALM] = "stays: no kind is pressed",
        [ROLES_LOOKS] = "stays: one kind is pressed, but not for long",
        [ROLES_RESTS] = "stays: the last change was not long ago",
        [ROLES_NO_UNIT] = "stays: the other kind cannot spare a unit",
        [ROLES_MOVES] = "a unit changes to the kind that is pressed",
    };
    check(reason < ROLES_REASON_COUNT);
    return names[reason];
}

struct kind {
    uint32_t units, ranks;
    uint64_t waiting; /* waiting requests */
    double used;      /* sum of the shares in use */
};

/* The share of the unit in use: the larger of its shares of KV pages and of requests. */
static double choose_roles_share_of(const struct balance_unit *unit) {
    double requests = (double)unit->requests / unit->requests_max;
    double pages = (double)unit->pages_taken / (double)unit->pages_total;
    return requests > pages ? requests : pages;
}

static struct kind sum_kind(const struct balance_unit *units, uint32_t unit_count, uint32_t role) {
    struct kind kind = {0};
    for (uint32_t i = 0; i < unit_count; i++) {
        if (!units[i].accepts || units[i].role != role) continue;
        kind.units++;
        kind.ranks += units[i].rank_count;
        kind.waiting += units[i].waiting;
        kind.used += choose_roles_share_of(&units[i]);
    }
    return kind;
}

/* The pressure on prefill: waiting requests divided by the number that may wait at connected
 * units. */
static double prefill_pressure(const struct kind *kind, uint32_t queued, uint32_t ranks) {
    double waiting = (double)kind->waiting + queued;
    return waiting / ((double)ranks * BALANCE_UNITS_WAITING);
}

static double decode_pressure(const struct kind *kind, uint32_t units) {
    return kind->used / units;
}

static uint32_t find_pressed(const struct kind *prefill, const struct kind *decode,
                             uint32_t queued) {
    if (prefill->units + decode->units < 2) return UNIT_BOTH;
    if (!decode->units) return UNIT_DECODE;
    if (!prefill->units) return UNIT_PREFILL;
    if (decode_pressure(decode, decode->units) > CHOOSE_ROLES_DECODE_HIGH) return UNIT_DECODE;
    if (prefill_pressure(prefill, queued, prefill->ranks) > CHOOSE_ROLES_PREFILL_HIGH)
        return UNIT_PREFILL;
    return UNIT_BOTH;
}

/* True if the other role can spare the unit. If decode is under pressure, the queue does not count
 * as pressure on prefill, because its prompts wait for pages, not for prefill units. */
static bool can_spare(const struct kind *prefill, const struct kind *decode,
                      const struct balance_unit *unit, uint32_t pressed) {
    if (pressed == UNIT_PREFILL)
        return decode->units > 1 &&
               decode_pressure(decode, decode->units - 1) < CHOOSE_ROLES_DECODE_LOW;
    return prefill->units > 1 && prefill_pressure(prefill, 0, prefill->ranks - unit->rank_count) <
                                     CHOOSE_ROLES_PREFILL_LOW;
}

/* The unit with the least work that can be spared. */
static uint32_t choose_roles_find_unit(const struct balance_unit *units, uint32_t unit_count,
                                       const struct kind *prefill, const struct kind *decode,
                                       uint32_t pressed) {
    uint32_t from = pressed == UNIT_PREFILL ? UNIT_DECODE : UNIT_PREFILL, best = BALANCE_NO_RANK;
    for (uint32_t i = 0; i < unit_count; i++) {
        const struct balance_unit *unit = &units[i];
        if (!unit->accepts || !unit->movable || unit->role != from) continue;
        if (!can_spare(prefill, decode, unit, pressed)) continue;
        if (best == BALANCE_NO_RANK ||
            choose_roles_share_of(unit) < choose_roles_share_of(&units[best]))
            best = i;
    }
    return best;
}

struct roles_choice choose_roles(struct choose_roles *state, const struct choose_roles_rule *rule,
                                 const struct balance_unit *units, uint32_t unit_count,
                                 uint32_t queued, int64_t now_ns) {
    const struct roles_choice stay = {BALANCE_NO_RANK, UNIT_BOTH};
    struct kind prefill = sum_kind(units, unit_count, UNIT_PREFILL);
    struct kind decode = sum_kind(units, unit_count, UNIT_DECODE);
    uint32_t pressed = find_pressed(&prefill, &decode, queued);
    if (pressed != state->pressed) {
        state->pressed = pressed;
        state->since_ns = now_ns;
    }
    state->reason = ROLES_CALM;
    if (pressed == UNIT_BOTH) return stay;
    state->reason = ROLES_RESTS;
    if (state->has_moved && now_ns - state->moved_ns < rule->rest_ns) return stay;
    state->reason = ROLES_LOOKS;
    if (now_ns - state->since_ns < rule->hold_ns) return stay;
    state->reason = ROLES_NO_UNIT;
    uint32_t unit = choose_roles_find_unit(units, unit_count, &prefill, &decode, pressed);
    if (unit == BALANCE_NO_RANK) return stay;
    *state = (struct choose_roles){.moved_ns = now_ns, .has_moved = true, .reason = ROLES_MOVES};
    return (struct roles_choice){unit, pressed};
}
