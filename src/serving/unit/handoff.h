/* SPDX-License-Identifier: Apache-2.0
 * Prefill and decode apart: a request's KV blocks on their way from the unit that computes its
 * prompt to the one that makes its answer.
 *
 *   decode unit    SUBMIT_RESERVE -> pages taken, RESERVED, KV_EXPECT; parked
 *                  CONTINUE (first tokens) and KV_DONE, in either order -> it decodes, or, where
 *                  blocks failed to come, waits like an interrupted request: what arrived whole is
 *                  cached, what the storage has may be loaded, the rest is computed
 *                  after CONTINUE it waits for KV_DONE as long as serving/policy/kv_path says, then
 *                  KV_CANCEL
 *   prefill unit   SUBMIT_PREFILL -> runs; KV_PUSH with each step that will make blocks whole: they
 *                  leave layer by layer while it computes; with the first token the last one;
 *                  parked until KV_DONE -> FINISH_HANDED_OVER
 *
 * Whoever transfers writes to a request's pages, or reads them, until it says KV_DONE; so a request
 * with an open transfer, however it ends, is parked until then and keeps its pages. Blocks that are
 * being sent have a lease of their own: the request may be interrupted and come back meanwhile. A
 * row that may be lost has its blocks named when it is done. All rows of a step are lost when a rank
 * dies in it: they run again, and nothing more is named until what was named stands.
 */
#ifndef SERVING_UNIT_HANDOFF_H
#define SERVING_UNIT_HANDOFF_H

#include "serving/unit/state.h"

/* What a SUBMIT and a reservation may put out at once, and a row of a step that is done. */
size_t handoff_bytes_max(const struct unit_options *options);
/* What a row that is planned may put out at once. */
size_t handoff_plan_bytes_max(const struct unit_options *options);

/* Takes what the SUBMIT says of the transfer, if there is to be one; false when memory is out. */
bool handoff_open(struct unit_request *request, const struct record_submit *submit);

/* No transfer has been asked for, or it brought the blocks here and has ended. */
bool handoff_is_over(const struct unit_request *request);

/* A request that has just come, and waits: true, and it is parked with pages for its prompt; false:
 * not now. */
bool handoff_reserve(struct unit *unit, struct unit_request *request);

/* CONTINUE has come: the first tokens of the request's answer, which the prefill unit chose. */
void handoff_continue(struct unit *unit, struct unit_request *request,
                      const struct record_continue *record, int64_t now_ns);

/* A step with a row of it has been planned: names the blocks that this will make whole. */
void handoff_push(struct unit *unit, struct unit_request *request);

/* The step is done. Where another request had made an equal block first, the request has gone over
 * to that one: it is leased, too, as long as the block that was sent. */
void handoff_made(struct unit *unit, struct unit_request *request);

/* The request is about to give its pages back. Blocks that are named, but were lost with their
 * step, would be made again in other pages: then the transfer is cancelled. */
void handoff_interrupt(struct unit *unit, struct unit_request *request);

/* The request's answer goes on at another unit: its last blocks are named, and it leaves. */
void handoff_pass_on(struct unit *unit, struct unit_request *request);

/* KV_DONE has come: the request's transfer is over. */
void handoff_done(struct unit *unit, struct unit_request *request,
                  const struct record_kv_done *record, int64_t now_ns);

/* Cancels transfers that are not worth waiting for any longer; their KV_DONE follows. To be called
 * at unit->give_up_ns, with room for handoff_give_up_bytes_max(). */
void handoff_give_up(struct unit *unit, int64_t now_ns);
size_t handoff_give_up_bytes_max(void);

/* The request ends: at once, or when its transfer has. */
void handoff_leave(struct unit *unit, struct unit_request *request, enum finish_reason reason);

/* An abandoned unit's requests fail: now as many as the outbox has room for answers of
 * `answer_bytes` each. Those in a step fail when it is done, and those that load when that is over.
 */
void handoff_end_all(struct unit *unit, size_t answer_bytes);
/* False: handoff_end_all would end no request now. */
bool handoff_may_any_end(const struct unit *unit);

/* Pages that are leased for sending, beside the request's own leases. */
uint32_t handoff_sent_count(const struct unit_request *request);

#endif
