/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/page_table.h"

#include "base/random.h"
#include "test_case.h"

static char memory[1 << 16];

static void open_table(struct page_table *table, uint32_t page_count) {
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(page_table_open(table, &arena, page_count, NULL), STATUS_OK);
}

/* A claim that cannot be met in full must take nothing: half a claim would never be returned. */
TEST(claims_are_all_or_nothing) {
    struct page_table table;
    struct page_id pages[8];
    open_table(&table, 8);
    assert_true(page_table_claim(&table, 5, pages));
    assert_int_equal(pages[0].index, 0);
    assert_int_equal(pages[4].index, 4);
    assert_false(page_table_claim(&table, 4, pages + 5));
    assert_int_equal(table.free_count, 3);
    assert_true(page_table_claim(&table, 3, pages + 5));
    assert_int_equal(table.held_count, 8);
    assert_true(page_table_claim(&table, 0, pages));
    page_table_audit(&table);
}

/* A page with two leases survives the end of the first. */
TEST(the_last_lease_frees) {
    struct page_table table;
    struct page_id pages[2];
    open_table(&table, 2);
    assert_true(page_table_claim(&table, 2, pages));
    page_table_lease(&table, pages[0]);
    page_table_release(&table, pages, 2);
    assert_int_equal(table.free_count, 1);
    assert_int_equal(table.leases, 1);
    page_table_audit(&table);
    page_table_release(&table, pages, 1);
    assert_int_equal(table.free_count, 2);
    assert_int_equal(table.leases, 0);
    page_table_audit(&table);
}

/* A kept page outlives its leases, can be leased again, and is free once dropped. */
TEST(kept_pages_are_cached) {
    struct page_table table;
    struct page_id pages[2];
    open_table(&table, 3);
    assert_true(page_table_claim(&table, 2, pages));
    page_table_keep(&table, pages[0]);
    page_table_release(&table, pages, 2);
    assert_int_equal(table.free_count, 2);
    assert_int_equal(table.cached_count, 1);
    page_table_audit(&table);
    page_table_lease(&table, pages[0]);
    assert_int_equal(table.cached_count, 0);
    assert_int_equal(table.held_count, 1);
    page_table_audit(&table);
    page_table_release(&table, pages, 1);
    page_table_drop(&table, pages[0]);
    assert_int_equal(table.free_count, 3);
    page_table_audit(&table);
}

struct owner {
    struct page_id pages[40];
    uint32_t count, leases;
};

/* One act of an owner: claims, leases once more, keeps a page, or releases. */
static void act(struct page_table *table, struct owner *owner, uint32_t what, uint32_t wanted) {
    if (owner->leases == 0) {
        if (!page_table_claim(table, wanted, owner->pages)) return;
        owner->count = wanted;
        owner->leases = 1;
    } else if (what < 3) {
        for (uint32_t i = 0; i < owner->count; i++)
            page_table_lease(table, owner->pages[i]);
        owner->leases++;
    } else if (what < 6 && owner->count > 0 && !table->pages[owner->pages[0].index].kept) {
        page_table_keep(table, owner->pages[0]);
    } else {
        page_table_release(table, owner->pages, owner->count);
        owner->leases--;
    }
}

static void drop_cached(struct page_table *table) {
    for (uint32_t i = 0; i < table->page_count; i++)
        if (table->pages[i].kept && table->pages[i].leases == 0)
            page_table_drop(table, (struct page_id){i});
}

/* The ledger balances after any order of acts; every page comes back. */
TEST(the_ledger_balances_over_random_lives) {
    enum { PAGES = 40, OWNERS = 10 };
    struct page_table table;
    struct owner owners[OWNERS] = {0};
    uint32_t cached_most = 0;
    open_table(&table, PAGES);
    for (uint32_t turn = 0; turn < 5000; turn++) {
        uint32_t who = (uint32_t)(random_uniform(1, 0, turn) * OWNERS);
        act(&table, &owners[who], (uint32_t)(random_uniform(1, 2, turn) * 12),
            (uint32_t)(random_uniform(1, 1, turn) * 12));
        page_table_audit(&table);
        if (table.cached_count > cached_most) cached_most = table.cached_count;
        if (turn % 50 == 0) drop_cached(&table);
    }
    for (uint32_t who = 0; who < OWNERS; who++)
        for (; owners[who].leases; owners[who].leases--)
            page_table_release(&table, owners[who].pages, owners[who].count);
    drop_cached(&table);
    assert_true(cached_most > 2);
    assert_int_equal(table.free_count, PAGES);
    assert_int_equal(table.leases, 0);
    page_table_audit(&table);
}

TEST(memory_that_is_too_small_is_said) {
    struct page_table table;
    struct arena arena;
    arena_over(&arena, memory, 64);
    assert_int_equal(page_table_open(&table, &arena, 1000, NULL), STATUS_NO_MEMORY);
}

/* Pages make room in the order of their last use: who looks for them all each time one is wanted
 * would take longer the fuller the memory is. */
TEST(cached_pages_stand_as_they_were_used) {
    static struct prefix_node nodes[64];
    struct prefix_tree tree = {.nodes = nodes};
    struct page_table table;
    struct page_id pages[64];
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(page_table_open(&table, &arena, 64, &tree), STATUS_OK);
    assert_true(page_table_claim(&table, 64, pages));
    for (uint32_t i = 0; i < 64; i++)
        page_table_keep(&table, pages[i]);
    for (uint32_t round = 0; round < 2000; round++) { /* a sequence, some of its pages later */
        uint32_t first = (uint32_t)(random_uniform(7, 0, round) * 48),
                 count = 1 + (uint32_t)(random_uniform(7, 1, round) * 16);
        uint32_t late = (uint32_t)(random_uniform(7, 2, round) * count);
        for (uint32_t i = first; i < first + count; i++)
            if (table.pages[i].leases == 0) page_table_lease(&table, pages[i]);
        for (uint32_t i = first; i < first + count; i++)
            nodes[i] = (struct prefix_node){.depth = i - first, .last_use = round};
        for (uint32_t i = first; i < first + late; i++)
            page_table_release(&table, &pages[i], 1);
        if (round % 3) page_table_release(&table, &pages[first + late], count - late);
        page_table_audit(&table);
    }
    for (uint32_t i = 0; i < 64; i++)
        if (table.pages[i].leases) page_table_release(&table, &pages[i], 1);
    assert_int_equal(table.cached_count, 64);
    page_table_audit(&table);
}
