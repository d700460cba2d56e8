/* SPDX-License-Identifier: Apache-2.0
 * Chooses cached KV pages to evict. Candidates are pages of the prefix cache without leases. If a
 * page has no lease, its children have none either, and they were not used later than the page.
 * Every rule below therefore evicts children before their parents, and the cache always contains
 * whole trees.
 *
 * Pure: the same candidates, in any order, give the same result. The last tie goes to the lowest
 * page.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum evict_rule {
    EVICT_LEAST_RECENT, /* least recently used first; on a tie the deepest */
    /* farthest from the root first: keeps prefixes that many requests share */
    EVICT_DEEPEST,
    EVICT_RULE_COUNT
};

struct evict_candidate {
    uint32_t page;
    uint32_t depth;    /* blocks before it in its sequence */
    uint64_t last_use; /* higher is later */
};

/* Moves the `wanted` candidates (at most `count`) that should be evicted first to the end of the
 * array, in reverse order. The caller takes them from the end, one by one. */
void evict_pages_choose(enum evict_rule rule, struct evict_candidate *candidates, uint32_t count,
                        uint32_t wanted);
