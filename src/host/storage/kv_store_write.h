/* SPDX-License-Identifier: Apache-2.0
 * Writes blocks to the backend, on the store's thread. It copies new blocks, writes them, and moves
 * blocks out of segments that are dropped.
 */
#pragma once

#include "host/storage/kv_store_state.h"

/* Copies some of the blocks that were passed to kv_store_put. Returns true if there are more. */
bool kv_store_write_take_puts(struct kv_store *store);

void kv_store_write_feed_writes(struct kv_store *store, int64_t now_ns);
void kv_store_write_end_write(struct kv_store *store, struct kv_task *task);

/* Periodically drops a segment with more than half of its slots dead. */
void kv_store_write_compact(struct kv_store *store, int64_t now_ns);
void kv_store_write_feed_moves(struct kv_store *store);
void kv_store_write_end_move(struct kv_store *store, struct kv_task *task);

/* Stops moving blocks, unless a read for it is in progress. Blocks that were not moved are lost. */
void kv_store_write_stop_moving(struct kv_store *store);

/* The latest time at which the thread must continue writes. */
int64_t kv_store_write_wake_ns(const struct kv_store *store);
