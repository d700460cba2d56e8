/* SPDX-License-Identifier: Apache-2.0
 * The KV pages of a request. This file finds them in the prefix cache, allocates them (evicting
 * cached ones), shares them once they are complete, and releases them. A request's pages form two
 * ranges: first shared blocks (complete, in the prefix tree, read-only), then private ones (still
 * being written, invisible to other requests).
 */
#pragma once

#include "serving/unit/state.h"

struct pages_hit { /* result of a look-up: the longest cached prefix of a request */
    uint32_t node; /* node of the last block */
    uint32_t block_count;
    /* blocks without a lease, which can be evicted until they are attached */
    uint32_t unleased_count;
};

/* The root of the prefix tree's keys for the tenant of the request. */
struct prefix_name pages_root(const struct unit *unit, const struct unit_request *request);

/* Looks up the request in the prefix cache. Only whole blocks before the last known token count,
 * because that token must be computed for its logits. On the first start, blocks are found by their
 * true key. Prompt blocks are then also found by text if generated text may be reused. A request
 * that resumes finds only blocks that it had computed before, in the same modes. */
struct pages_hit pages_look_up(const struct unit *unit, const struct unit_request *request);

/* Computes the true keys of the whole blocks before the SUBMIT's last known token. No other blocks
 * can be found. keys_out[maximum of tokens / KV_BLOCK_TOKENS]. Returns the number of keys; 0
 * without a cache. */
uint32_t pages_keys(const struct unit *unit, const struct record_submit *submit,
                    struct block_key *keys_out);

/* Stores the true keys of the first `count` whole blocks in request->keys, so that look-ups do not
 * compute them again. request->keys must have capacity for them. */
void pages_set_keys(const struct unit *unit, struct unit_request *request, uint32_t count);

/* Looks up the request again, and leases the blocks found as its first pages. */
void pages_attach(struct unit *unit, struct unit_request *request);

/* Allocates pages until the request has `page_count`, and evicts cached blocks as needed. Returns
 * false if there are too few. The request keeps the pages that it already had. */
bool pages_claim(struct unit *unit, struct unit_request *request, uint32_t page_count);

/* Adds complete blocks to the cache. If another request has added an equal block meanwhile, leases
 * that block instead. Called only when a step is done. */
void pages_share(struct unit *unit, struct unit_request *request);

/* Releases all pages; whole blocks stay cached. */
void pages_release(struct unit *unit, struct unit_request *request);

/* Removes all pages from the cache, because their contents are lost. No page may be held. */
void pages_forget(struct unit *unit);

/* For unit_audit. Check the pages of a request (`sent`: leases of its outgoing transfers), and that
 * the prefix tree and the page table agree. */
void pages_audit_request(const struct unit *unit, const struct unit_request *request,
                         uint32_t sent);
void pages_audit(const struct unit *unit);
