/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/pages.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "serving/unit/account.h"

struct prefix_place pages_root(const struct unit *unit, const struct unit_request *request) {
    struct block_key_identity identity = {
        .numerics_id = {unit->numerics_id, strlen(unit->numerics_id)},
        .tenant_salt = {(const char *)request->tenant.bytes, sizeof request->tenant.bytes},
    };
    memcpy(identity.model_id, unit->model_id, sizeof identity.model_id);
    return prefix_place_root(&identity);
}

static struct prefix_place place_of(const struct unit *unit, const struct unit_request *request,
                                    uint32_t node) {
    if (node != PREFIX_NONE) return prefix_tree_place(&unit->tree, node);
    return pages_root(unit, request);
}

struct pages_hit pages_look_up(const struct unit *unit, const struct unit_request *request) {
    struct pages_hit hit = {.node = PREFIX_NONE};
    if (!unit->options.prefix_cache || request_scores(request)) return hit;
    uint32_t blocks_max = (request_known(request) - 1) / KV_BLOCK_TOKENS;
    bool by_text = unit->options.reuse_generated && !request->started;
    while (hit.block_count < blocks_max) {
        struct prefix_place place = place_of(unit, request, hit.node);
        const uint32_t *tokens = request->tokens + (size_t)hit.block_count * KV_BLOCK_TOKENS;
        uint32_t node =
            prefix_tree_find(&unit->tree, &place, tokens, request->block_prompt[hit.block_count]);
        bool in_prompt = (hit.block_count + 1) * KV_BLOCK_TOKENS <= request->prompt_count;
        if (node == PREFIX_NONE && by_text && in_prompt)
            node = prefix_tree_find_text(&unit->tree, &place, tokens);
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
    if (submit->sampling.flags & SAMPLING_SCORES) return 0; /* nothing would be of use to it */
    for (uint32_t at = 0; unit->options.prefix_cache && at + KV_BLOCK_TOKENS < known;
         at += KV_BLOCK_TOKENS) {
        uint32_t of_prompt = kv_block_rows(submit->prompt_count, at / KV_BLOCK_TOKENS);
        key = prefix_block_key(&key, tokens + at, of_prompt);
        keys_out[count++] = key;
    }
    return count;
}

void pages_attach(struct unit *unit, struct unit_request *request) {
    check(request->page_count == 0);
    struct pages_hit hit = pages_look_up(unit, request);
    for (uint32_t node = hit.node; node != PREFIX_NONE; node = unit->tree.nodes[node].parent) {
        uint32_t block = unit->tree.nodes[node].depth;
        request->pages[block] = (struct page_id){node};
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

/* Evicts until `wanted` pages are free; false, with nothing done, if that cannot be. */
static bool make_room(struct unit *unit, uint32_t wanted) {
    if (wanted <= unit->pages.free_count) return true;
    uint32_t missing = wanted - unit->pages.free_count, count = 0;
    if (missing > unit->pages.cached_count) return false;
    for (uint32_t i = 0; i < unit->tree.page_count; i++) {
        const struct prefix_node *node = &unit->tree.nodes[i];
        if (node->present && unit->pages.pages[i].leases == 0)
            unit->candidates[count++] = (struct evict_candidate){i, node->depth, node->last_use};
    }
    check(count == unit->pages.cached_count);
    evict_pages_choose(unit->options.evict_rule, unit->candidates, count, missing);
    for (; missing > 0; missing--) {
        struct page_id page = {unit->candidates[--count].page};
        prefix_tree_remove(&unit->tree, page);
        page_table_drop(&unit->pages, page);
        unit->totals.evicted_pages++;
    }
    return true;
}

bool pages_claim(struct unit *unit, struct unit_request *request, uint32_t page_count) {
    if (page_count <= request->page_count) return true;
    uint32_t missing = page_count - request->page_count;
    if (!make_room(unit, missing)) return false;
    bool claimed = page_table_claim(&unit->pages, missing, request->pages + request->page_count);
    check(claimed);
    request->page_count = page_count;
    return true;
}

void pages_share(struct unit *unit, struct unit_request *request) {
    if (!unit->options.prefix_cache) return;
    while ((request->shared_count + 1) * KV_BLOCK_TOKENS <= request->computed_count) {
        uint32_t block = request->shared_count++;
        struct page_id *page = &request->pages[block];
        struct prefix_place place = place_of(unit, request, request->node);
        const uint32_t *tokens = request->tokens + (size_t)block * KV_BLOCK_TOKENS;
        uint32_t equal =
            prefix_tree_find(&unit->tree, &place, tokens, request->block_prompt[block]);
        if (equal == PREFIX_NONE) {
            prefix_tree_add(&unit->tree, *page, &place, tokens, request->block_prompt[block]);
            page_table_keep(&unit->pages, *page);
        } else { /* equal keys, equal bytes */
            page_table_lease(&unit->pages, (struct page_id){equal});
            page_table_release(&unit->pages, page, 1);
            page->index = equal;
            request->told_count = min_u32(request->told_count, block);
        }
        request->node = page->index;
    }
}

void pages_release(struct unit *unit, struct unit_request *request) {
    prefix_tree_touch(&unit->tree, request->node);
    page_table_release(&unit->pages, request->pages, request->page_count);
    request->node = PREFIX_NONE;
    request->page_count = request->shared_count = request->computed_count = 0;
}
