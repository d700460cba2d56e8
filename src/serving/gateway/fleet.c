/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/fleet.h"

#include "base/check.h"
#include "base/number.h"

#define STEPS_REMEMBERED 64 /* decay length, in steps, of the prompt statistics */

size_t fleet_bytes(void) {
    return LIMIT_FLEET_UNITS *
               (sizeof(struct fleet_unit) + LIMIT_RANKS * sizeof(struct fleet_rank)) +
           map_bytes(LIMIT_FLEET_UNITS) + 64;
}

enum status fleet_open(struct fleet *fleet, struct arena *arena) {
    fleet->units = arena_take_zeroed(arena, LIMIT_FLEET_UNITS * sizeof *fleet->units);
    struct fleet_rank *ranks =
        arena_take(arena, (size_t)LIMIT_FLEET_UNITS * LIMIT_RANKS * sizeof *ranks);
    if (!fleet->units || !ranks) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        fleet->units[i].ranks = ranks + (size_t)i * LIMIT_RANKS;
    return map_open(&fleet->by_id, arena, LIMIT_FLEET_UNITS);
}

/* ---- joining and leaving ---- */

static struct map_key fleet_key_of(struct unit_id id) {
    return (struct map_key){0, id.value, 0};
}

uint32_t fleet_find(const struct fleet *fleet, struct unit_id id) {
    uint32_t unit = map_find(&fleet->by_id, fleet_key_of(id));
    return unit == MAP_NONE ? FLEET_NONE : unit;
}

uint32_t fleet_find_number(const struct fleet *fleet, uint32_t number) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (fleet->units[i].state != FLEET_FREE && fleet->units[i].number == number) return i;
    return FLEET_NONE;
}

uint32_t fleet_find_instance(const struct fleet *fleet, uint64_t instance) {
    for (uint32_t i = 0; instance && i < LIMIT_FLEET_UNITS; i++)
        if (fleet_is_member(fleet, i) && fleet->units[i].hello.instance == instance) return i;
    return FLEET_NONE;
}

void fleet_join(struct fleet *fleet, struct unit_id id, int64_t now_ns) {
    if (fleet_find(fleet, id) != FLEET_NONE) return;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        struct fleet_unit *unit = &fleet->units[i];
        if (unit->state != FLEET_FREE) continue;
        *unit = (struct fleet_unit){.id = id,
                                    .number = FLEET_NUMBERS_APART + id.value,
                                    .state = FLEET_JOINING,
                                    .ranks = unit->ranks,
                                    .last_seen_ns = now_ns};
        map_add(&fleet->by_id, fleet_key_of(id), i);
        return;
    }
    fleet->refused_total++;
}

static bool has_members(const struct fleet *fleet) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (fleet_is_member(fleet, i)) return true;
    return false;
}

static bool same_model(const struct record_unit_hello *a, const struct record_unit_hello *b) {
    return a->vocab_count == b->vocab_count &&
           memcmp(a->model_id, b->model_id, sizeof a->model_id) == 0;
}

static bool fleet_is_own(const struct fleet_own *own, const struct record_unit_hello *hello) {
    static const char unknown[sizeof own->model_id];
    bool knows_weights = memcmp(own->model_id, unknown, sizeof unknown) != 0;
    return (!own->vocab_count || own->vocab_count == hello->vocab_count) &&
           (!knows_weights || memcmp(own->model_id, hello->model_id, sizeof unknown) == 0);
}

/* Returns the index of the numerics in fleet.numerics, and adds them if needed. FLEET_NONE: there
 * are too many. */
static uint32_t number_numerics(struct fleet *fleet, const char *id) {
    for (uint32_t i = 0; i < fleet->numerics_count; i++)
        if (strcmp(fleet->numerics[i], id) == 0) return i;
    if (fleet->numerics_count == FLEET_NUMERICS_MAX) return FLEET_NONE;
    memcpy(fleet->numerics[fleet->numerics_count], id, sizeof fleet->numerics[0]);
    return fleet->numerics_count++;
}

uint32_t fleet_count_numerics(const struct fleet *fleet, uint32_t numerics) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        count += fleet_is_member(fleet, i) && fleet->units[i].numerics == numerics;
    return count;
}

uint64_t fleet_room_tokens(struct fleet_room room) {
    return room.context_tokens < room.memory_tokens ? room.context_tokens : room.memory_tokens;
}

/* Recomputes what depends on all members. Without members, keeps the values of the last ones. */
static void look_at_members(struct fleet *fleet) {
    struct fleet_room most = {0, 0};
    uint32_t first = FLEET_NONE;
    fleet->is_mixed = false;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_unit *unit = &fleet->units[i];
        if (!fleet_is_member(fleet, i)) continue;
        if (first == FLEET_NONE) first = i;
        fleet->is_mixed |= unit->numerics != fleet->units[first].numerics;
        struct fleet_room room = {unit->hello.context_tokens_max,
                                  (uint64_t)unit->rank_pages * KV_BLOCK_TOKENS};
        if (fleet_room_tokens(room) > fleet_room_tokens(most)) most = room;
    }
    if (first == FLEET_NONE) return;
    fleet->largest = most;
    if (!fleet_count_numerics(fleet, fleet->main_numerics))
        fleet->main_numerics = fleet->units[first].numerics;
}

uint64_t fleet_tokens_max(const struct fleet *fleet) {
    return fleet_knows_model(fleet) ? fleet_room_tokens(fleet->largest) : LIMIT_CONTEXT;
}

/* False for a unit that is too small to run any request. Its model is not adopted. */
static bool is_usable(const struct fleet_own *own, const struct record_unit_hello *hello) {
    return hello->page_count > 0 && hello->requests_max > 0 && hello->vocab_count <= LIMIT_VOCAB &&
           hello->context_tokens_max <= LIMIT_CONTEXT && fleet_is_own(own, hello);
}

/* Updates the ranks of a unit that already serves, because one has restarted as another process. */
static void renew_ranks(struct fleet_unit *unit, const struct record_unit_hello *hello) {
    if (unit->state == FLEET_REFUSED || hello->rank_count != unit->hello.rank_count) return;
    for (uint32_t i = 0; i < hello->rank_count; i++) {
        const struct unit_rank *rank = &hello_ranks(hello)[i];
        unit->ranks[i].is.pid = rank->pid;
        memcpy(unit->ranks[i].is.kv_address, rank->kv_address, sizeof rank->kv_address);
    }
}

/* The first unit with a number keeps it: a unit's number does not change while it is connected. */
static void number_unit(const struct fleet *fleet, struct fleet_unit *unit) {
    uint32_t number = record_unit_number(unit->hello.instance);
    if (!number) number = unit->id.value;
    if (fleet_find_number(fleet, number) == FLEET_NONE) unit->number = number;
}

bool fleet_hello(struct fleet *fleet, uint32_t index, const struct record_unit_hello *hello,
                 bool idle) {
    struct fleet_unit *unit = &fleet->units[index];
    if (unit->state != FLEET_JOINING) {
        renew_ranks(unit, hello);
        return false;
    }
    bool is_first = !fleet_knows_model(fleet) || (idle && !has_members(fleet));
    if (is_first && is_usable(&fleet->own, hello)) {
        fleet->model = *hello;
        fleet->numerics_count = 0;
    }
    unit->hello = *hello;
    number_unit(fleet, unit);
    bool is_ours = is_usable(&fleet->own, hello) && same_model(hello, &fleet->model);
    uint32_t numerics = is_ours ? number_numerics(fleet, hello->numerics_id) : FLEET_NONE;
    if (numerics == FLEET_NONE) {
        unit->state = FLEET_REFUSED;
        fleet->refused_total++;
        return false;
    }
    unit->state = FLEET_SERVING;
    unit->numerics = numerics;
    unit->load.pages_free = hello->page_count;
    for (uint32_t i = 0; i < hello->rank_count; i++) {
        const struct unit_rank *rank = &hello_ranks(hello)[i];
        unit->ranks[i] = (struct fleet_rank){*rank, {.pages_free = rank->page_count}};
        if (rank->page_count > unit->rank_pages) unit->rank_pages = rank->page_count;
    }
    look_at_members(fleet);
    return true;
}

void fleet_assign(struct fleet *fleet, uint32_t index, enum unit_role role) {
    check(fleet_is_member(fleet, index));
    fleet->units[index].hello.role = role;
}

bool fleet_moves_blocks(const struct fleet *fleet, uint32_t index) {
    return fleet->units[index].ranks[0].is.kv_address[0] != 0;
}

/* Notes that a step has ended. The next one has begun if there is work. */
static void fleet_note_step(struct fleet *fleet, struct fleet_unit *unit,
                            const struct record_unit_load *load, int64_t now_ns) {
    const double kept = 1 - 1.0 / STEPS_REMEMBERED;
    unit->step_began_ns = now_ns;
    if (unit->hello.role != UNIT_PREFILL) return;
    fleet->prompts_ns =
        kept * fleet->prompts_ns + (double)load->last_step_ns * unit->hello.rank_count;
    fleet->prompts_tokens = kept * fleet->prompts_tokens + load->last_step_tokens;
    fleet->prompts_pages *= kept;
}

void fleet_load(struct fleet *fleet, uint32_t index, const struct record_unit_load *load,
                int64_t now_ns) {
    struct fleet_unit *unit = &fleet->units[index];
    if (!fleet_is_member(fleet, index)) return;
    if (load->totals.steps != unit->load.totals.steps) fleet_note_step(fleet, unit, load, now_ns);
    if (unit->load.draining && !load->draining)
        unit->draining = false; /* an operator has undone the drain */
    unit->load = *load;
    unit->full = false;
    unit->fresh = 0;
    for (uint32_t i = 0; i < load->rank_count && i < unit->hello.rank_count; i++)
        unit->ranks[i].load = load_ranks(load)[i];
}

void fleet_prompt_done(struct fleet *fleet, uint32_t index, uint64_t pages) {
    if (fleet->units[index].hello.role == UNIT_PREFILL) fleet->prompts_pages += (double)pages;
}

void fleet_leave(struct fleet *fleet, uint32_t index, bool lost) {
    struct fleet_unit *unit = &fleet->units[index];
    check(unit->bound == 0 && unit->promised_pages == 0);
    if (lost) fleet->losses_total++;
    unit_counters_add_unit(&fleet->gone.totals, &unit->load.totals);
    map_remove(&fleet->by_id, fleet_key_of(unit->id));
    *unit = (struct fleet_unit){.ranks = unit->ranks};
    look_at_members(fleet);
}

void fleet_expel(struct fleet *fleet, uint32_t index) {
    struct fleet_unit *unit = &fleet->units[index];
    check(unit->bound == 0 && unit->promised_pages == 0);
    unit_counters_add_unit(&fleet->gone.totals, &unit->load.totals);
    unit->load = (struct record_unit_load){.rank_count = 0};
    unit->state = FLEET_REFUSED;
    fleet->losses_total++;
    fleet->refused_total++;
    look_at_members(fleet);
}

/* ---- views ---- */

bool fleet_serves(const struct fleet *fleet) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (fleet_accepts(fleet, i)) return true;
    return false;
}

enum unit_role fleet_missing_role(const struct fleet *fleet) {
    bool accepts[UNIT_ROLE_COUNT] = {false};
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (fleet_accepts(fleet, i)) accepts[fleet->units[i].hello.role] = true;
    if (accepts[UNIT_BOTH] || accepts[UNIT_PREFILL] == accepts[UNIT_DECODE]) return UNIT_BOTH;
    return accepts[UNIT_PREFILL] ? UNIT_DECODE : UNIT_PREFILL;
}

/* Estimates the requests that wait at a unit. A load report is slightly old and covers the requests
 * of all gateways. Requests that this gateway has bound since then are waiting. If this gateway has
 * more requests bound than run there, some that the report does not include wait as well. */
static uint32_t count_waiting(const struct fleet_unit *unit) {
    const struct record_unit_load *load = &unit->load;
    uint32_t unknown =
        unit->bound > load->requests_running ? unit->bound - load->requests_running : 0;
    return max_u32(unknown, load->requests_waiting + min_u32(unit->fresh, unit->bound));
}

static uint32_t fleet_count_all(const struct fleet_unit *unit) {
    return max_u32(unit->bound, unit->load.requests_running + count_waiting(unit));
}

/* Predicts the rest of the running step. Consecutive steps take about the same time. A step that is
 * overdue is expected to take as long again as it is overdue. */
static double step_left_ns(const struct fleet_unit *unit, int64_t now_ns) {
    int64_t left_ns = unit->step_began_ns + unit->load.last_step_ns - now_ns;
    bool runs = unit->load.requests_running + unit->load.requests_waiting > 0;
    if (!runs) return 0;
    return left_ns >= 0 ? (double)left_ns : -(double)left_ns;
}

/* Predicts the time to compute the promised prompts. A gateway knows only its own prompts. With N
 * gateways each sees 1/N of the prompts, so a page of its own seems to take N times as long. */
static double prompts_ns(const struct fleet *fleet, const struct fleet_unit *unit) {
    if (fleet->prompts_pages <= 0 || !unit->hello.rank_count) return 0;
    return (double)unit->promised_pages * fleet->prompts_ns / fleet->prompts_pages /
           unit->hello.rank_count;
}

void fleet_view_unit(const struct fleet *fleet, uint32_t index, int64_t now_ns,
                     struct balance_unit *units_io) {
    const struct fleet_unit *unit = &fleet->units[index];
    units_io[index] = (struct balance_unit){
        .accepts = fleet_accepts(fleet, index),
        .full = unit->full,
        .role = unit->hello.role,
        .numerics = unit->numerics,
        .movable = fleet_moves_blocks(fleet, index),
        .rank_count = unit->hello.rank_count,
        .context_tokens_max = unit->hello.context_tokens_max,
        .rank_pages = unit->rank_pages,
        .requests = fleet_count_all(unit),
        .requests_max = unit->hello.requests_max,
        .waiting = count_waiting(unit),
        .pages_total = unit->hello.page_count,
        .pages_taken = unit->load.pages_held + unit->promised_pages,
        .step_left_ns = step_left_ns(unit, now_ns),
        .prompts_ns = prompts_ns(fleet, unit),
        .token_ns = fleet->prompts_tokens > 0 ? fleet->prompts_ns / fleet->prompts_tokens : 0,
    };
}

void fleet_view(const struct fleet *fleet, int64_t now_ns, struct balance_unit *units_out) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        fleet_view_unit(fleet, i, now_ns, units_out);
}

struct record_unit_load fleet_sum(const struct fleet *fleet, uint32_t *page_count_out) {
    struct record_unit_load sum = fleet->gone;
    *page_count_out = 0;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct record_unit_load *load = &fleet->units[i].load;
        if (!fleet_is_member(fleet, i)) continue;
        *page_count_out += fleet->units[i].hello.page_count;
        unit_counters_add_unit(&sum.totals, &load->totals);
        sum.requests_waiting += load->requests_waiting;
        sum.requests_running += load->requests_running;
        sum.pages_free += load->pages_free;
        sum.pages_held += load->pages_held;
        sum.pages_cached += load->pages_cached;
        sum.last_step_rows += load->last_step_rows;
        sum.last_step_tokens += load->last_step_tokens;
        if (load->kv_storage > sum.kv_storage) sum.kv_storage = load->kv_storage;
        if (load->last_step_ns > sum.last_step_ns) sum.last_step_ns = load->last_step_ns;
    }
    return sum;
}
