/* SPDX-License-Identifier: Apache-2.0
 * The KV storage as a unit sees it: takes KV_FIND, KV_LOAD and KV_KEEP, gives KV_FOUND, KV_LOADED
 * and KV_KEPT, and knows which memory a page is. Every rank has one on its own pages, which are in
 * its process (host/transfer/kv_ranks.h); all of them may share one directory.
 */
#ifndef HOST_STORAGE_KV_TIER_H
#define HOST_STORAGE_KV_TIER_H

#include "compute/model/kv_pages.h"
#include "contract/record.h"
#include "host/storage/kv_store.h"

struct kv_tier;

/* The options are left as they are but for what the pages say (shape). */
enum status kv_tier_open(const struct kv_store_options *options, const struct kv_pages *pages,
                         struct kv_tier **tier_out, struct error *error) MUST_USE;

/* Ends what is under way, and writes what waits, for some seconds. */
void kv_tier_close(struct kv_tier *tier);

/* Readable while answers may be there. */
int kv_tier_file(const struct kv_tier *tier);

/* KV_FIND is answered at once, the others later. From one thread, as kv_tier_take. */
void kv_tier_give(struct kv_tier *tier, const struct record *record);

/* From the engine's thread, for the slot's KV_LOAD of that number, which may come after the step:
 * returns when so many leading slices of all its blocks have arrived, or it is over, or after two
 * seconds; false: they are not all there. If all of it (slices UINT32_MAX) is, its KV_LOADED can be
 * taken. */
bool kv_tier_await(struct kv_tier *tier, uint32_t slot, uint32_t number, uint32_t slices);

void kv_tier_take(struct kv_tier *tier, void (*take)(void *context, const struct record *record),
                  void *context);

struct kv_store *kv_tier_store(const struct kv_tier *tier);

#endif
