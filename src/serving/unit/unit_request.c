/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/unit_request.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "serving/unit/account.h"
#include "serving/unit/binding.h"
#include "serving/unit/kv_offload.h"

/* Maps states that a load report does not distinguish to one state. */
static enum unit_request_state unit_request_reported(enum unit_request_state state) {
    if (state == UNIT_REQUEST_LEAVING) return UNIT_REQUEST_PARKED;
    return state == UNIT_REQUEST_DECODE ? UNIT_REQUEST_PREFILL : state;
}

static uint32_t unit_request_slot_of(const struct unit *unit, const struct unit_request *request) {
    return (uint32_t)(request - unit->requests);
}

static void unit_request_set_state(struct unit *unit, struct unit_request *request,
                                   enum unit_request_state state) {
    enum unit_request_state before = (enum unit_request_state)request->state;
    unit->counts[before]--;
    unit->counts[state]++;
    request->state = (uint8_t)state;
    if (request_steps(request) && !request->listed) {
        request->listed = true;
        unit->line[unit->line_count++] = unit_request_slot_of(unit, request);
    }
    if (unit_request_reported(before) != unit_request_reported(state)) unit->load_changed = true;
}

static struct map_key unit_request_key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

void unit_request_open_all(struct unit *unit) {
    uint32_t count = unit->options.requests_max;
    for (uint32_t i = 0; i < count; i++)
        unit->free_slots[i] = count - 1 - i; /* so that slot 0 is used first */
    unit->counts[UNIT_REQUEST_FREE] = count;
}

struct unit_request *unit_request_of(struct unit *unit, struct request_id id) {
    uint32_t slot = map_find(&unit->slots, unit_request_key_of(id));
    return slot == MAP_NONE ? NULL : &unit->requests[slot];
}

/* Slots are taken in order, so that slots that were never needed stay untouched. */
struct unit_request *unit_request_free(struct unit *unit) {
    uint32_t slot = unit->free_slots[unit->counts[UNIT_REQUEST_FREE] - 1];
    check(slot <= unit->slot_end);
    if (slot == unit->slot_end) {
        unit->requests[slot] = (struct unit_request){0};
        arena_open(&unit->requests[slot].arena, unit->prompts);
        unit->slot_end++;
    }
    check(unit->requests[slot].state == UNIT_REQUEST_FREE);
    return &unit->requests[slot];
}

void unit_request_clear(struct unit_request *request) {
    arena_clear(&request->arena);
    struct arena arena = request->arena;
    *request = (struct unit_request){.arena = arena, .listed = request->listed};
}

void unit_request_enter(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    check(request->state == UNIT_REQUEST_FREE);
    request->arrival = unit->arrivals++;
    request->waits_since_ns = request->progress_ns = now_ns;
    map_add(&unit->slots, unit_request_key_of(request->id), unit_request_slot_of(unit, request));
    binding_enter(unit, request);
    unit_request_set_state(unit, request, UNIT_REQUEST_WAITING);
    unit->plan_wanted = true;
}

void unit_request_start(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    check(request->state == UNIT_REQUEST_WAITING);
    pages_attach(unit, request);
    request->fresh = true;
    account_begins(request, now_ns);
    unit_request_set_state(unit, request, UNIT_REQUEST_PREFILL);
}

bool unit_request_park(struct unit *unit, struct unit_request *request, const struct pages_hit *hit,
                       uint32_t token_count) {
    uint64_t pages = admit_start_pages(request_need(request), token_count);
    struct unit_capacity capacity = unit_rows_and_pages(unit);
    check(request->state == UNIT_REQUEST_WAITING);
    if (admit_start(pages - hit->block_count + hit->unleased_count, &capacity) != ADMIT_NOW)
        return false;
    pages_attach(unit, request);
    bool claimed = pages_claim(unit, request, (uint32_t)pages);
    check(claimed);
    unit_request_set_state(unit, request, UNIT_REQUEST_PARKED);
    return true;
}

void unit_request_go_on(struct unit *unit, struct unit_request *request,
                        enum unit_request_state to) {
    check(request->state == UNIT_REQUEST_PARKED &&
          (to == UNIT_REQUEST_PREFILL || to == UNIT_REQUEST_DECODE));
    request->fresh = true;
    unit_request_set_state(unit, request, to);
}

void unit_request_park_again(struct unit *unit, struct unit_request *request) {
    check(request->state == UNIT_REQUEST_PREFILL);
    unit_request_set_state(unit, request, UNIT_REQUEST_PARKED);
}

void unit_request_answer(struct unit *unit, struct unit_request *request) {
    check(request_runs(request));
    unit_request_set_state(unit, request, UNIT_REQUEST_DECODE);
}

void unit_request_wait_again(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    check(request->state == UNIT_REQUEST_PARKED || request_runs(request));
    check(!request->in_step);
    pages_release(unit, request);
    request->waits_since_ns = now_ns;
    unit_request_set_state(unit, request, UNIT_REQUEST_WAITING);
}

void unit_request_leave(struct unit *unit, struct unit_request *request) {
    check(request->state != UNIT_REQUEST_FREE && request->state != UNIT_REQUEST_LEAVING);
    unit_request_set_state(unit, request, UNIT_REQUEST_LEAVING);
}

void unit_request_end(struct unit *unit, struct unit_request *request, enum finish_reason reason) {
    struct record_finished *finished = unit_put(
        unit, RECORD_FINISHED,
        &(struct record_finished){
            .request = request->id, .reason = reason, .output_tokens = request->output_count});
    account_report(request, &finished->work);
    unit_request_drop(unit, request);
}

void unit_request_drop(struct unit *unit, struct unit_request *request) {
    check(request->state != UNIT_REQUEST_FREE && !request->in_step);
    pages_release(unit, request);
    binding_leave(unit, request);
    map_remove(&unit->slots, unit_request_key_of(request->id));
    unit_request_set_state(unit, request, UNIT_REQUEST_FREE);
    unit->free_slots[unit->counts[UNIT_REQUEST_FREE] - 1] = unit_request_slot_of(unit, request);
    unit_request_clear(request);
}

void unit_request_audit(const struct unit *unit) {
    uint32_t counts[UNIT_REQUEST_STATE_COUNT] = {0}, listed = 0;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        counts[request->state]++;
        listed += request->listed;
        check(request->listed || !request_steps(request));
        if (request->state != UNIT_REQUEST_FREE)
            check(map_find(&unit->slots, unit_request_key_of(request->id)) == slot);
        else
            check(request->arena.run_count == 0 && request->page_count == 0);
    }
    counts[UNIT_REQUEST_FREE] += unit->options.requests_max - unit->slot_end;
    for (uint32_t state = 0; state < UNIT_REQUEST_STATE_COUNT; state++)
        check(counts[state] == unit->counts[state]);
    check(unit->slots.count == unit_held_count(unit));
    check(listed == unit->line_count);
    for (uint32_t i = 0; i < listed; i++)
        check(unit->requests[unit->line[i]].listed);
}
