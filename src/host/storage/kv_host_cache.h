/* SPDX-License-Identifier: Apache-2.0
 * Connects a unit's records to the KV storage (kv_store.h). It takes KV_FIND, KV_LOAD, KV_PARK and
 * KV_PUT, answers with KV_FOUND, KV_LOADED and KV_STORED, and maps page numbers to memory. Every
 * rank has one for the KV pages in its process (host/transfer/kv_ranks.h). All ranks may share one
 * directory.
 */
#pragma once

#include "compute/model/kv_pages.h"
#include "contract/load_end.h"
#include "contract/record.h"
#include "host/storage/kv_store.h"

struct kv_host_cache;

/* The options are copied, except the format, which is that of the pages. */
enum status kv_host_cache_open(const struct kv_store_options *options, const struct kv_pages *pages,
                               struct kv_host_cache **host_cache_out, struct error *error) MUST_USE;

/* Completes loads in progress, and writes queued blocks for at most some seconds. */
void kv_host_cache_close(struct kv_host_cache *host_cache);

/* A descriptor that is readable while answers may be available. */
int kv_host_cache_file(const struct kv_host_cache *host_cache);

/* KV_FIND is answered immediately, the others later. A KV_LOAD with in_step is answered only after
 * its KV_PARK. Call this and kv_host_cache_take from the same thread. */
void kv_host_cache_give(struct kv_host_cache *host_cache, const struct record *record);

/* The engine's thread calls the next two for a slot with a row that waits for its KV_LOAD. This
 * KV_LOAD has in_step set, and may come after the step has begun. */

/* Waits until `slices` leading slices of all its blocks have arrived or the load has ended, for at
 * most two seconds. Returns false if they have not all arrived. */
bool kv_host_cache_await(struct kv_host_cache *host_cache, uint32_t slot, uint32_t slices);

/* Gets how the load ended, for the row's result. Returns false if it has not ended. */
bool kv_host_cache_take_end(struct kv_host_cache *host_cache, uint32_t slot,
                            struct load_end *end_out);

/* Passes each available answer to `take`. */
void kv_host_cache_take(struct kv_host_cache *host_cache,
                        void (*take)(void *context, const struct record *record), void *context);

struct kv_store *kv_host_cache_store(const struct kv_host_cache *host_cache);
