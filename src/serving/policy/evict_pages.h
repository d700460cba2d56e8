/* SPDX-License-Identifier: Apache-2.0
 * Which cached KV pages make room. Candidates are the pages that the prefix cache keeps and nobody
 * reads now. A page's children are unleased whenever it is, and were used last no later than it
 * was; so every rule below, by its order alone, takes children before their parents, and what stays
 * in the cache is always a whole tree.
 *
 * Pure: the same candidates, in any order, give the same answer; the last tie goes to the lowest
 * page.
 */
#ifndef SERVING_POLICY_EVICT_PAGES_H
#define SERVING_POLICY_EVICT_PAGES_H

#include <stdbool.h>
#include <stdint.h>

enum evict_rule {
    EVICT_LEAST_RECENT, /* used longest ago; among those of one use the deepest */
    EVICT_DEEPEST,      /* farthest from its root: keeps the prefixes that many may share */
    EVICT_RULE_COUNT
};

struct evict_candidate {
    uint32_t page;
    uint32_t depth;    /* blocks before it in its sequence */
    uint64_t last_use; /* higher is later */
};

/* Moves the `wanted` candidates (at most `count`) that go first to the array's end, the first of
 * them last; so they are taken off from the end, one by one. Everything else stands before. */
void evict_pages_choose(enum evict_rule rule, struct evict_candidate *candidates, uint32_t count,
                        uint32_t wanted);

#endif
