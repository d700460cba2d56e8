/* SPDX-License-Identifier: Apache-2.0
 * The KV storage as a unit sees it: takes KV_FIND, KV_LOAD, KV_PARK and KV_PUT, gives KV_FOUND,
 * KV_LOADED and KV_STORED, and knows which memory a page is. Every rank has one on its own pages,
 * which are in its process (host/transfer/kv_ranks.h); all of them may share one directory.
 */
#pragma once

#include "compute/model/kv_pages.h"
#include "contract/load_end.h"
#include "contract/record.h"
#include "host/storage/kv_store.h"

struct kv_host_cache;

/* The options are left as they are but for the format, which is the pages'. */
enum status kv_host_cache_open(const struct kv_store_options *options, const struct kv_pages *pages,
                               struct kv_host_cache **host_cache_out, struct error *error) MUST_USE;

/* Ends what is under way, and writes what waits, for some seconds. */
void kv_host_cache_close(struct kv_host_cache *host_cache);

/* Readable while answers may be there. */
int kv_host_cache_file(const struct kv_host_cache *host_cache);

/* KV_FIND is answered at once, the others later; a KV_LOAD with in_step only after its KV_PARK.
 * From one thread, as kv_host_cache_take. */
void kv_host_cache_give(struct kv_host_cache *host_cache, const struct record *record);

/* The engine's thread calls these for a slot with a row that waits for its KV_LOAD. The KV_LOAD was
 * given with in_step, and may be given only after the step has begun. */

/* Returns when so many leading slices of all its blocks have arrived, or it is over, or after two
 * seconds; false: they are not all there. */
bool kv_host_cache_await(struct kv_host_cache *host_cache, uint32_t slot, uint32_t slices);

/* Takes the load's end, for the row's result; false: it is not over. */
bool kv_host_cache_take_end(struct kv_host_cache *host_cache, uint32_t slot,
                            struct load_end *end_out);

void kv_host_cache_take(struct kv_host_cache *host_cache,
                        void (*take)(void *context, const struct record *record), void *context);

struct kv_store *kv_host_cache_store(const struct kv_host_cache *host_cache);
