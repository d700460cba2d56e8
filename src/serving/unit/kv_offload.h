/* SPDX-License-Identifier: Apache-2.0
 * KV offload: stores KV blocks of a unit's pages in the host's KV storage (memory and disk), and
 * loads them back. The unit only exchanges records with the storage (contract/record_kv.h):
 *
 *   a request arrives,   KV_FIND with the keys of all its whole blocks, of prompt and answer,
 *   or waits again       each in its mode -> KV_FOUND with the number of leading stored blocks
 *   it could start       loading the stored blocks is compared with computing them
 *                        (serving/policy/kv_path). To load them, the request is parked with its
 *                        pages, KV_LOAD -> KV_LOADED, and runs from the end of the blocks that
 *                        arrived
 *   blocks are complete  KV_PUT; their pages, and those before them, stay leased until KV_STORED
 *
 * A load may also overlap with a step, if other requests would wait little for it or not at all
 * (serving/policy/load_in_step). The request is then not parked. Its first row runs at once, the
 * engine waits for the slices of each layer, and STEP_DONE reports the end of the load instead of
 * KV_LOADED. If some blocks did not arrive, the row does not count. If the load has not ended, the
 * request is parked after all, KV_PARK -> KV_LOADED. A step of a rank has at most one such row.
 *
 * A request waits again after an interruption, or if its blocks did not arrive from another unit.
 * If that unit may still be writing blocks to the storage, the storage is asked for them again for
 * a while.
 *
 * KV_FOUND arrives at once, or slightly later if the storage is in another process. A request waits
 * for it for a second at most. The wait for KV_LOADED has no limit, because the storage may write
 * to the pages until then, even if the request ends.
 */
#pragma once

#include "serving/unit/state.h"

/* The maximum size in bytes of the records to the storage from a SUBMIT, from a plan and from the
 * end of a step. 0 without a storage. */
size_t kv_offload_submit_bytes_max(const struct unit_options *options);
size_t kv_offload_plan_bytes_max(const struct unit_options *options);
size_t kv_offload_step_bytes_max(const struct unit_options *options);

/* The largest size, in bytes, of a request's struct request_kv_offload in its arena. */
size_t kv_offload_request_bytes_max(const struct unit_options *options);

/* Asks the storage for the blocks of a WAITING request (KV_FIND). */
void kv_offload_ask(struct unit *unit, struct unit_request *request);

/* Like kv_offload_ask, for a prompt that another unit has just computed. That unit may still be
 * writing the last blocks, so missing blocks are asked for again as long as serving/policy/kv_path
 * allows. */
void kv_offload_ask_while_written(struct unit *unit, struct unit_request *request);

/* Like kv_offload_ask, but KV_FIND is sent with one of the next plans. */
void kv_offload_ask_later(struct unit *unit, struct unit_request *request);

/* Builds the input of load_or_compute and kv_path for the request. `first_block` blocks are in
 * pages, and the storage has the next stored_blocks blocks. */
struct load_ask kv_offload_load_ask(const struct unit *unit, const struct unit_request *request,
                                    uint32_t first_block, uint32_t stored_blocks);

/* The cost of loading `token_count` tokens from position `first` on, in tokens that could be
 * computed in the same time. `memory`: from the memory of the unit's own storage; otherwise from
 * the disk that all ranks share. Returns token_count if computing is faster or nothing has been
 * measured. */
double kv_offload_fetch_tokens(const struct unit *unit, bool memory, uint32_t first,
                               uint32_t token_count);

/* Handle KV_FOUND and KV_LOADED. */
void kv_offload_found(struct unit *unit, struct unit_request *request,
                      const struct record_kv_found *record, int64_t now_ns);
void kv_offload_loaded(struct unit *unit, struct unit_request *request,
                       const struct record_kv_loaded *record, int64_t now_ns);

/* The time before which a WAITING request must not start, because the storage is about to reply or
 * to be asked again. MACHINE_NEVER: not before the reply. 0: the request may start, or is not
 * WAITING. */
int64_t kv_offload_answer_by_ns(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* Called at the start of a plan, for waiting requests: scratch.items in the order of
 * scratch.order[0..count). Considers the first ones. A request is parked and loaded if that is
 * faster, or its blocks are asked for again. Returns true if any was, because the set of requests
 * that can start has then changed. If the engine can wait for layers, the first request that is
 * loaded is not parked yet but returned in *in_step_out (else unchanged). It may have a row in the
 * next step, after the blocks that are being loaded, unless kv_offload_leave_step follows. */
bool kv_offload_load(struct unit *unit, uint32_t count, struct unit_request **in_step_out);

/* True if a step that would compute for step_ns may wait for the request's load. */
bool kv_offload_may_wait(const struct unit *unit, const struct unit_request *request,
                         double step_ns);

/* Parks the request of *in_step_out after all, because the step has no row for it or may not wait.
 * Its KV_LOAD must still be in the outbox. */
void kv_offload_leave_step(struct unit *unit, struct unit_request *request);

/* Called when a step is done in which `row` waited for the request's load. `row` NULL: the step
 * failed. Returns false if the row does not count. The request then continues after the loaded
 * blocks, or is parked until KV_LOADED. */
bool kv_offload_step_done(struct unit *unit, struct unit_request *request,
                          const struct step_result_row *row);

/* True if a load is writing to the request's pages. */
bool kv_offload_is_loading(const struct unit_request *request);

/* True if a load is writing to the request's pages, or if a KV_FIND has not been answered yet. */
bool kv_offload_is_asked(const struct unit_request *request);

/* Sends KV_PUT for the shared blocks of the request from first_block on, which have just been
 * completed. */
void kv_offload_put(struct unit *unit, const struct unit_request *request, uint32_t first_block);

void kv_offload_stored(struct unit *unit, const struct record_kv_stored *record);

/* enum kv_storage_state */
uint32_t kv_offload_storage_state(const struct unit *unit);
