/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/evict_pages.h"

#include "base/check.h"
#include "test_case.h"

#include "base/random.h"

static void assert_order(enum evict_rule rule, const uint32_t *pages, uint32_t wanted) {
    struct evict_candidate candidates[] = {{0, 2, 9}, {1, 0, 7}, {2, 1, 7}, {3, 5, 8}, {4, 1, 7}};
    uint32_t count = ARRAY_COUNT(candidates);
    evict_pages_choose(rule, candidates, count, wanted);
    for (uint32_t i = 0; i < wanted; i++)
        assert_int_equal(candidates[count - 1 - i].page, pages[i]);
}

TEST(each_rule_has_its_order) {
    static const uint32_t least_recent[] = {2, 4, 1, 3, 0}, deepest[] = {3, 0, 2, 4, 1};
    for (uint32_t wanted = 0; wanted <= 5; wanted++) {
        assert_order(EVICT_LEAST_RECENT, least_recent, wanted);
        assert_order(EVICT_DEEPEST, deepest, wanted);
    }
}

/* Over random trees whose parents are used no earlier than their children: whatever the number
 * taken, no page goes before its children. */
TEST(children_go_before_their_parents) {
    enum { PAGES = 60 };
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct evict_candidate pages[PAGES], sorted[PAGES];
        uint32_t parent[PAGES], place[PAGES];
        for (uint32_t i = 0; i < PAGES; i++) {
            parent[i] = i < 5 ? i : (uint32_t)(random_uniform(seed, 0, i) * i);
            pages[i] = (struct evict_candidate){i, i < 5 ? 0 : pages[parent[i]].depth + 1, 0};
        }
        for (uint32_t i = PAGES; i-- > 0;) {
            uint64_t use = (uint64_t)(random_uniform(seed, 1, i) * 20);
            if (pages[i].last_use < use) pages[i].last_use = use;
            if (pages[parent[i]].last_use < pages[i].last_use)
                pages[parent[i]].last_use = pages[i].last_use;
        }
        for (int rule = 0; rule < EVICT_RULE_COUNT; rule++) {
            memcpy(sorted, pages, sizeof sorted);
            evict_pages_choose(rule, sorted, PAGES, PAGES);
            for (uint32_t i = 0; i < PAGES; i++)
                place[sorted[i].page] = i;
            for (uint32_t i = 5; i < PAGES; i++)
                assert_true(place[i] > place[parent[i]]); /* the end is taken first */
        }
    }
}

/* However few are wanted: the same ones, in the same order. */
TEST(the_first_are_those_of_all) {
    enum { PAGES = 40 };
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct evict_candidate pages[PAGES], all[PAGES], few[PAGES];
        for (uint32_t i = 0; i < PAGES; i++)
            pages[i] = (struct evict_candidate){i, (uint32_t)(random_uniform(seed, 0, i) * 4),
                                                (uint64_t)(random_uniform(seed, 1, i) * 4)};
        for (int rule = 0; rule < EVICT_RULE_COUNT; rule++) {
            memcpy(all, pages, sizeof all);
            evict_pages_choose(rule, all, PAGES, PAGES);
            for (uint32_t wanted = 0; wanted < PAGES; wanted++) {
                memcpy(few, pages, sizeof few);
                evict_pages_choose(rule, few, PAGES, wanted);
                assert_memory_equal(few + PAGES - wanted, all + PAGES - wanted,
                                    wanted * sizeof *few);
            }
        }
    }
}
