/* SPDX-License-Identifier: Apache-2.0
 * A request of which one unit computes the prompt and another makes the answer:
 *
 *   RESERVING   the second unit (request->unit) was asked for pages
 *   PREFILLING  it has them; the first (request->prefill) computes
 *   CONTINUED   the first token has come, and was passed on to the second, whose tokens follow
 *
 * What is said of it comes from both, in any order. It ends with the second unit's last word, or
 * with the first one's if the answer is over with its first token. Where the first one's last word
 * is late, the second one's is held back for it: then all of its work is in the account.
 */
#ifndef SERVING_GATEWAY_HANDOVER_H
#define SERVING_GATEWAY_HANDOVER_H

#include "serving/gateway/request.h"

enum request_task { TASK_ANSWER, TASK_RESERVING, TASK_PREFILLING, TASK_CONTINUED };

/* Room that telling both units something takes. */
#define HANDOVER_CANCEL_BYTES (2 * carried_bytes(RECORD_CANCEL, NULL))
#define HANDOVER_CONTINUE_BYTES                                                                    \
    carried_bytes(RECORD_CONTINUE, &(struct record_continue){.token_count = 1 + LIMIT_DRAFTS})

/* True if the fleet has units for either task, and the request is one to hand over. */
bool handover_is_possible(const struct gateway *gateway, const struct request *request);

/* The ticket of its transfer; the address is not known yet. */
struct kv_route handover_route(const struct request *request);

/* It is bound to `prefill` besides the unit that it was bound to for the RESERVE. */
void handover_bind(struct gateway *gateway, struct request *request, uint32_t prefill);

/* It is bound to `prefill` no more. */
void handover_part(struct gateway *gateway, struct request *request);

enum status handover_reserved(struct gateway *gateway, uint32_t index,
                              const struct record_reserved *record) MUST_USE;

/* Tokens came from the unit that computes the prompt; room for a CONTINUE has been made sure of. */
void handover_continue(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                       uint32_t count);

/* CANCEL to whoever has it; room has been made sure of. */
void handover_cancel(struct gateway *gateway, const struct request *request);

#endif
