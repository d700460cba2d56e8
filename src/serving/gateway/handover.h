/* SPDX-License-Identifier: Apache-2.0
 * Disaggregated prefill and decode of one request: a prefill unit computes the prompt and a decode
 * unit makes the answer. Records about the request arrive from both, in any order. Its states:
 *
 *   RESERVING   the decode unit was asked to reserve KV pages
 *   PREFILLING  it has them, and the prefill unit computes
 *   CONTINUED   the first token has arrived and was forwarded to the decode unit, which continues
 *   ANSWERED    the decode unit has sent FINISHED and the prefill unit has not: its work belongs to
 *               the account
 *
 * An answer that ends with its first token ends with the prefill unit's FINISHED.
 */
#pragma once

#include "contract/step_plan.h"
#include "serving/gateway/gateway_state.h"

/* The decode unit, with this index in the fleet's table, has reserved pages. Puts the SUBMIT to the
 * prefill unit. STATUS_INVALID: no correct unit sends such a record. */
enum status handover_reserved(struct gateway *gateway, uint32_t index,
                              const struct record_reserved *record) MUST_USE;

/* The prefill unit has sent the first tokens. Puts CONTINUE to the decode unit. The caller makes
 * sure that the outbox has HANDOVER_CONTINUE_BYTES of room. */
void handover_continue(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                       uint32_t count);

#define HANDOVER_CONTINUE_BYTES                                                                    \
    machine_envelope_bytes(RECORD_CONTINUE,                                                        \
                           &(struct record_continue){.token_count = STEP_ROW_TOKENS})
