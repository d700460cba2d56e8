/* SPDX-License-Identifier: Apache-2.0
 * Offloading of KV blocks from a unit's pages to the KV storage of the host, in memory and on disk.
 * A unit only sends records to it (contract/record_kv.h):
 *
 *   a request arrives,   KV_FIND with the keys of all its whole blocks, of prompt and answer,
 *   or waits again       each in its mode -> KV_FOUND with the number of leading stored blocks
 *   it could start       loading the stored blocks is compared with computing them
 *                        (serving/policy/kv_path). To load them, the request is parked with its
 *                        pages, KV_LOAD -> KV_LOADED, and runs from the end of the blocks that
 *                        arrived
 *   blocks are complete  KV_PUT; their pages, and those before them, stay leased until KV_STORED
 *
 * A load in a step: if few or no other requests have to wait (serving/policy/load_in_step), the
 * request is not parked. Its first row runs at once, the engine waits for each layer's slices, and
 * STEP_DONE reports the end of the load instead of KV_LOADED. If not all blocks arrived, the row
 * does not count. If the load has not ended, the request is parked after all, KV_PARK -> KV_LOADED.
 * A step of a rank has at most one such row.
 *
 * A request waits again when it was interrupted, or when its blocks did not arrive from another
 * unit. Blocks that the other unit may still be writing to the storage are asked for again for a
 * while.
 *
 * KV_FOUND arrives at once, or slightly later from another process. A request waits for it for a
 * second at most. The wait for KV_LOADED is unlimited: until then the storage writes to the pages,
 * whatever happens to the request.
 */
#pragma once

#include "serving/unit/state.h"

/* The largest output to the storage, in bytes, of a SUBMIT, of a plan and of the end of a step. 0
 * without a storage. */
size_t kv_offload_submit_bytes_max(const struct unit_options *options);
size_t kv_offload_plan_bytes_max(const struct unit_options *options);
size_t kv_offload_step_bytes_max(const struct unit_options *options);

/* The largest size, in bytes, of a request's struct request_kv_offload in its arena. */
size_t kv_offload_request_bytes_max(const struct unit_options *options);

/* Asks the storage for the blocks of a WAITING request (KV_FIND). */
void kv_offload_ask(struct unit *unit, struct unit_request *request);

/* kv_offload_ask after another unit has just computed the request's prompt and may still be writing
 * the last blocks. Missing blocks are asked for again, as long as serving/policy/kv_path allows. */
void kv_offload_ask_while_written(struct unit *unit, struct unit_request *request);

/* kv_offload_ask, but KV_FIND is sent with one of the next plans. */
void kv_offload_ask_later(struct unit *unit, struct unit_request *request);

/* The input of load_or_compute and kv_path for the request: `first_block` blocks are in pages, and
 * the storage has stored_blocks after them. */
struct load_ask kv_offload_load_ask(const struct unit *unit, const struct unit_request *request,
                                    uint32_t first_block, uint32_t stored_blocks);

/* The cost of loading `token_count` tokens from position `first` on, from the unit's own storage
 * memory (`memory`) or from the disk that all ranks share: the number of tokens that could be
 * computed meanwhile. token_count if computing is faster, or nothing was measured. */
double kv_offload_fetch_tokens(const struct unit *unit, bool memory, uint32_t first,
                               uint32_t token_count);

/* Handle KV_FOUND and KV_LOADED. */
void kv_offload_found(struct unit *unit, struct unit_request *request,
                      const struct record_kv_found *record, int64_t now_ns);
void kv_offload_loaded(struct unit *unit, struct unit_request *request,
                       const struct record_kv_loaded *record, int64_t now_ns);

/* The time until which a WAITING request is not started, because the storage is about to reply or
 * to be asked again. MACHINE_NEVER: until it has replied. 0: the request may start, or is not
 * WAITING. */
int64_t kv_offload_answer_by_ns(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* Begins a plan for the waiting requests, scratch.items in the order of scratch.order[0..count).
 * The first ones are parked and loaded if that is faster, or asked for again. Returns true if any
 * was: the set of requests that could start has changed. If the engine can wait for layers, the
 * very first request that is loaded is returned in *in_step_out (else unchanged) and not parked
 * yet. It may have a row in the next step, after the blocks that are being loaded, unless
 * kv_offload_leave_step follows. */
bool kv_offload_load(struct unit *unit, uint32_t count, struct unit_request **in_step_out);

/* True if a step that would compute for step_ns may wait for the request's load. */
bool kv_offload_may_wait(const struct unit *unit, const struct unit_request *request,
                         double step_ns);

/* Parks the request of *in_step_out after all: the step has no row for it, or may not wait. Its
 * KV_LOAD must still be in the outbox. */
void kv_offload_leave_step(struct unit *unit, struct unit_request *request);

/* Called when a step with a row that waited for the request's load is done; `row` NULL: the step
 * failed. Returns false if the row does not count: the request continues after the loaded blocks,
 * or is parked until KV_LOADED. */
bool kv_offload_step_done(struct unit *unit, struct unit_request *request,
                          const struct step_result_row *row);

/* True if a load is writing to the request's pages. */
bool kv_offload_is_loading(const struct unit_request *request);

/* True if a load is writing to the request's pages, or a KV_FIND has no KV_FOUND yet. */
bool kv_offload_is_asked(const struct unit_request *request);

/* Sends KV_PUT for the request's shared blocks from first_block on, which have just been
 * completed. */
void kv_offload_put(struct unit *unit, const struct unit_request *request, uint32_t first_block);

void kv_offload_stored(struct unit *unit, const struct record_kv_stored *record);

/* enum kv_storage_state */
uint32_t kv_offload_storage_state(const struct unit *unit);
