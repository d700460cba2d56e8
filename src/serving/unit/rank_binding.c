/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/rank_binding.h"

#include "serving/policy/admit.h"
#include "serving/unit/kv_offload.h"

#define REQUEST_TOKENS 64 /* prompt tokens that cost as much as the future steps of a request */
#define REQUEST_PAGES 4   /* KV pages that cost as much as a row, in addition to its context */

void rank_binding_view_offers(struct rank_units *units) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        if (units->offer_rounds[rank] == units->offer_round) continue;
        units->offers[rank] = unit_offer(units->ranks[rank].unit, &units->lengths);
        units->offer_rounds[rank] = units->offer_round;
    }
}

static bool accepts(const struct rank_units *units, uint32_t rank) {
    return units->offers[rank].requests < units->capacity.requests_max &&
           !units->ranks[rank].masked;
}

/* True if the rank's next step has space for a request of any turn. */
static bool has_row(const struct rank_units *units, uint32_t rank) {
    return units->offers[rank].rows < units->capacity.rows_max;
}

void rank_binding_view_room(struct rank_units *units) {
    rank_binding_view_offers(units);
    units->room_turn = INT64_MIN;
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        if (accepts(units, rank) && has_row(units, rank) &&
            units->offers[rank].full_turn > units->room_turn)
            units->room_turn = units->offers[rank].full_turn;
}

/* True if a rank has space for a prompt of that turn. All offers must be current. */
static bool any_room(const struct rank_units *units, int64_t turn) {
    return units->on_arrival || turn < units->room_turn || units->room_turn == INT64_MAX;
}

/* Fills in units->prefills for a prompt of that turn. Returns true if any rank has space. */
static bool view_prefills(struct rank_units *units, int64_t turn) {
    bool any = false;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        const struct unit_offer *offer = &units->offers[rank];
        bool masked = units->ranks[rank].masked;
        bool room =
            has_row(units, rank) && (turn < offer->full_turn || offer->full_turn == INT64_MAX);
        if (units->on_arrival) room = true;
        units->prefills[rank] = (struct prefill_rank){
            .accepts = accepts(units, rank) && room,
            .pages_free = offer->pages_available,
            .bound_cost =
                masked ? 1e300 /* so that no request waits for it */
                       : (double)offer->tokens_ahead + REQUEST_TOKENS * (double)offer->requests};
        any |= units->prefills[rank].accepts;
    }
    return any;
}

void rank_binding_view_blocks(struct rank_units *units, const struct record_submit *submit) {
    struct prompt_blocks *blocks = &units->blocks;
    blocks->key_count = 0;
    if (units->rank_count == 1) return; /* the only rank gets the prompt in any case */
    /* equal for all ranks */
    blocks->key_count = pages_keys(units->ranks[0].unit, submit, blocks->keys);
    blocks->near_count = units->near_count;
    for (uint32_t rank = 0; rank < blocks->near_count; rank++) {
        const struct rank_unit *of = &units->ranks[rank];
        uint32_t cached = prefix_tree_count(&of->unit->tree, blocks->keys, blocks->key_count);
        blocks->near[rank] = cached + recent_blocks_count(&of->memory, blocks->keys + cached,
                                                          blocks->key_count - cached);
    }
}

/* The tokens of a prompt that a rank need not compute. Blocks after the cached ones are fetched
 * from the storage's memory, and then from the shared disk, as far as that is faster than
 * computing. */
static struct prefill_hit hit_of(const struct unit *unit, uint32_t cached, uint32_t near,
                                 uint32_t most) {
    const uint32_t ends[] = {most, near}; /* end on disk, end in memory */
    struct prefill_hit hit = {.cached_tokens = cached};
    for (int memory = 1; memory >= 0; memory--) {
        uint32_t first = hit.cached_tokens, end = ends[memory];
        if (end <= first) continue;
        double fetch = kv_offload_fetch_tokens(unit, memory, first, end - first);
        if (fetch >= end - first) continue;
        hit.cached_tokens = end;
        hit.fetch_cost += fetch;
    }
    return hit;
}

/* Finds the blocks of the prompt in the pages of the ranks and in the memory of their storages.
 * Blocks of any other rank are also on the shared disk. */
static void view_hits(struct rank_units *units, const struct prompt_blocks *blocks) {
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        uint32_t cached =
            prefix_tree_count(&units->ranks[rank].unit->tree, blocks->keys, blocks->key_count) *
            KV_BLOCK_TOKENS;
        uint32_t near = blocks->near_count ? blocks->near[rank] * KV_BLOCK_TOKENS : 0;
        units->hits[rank] = (struct prefill_hit){.cached_tokens = cached};
        units->prefills[rank].pages_free += cached / KV_BLOCK_TOKENS;
        if (cached > most) most = cached;
        if (near > most) most = near;
    }
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        uint32_t near = blocks->near_count ? blocks->near[rank] * KV_BLOCK_TOKENS : 0;
        units->hits[rank] =
            hit_of(units->ranks[rank].unit, units->hits[rank].cached_tokens, near, most);
    }
}

/* Finds the rank that would finish the prompt first, given the work that waits there and the blocks
 * in its cache. Costs are in tokens, because times are unknown before the first step. */
struct prefill_choice rank_binding_by_work(struct rank_units *units,
                                           const struct record_submit *submit,
                                           const struct prompt_blocks *blocks, int64_t turn,
                                           bool patient) {
    static const struct prefill_costs costs = {.token = 1, .attended = 1.0 / 8192};
    uint32_t known = submit->prompt_count + submit->resumed_count;
    struct prefill_need need = {.prompt_tokens = known,
                                .page_count =
                                    (uint32_t)admit_start_pages(admit_need_of(submit), known),
                                .patient = patient};
    if (!any_room(units, turn) || !view_prefills(units, turn))
        return (struct prefill_choice){BALANCE_NO_RANK, PREFILL_WAITS_ROOM, 0};
    view_hits(units, blocks);
    struct prefill_choice choice =
        balance_prefill(&costs, &need, units->prefills, units->hits, units->rank_count);
    if (!units->on_arrival || choice.reason != PREFILL_WAITS_PAGES) return choice;
    need.page_count = 0; /* the prompt waits for pages there */
    return balance_prefill(&costs, &need, units->prefills, units->hits, units->rank_count);
}

/* Chooses by a simple method. `answers`: the prompt is computed elsewhere, so the request needs
 * pages but no prefill. */
static uint32_t choose_simple(struct rank_units *units, bool answers) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        const struct unit_offer *offer = &units->offers[rank];
        units->loads[rank] = (struct balance_rank){
            offer->requests, answers ? offer->pages_held : offer->tokens_ahead,
            accepts(units, rank)};
    }
    return balance_choose_simple(units->method, units->loads, units->rank_count, units->choices++);
}

struct decode_choice rank_binding_to_decode(struct rank_units *units,
                                            const struct decode_need *need, uint32_t but) {
    static const struct decode_costs costs = {.request_ns = REQUEST_PAGES, .page_ns = 1};
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        const struct unit_offer *offer = &units->offers[rank];
        units->decodes[rank] = (struct decode_rank){
            .requests = offer->rows,
            .requests_max = rank != but && accepts(units, rank) ? units->capacity.rows_max : 0,
            .pages_total = units->capacity.page_count,
            .pages_held = offer->pages_held,
            .pages_reserved =
                units->capacity.page_count - offer->pages_held - offer->pages_available,
            .pages_expected = offer->pages_expected};
    }
    return balance_decode(&costs, need, units->decodes, units->rank_count);
}

uint32_t rank_binding_to_reserve(struct rank_units *units, const struct record_submit *submit) {
    uint32_t grows = predict_length_left(&units->lengths, 1, submit->new_tokens_max);
    struct decode_need need = {
        .page_count = (uint32_t)admit_start_pages(admit_need_of(submit), submit->prompt_count + 1),
        .pages_expected = grows / KV_BLOCK_TOKENS};
    if (units->method != BALANCE_WORK) return choose_simple(units, true);
    struct decode_choice choice = rank_binding_to_decode(units, &need, BALANCE_NO_RANK);
    units->decode_choices[choice.reason]++;
    return choice.rank;
}

uint32_t rank_binding_on_arrival(struct rank_units *units, const struct record_submit *submit) {
    if (units->method != BALANCE_WORK) return choose_simple(units, false);
    rank_binding_view_blocks(units, submit);
    struct prefill_choice choice =
        rank_binding_by_work(units, submit, &units->blocks, INT64_MAX, false);
    units->prefill_choices[choice.reason]++;
    return choice.rank;
}
