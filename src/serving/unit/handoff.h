/* SPDX-License-Identifier: Apache-2.0
 * Prefill-decode disaggregation: sends a request's KV blocks from the unit that computes its prompt
 * to the unit that generates its answer.
 *
 *   decode unit    SUBMIT_RESERVE -> pages allocated, RESERVED, KV_EXPECT; parked.
 *                  CONTINUE (first tokens) and KV_DONE, in either order -> it decodes. If blocks
 *                  failed to arrive, the request waits like an interrupted one: complete blocks are
 *                  cached, blocks in the storage may be loaded, the rest is computed.
 *                  After CONTINUE it waits for KV_DONE as long as serving/policy/kv_path allows,
 *                  then KV_CANCEL.
 *   prefill unit   SUBMIT_PREFILL -> runs; KV_PUSH with each step that will complete blocks, which
 *                  are sent layer by layer while it computes; the last KV_PUSH with the first
 *                  token; parked until KV_DONE -> FINISH_HANDED_OVER.
 *
 * The transport may read or write a request's pages until it sends KV_DONE. A request with an open
 * transfer is therefore parked until then and keeps its pages, however it ends. Blocks that are
 * being sent have their own lease, so the request may be interrupted and resumed meanwhile. If a
 * row may be lost, its blocks are named only when the row is done. If a rank dies during a step,
 * all rows of the step are lost and run again. No further blocks are named until the blocks already
 * named are complete.
 */
#pragma once

#include "serving/unit/state.h"

/* The maximum size in bytes of the records that a SUBMIT with a reservation, or a row of a finished
 * step, puts into the outbox. */
size_t handoff_bytes_max(const struct unit_options *options);
/* The maximum size in bytes of the records that a planned row puts into the outbox. */
size_t handoff_plan_bytes_max(const struct unit_options *options);

/* Stores the transfer data of the SUBMIT, if it has any. Returns false if the memory for prompts is
 * exhausted. */
bool handoff_open(struct unit_request *request, const struct record_submit *submit);

/* True if the request has no transfer, or if its incoming transfer has ended and delivered its
 * blocks. */
bool handoff_is_over(const struct unit_request *request);

/* Reserves pages for the prompt of a request that has just arrived and waits. Returns true if that
 * succeeded and the request is now parked. */
bool handoff_reserve(struct unit *unit, struct unit_request *request);

/* Handles CONTINUE: the first tokens of the answer, chosen by the prefill unit. */
void handoff_continue(struct unit *unit, struct unit_request *request,
                      const struct record_continue *record, int64_t now_ns);

/* Names the blocks that the planned row of the request will complete (KV_PUSH). */
void handoff_push(struct unit *unit, struct unit_request *request);

/* Called when the step is done. If another request has completed an equal block first, this request
 * now uses that block, and leases it for as long as the block that is being sent. */
void handoff_made(struct unit *unit, struct unit_request *request);

/* Called before the request releases its pages. If blocks that were already named were lost with
 * their step, they would be computed again in other pages. The transfer is cancelled in that
 * case. */
void handoff_interrupt(struct unit *unit, struct unit_request *request);

/* Names the last blocks. The request leaves: its answer continues at another unit. */
void handoff_pass_on(struct unit *unit, struct unit_request *request);

/* Handles KV_DONE: the request's transfer has ended. */
void handoff_done(struct unit *unit, struct unit_request *request,
                  const struct record_kv_done *record, int64_t now_ns);

/* Cancels transfers that are no longer worth waiting for. Each still ends with a KV_DONE. Called at
 * unit->give_up_ns, when the outbox has space for handoff_give_up_bytes_max(). */
void handoff_give_up(struct unit *unit, int64_t now_ns);
size_t handoff_give_up_bytes_max(void);

/* Ends the request, at once or when its transfer ends. */
void handoff_leave(struct unit *unit, struct unit_request *request, enum finish_reason reason);

/* Ends the requests of an abandoned unit as FAILED, as many as fit into the outbox at
 * `answer_bytes` each. A request in a step ends when the step is done, and a request that is being
 * loaded when the load ends. */
void handoff_end_all(struct unit *unit, size_t answer_bytes);
/* False if handoff_end_all would end no request now. */
bool handoff_may_any_end(const struct unit *unit);

/* The number of page leases of outgoing transfers, in addition to the leases of the request
 * itself. */
uint32_t handoff_sent_count(const struct unit_request *request);
