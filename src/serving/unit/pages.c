/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/pages.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "serving/unit/account.h"

#define NAMES_AHEAD 4 /* blocks to prefetch while one is shared */

struct prefix_name pages_root(const struct unit *unit, const struct unit_request *request) {
    struct block_key_identity identity = {
        .numerics_id = {unit->numerics_id, strlen(unit->numerics_id)},
        .tenant_salt = {(const char *)request->tenant.bytes, sizeof request->tenant.bytes},
    };
    memcpy(identity.model_id, unit->model_id, sizeof identity.model_id);
    return prefix_tree_root(&unit->tree, &identity);
}

/* The name of the request's sequence so far; `node` is its last block, or PREFIX_NONE. */
static struct prefix_name pages_name_of(const struct unit *unit, const struct unit_request *request,
                                        uint32_t node) {
    if (node != PREFIX_NONE) return prefix_tree_name(&unit->tree, node);
    return pages_root(unit, request);
}

static struct prefix_name pages_next_name(const struct unit *unit,
                                          const struct unit_request *request,
                                          const struct prefix_name *before, uint32_t block) {
    const uint32_t *tokens = request->tokens + (size_t)block * KV_BLOCK_TOKENS;
    const struct block_key *keys = request->keys, *known = NULL;
    /* The stored keys do not hold after a block that was found by its text: it has another key, and
     * so have all blocks after it. */
    if (block < request->key_count && (!block || block_key_equal(&before->key, &keys[block - 1])))
        known = &keys[block];
    return prefix_tree_next(&unit->tree, before, tokens, request->block_prompt[block], known);
}

struct pages_hit pages_look_up(const struct unit *unit, const struct unit_request *request) {
    struct pages_hit hit = {.node = PREFIX_NONE};
    if (!unit->options.prefix_cache || state_request_scores(request)) return hit;
    uint32_t blocks_max = (request_known(request) - 1) / KV_BLOCK_TOKENS;
    bool by_text = unit->options.reuse_generated && !request->started;
    while (hit.block_count < blocks_max) {
        struct prefix_name before = pages_name_of(unit, request, hit.node);
        struct prefix_name name = pages_next_name(unit, request, &before, hit.block_count);
        uint32_t node = prefix_tree_find(&unit->tree, &name);
        bool in_prompt = (hit.block_count + 1) * KV_BLOCK_TOKENS <= request->prompt_count;
        if (node == PREFIX_NONE && by_text && in_prompt)
            node = prefix_tree_find_text(&unit->tree, &name, hit.node);
        if (node == PREFIX_NONE) break;
        hit.unleased_count += unit->pages.pages[node].leases == 0;
        hit.block_count++;
        hit.node = node;
    }
    return hit;
}

uint32_t pages_keys(const struct unit *unit, const struct record_submit *submit,
                    struct block_key *keys_out) {
    const struct unit_request probe = {.tenant = submit->tenant};
    const uint32_t *tokens = submit_tokens(submit);
    uint32_t known = submit->prompt_count + submit->resumed_count, count = 0;
    struct block_key key = pages_root(unit, &probe).key;
    /* scores need every token to be computed, so cached blocks are useless */
    if (submit->sampling.flags & SAMPLING_SCORES) return 0;
    for (uint32_t at = 0; unit->options.prefix_cache && at + KV_BLOCK_TOKENS < known;
         at += KV_BLOCK_TOKENS) {
        uint32_t of_prompt = kv_block_rows(submit->prompt_count, at / KV_BLOCK_TOKENS);
        key = prefix_tree_block_key(&key, tokens + at, of_prompt);
        keys_out[count++] = key;
    }
    return count;
}

void pages_set_keys(const struct unit *unit, struct unit_request *request, uint32_t count) {
    uint32_t *made = &request->key_count;
    if (*made == 0 && unit->lent_keys && unit->lent_key_count == count) {
        memcpy(request->keys, unit->lent_keys, count * sizeof *request->keys);
        *made = count;
    }
    struct block_key key = *made ? request->keys[*made - 1] : pages_root(unit, request).key;
    for (; *made < count; ++*made)
        request->keys[*made] = key = prefix_tree_block_key(
            &key, request->tokens + (size_t)*made * KV_BLOCK_TOKENS, request->block_prompt[*made]);
}

void pages_attach(struct unit *unit, struct unit_request *request) {
    check(request->page_count == 0);
    struct pages_hit hit = pages_look_up(unit, request);
    for (uint32_t node = hit.node; node != PREFIX_NONE; node = unit->tree.nodes[node].parent) {
        uint32_t block = unit->tree.nodes[node].depth;
        request->pages[block] = (struct page_id){node};
        if (request->block_prompt[block] != unit->tree.nodes[node].prompt_tokens)
            request->key_count = min_u32(request->key_count, block);
        request->block_prompt[block] = unit->tree.nodes[node].prompt_tokens;
        page_table_lease(&unit->pages, request->pages[block]);
    }
    prefix_tree_touch(&unit->tree, hit.node);
    request->node = hit.node;
    request->page_count = request->shared_count = hit.block_count;
    request->computed_count = hit.block_count * KV_BLOCK_TOKENS;
    request->started = true;
    account_obtained(request, ACCOUNT_DEVICE, 0, request->computed_count);
}

/* If pages are evicted in the order of the page table, only the first ones are candidates. */
static uint32_t list_candidates(struct unit *unit, uint32_t wanted) {
    const struct page_table *pages = &unit->pages;
    uint32_t most = unit->options.evict_rule == EVICT_LEAST_RECENT ? wanted : pages->cached_count;
    uint32_t count = 0;
    for (uint32_t i = pages->first_cached; count < most; i = pages->pages[i].behind) {
        const struct prefix_node *node = &unit->tree.nodes[i];
        unit->scratch.candidates[count++] =
            (struct evict_candidate){i, node->depth, node->last_use};
    }
    return count;
}

/* Evicts cached pages until `wanted` pages are free. Returns false, without changes, if that is
 * impossible. */
static bool pages_make_room(struct unit *unit, uint32_t wanted) {
    if (wanted <= unit->pages.free_count) return true;
    uint32_t missing = wanted - unit->pages.free_count;
    if (missing > unit->pages.cached_count) return false;
    uint32_t count = list_candidates(unit, missing);
    evict_pages_choose(unit->options.evict_rule, unit->scratch.candidates, count, missing);
    for (; missing > 0; missing--) {
        struct page_id page = {unit->scratch.candidates[--count].page};
        prefix_tree_remove(&unit->tree, page);
        page_table_drop(&unit->pages, page);
        unit->totals.evicted_pages++;
    }
    return true;
}

bool pages_claim(struct unit *unit, struct unit_request *request, uint32_t page_count) {
    if (page_count <= request->page_count) return true;
    uint32_t missing = page_count - request->page_count;
    if (!pages_make_room(unit, missing)) return false;
    bool claimed = page_table_claim(&unit->pages, missing, request->pages + request->page_count);
    check(claimed);
    request->page_count = page_count;
    return true;
}

/* Adds the request's next block, which is complete, to the prefix cache. */
static void share_next(struct unit *unit, struct unit_request *request,
                       const struct prefix_name *name) {
    uint32_t block = request->shared_count++;
    struct page_id *page = &request->pages[block];
    uint32_t equal =
        prefix_tree_add(&unit->tree, *page, request->node, name, request->block_prompt[block]);
    if (equal == page->index) {
        page_table_keep(&unit->pages, *page);
    } else { /* equal keys mean equal bytes: use the cached block */
        page_table_lease(&unit->pages, (struct page_id){equal});
        page_table_release(&unit->pages, page, 1);
        page->index = equal;
        request->reported_count = min_u32(request->reported_count, block);
    }
    request->node = page->index;
}

void pages_share(struct unit *unit, struct unit_request *request) {
    /* names of blocks, indexed by block number modulo NAMES_AHEAD */
    struct prefix_name names[NAMES_AHEAD], last;
    uint32_t end = request->computed_count / KV_BLOCK_TOKENS, named = request->shared_count;
    if (!unit->options.prefix_cache || named >= end) return;
    last = pages_name_of(unit, request, request->node);
    while (request->shared_count < end) {
        for (; named < end && named < request->shared_count + NAMES_AHEAD; named++)
            names[named % NAMES_AHEAD] = last = pages_next_name(unit, request, &last, named);
        share_next(unit, request, &names[request->shared_count % NAMES_AHEAD]);
    }
}

void pages_release(struct unit *unit, struct unit_request *request) {
    prefix_tree_touch(&unit->tree, request->node);
    page_table_release(&unit->pages, request->pages, request->page_count);
    request->node = PREFIX_NONE;
    request->page_count = request->shared_count = request->computed_count = 0;
}

void pages_forget(struct unit *unit) {
    bool made = pages_make_room(unit, unit->options.page_count);
    check(made);
}

void pages_audit_request(const struct unit *unit, const struct unit_request *request,
                         uint32_t sent) {
    uint32_t node = request->node;
    for (uint32_t i = request->shared_count; i-- > 0; node = unit->tree.nodes[node].parent)
        check(node == request->pages[i].index && prefix_tree_has(&unit->tree, node));
    check(node == PREFIX_NONE);
    for (uint32_t i = request->shared_count; i < request->page_count; i++) {
        const struct page *page = &unit->pages.pages[request->pages[i].index];
        check(!page->kept && page->leases >= 1);
        check(page->leases == 1 || (page->leases == 2 && sent > 0));
    }
}

void pages_audit(const struct unit *unit) {
    prefix_tree_audit(&unit->tree);
    for (uint32_t i = 0; i < unit->options.page_count; i++) {
        const struct prefix_node *node = &unit->tree.nodes[i];
        const struct page *page = &unit->pages.pages[i];
        check(prefix_tree_has(&unit->tree, i) == page->kept);
        if (!page->kept || node->parent == PREFIX_NONE) continue;
        check(unit->pages.pages[node->parent].leases >= page->leases);
        if (page->leases == 0) check(unit->tree.nodes[node->parent].last_use >= node->last_use);
    }
}
