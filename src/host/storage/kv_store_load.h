/* SPDX-License-Identifier: Apache-2.0
 * Loads of blocks, run by the thread of the store. Other threads request them through kv_store.h.
 */
#pragma once

#include "host/storage/kv_store_state.h"

/* Begins the loads that were requested since the last call. */
void kv_store_load_begin_loads(struct kv_store *store);

/* Prepares reads, and copies blocks from host memory. Returns true if there is more to copy. */
bool kv_store_load_feed_loads(struct kv_store *store);
void kv_store_load_end_read(struct kv_store *store, struct kv_task *task);

/* The latest time at which the thread must continue reads. */
int64_t kv_store_load_read_wake_ns(const struct kv_store *store);
