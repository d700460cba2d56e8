/* SPDX-License-Identifier: Apache-2.0
 * The tiers below a unit's pages: host memory and disk, which the host's KV storage keeps. A unit
 * only says what it wants:
 *
 *   a request comes,  KV_FIND the keys of all its whole blocks, of prompt and answer, each in its
 *   or comes back     form -> KV_FOUND how many are there
 *   it could start    what pages and storage have is weighed against computing it
 *                     (serving/policy/kv_path); then it is parked with its pages,
 *                     KV_LOAD -> KV_LOADED, and runs from behind what arrived. Where nobody else,
 *                     or hardly, is made to wait (serving/policy/load_in_step) its first row does
 *                     not wait: the engine waits for each layer, and STEP_DONE tells the load's
 *                     end in place of KV_LOADED. If the load was not whole, the row does not
 *                     count; if it was not over, KV_PARK -> KV_LOADED. One such row in a step of
 *                     a rank
 *   blocks whole      KV_KEEP; their pages, and those before them, stay leased until KV_KEPT
 *
 * It comes back when it was interrupted, or when its blocks should have come from another unit and
 * did not; what was stored before is then loaded like anything else. What that other unit may only
 * be writing is asked for again, for a while.
 *
 * KV_FOUND comes at once, or a little later from another process; a request waits for it for a
 * second at the most. KV_LOADED is waited for however long: until then somebody writes to the
 * pages, whatever becomes of the request.
 */
#ifndef SERVING_UNIT_TIERS_H
#define SERVING_UNIT_TIERS_H

#include "serving/unit/state.h"

/* What a SUBMIT, a plan and a step's end may put out for it; 0 without a storage. */
size_t tiers_submit_bytes_max(const struct unit_options *options);
size_t tiers_plan_bytes_max(const struct unit_options *options);
size_t tiers_step_bytes_max(const struct unit_options *options);

/* Memory of the longest request, in its arena. */
size_t tiers_request_bytes_max(const struct unit_options *options);

/* It waits to be computed: asks what the storage has of it. */
void tiers_ask(struct unit *unit, struct unit_request *request);

/* Likewise; another unit has just computed its prompt and may still be writing the last blocks:
 * what is missing of them is asked for again, as long as serving/policy/kv_path says. */
void tiers_ask_while_written(struct unit *unit, struct unit_request *request);

/* As tiers_ask, with one of the next plans. */
void tiers_ask_later(struct unit *unit, struct unit_request *request);

/* For the choice of its blocks' way: `first_block` stand in pages, and so many behind them are
 * stored. */
struct load_ask tiers_load_ask(const struct unit *unit, const struct unit_request *request,
                               uint32_t first_block, uint32_t stored_blocks);

/* What it costs to load `token_count` tokens behind the first `first` from the disk that all ranks
 * share, or from the own storage's memory: in tokens that could be computed meanwhile. As many as
 * there are where computing is faster, or nothing has been measured. */
double tiers_fetch_tokens(const struct unit *unit, bool memory, uint32_t first,
                          uint32_t token_count);

void tiers_found(struct unit *unit, struct unit_request *request,
                 const struct record_kv_found *record, int64_t now_ns);

/* It could start now: until when it does not, because what the storage has of it is about to be
 * told; 0: it may. */
int64_t tiers_answer_by_ns(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* Of those that wait, in their order (unit->items[unit->order[count]]), the first ones are parked
 * and loaded where that is faster; true if any was, or waits for an answer now. The very first of
 * them, where the engine can wait for it, is not parked yet: it may have a row in the coming step,
 * behind the blocks that are still to come. */
bool tiers_load(struct unit *unit, uint32_t count, struct unit_request **in_step_out);

/* The request has a load, in a step that would compute for so long: may the step wait for it? */
bool tiers_may_wait(const struct unit *unit, const struct unit_request *request, double step_ns);

/* The step may not wait for the request's load, or it has none: it is parked after all. */
void tiers_leave_step(struct unit *unit, struct unit_request *request);

/* The step with a row that waited for its load is done; `row` NULL: it failed. False: the row does
 * not count, and the request goes on from behind what has come, or is parked until it has. */
bool tiers_step_done(struct unit *unit, struct unit_request *request,
                     const struct step_result_row *row);

void tiers_loaded(struct unit *unit, struct unit_request *request,
                  const struct record_kv_loaded *record, int64_t now_ns);

/* Its pages are being written to. */
bool tiers_is_loading(const struct unit_request *request);

/* Its pages are being written to, or the storage has yet to say what it has of it. */
bool tiers_is_asked(const struct unit_request *request);

/* Its blocks from first_block on have become whole and known. */
void tiers_keep(struct unit *unit, const struct unit_request *request, uint32_t first_block);

void tiers_kept(struct unit *unit, const struct record_kv_kept *record);

/* enum kv_storage_state */
uint32_t tiers_storage_state(const struct unit *unit);

#endif
