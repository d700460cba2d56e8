/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/handover.h"

#include "base/check.h"
#include "serving/gateway/dispatch.h"
#include "serving/policy/admit.h"

bool handover_is_possible(const struct gateway *gateway, const struct request *request) {
    bool computes = false, answers = false;
    if (request->prompt_only || request->output_tokens || request->retries || request->refusals ||
        request->losses)
        return false;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_unit *unit = &gateway->fleet.units[i];
        if (!fleet_takes(&gateway->fleet, i)) continue;
        computes |= unit->hello.role == UNIT_PREFILL;
        answers |= unit->hello.role == UNIT_DECODE && fleet_moves_blocks(&gateway->fleet, i);
    }
    return computes && answers;
}

void handover_bind(struct gateway *gateway, struct request *request, uint32_t prefill) {
    struct fleet_unit *unit = &gateway->fleet.units[prefill];
    request->prefill = prefill;
    request->prefill_pages = admit_pages((struct admit_need){request->prompt_tokens, 1});
    unit->promised_pages += request->prefill_pages;
    unit->bound++;
}

void handover_part(struct gateway *gateway, struct request *request) {
    if (request->prefill == FLEET_NONE) return;
    struct fleet_unit *unit = &gateway->fleet.units[request->prefill];
    receipt_leave(gateway, request, RECEIPT_PROMPT);
    unit->promised_pages -= request->prefill_pages;
    unit->bound--;
    request->prefill_pages = 0;
    request->prefill = FLEET_NONE;
    gateway->queue.wanted = true;
}

/* Nobody but the gateway's units knows a request's id before its first token, and a ticket is of no
 * use without a connection to their network. */
struct kv_route handover_route(const struct request *request) {
    uint64_t attempt = (uint64_t)(request->id.attempt + 1) << 32;
    return (struct kv_route){.ticket = {request->id.high, request->id.low ^ attempt}};
}

enum status handover_reserved(struct gateway *gateway, uint32_t index,
                              const struct record_reserved *record) {
    const struct fleet_unit *unit = &gateway->fleet.units[index];
    struct request *request = request_find(gateway, record->request);
    if (!request || request->unit != index || request->state != REQUEST_SUBMITTED ||
        request->task != TASK_RESERVING)
        return STATUS_OK;
    if (record->rank >= unit->hello.rank_count ||
        (uint64_t)record->first_block * KV_BLOCK_TOKENS >= request->prompt_tokens)
        return STATUS_INVALID;
    if (outbox_room(&gateway->outbox) < dispatch_submit_bytes(request)) return STATUS_FULL;
    struct kv_route route = handover_route(request);
    memcpy(route.address, unit->ranks[record->rank].is.kv_address, sizeof route.address);
    struct record_submit *submit =
        dispatch_put_submit(gateway, request, request->prefill, SUBMIT_PREFILL);
    submit->first_block = record->first_block;
    submit->route = route;
    request->task = TASK_PREFILLING;
    return STATUS_OK;
}

void handover_continue(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                       uint32_t count) {
    struct record_continue *record = outbox_put_carried(
        &gateway->outbox, RECORD_TO_UNIT, gateway->fleet.units[request->unit].id, RECORD_CONTINUE,
        &(struct record_continue){.request = request->id, .token_count = count});
    check(record);
    memcpy(continue_tokens(record), tokens, count * sizeof *tokens);
    request->task = TASK_CONTINUED;
    gateway->handed_over_total++;
}

static void put_cancel(struct gateway *gateway, const struct request *request, uint32_t unit) {
    const void *record =
        outbox_put_carried(&gateway->outbox, RECORD_TO_UNIT, gateway->fleet.units[unit].id,
                           RECORD_CANCEL, &(struct record_cancel){.request = request->id});
    check(record);
}

void handover_cancel(struct gateway *gateway, const struct request *request) {
    if (request->unit != FLEET_NONE) put_cancel(gateway, request, request->unit);
    if (request->prefill != FLEET_NONE && request->task != TASK_RESERVING)
        put_cancel(gateway, request, request->prefill);
}
