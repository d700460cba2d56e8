/* SPDX-License-Identifier: Apache-2.0
 * The tiers below a unit's pages: host memory and disk, which the host's KV storage keeps. A unit
 * only says what it wants (contract/record_kv.h):
 *
 *   a request arrives,   KV_FIND the keys of all its whole blocks, of prompt and answer, each in
 *   or waits again       its form -> KV_FOUND how many leading ones the storage has
 *   it could start       loading what the storage has is weighed against computing it
 *                        (serving/policy/kv_path). If it is to be loaded, the request is parked
 *                        with its pages, KV_LOAD -> KV_LOADED, and it runs from behind the blocks
 *                        that arrived
 *   blocks become whole  KV_KEEP; their pages, and those before them, stay leased until KV_KEPT
 *
 * A load in a step: where few or none of the others are made to wait (serving/policy/load_in_step),
 * the request is not parked. Its first row runs at once, the engine waits for each layer's slices,
 * and STEP_DONE tells the load's end in place of KV_LOADED. If not all blocks came, the row does
 * not count; if the load was not over, the request is parked after all, KV_PARK -> KV_LOADED. A
 * step of a rank has at most one such row.
 *
 * A request waits again when it was interrupted, or when its blocks should have come from another
 * unit and did not. What that other unit may still be writing to the storage is asked for again,
 * for a while.
 *
 * KV_FOUND comes at once, or a little later from another process; a request waits for it for a
 * second at the most. KV_LOADED is waited for however long: until then somebody writes to the
 * pages, whatever becomes of the request.
 */
#ifndef SERVING_UNIT_TIERS_H
#define SERVING_UNIT_TIERS_H

#include "serving/unit/state.h"

/* Most bytes of records to the storage that a SUBMIT, a plan and a step's end may put out; 0
 * without a storage. */
size_t tiers_submit_bytes_max(const struct unit_options *options);
size_t tiers_plan_bytes_max(const struct unit_options *options);
size_t tiers_step_bytes_max(const struct unit_options *options);

/* Most bytes that a request's arena has to have for its struct request_tiers. */
size_t tiers_request_bytes_max(const struct unit_options *options);

/* The request is WAITING: asks what the storage has of it (KV_FIND). */
void tiers_ask(struct unit *unit, struct unit_request *request);

/* As tiers_ask, where another unit has just computed the request's prompt and may still be writing
 * the last blocks: what is missing of them is asked for again, as long as serving/policy/kv_path
 * says. */
void tiers_ask_while_written(struct unit *unit, struct unit_request *request);

/* As tiers_ask, but KV_FIND goes out with one of the next plans. */
void tiers_ask_later(struct unit *unit, struct unit_request *request);

/* What load_or_compute and kv_path are to know of the request: `first_block` of its blocks stand in
 * pages, and the storage has stored_blocks behind them. */
struct load_ask tiers_load_ask(const struct unit *unit, const struct unit_request *request,
                               uint32_t first_block, uint32_t stored_blocks);

/* What it costs to load the `token_count` tokens behind the first `first` ones from the own
 * storage's memory (`memory`) or from the disk that all ranks share: in tokens that could be
 * computed meanwhile. token_count where computing is faster, or nothing has been measured. */
double tiers_fetch_tokens(const struct unit *unit, bool memory, uint32_t first,
                          uint32_t token_count);

/* KV_FOUND, KV_LOADED. */
void tiers_found(struct unit *unit, struct unit_request *request,
                 const struct record_kv_found *record, int64_t now_ns);
void tiers_loaded(struct unit *unit, struct unit_request *request,
                  const struct record_kv_loaded *record, int64_t now_ns);

/* Until when a WAITING request is not started, because the storage is about to tell what it has of
 * it or to be asked again; MACHINE_NEVER: until it has told. 0: it may start or is not WAITING. */
int64_t tiers_answer_by_ns(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* Begins a plan: of the requests that wait, scratch.items in the order of scratch.order[0..count),
 * the first ones are parked and loaded where that is faster, or asked for again. True if any was:
 * then those that could start are others now. Where the engine can wait for layers, the very first
 * that is loaded goes to *in_step_out (else left as it is) and is not parked yet: it may have a row
 * in the coming step, behind the blocks that are still to come, unless tiers_leave_step follows. */
bool tiers_load(struct unit *unit, uint32_t count, struct unit_request **in_step_out);

/* May a step that would compute for step_ns wait for the request's load? */
bool tiers_may_wait(const struct unit *unit, const struct unit_request *request, double step_ns);

/* The request of *in_step_out is parked after all: the step has no row of it, or may not wait. Its
 * KV_LOAD must still be in the outbox. */
void tiers_leave_step(struct unit *unit, struct unit_request *request);

/* A step with a row that waited for the request's load is done; `row` NULL: the step failed. False:
 * the row does not count, and the request goes on from behind the blocks that have come, or is
 * parked until KV_LOADED. */
bool tiers_step_done(struct unit *unit, struct unit_request *request,
                     const struct step_result_row *row);

/* A load writes to the request's pages. */
bool tiers_is_loading(const struct unit_request *request);

/* A load writes to the request's pages, or a KV_FIND has no KV_FOUND yet. */
bool tiers_is_asked(const struct unit_request *request);

/* KV_KEEP: the request's shared blocks from first_block on have just become whole. */
void tiers_keep(struct unit *unit, const struct unit_request *request, uint32_t first_block);

void tiers_kept(struct unit *unit, const struct record_kv_kept *record);

/* enum kv_storage_state */
uint32_t tiers_storage_state(const struct unit *unit);

#endif
