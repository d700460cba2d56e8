/* SPDX-License-Identifier: Apache-2.0
 * Separate prefill and decode: a request's KV blocks are sent from the unit that computes its
 * prompt to the unit that generates its answer.
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
 * A transport may write to a request's pages, or read them, until it sends KV_DONE. So a request
 * with an open transfer, however it ends, is parked until then and keeps its pages. Blocks that are
 * being sent have a lease of their own: the request may be interrupted and resumed meanwhile. The
 * blocks of a row that may be lost are named when the row is done. All rows of a step are lost if a
 * rank dies in it: they run again, and no further blocks are named until the named ones are
 * complete.
 */
#pragma once

#include "serving/unit/state.h"

/* The largest output, in bytes, of a SUBMIT with a reservation, or of a row of a finished step. */
size_t handoff_bytes_max(const struct unit_options *options);
/* The largest output, in bytes, of a planned row. */
size_t handoff_plan_bytes_max(const struct unit_options *options);

/* Stores the SUBMIT's transfer data, if there is a transfer. Returns false if memory is out. */
bool handoff_open(struct unit_request *request, const struct record_submit *submit);

/* True if the request has no transfer, or the transfer has delivered its blocks here and has
 * ended. */
bool handoff_is_over(const struct unit_request *request);

/* Reserves pages for a request that has just arrived and waits. Returns true if the request is now
 * parked with pages for its prompt. */
bool handoff_reserve(struct unit *unit, struct unit_request *request);

/* Handles CONTINUE: the first tokens of the answer, chosen by the prefill unit. */
void handoff_continue(struct unit *unit, struct unit_request *request,
                      const struct record_continue *record, int64_t now_ns);

/* Names the blocks that a planned step with a row of the request will complete. */
void handoff_push(struct unit *unit, struct unit_request *request);

/* Called when the step is done. If another request has completed an equal block first, this request
 * now uses that block, and leases it as long as the block that was sent. */
void handoff_made(struct unit *unit, struct unit_request *request);

/* Called before the request releases its pages. If named blocks were lost with their step, they
 * would be computed again in other pages, so the transfer is cancelled. */
void handoff_interrupt(struct unit *unit, struct unit_request *request);

/* The request's answer continues at another unit: names the last blocks; the request leaves. */
void handoff_pass_on(struct unit *unit, struct unit_request *request);

/* Handles KV_DONE: the request's transfer has ended. */
void handoff_done(struct unit *unit, struct unit_request *request,
                  const struct record_kv_done *record, int64_t now_ns);

/* Cancels transfers that are not worth waiting for any longer; their KV_DONE follows. Called at
 * unit->give_up_ns, with handoff_give_up_bytes_max() free in the outbox. */
void handoff_give_up(struct unit *unit, int64_t now_ns);
size_t handoff_give_up_bytes_max(void);

/* Ends the request, at once or when its transfer ends. */
void handoff_leave(struct unit *unit, struct unit_request *request, enum finish_reason reason);

/* Fails the requests of an abandoned unit, as many as the outbox has space for, at `answer_bytes`
 * each. Requests in a step fail when it is done, and requests that load when the load ends. */
void handoff_end_all(struct unit *unit, size_t answer_bytes);
/* False if handoff_end_all would end no request now. */
bool handoff_may_any_end(const struct unit *unit);

/* Pages leased by outgoing transfers, in addition to the request's own leases. */
uint32_t handoff_sent_count(const struct unit_request *request);
