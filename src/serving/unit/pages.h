/* SPDX-License-Identifier: Apache-2.0
 * The KV pages of a request: finds them in the prefix cache, claims them, evicts others for them,
 * shares them once they are complete, releases them. A request's blocks are in three ranges of its
 * pages: shared (complete, in the tree, read-only), its own (being written, unknown to other
 * requests), and none yet.
 */
#ifndef SERVING_UNIT_PAGES_H
#define SERVING_UNIT_PAGES_H

#include "serving/unit/state.h"

struct pages_hit { /* the longest chain of blocks that the cache has for a request */
    uint32_t node; /* of its last block */
    uint32_t block_count;
    uint32_t unleased_count; /* blocks of it that are available to other requests until they are
                              * attached */
};

/* The start of every sequence of its tenant. */
struct prefix_name pages_root(const struct unit *unit, const struct unit_request *request);

/* Finds at most the whole blocks before the last known token, which must be computed for its
 * logits. A first start searches by true key, then, for the prompt, by text if generated text may
 * be reused. A request that resumes finds only what it had computed, in the same modes. */
struct pages_hit pages_look_up(const struct unit *unit, const struct unit_request *request);

/* The true keys of a submission's whole blocks before its last known token, which are all that can
 * be found of it: keys_out[tokens at most / KV_BLOCK_TOKENS]. Returns their count; 0 without a
 * cache. */
uint32_t pages_keys(const struct unit *unit, const struct record_submit *submit,
                    struct block_key *keys_out);

/* Stores the true keys of the request's first `count` blocks, which are whole, so that look-ups of
 * its pages do not compute them again: request->keys has room for them. */
void pages_set_keys(const struct unit *unit, struct unit_request *request, uint32_t count);

/* Leases the blocks that pages_look_up finds now: the request's first pages. */
void pages_attach(struct unit *unit, struct unit_request *request);

/* Claims pages until it holds `page_count`, and evicts cached blocks as needed. False if there are
 * too few even then; it keeps the pages that it had. */
bool pages_claim(struct unit *unit, struct unit_request *request, uint32_t page_count);

/* Adds complete blocks to the cache. If another request has added an equal block meanwhile, leases
 * that one instead. Called only when a step is done. */
void pages_share(struct unit *unit, struct unit_request *request);

/* Releases all pages; whole blocks stay cached. */
void pages_release(struct unit *unit, struct unit_request *request);

/* No page is held, and their contents are lost: none is cached any more. */
void pages_forget(struct unit *unit);

/* For unit_audit: checks a request's pages (`sent`: leased by outgoing transfers, too), and that
 * the tree and the page table agree. */
void pages_audit_request(const struct unit *unit, const struct unit_request *request,
                         uint32_t sent);
void pages_audit(const struct unit *unit);

#endif
