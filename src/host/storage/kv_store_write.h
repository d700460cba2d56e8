/* SPDX-License-Identifier: Apache-2.0
 * The path of blocks to the backend, on the store's thread: taken in, put, and moved out of segments
 * that are dropped.
 */
#ifndef HOST_STORAGE_KV_STORE_WRITE_H
#define HOST_STORAGE_KV_STORE_WRITE_H

#include "host/storage/kv_store_state.h"

/* Copies some of the blocks in that were asked to be kept. True: there are more. */
bool kv_store_write_take_keeps(struct kv_store *store);

void kv_store_write_feed_writes(struct kv_store *store, int64_t now_ns);
void kv_store_write_end_write(struct kv_store *store, struct kv_task *task);

/* Periodically drops a segment with more than half of its slots dead. */
void kv_store_write_compact(struct kv_store *store, int64_t now_ns);
void kv_store_write_feed_moves(struct kv_store *store);
void kv_store_write_end_move(struct kv_store *store, struct kv_task *task);

/* Ends the moving, unless a read of it is under way; what has not moved is forgotten. */
void kv_store_write_stop_moving(struct kv_store *store);

/* When the thread must look again for the sake of writes, at the latest. */
int64_t kv_store_write_wake_ns(const struct kv_store *store);

#endif
