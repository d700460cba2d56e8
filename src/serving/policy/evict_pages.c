/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/evict_pages.h"

#include "base/check.h"

/* a before b; the page number breaks ties */
typedef bool goes_first(const struct evict_candidate *a, const struct evict_candidate *b);

static bool least_recent(const struct evict_candidate *a, const struct evict_candidate *b) {
    if (a->last_use != b->last_use) return a->last_use < b->last_use;
    if (a->depth != b->depth) return a->depth > b->depth;
    return a->page < b->page;
}

static bool deepest(const struct evict_candidate *a, const struct evict_candidate *b) {
    if (a->depth != b->depth) return a->depth > b->depth;
    if (a->last_use != b->last_use) return a->last_use < b->last_use;
    return a->page < b->page;
}

static goes_first *const rules[EVICT_RULE_COUNT] = {
    [EVICT_LEAST_RECENT] = least_recent,
    [EVICT_DEEPEST] = deepest,
};

static void swap(struct evict_candidate *a, struct evict_candidate *b) {
    struct evict_candidate kept = *a;
    *a = *b;
    *b = kept;
}

/* The heap's top is evicted first. */
static void evict_pages_sift_down(goes_first *rule, struct evict_candidate *heap, uint32_t at,
                                  uint32_t count) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && rule(&heap[child + 1], &heap[child])) child++;
        if (!rule(&heap[child], &heap[at])) return;
        swap(&heap[at], &heap[child]);
        at = child;
    }
}

void evict_pages_choose(enum evict_rule rule, struct evict_candidate *candidates, uint32_t count,
                        uint32_t wanted) {
    check(rule < EVICT_RULE_COUNT && wanted <= count);
    for (uint32_t i = count / 2; i-- > 0;)
        evict_pages_sift_down(rules[rule], candidates, i, count);
    for (uint32_t end = count; end > count - wanted;) { /* the first one ends up at the very end */
        swap(&candidates[0], &candidates[--end]);
        evict_pages_sift_down(rules[rule], candidates, 0, end);
    }
}
