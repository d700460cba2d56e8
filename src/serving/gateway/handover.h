/* SPDX-License-Identifier: Apache-2.0
 * A request that two units share: one computes the prompt, the other makes the answer. What is said
 * of it comes from both, in any order:
 *
 *   RESERVING   the answer's unit was asked for pages
 *   PREFILLING  it has them, and the prompt's unit computes
 *   CONTINUED   the first token has come, and was passed on to the answer's unit, whose tokens follow
 *   ANSWERED    the answer's unit has said FINISHED and the prompt's unit has not: its work belongs
 *               to the account
 *
 * An answer that is over with its first token ends with the prompt unit's FINISHED.
 */
#ifndef SERVING_GATEWAY_HANDOVER_H
#define SERVING_GATEWAY_HANDOVER_H

#include "contract/step_plan.h"
#include "serving/gateway/gateway_state.h"

/* The answer's unit, of that place in the fleet's table, has reserved pages: SUBMIT to the prompt's
 * unit. STATUS_INVALID: the record cannot be true. */
enum status handover_reserved(struct gateway *gateway, uint32_t index,
                              const struct record_reserved *record) MUST_USE;

/* The prompt's unit has said the first tokens: CONTINUE to the answer's unit. Room for
 * HANDOVER_CONTINUE_BYTES has been made sure of. */
void handover_continue(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                       uint32_t count);

#define HANDOVER_CONTINUE_BYTES                                                                    \
    carried_bytes(RECORD_CONTINUE, &(struct record_continue){.token_count = STEP_ROW_TOKENS})

#endif
