/* SPDX-License-Identifier: Apache-2.0
 * A request's KV pages: found in the prefix cache, claimed, made room for, shared once they are
 * whole, given back. Blocks stand in three ranges of a request's pages: shared (whole, in the tree,
 * read-only), its own (being written, known to nobody else), and none yet.
 */
#ifndef SERVING_UNIT_PAGES_H
#define SERVING_UNIT_PAGES_H

#include "serving/unit/state.h"

struct pages_hit { /* the longest chain of blocks that the cache holds for a request */
    uint32_t node; /* of its last block */
    uint32_t block_count;
    uint32_t unleased_count; /* of them: available to others until they are attached */
};

/* The start of every sequence of its tenant. */
struct prefix_name pages_root(const struct unit *unit, const struct unit_request *request);

/* At most the whole blocks before the last known token, which must be computed for its logits. A
 * first start finds by true key, then, of the prompt, by text if generated text may be reused; a
 * request that comes back finds only what it had computed, in the very forms. */
struct pages_hit pages_look_up(const struct unit *unit, const struct unit_request *request);

/* The true keys of a submission's whole blocks before its last known token, which is what can be
 * found of it: keys_out[tokens at most / KV_BLOCK_TOKENS]. Returns how many; 0 without a cache. */
uint32_t pages_keys(const struct unit *unit, const struct record_submit *submit,
                    struct block_key *keys_out);

/* The request keeps the true keys of its first `count` blocks, which are whole, so that what is
 * asked of its pages does not make them again: request->keys has room for them. */
void pages_set_keys(const struct unit *unit, struct unit_request *request, uint32_t count);

/* Leases what pages_look_up finds now: the request's first pages. */
void pages_attach(struct unit *unit, struct unit_request *request);

/* Claims pages until it holds `page_count`, evicting cached blocks as needed; false when there are
 * too few even so (it then holds what it held). */
bool pages_claim(struct unit *unit, struct unit_request *request, uint32_t page_count);

/* What has been computed whole becomes known to others; a block that somebody else has made known
 * meanwhile is held in its stead. Called when a step is done, never before. */
void pages_share(struct unit *unit, struct unit_request *request);

/* Gives all pages back; whole blocks stay cached. */
void pages_release(struct unit *unit, struct unit_request *request);

/* No page is held, and what stood in them is gone: none is cached any more. */
void pages_forget(struct unit *unit);

/* For unit_audit: a request's pages are what it takes them for (`sent`: that are leased for sending,
 * too); the tree and the page table agree. */
void pages_audit_request(const struct unit *unit, const struct unit_request *request,
                         uint32_t sent);
void pages_audit(const struct unit *unit);

#endif
