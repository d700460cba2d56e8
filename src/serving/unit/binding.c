/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/binding.h"

#include "base/check.h"

static uint32_t binding_slot_of(const struct unit *unit, const struct unit_request *request) {
    return (uint32_t)(request - unit->requests);
}

void binding_enter(struct unit *unit, const struct unit_request *request) {
    check(request->bind == BIND_NONE);
    unit->unasked_count += request->constraint_bytes > 0;
    unit->unready_count += request->constraint_bytes > 0;
}

void binding_leave(struct unit *unit, const struct unit_request *request) {
    if (!request->constraint_bytes) return;
    unit->unready_count -= binding_holds(request);
    if (request->bind == BIND_NONE)
        unit->unasked_count--;
    else
        unit->over_slots[unit->over_count++] = binding_slot_of(unit, request);
    check(unit->over_count <= unit->options.requests_max); /* an earlier plan sent each of them */
}

uint32_t binding_held_waiting(const struct unit *unit) {
    uint32_t count = 0;
    if (unit->unready_count == 0) return 0; /* the usual case */
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        count += request->state == UNIT_REQUEST_WAITING && binding_holds(request);
    }
    return count;
}

/* ---- plans ---- */

static bool asks(const struct unit_request *request) {
    return request->state != UNIT_REQUEST_FREE && request->state != UNIT_REQUEST_LEAVING &&
           request->constraint_bytes && request->bind == BIND_NONE;
}

void binding_choose(const struct unit *unit, uint32_t bytes_max, struct binding_asks *asks_out) {
    *asks_out = (struct binding_asks){.over_count = unit->over_count};
    if (unit->unasked_count == 0) return;
    for (uint32_t slot = 0; slot < unit->slot_end && asks_out->count < BINDING_ASKS_MAX; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        if (!asks(request) || request->constraint_bytes > bytes_max - asks_out->bytes) continue;
        asks_out->slots[asks_out->count++] = slot;
        asks_out->bytes += request->constraint_bytes;
    }
}

void binding_put(struct unit *unit, struct step_plan *plan, const struct binding_asks *asks) {
    struct step_constraint *to = step_plan_constraints(plan);
    char *texts = step_plan_constraint_texts(plan);
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < asks->over_count; i++)
        *to++ = (struct step_constraint){.row = STEP_NO_ROW, .slot = unit->over_slots[i]};
    for (uint32_t i = 0; i < asks->count; i++) {
        struct unit_request *request = &unit->requests[asks->slots[i]];
        *to++ = (struct step_constraint){.row = STEP_NO_ROW,
                                         .text_index = bytes,
                                         .text_bytes = request->constraint_bytes,
                                         .slot = asks->slots[i],
                                         .account = request->account};
        memcpy(texts + bytes, request->constraint, request->constraint_bytes);
        bytes += request->constraint_bytes;
        request->bind = BIND_ASKED;
    }
    check(bytes == asks->bytes && asks->over_count == unit->over_count);
    unit->over_count = 0;
    unit->unasked_count -= asks->count;
    unit->step_constraints = plan->constraint_count;
}

/* ---- results ---- */

/* The prompt has had its turn, so the request gets a new one, as if it arrived now. */
void binding_late(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    double work_ns = step_cost_run_ns(&unit->cost, 0, request_known(request));
    int64_t turn =
        schedule_turn(now_ns, (int64_t)work_ns, request->priority, unit->options.priority_ns);
    unit->unready_count += !binding_holds(request);
    request->bind = BIND_LATE;
    if (request->state == UNIT_REQUEST_PREFILL && turn > request->turn) request->turn = turn;
}

bool binding_is_taken(const struct unit *unit, const struct step_result *result) {
    return result->constraint_count == unit->step_constraints;
}

/* Sends the constraints of the plan again, because the rank may not have received them. */
static void binding_ask_again(struct unit *unit) {
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        struct unit_request *request = &unit->requests[slot];
        if (request->state == UNIT_REQUEST_FREE || request->bind != BIND_ASKED) continue;
        request->bind = BIND_NONE;
        unit->unasked_count++;
    }
}

/* Starts the wait for a turn. Nothing could be computed while the constraint was being compiled. */
static void make_ready(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    if (!binding_holds(request)) return;
    unit->unready_count--;
    unit->load_changed = true;
    if (request->bind == BIND_ASKED) request->waits_since_ns = now_ns;
    request->bind = BIND_READY;
}

void binding_take(struct unit *unit, const struct step_result *result, int64_t now_ns) {
    if (!binding_is_taken(unit, result)) binding_ask_again(unit);
    unit->step_constraints = 0;
    for (uint32_t i = 0; i < result->ready_count; i++) {
        uint32_t slot = step_result_ready(result)[i];
        if (slot >= unit->slot_end) continue;
        struct unit_request *request = &unit->requests[slot];
        if (request->state != UNIT_REQUEST_FREE && request->bind != BIND_NONE)
            make_ready(unit, request, now_ns);
    }
}

void binding_audit(const struct unit *unit) {
    uint32_t unasked = 0, unready = 0;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        if (request->state == UNIT_REQUEST_FREE) continue;
        unasked += request->constraint_bytes && request->bind == BIND_NONE;
        unready += binding_holds(request);
        check(request->constraint_bytes || request->bind == BIND_NONE);
    }
    check(unasked == unit->unasked_count && unready == unit->unready_count);
}
