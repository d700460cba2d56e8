/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/handover.h"

#include "base/check.h"
#include "serving/gateway/dispatch.h"

enum status handover_reserved(struct gateway *gateway, uint32_t index,
                              const struct record_reserved *record) {
    struct fleet_unit *unit = &gateway->fleet.units[index];
    struct request *request = request_find(gateway, record->request);
    if (!request || request->life.state != REQUEST_RESERVING ||
        request->life.at[PART_ANSWER].unit != index)
        return STATUS_OK;
    if (record->rank >= unit->hello.rank_count ||
        (uint64_t)record->first_block * KV_BLOCK_TOKENS >= request->asked.prompt_tokens)
        return STATUS_INVALID;
    if (!gateway_can_put(gateway, dispatch_submit_bytes(request))) return STATUS_FULL;
    unit->full = unit->scarce = false;
    struct kv_route route = dispatch_route(request);
    memcpy(route.address, unit->ranks[record->rank].is.kv_address, sizeof route.address);
    struct record_submit *submit =
        dispatch_put_submit(gateway, request, PART_PROMPT, SUBMIT_PREFILL);
    submit->first_block = record->first_block;
    submit->route = route;
    request_prefill(gateway, request);
    return STATUS_OK;
}

void handover_continue(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                       uint32_t count) {
    struct unit_id unit = gateway->fleet.units[request->life.at[PART_ANSWER].unit].id;
    struct record_continue *record = machine_outbox_put_envelope(
        &gateway->outbox, RECORD_TO_UNIT, unit, RECORD_CONTINUE,
        &(struct record_continue){.request = request->id, .token_count = count});
    check(record);
    memcpy(continue_tokens(record), tokens, count * sizeof *tokens);
    request_continue(gateway, request);
}
