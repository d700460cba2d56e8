/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/resume.h"

#include "base/check.h"
#include "base/number.h"
#include "serving/gateway/dispatch.h"

#define LOSSES_MAX 8                  /* lost units between two tokens of a request */
#define RETRIES_MAX 3                 /* failures, and refusals, between two tokens of a request */
#define RETRY_NS ((int64_t)500000000) /* delay before a retry at the same unit; doubles each time */

/* True if the request may continue at another unit and has the data for it. */
static bool can_go_on(const struct gateway *gateway, const struct request *request) {
    bool remembered = request->answered.tokens.count == request->answered.output_tokens;
    return remembered && request->placing.losses <= LOSSES_MAX &&
           request->placing.retries <= RETRIES_MAX &&
           dispatch_submit_bytes(request) <= gateway->outbox.capacity;
}

/* Requeues a request that has lost its unit, or ends it. */
static void send_again(struct gateway *gateway, struct request *request, int64_t now_ns) {
    enum finish_reason reason = FINISH_CANCELLED;
    if (request->life.state == REQUEST_CANCELLED || request_is_whole(request, &reason))
        request_end(gateway, request, reason);
    else if (!can_go_on(gateway, request))
        request_end(gateway, request, FINISH_FAILED);
    else
        request_wait_again(gateway, request, now_ns);
}

static bool others_serve(const struct gateway *gateway, uint32_t unit) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (i != unit && fleet_accepts(&gateway->fleet, i)) return true;
    return false;
}

bool resume_after(struct gateway *gateway, struct request *request, uint32_t unit,
                  enum finish_reason reason, int64_t now_ns) {
    bool asks = request_asks_for_pages(request);
    if (reason == FINISH_REFUSED_QUEUE && (asks || request->answered.output_tokens)) {
        gateway->fleet.units[unit].full = true; /* until its next load report */
        gateway->fleet.units[unit].scarce |= asks;
        send_again(gateway, request, now_ns);
        return true;
    }
    struct request_placing *placing = &request->placing;
    bool refused = reason == FINISH_REFUSED_DRAINING || reason == FINISH_REFUSED_QUEUE;
    uint8_t *count = refused ? &placing->refusals : &placing->retries;
    /* A draining unit is not chosen again, so this cannot repeat for ever. */
    bool again = reason == FINISH_REFUSED_DRAINING && !gateway->draining;
    if (request->life.state == REQUEST_CANCELLED || (*count >= RETRIES_MAX && !again)) return false;
    if (reason == FINISH_REFUSED_DRAINING) gateway->fleet.units[unit].load.draining = 1;
    if (refused) again |= others_serve(gateway, unit);
    if (!again && reason != FINISH_FAILED) return false;
    placing->avoided_unit = unit;
    placing->retry_ns = now_ns + (RETRY_NS << *count);
    if (*count < RETRIES_MAX) ++*count;
    if (request_is_shared(request)) request_put_cancel(gateway, request); /* at the other unit */
    send_again(gateway, request, now_ns);
    return true;
}

/* ---- lost units ---- */

/* Handles the loss of one of the request's units. */
static void lose_one(struct gateway *gateway, struct request *request, uint32_t unit,
                     int64_t now_ns) {
    enum request_state state = (enum request_state)request->life.state;
    bool computes = request->life.at[PART_PROMPT].unit == unit;
    if (state == REQUEST_ANSWERED) {
        request_end(gateway, request, (enum finish_reason)request->unreported.reason);
    } else if (computes && (state == REQUEST_CONTINUED || state == REQUEST_CANCELLED)) {
        request_unbind_prompt(gateway, request);
    } else if (state == REQUEST_CANCELLED && request_is_shared(request) &&
               !request_asks_for_pages(
                   request)) { /* the prefill unit has still to report its work */
        request_unbind_answer(gateway, request);
    } else {
        if (request_is_shared(request)) request_put_cancel(gateway, request);
        request->placing.losses++;
        send_again(gateway, request, now_ns);
    }
}

enum status resume_lost(struct gateway *gateway, uint32_t unit, int64_t now_ns) {
    size_t room = gateway->fleet.units[unit].bound * REQUEST_CANCEL_BYTES;
    if (!gateway_can_put(gateway, room) && gateway->outbox.used) return STATUS_FULL;
    for (uint32_t slot = 0; slot < gateway->requests.slots_used; slot++) {
        struct request *request = &gateway->requests.slots[slot];
        if (request->life.state == REQUEST_FREE) continue;
        if (request->placing.avoided_unit == unit)
            request->placing.avoided_unit = FLEET_NONE; /* its slot may be reused */
        if (request_is_at(request, unit)) lose_one(gateway, request, unit, now_ns);
    }
    return STATUS_OK;
}

/* ---- silence ---- */

/* Gives up a unit. Sends it CANCEL for its requests, in case it still receives records. False: the
 * outbox has no room. */
static bool resume_give_up(struct gateway *gateway, uint32_t index, int64_t now_ns) {
    struct fleet_unit *unit = &gateway->fleet.units[index];
    if (!gateway_can_put(gateway, 2 * unit->bound * REQUEST_CANCEL_BYTES)) return false;
    for (uint32_t slot = 0; slot < gateway->requests.slots_used; slot++) {
        const struct request *request = &gateway->requests.slots[slot];
        if (request->life.state == REQUEST_FREE || request_is_shared(request)) continue;
        if (request_is_at(request, index)) request_put_cancel(gateway, request);
    }
    unit->state = FLEET_SILENT;
    gateway->fleet.losses_total++;
    enum status status = resume_lost(gateway, index, now_ns);
    check(status == STATUS_OK);
    return true;
}

static int64_t silent_at_ns(const struct gateway *gateway, uint32_t index) {
    const struct fleet_unit *unit = &gateway->fleet.units[index];
    if (unit->state != FLEET_SERVING || !gateway->options.unit_silence_ns) return MACHINE_NEVER;
    return unit->last_seen_ns + gateway->options.unit_silence_ns;
}

void resume_watch(struct gateway *gateway, int64_t now_ns) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (silent_at_ns(gateway, i) <= now_ns && !resume_give_up(gateway, i, now_ns)) return;
}

int64_t resume_wake_ns(const struct gateway *gateway) {
    int64_t wake_ns = MACHINE_NEVER;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        wake_ns = min_i64(wake_ns, silent_at_ns(gateway, i));
    return wake_ns;
}
