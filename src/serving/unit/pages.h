/* SPDX-License-Identifier: Apache-2.0
 * The KV pages of a request: finds them in the prefix cache, claims them, evicts others for them,
 * shares them once they are complete, releases them. The pages of a request are in two ranges:
 * shared blocks (complete, in the tree, read-only), then private ones (being written, invisible to
 * other requests).
 */
#pragma once

#include "serving/unit/state.h"

struct pages_hit { /* the longest chain of cached blocks for a request */
    uint32_t node; /* node of the last block */
    uint32_t block_count;
    uint32_t unleased_count; /* blocks that other requests can evict until they are attached */
};

/* The root of every sequence of the request's tenant. */
struct prefix_name pages_root(const struct unit *unit, const struct unit_request *request);

/* Finds at most the whole blocks before the last known token, which must be computed for its
 * logits. A first start searches by true key, then, for the prompt, by text if generated text may
 * be reused. A request that resumes finds only blocks that it had computed, in the same modes. */
struct pages_hit pages_look_up(const struct unit *unit, const struct unit_request *request);

/* The true keys of a submission's whole blocks before its last known token, the only blocks that
 * can be found: keys_out[maximum of tokens / KV_BLOCK_TOKENS]. Returns their number; 0 without a
 * cache. */
uint32_t pages_keys(const struct unit *unit, const struct record_submit *submit,
                    struct block_key *keys_out);

/* Stores the true keys of the request's first `count` blocks, which are whole, so that look-ups do
 * not compute them again. request->keys must have capacity for them. */
void pages_set_keys(const struct unit *unit, struct unit_request *request, uint32_t count);

/* Leases the blocks that pages_look_up finds now, as the request's first pages. */
void pages_attach(struct unit *unit, struct unit_request *request);

/* Claims pages until the request has `page_count`, and evicts cached blocks as needed. Returns
 * false if there are too few; the request keeps the pages that it had. */
bool pages_claim(struct unit *unit, struct unit_request *request, uint32_t page_count);

/* Adds complete blocks to the cache. If another request has added an equal block meanwhile, leases
 * that block instead. Called only when a step is done. */
void pages_share(struct unit *unit, struct unit_request *request);

/* Releases all pages; whole blocks stay cached. */
void pages_release(struct unit *unit, struct unit_request *request);

/* Removes all pages from the cache, because their contents are lost. No page may be held. */
void pages_forget(struct unit *unit);

/* For unit_audit: check a request's pages (`sent`: pages also leased by outgoing transfers), and
 * that the tree and the page table agree. */
void pages_audit_request(const struct unit *unit, const struct unit_request *request,
                         uint32_t sent);
void pages_audit(const struct unit *unit);
