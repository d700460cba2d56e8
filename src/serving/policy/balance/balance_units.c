/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_units.h"

#include "base/check.h"
#include "contract/record_unit.h"

const char *balance_units_reason_name(enum units_reason reason) {
    static const char *const names[UNITS_REASON_COUNT] = {
        [UNITS_BOUND] = "bound to the unit with the smallest share in use",
        [UNITS_BOUND_PREFIX] = "bound to the unit that caches most of its prompt",
        [UNITS_BOUND_PARTNER] = "bound to the unit that computes its prompt anyway",
        [UNITS_BOUND_SOONEST] = "bound to the unit where its prompt waits least",
        [UNITS_WAITS_ROOM] = "waits: every unit has enough waiting",
        [UNITS_WAITS_SIZE] = "waits: no unit that serves is large enough",
        [UNITS_WAITS_UNIT] = "waits: no unit serves",
    };
    check(reason < UNITS_REASON_COUNT);
    return names[reason];
}

static bool balance_units_is_wanted(const struct balance_unit *unit,
                                    const struct balance_units_need *need, uint32_t roles) {
    bool alike = !need->numerics || (need->numerics >> unit->numerics & 1);
    return unit->accepts && alike && (roles & BALANCE_ROLE(unit->role));
}

static bool is_large_enough(const struct balance_unit *unit, const struct balance_units_need *need,
                            uint32_t roles) {
    return balance_units_is_wanted(unit, need, roles) && need->tokens <= unit->context_tokens_max &&
           need->page_count <= unit->rank_pages;
}

static bool balance_units_has_room(const struct balance_unit *unit) {
    return !unit->full && unit->requests < unit->requests_max &&
           unit->waiting < unit->rank_count * BALANCE_UNITS_WAITING;
}

/* The share of the unit in use, including this request. */
static double balance_units_share(const struct balance_unit *unit,
                                  const struct balance_units_need *need) {
    return ((double)unit->requests + 1) / unit->requests_max +
           (double)(unit->pages_taken + need->start_pages) / (double)unit->pages_total;
}

static uint32_t roles_there(const struct balance_units_need *need, const struct balance_unit *units,
                            uint32_t unit_count) {
    for (uint32_t i = 0; i < unit_count; i++)
        if (balance_units_is_wanted(&units[i], need, need->roles)) return need->roles;
    return UINT32_MAX;
}

static bool balance_units_may_take(const struct balance_units_need *need,
                                   const struct balance_unit *units, uint32_t unit, uint32_t roles,
                                   bool others) {
    return is_large_enough(&units[unit], need, roles) && balance_units_has_room(&units[unit]) &&
           !(unit == need->avoided_unit && others);
}

/* The share, reduced by the value of the prompt's cached part. */
static double balance_units_score(const struct balance_units_need *need,
                                  const struct balance_unit *unit, uint32_t hit_tokens,
                                  double least) {
    double lean = BALANCE_UNITS_LEAN * least +
                  BALANCE_UNITS_LEAN_REQUESTS * (double)unit->rank_count / unit->requests_max;
    return balance_units_share(unit, need) - lean * hit_tokens / need->prompt_tokens;
}

static double wait_ns(const struct balance_units_need *need, const struct balance_unit *units,
                      uint32_t unit) {
    double saved = need->hit_tokens ? units[unit].token_ns * need->hit_tokens[unit] : 0;
    return units[unit].step_left_ns + BALANCE_UNITS_BEFORE * units[unit].prompts_ns - saved;
}

/* The unit with the shortest wait, among those that only compute prompts. */
static uint32_t find_soonest(const struct balance_units_need *need,
                             const struct balance_unit *units, uint32_t unit_count, bool others) {
    uint32_t best = BALANCE_NO_RANK;
    for (uint32_t i = 0; i < unit_count; i++) {
        if (!balance_units_may_take(need, units, i, need->roles, others)) continue;
        double own = wait_ns(need, units, i);
        double least = best == BALANCE_NO_RANK ? own : wait_ns(need, units, best);
        if (best == BALANCE_NO_RANK || own < least ||
            (own == least &&
             balance_units_share(&units[i], need) < balance_units_share(&units[best], need)))
            best = i;
    }
    return best;
}

struct units_choice balance_units(const struct balance_units_need *need,
                                  const struct balance_unit *units, uint32_t unit_count) {
    uint32_t emptiest = BALANCE_NO_RANK, best = BALANCE_NO_RANK, able = 0, serving = 0;
    double least = 0, best_score = 0;
    uint32_t roles = roles_there(need, units, unit_count);
    for (uint32_t i = 0; i < unit_count; i++) {
        serving += balance_units_is_wanted(&units[i], need, roles);
        able += is_large_enough(&units[i], need, roles);
    }
    for (uint32_t i = 0; i < unit_count; i++) {
        if (!balance_units_may_take(need, units, i, roles, able > 1)) continue;
        if (i == need->partner) return (struct units_choice){i, UNITS_BOUND_PARTNER};
        double own = balance_units_share(&units[i], need);
        if (emptiest != BALANCE_NO_RANK && own >= least) continue;
        emptiest = i;
        least = own;
    }
    for (uint32_t i = 0; i < unit_count && need->hit_tokens; i++) {
        if (!balance_units_may_take(need, units, i, roles, able > 1)) continue;
        double own = balance_units_score(need, &units[i], need->hit_tokens[i], least);
        if (best != BALANCE_NO_RANK && own >= best_score) continue;
        best = i;
        best_score = own;
    }
    if (roles == BALANCE_ROLE(UNIT_PREFILL) && emptiest != BALANCE_NO_RANK)
        return (struct units_choice){find_soonest(need, units, unit_count, able > 1),
                                     UNITS_BOUND_SOONEST};
    if (best == BALANCE_NO_RANK) best = emptiest;
    if (best != BALANCE_NO_RANK)
        return (struct units_choice){best, best == emptiest ? UNITS_BOUND : UNITS_BOUND_PREFIX};
    return (struct units_choice){BALANCE_NO_RANK, able      ? UNITS_WAITS_ROOM
                                                  : serving ? UNITS_WAITS_SIZE
                                                            : UNITS_WAITS_UNIT};
}
