/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/level.h"

#include "serving/policy/balance/balance_prefill.h"
#include "serving/unit/binding.h"

/* Lists the requests with prompt tokens to compute, or tokens to compute again, by turn.
 * *answers_out: the number of decode rows. */
static uint32_t view_prompts(const struct unit *unit, uint32_t *answers_out) {
    uint32_t count = 0;
    *answers_out = unit->counts[UNIT_REQUEST_DECODE];
    if (unit->counts[UNIT_REQUEST_WAITING] + unit->counts[UNIT_REQUEST_PREFILL] == 0) return 0;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        if (request->state != UNIT_REQUEST_WAITING && request->state != UNIT_REQUEST_PREFILL)
            continue;
        if (binding_holds(request)) continue;
        unit->scratch.items[count++] =
            (struct schedule_item){.slot = slot,
                                   .phase = SCHEDULE_PREFILL,
                                   .computed_tokens = request->computed_count,
                                   .known_tokens = request_known(request),
                                   .turn = request->turn,
                                   .arrival = request->arrival};
    }
    schedule_order(unit->scratch.items, count, unit->scratch.order);
    return count;
}

static double answers_cost(const struct step_cost *cost, uint32_t answers) {
    struct step_work work = {.answer_rows = answers};
    return step_cost_ns(cost, &work);
}

/* The length of the longest prompt row with at most `most` tokens: up to the last known token, or
 * to the end of a block. */
static uint32_t level_row_tokens(const struct schedule_item *item, uint32_t most) {
    uint32_t first = item->computed_tokens, wanted = item->known_tokens - first;
    if (most >= wanted) return wanted;
    uint32_t end = (first + most) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    return end > first ? end - first : 0;
}

/* The number of tokens of the listed prompts that add at most `ns` to a step. *added_out: the time
 * that they add. */
static uint32_t fill(const struct unit *unit, uint32_t count, uint32_t answers,
                     const struct step_cost *cost, double ns, double *added_out) {
    uint32_t room = unit->options.step_tokens_max - answers, taken = 0;
    double added = 0;
    for (uint32_t i = 0; i < count && taken < room; i++) {
        const struct schedule_item *item = &unit->scratch.items[unit->scratch.order[i]];
        uint32_t chunk = unit->options.chunk_tokens_max, left = room - taken;
        if (item->phase == SCHEDULE_DECODE) continue;
        uint32_t most = level_row_tokens(item, chunk < left ? chunk : left);
        uint32_t tokens =
            level_row_tokens(item, step_cost_afford(cost, item->computed_tokens, most, ns - added));
        taken += tokens;
        added += step_cost_run_ns(cost, item->computed_tokens, tokens);
        if (tokens < most) break; /* the budget of tokens is used up */
    }
    *added_out = added;
    return taken;
}

/* The number of tokens that the first prompt in turn always gets. */
static uint32_t chunk_min(const struct unit *unit, const struct step_cost *cost) {
    const struct prefill_costs costs = {.attended = step_cost_attended_ns(cost),
                                        .read = step_cost_context_ns(cost)};
    uint32_t most = (unit->options.step_tokens_max - unit->options.step_rows_max) /
                    KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    /* also if nothing is measured yet */
    if (2 * costs.read >= costs.attended * most) return most;
    uint32_t least = balance_prefill_costs_chunk_min(&costs);
    return least < most ? least : most;
}

struct level_view level_look(const struct unit *unit, const struct step_cost *cost) {
    uint32_t answers, count = view_prompts(unit, &answers);
    struct level_view view = {.answers_ns = answers_cost(cost, answers)};
    double added;
    view.least_ns = 2 * view.answers_ns;
    if (count > 0) {
        const struct schedule_item *first = &unit->scratch.items[unit->scratch.order[0]];
        uint32_t tokens = level_row_tokens(first, chunk_min(unit, cost));
        double ns = view.answers_ns + step_cost_run_ns(cost, first->computed_tokens, tokens);
        if (ns > view.least_ns) view.least_ns = ns;
    }
    (void)fill(unit, count, answers, cost, SCHEDULE_UNBOUND, &added);
    view.full_ns = view.answers_ns + added;
    return view;
}

uint32_t level_tokens(const struct unit *unit, uint32_t count) {
    const struct step_cost *cost = unit->level_cost;
    uint32_t answers = unit->counts[UNIT_REQUEST_DECODE];
    double added;
    if (!cost) return 0;
    uint32_t least = chunk_min(unit, cost);
    uint32_t tokens =
        fill(unit, count, answers, cost, unit->level_ns - answers_cost(cost, answers), &added);
    return tokens > least ? tokens : least;
}
