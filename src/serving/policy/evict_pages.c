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

/* The heap's top stands last in memory, its other places before it. Whoever goes first is lowest, so
 * the top goes last of all that it holds. */
static struct evict_candidate *place(struct evict_candidate *top, uint32_t at) {
    return top - at;
}

static void sift_down(goes_first *rule, struct evict_candidate *top, uint32_t at, uint32_t count) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && rule(place(top, child), place(top, child + 1))) child++;
        if (!rule(place(top, at), place(top, child))) return;
        swap(place(top, at), place(top, child));
        at = child;
    }
}

/* Few of many are wanted, as a rule: the heap holds those that go first so far, and most others are
 * only compared with its top. */
void evict_pages_choose(enum evict_rule rule, struct evict_candidate *candidates, uint32_t count,
                        uint32_t wanted) {
    check(rule < EVICT_RULE_COUNT && wanted <= count);
    if (wanted == 0) return;
    struct evict_candidate *top = &candidates[count - 1];
    for (uint32_t i = wanted / 2; i-- > 0;)
        sift_down(rules[rule], top, i, wanted);
    for (uint32_t i = 0; i < count - wanted; i++) {
        if (!rules[rule](&candidates[i], top)) continue;
        swap(&candidates[i], top);
        sift_down(rules[rule], top, 0, wanted);
    }
    while (--wanted > 0) { /* in order: who goes last leaves the heap for its end */
        swap(top, place(top, wanted));
        sift_down(rules[rule], top, 0, wanted);
    }
}
