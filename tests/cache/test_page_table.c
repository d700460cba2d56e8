/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/page_table.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/random.h"

static char memory[1 << 16];

static void open_table(struct page_table *table, uint32_t page_count) {
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(page_table_open(table, &arena, page_count), STATUS_OK);
}

/* A claim that cannot be met in full must take nothing: half a claim would never be returned. */
static void claims_are_all_or_nothing(void **state) {
    (void)state;
    struct page_table table;
    struct page_id pages[8];
    open_table(&table, 8);
    assert_true(page_table_claim(&table, 1, 5, pages));
    assert_int_equal(pages[0].index, 0);
    assert_int_equal(pages[4].index, 4);
    assert_false(page_table_claim(&table, 2, 4, pages + 5));
    assert_int_equal(table.free_count, 3);
    assert_true(page_table_claim(&table, 2, 3, pages + 5));
    assert_int_equal(table.held_count, 8);
    assert_true(page_table_claim(&table, 3, 0, pages));
    page_table_audit(&table);
}

/* A page with two leases survives the end of the first. */
static void the_last_lease_frees(void **state) {
    (void)state;
    struct page_table table;
    struct page_id pages[2];
    open_table(&table, 2);
    assert_true(page_table_claim(&table, 7, 2, pages));
    page_table_lease(&table, 7, pages, 1);
    page_table_release(&table, 7, pages, 2);
    assert_int_equal(table.free_count, 1);
    assert_int_equal(table.leases, 1);
    page_table_audit(&table);
    page_table_release(&table, 7, pages, 1);
    assert_int_equal(table.free_count, 2);
    assert_int_equal(table.leases, 0);
    page_table_audit(&table);
}

/* The ledger balances after any order of claims, leases and releases; every page comes back. */
static void the_ledger_balances_over_random_lives(void **state) {
    (void)state;
    enum { PAGES = 40, OWNERS = 10 };
    struct page_table table;
    struct {
        struct page_id pages[PAGES];
        uint32_t count, leases;
    } owners[OWNERS] = {0};
    open_table(&table, PAGES);
    for (uint32_t turn = 0; turn < 5000; turn++) {
        uint32_t who = (uint32_t)(random_uniform(1, 0, turn) * OWNERS);
        uint32_t wanted = (uint32_t)(random_uniform(1, 1, turn) * 12);
        if (owners[who].leases == 0) {
            if (page_table_claim(&table, who, wanted, owners[who].pages)) {
                owners[who].count = wanted;
                owners[who].leases = 1;
            }
        } else if (wanted < 4) {
            page_table_lease(&table, who, owners[who].pages, owners[who].count);
            owners[who].leases++;
        } else {
            page_table_release(&table, who, owners[who].pages, owners[who].count);
            owners[who].leases--;
        }
        page_table_audit(&table);
    }
    for (uint32_t who = 0; who < OWNERS; who++)
        for (; owners[who].leases; owners[who].leases--)
            page_table_release(&table, who, owners[who].pages, owners[who].count);
    assert_int_equal(table.free_count, PAGES);
    assert_int_equal(table.leases, 0);
    page_table_audit(&table);
}

static void memory_that_is_too_small_is_said(void **state) {
    (void)state;
    struct page_table table;
    struct arena arena;
    arena_over(&arena, memory, 64);
    assert_int_equal(page_table_open(&table, &arena, 1000), STATUS_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_are_all_or_nothing),
        cmocka_unit_test(the_last_lease_frees),
        cmocka_unit_test(the_ledger_balances_over_random_lives),
        cmocka_unit_test(memory_that_is_too_small_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
