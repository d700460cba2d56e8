/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/evict_pages.h"

#include "base/check.h"
#include "base/heap.h"

/* The page number breaks ties. */
static bool is_less_recent(const void *context, const void *left, const void *right) {
    const struct evict_candidate *a = left, *b = right;
    if (a->last_use != b->last_use) return a->last_use < b->last_use;
    if (a->depth != b->depth) return a->depth > b->depth;
    return a->page < b->page;
}

static bool is_deeper(const void *context, const void *left, const void *right) {
    const struct evict_candidate *a = left, *b = right;
    if (a->depth != b->depth) return a->depth > b->depth;
    return is_less_recent(context, a, b);
}

static const struct heap_order least_recent = {sizeof(struct evict_candidate), is_less_recent,
                                               NULL};
static const struct heap_order deepest = {sizeof(struct evict_candidate), is_deeper, NULL};

void evict_pages_choose(enum evict_rule rule, struct evict_candidate *candidates, uint32_t count,
                        uint32_t wanted) {
    check(rule < EVICT_RULE_COUNT && wanted <= count);
    if (rule == EVICT_LEAST_RECENT)
        heap_choose(&least_recent, NULL, candidates, count, wanted);
    else
        heap_choose(&deepest, NULL, candidates, count, wanted);
}
