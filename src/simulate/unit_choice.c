/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/unit_choice.h"

#include "base/check.h"
#include "base/checksum.h"
#include "contract/record_unit.h"
#include "serving/cache/prefix_affinity.h"
#include "serving/policy/balance_units.h"

#include <string.h>

#define NONE UINT32_MAX
#define UNIT_REQUESTS 64 /* that a unit holds */

struct choice_block { /* of a unit's pages: a list, the last used first */
    uint32_t next, before;
    bool there;
};

struct choice_unit {
    struct choice_block *blocks; /* [block_ids + 1]; the last one is the list's head */
    uint32_t block_count;
    uint32_t first, last; /* requests bound, in order; the first one is being computed */
    uint32_t requests;
    uint64_t bound_blocks, computed;
    int64_t done_ns; /* when the first one will be */
};

struct choice_world {
    const struct unit_choice_options *options;
    const struct ranks_request *requests;
    struct choice_unit units[LIMIT_FLEET_UNITS];
    struct balance_unit views[LIMIT_FLEET_UNITS];
    struct prefix_affinity affinity;
    uint64_t *keys; /* scratch of one prompt */
    uint32_t *next; /* [count] in a unit's line, or in the gateway's queue */
    uint32_t first, last, turns;
    int64_t now_ns;
    int64_t *ready_ns;
    struct unit_choice_report *report;
};

const char *unit_choice_method_name(enum unit_choice_method method) {
    static const char *const names[UNIT_CHOICE_METHOD_COUNT] = {[UNIT_CHOICE_PREFIX] = "prefix",
                                                                [UNIT_CHOICE_LOAD] = "load",
                                                                [UNIT_CHOICE_TURNS] = "turns"};
    check(method < UNIT_CHOICE_METHOD_COUNT);
    return names[method];
}

/* ---- a unit's pages ---- */

static void unlink_block(struct choice_unit *unit, uint32_t id) {
    struct choice_block *blocks = unit->blocks;
    blocks[blocks[id].before].next = blocks[id].next;
    blocks[blocks[id].next].before = blocks[id].before;
    blocks[id].there = false;
    unit->block_count--;
}

/* Now the last used; somebody else makes room. */
static void use_block(const struct choice_world *world, struct choice_unit *unit, uint32_t id) {
    uint32_t head = world->options->block_ids;
    struct choice_block *blocks = unit->blocks;
    if (blocks[id].there) unlink_block(unit, id);
    if (unit->block_count == world->options->unit_blocks) unlink_block(unit, blocks[head].before);
    blocks[id] = (struct choice_block){blocks[head].next, head, true};
    blocks[blocks[id].next].before = id;
    blocks[head].next = id;
    unit->block_count++;
}

static uint32_t count_cached(const struct choice_unit *unit, const struct ranks_request *request) {
    uint32_t count = 0, most = (request->prompt_tokens - 1) / RANKS_BLOCK_TOKENS;
    while (count < request->block_count && count < most &&
           unit->blocks[request->blocks[count]].there)
        count++;
    return count;
}

/* ---- a unit's prompts ---- */

/* From the end on, so that a prompt's beginning is the last to be forgotten. */
static void begin_first(struct choice_world *world, struct choice_unit *unit) {
    const struct ranks_request *request = &world->requests[unit->first];
    uint32_t cached = count_cached(unit, request) * RANKS_BLOCK_TOKENS;
    uint32_t computed = request->prompt_tokens - cached;
    world->report->cached_tokens += cached;
    world->report->prompt_tokens += request->prompt_tokens;
    unit->computed += computed;
    unit->done_ns = world->now_ns + (int64_t)(computed * world->options->token_ns);
    for (uint32_t i = request->block_count; i-- > 0;)
        use_block(world, unit, request->blocks[i]);
}

static void end_first(struct choice_world *world, struct choice_unit *unit) {
    uint32_t index = unit->first;
    world->ready_ns[index] = unit->done_ns;
    unit->bound_blocks -= world->requests[index].prompt_tokens / RANKS_BLOCK_TOKENS + 1;
    unit->requests--;
    unit->first = world->next[index];
    if (unit->first == NONE)
        unit->done_ns = INT64_MAX;
    else
        begin_first(world, unit);
}

static void bind(struct choice_world *world, uint32_t index, struct choice_unit *unit) {
    world->next[index] = NONE;
    unit->bound_blocks += world->requests[index].prompt_tokens / RANKS_BLOCK_TOKENS + 1;
    if (unit->requests++) {
        world->next[unit->last] = index;
        unit->last = index;
        return;
    }
    unit->first = unit->last = index;
    begin_first(world, unit);
}

/* ---- the gateway ---- */

static void view_units(struct choice_world *world) {
    for (uint32_t i = 0; i < world->options->unit_count; i++) {
        const struct choice_unit *unit = &world->units[i];
        world->views[i] = (struct balance_unit){.takes = true,
                                                .rank_count = 1,
                                                .context_tokens_max = UINT32_MAX,
                                                .rank_pages = UINT32_MAX,
                                                .requests = unit->requests,
                                                .requests_max = UNIT_REQUESTS,
                                                .waiting = unit->requests ? unit->requests - 1 : 0,
                                                .pages_total = world->options->unit_blocks,
                                                .pages_taken = unit->bound_blocks};
    }
}

/* The trace's blocks are numbered so that equal numbers mean equal tokens up to their end. */
static uint32_t make_keys(struct choice_world *world, const struct ranks_request *request) {
    for (uint32_t i = 0; i < request->block_count; i++)
        world->keys[i] = checksum_of(&request->blocks[i], sizeof request->blocks[i]);
    return request->block_count;
}

static uint32_t choose_in_turn(struct choice_world *world) {
    uint32_t unit = world->turns % world->options->unit_count;
    if (world->views[unit].waiting >= BALANCE_UNITS_WAITING) return NONE;
    world->turns++;
    return unit;
}

static uint32_t choose(struct choice_world *world, const struct ranks_request *request) {
    uint32_t blocks[LIMIT_FLEET_UNITS], key_count;
    struct balance_units_need need = {.tokens = request->prompt_tokens,
                                      .start_pages =
                                          request->prompt_tokens / RANKS_BLOCK_TOKENS + 1,
                                      .partner = BALANCE_NO_RANK,
                                      .avoided_unit = BALANCE_NO_RANK,
                                      .roles = BALANCE_ROLE(UNIT_BOTH)};
    if (world->options->method == UNIT_CHOICE_TURNS) return choose_in_turn(world);
    key_count = make_keys(world, request);
    if (world->options->method == UNIT_CHOICE_PREFIX) {
        prefix_affinity_find(&world->affinity, world->keys, key_count, blocks);
        for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
            blocks[i] *= RANKS_BLOCK_TOKENS;
        need.prompt_tokens = request->prompt_tokens;
        need.hit_tokens = blocks;
    }
    struct units_choice choice = balance_units(&need, world->views, world->options->unit_count);
    if (choice.unit == BALANCE_NO_RANK) return NONE;
    prefix_affinity_note(&world->affinity, choice.unit, world->keys, key_count);
    return choice.unit;
}

static void bind_waiting(struct choice_world *world) {
    while (world->first != NONE) {
        uint32_t index = world->first;
        view_units(world);
        uint32_t unit = choose(world, &world->requests[index]);
        if (unit == NONE) return;
        world->first = world->next[index];
        bind(world, index, &world->units[unit]);
    }
}

static void arrive(struct choice_world *world, uint32_t index) {
    world->next[index] = NONE;
    if (world->first == NONE)
        world->first = index;
    else
        world->next[world->last] = index;
    world->last = index;
}

/* ---- the world ---- */

static bool open_world(struct choice_world *world, struct arena *arena, uint32_t count) {
    uint32_t ids = world->options->block_ids, longest = 1;
    for (uint32_t i = 0; i < count; i++)
        if (world->requests[i].block_count > longest) longest = world->requests[i].block_count;
    world->keys = arena_take(arena, longest * sizeof *world->keys);
    world->next = arena_take(arena, count * sizeof *world->next);
    if (!world->keys || !world->next) return false;
    if (prefix_affinity_open(&world->affinity, arena, world->options->table_entries)) return false;
    for (uint32_t i = 0; i < world->options->unit_count; i++) {
        struct choice_unit *unit = &world->units[i];
        unit->blocks = arena_take_zeroed(arena, (ids + (size_t)1) * sizeof *unit->blocks);
        if (!unit->blocks) return false;
        unit->blocks[ids] = (struct choice_block){ids, ids, true};
        unit->first = NONE;
        unit->done_ns = INT64_MAX;
        prefix_affinity_welcome(&world->affinity, i, world->options->unit_blocks);
    }
    return true;
}

/* The unit that ends its first prompt next. */
static struct choice_unit *next_to_end(struct choice_world *world) {
    struct choice_unit *next = &world->units[0];
    for (uint32_t i = 1; i < world->options->unit_count; i++)
        if (world->units[i].done_ns < next->done_ns) next = &world->units[i];
    return next;
}

static void set_spread(struct choice_world *world) {
    uint64_t most = 0, sum = 0;
    for (uint32_t i = 0; i < world->options->unit_count; i++) {
        sum += world->units[i].computed;
        if (world->units[i].computed > most) most = world->units[i].computed;
    }
    double mean = (double)sum / world->options->unit_count;
    world->report->spread = mean > 0 ? (double)most / mean : 1;
}

enum status unit_choice_run(const struct unit_choice_options *options,
                            const struct ranks_request *requests, uint32_t count,
                            struct arena *arena, int64_t *ready_ns_out,
                            struct unit_choice_report *report_out) {
    check(options->unit_count > 0 && options->unit_count <= LIMIT_FLEET_UNITS);
    check(options->unit_blocks > 0);
    struct choice_world *world = arena_take_zeroed(arena, sizeof *world);
    if (!world) return STATUS_NO_MEMORY;
    *report_out = (struct unit_choice_report){0};
    world->options = options;
    world->requests = requests;
    world->ready_ns = ready_ns_out;
    world->report = report_out;
    world->first = NONE;
    if (!open_world(world, arena, count)) return STATUS_NO_MEMORY;
    for (uint32_t arrived = 0;;) {
        struct choice_unit *unit = next_to_end(world);
        bool comes = arrived < count && requests[arrived].arrival_ns <= unit->done_ns;
        if (!comes && unit->done_ns == INT64_MAX) break;
        world->now_ns = comes ? requests[arrived].arrival_ns : unit->done_ns;
        if (comes)
            arrive(world, arrived++);
        else
            end_first(world, unit);
        bind_waiting(world);
    }
    set_spread(world);
    return STATUS_OK;
}
