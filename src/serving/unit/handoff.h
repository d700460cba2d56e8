/* SPDX-License-Identifier: Apache-2.0
 * Separate prefill and decode: a request's KV blocks are sent from the unit that computes its
 * prompt to the one that makes its answer.
 *
 *   decode unit    SUBMIT_RESERVE -> pages allocated, RESERVED, KV_EXPECT; parked
 *                  CONTINUE (first tokens) and KV_DONE, in either order -> it decodes or, if blocks
 *                  failed to arrive, waits like an interrupted request: complete blocks are cached,
 *                  blocks in the storage may be loaded, the rest is computed
 *                  after CONTINUE it waits for KV_DONE as long as serving/policy/kv_path allows, then
 *                  KV_CANCEL
 *   prefill unit   SUBMIT_PREFILL -> runs; KV_PUSH with each step that will complete blocks: they are
 *                  sent layer by layer while it computes; with the first token the last one; parked
 *                  until KV_DONE -> FINISH_HANDED_OVER
 *
 * A transport may write to a request's pages, or read them, until it sends KV_DONE. So a request
 * with an open transfer, however it ends, is parked until then and keeps its pages. Blocks that are
 * being sent have their own lease: the request may be interrupted and resumed meanwhile. A row that
 * may be lost has its blocks named when it is done. All rows of a step are lost if a rank dies in
 * it: they run again, and nothing more is named until the named blocks are complete.
 */
#ifndef SERVING_UNIT_HANDOFF_H
#define SERVING_UNIT_HANDOFF_H

#include "serving/unit/state.h"

/* Bytes that a SUBMIT and a reservation may put at once, or a row of a finished step. */
size_t handoff_bytes_max(const struct unit_options *options);
/* Bytes that a planned row may put at once. */
size_t handoff_plan_bytes_max(const struct unit_options *options);

/* Takes the SUBMIT's data about the transfer, if there is to be one; false when memory is out. */
bool handoff_open(struct unit_request *request, const struct record_submit *submit);

/* No transfer was asked for, or it delivered the blocks here and has ended. */
bool handoff_is_over(const struct unit_request *request);

/* For a request that has just arrived and waits. True: it is parked with pages for its prompt.
 * False: not now. */
bool handoff_reserve(struct unit *unit, struct unit_request *request);

/* CONTINUE has arrived: the first tokens of the request's answer, which the prefill unit chose. */
void handoff_continue(struct unit *unit, struct unit_request *request,
                      const struct record_continue *record, int64_t now_ns);

/* A step with a row of it was planned: names the blocks that it will complete. */
void handoff_push(struct unit *unit, struct unit_request *request);

/* The step is done. If another request had made an equal block first, this request now uses that
 * one: it is leased, too, for as long as the block that was sent. */
void handoff_made(struct unit *unit, struct unit_request *request);

/* The request is about to release its pages. Blocks that are named, but were lost with their step,
 * would be made again in other pages: then the transfer is cancelled. */
void handoff_interrupt(struct unit *unit, struct unit_request *request);

/* The request's answer continues at another unit: names its last blocks, and the request leaves. */
void handoff_pass_on(struct unit *unit, struct unit_request *request);

/* KV_DONE has arrived: the request's transfer is over. */
void handoff_done(struct unit *unit, struct unit_request *request,
                  const struct record_kv_done *record, int64_t now_ns);

/* Cancels transfers that are not worth waiting for any longer; their KV_DONE follows. Called at
 * unit->give_up_ns, with room for handoff_give_up_bytes_max(). */
void handoff_give_up(struct unit *unit, int64_t now_ns);
size_t handoff_give_up_bytes_max(void);

/* Ends the request: at once, or when its transfer ends. */
void handoff_leave(struct unit *unit, struct unit_request *request, enum finish_reason reason);

/* Fails an abandoned unit's requests: as many as the outbox now has room for answers of
 * `answer_bytes` each. Those in a step fail when it is done, and those that load when that is
 * over.
 */
void handoff_end_all(struct unit *unit, size_t answer_bytes);
/* False: handoff_end_all would end no request now. */
bool handoff_may_any_end(const struct unit *unit);

/* Pages leased by outgoing transfers, in addition to the request's own leases. */
uint32_t handoff_sent_count(const struct unit_request *request);

#endif
