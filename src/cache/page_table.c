/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/page_table.h"

#include "base/check.h"

size_t page_table_bytes(uint32_t page_count) {
    return (size_t)page_count * (sizeof(struct page) + sizeof(struct page_id)) + 32;
}

enum status page_table_open(struct page_table *table, struct arena *arena, uint32_t page_count) {
    struct page *pages = arena_take(arena, page_count * sizeof *pages);
    struct page_id *free_pages = arena_take(arena, page_count * sizeof *free_pages);
    if (!pages || !free_pages) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < page_count; i++) {
        pages[i] = (struct page){.owner = PAGE_OWNER_NONE};
        free_pages[i].index = page_count - 1 - i; /* so that page 0 goes first */
    }
    *table = (struct page_table){.page_count = page_count,
                                 .free_count = page_count,
                                 .pages = pages,
                                 .free_pages = free_pages};
    return STATUS_OK;
}

static void check_ledger(const struct page_table *table) {
    check(table->free_count + table->held_count == table->page_count);
    check(table->leases >= table->held_count);
}

static struct page *held_page(struct page_table *table, uint32_t owner, struct page_id page) {
    check(page.index < table->page_count);
    struct page *held = &table->pages[page.index];
    check(held->owner == owner && held->leases > 0);
    return held;
}

bool page_table_claim(struct page_table *table, uint32_t owner, uint32_t count,
                      struct page_id *pages_out) {
    check(owner != PAGE_OWNER_NONE);
    if (count > table->free_count) return false;
    for (uint32_t i = 0; i < count; i++) {
        struct page_id id = table->free_pages[--table->free_count];
        struct page *page = &table->pages[id.index];
        check(page->owner == PAGE_OWNER_NONE && page->leases == 0);
        *page = (struct page){.owner = owner, .leases = 1};
        pages_out[i] = id;
    }
    table->held_count += count;
    table->leases += count;
    check_ledger(table);
    return true;
}

void page_table_lease(struct page_table *table, uint32_t owner, const struct page_id *pages,
                      uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        held_page(table, owner, pages[i])->leases++;
    table->leases += count;
    check_ledger(table);
}

void page_table_release(struct page_table *table, uint32_t owner, const struct page_id *pages,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct page *page = held_page(table, owner, pages[i]);
        table->leases--;
        if (--page->leases > 0) continue;
        page->owner = PAGE_OWNER_NONE;
        table->free_pages[table->free_count++] = pages[i];
        table->held_count--;
    }
    check_ledger(table);
}

void page_table_audit(const struct page_table *table) {
    uint32_t held = 0;
    uint64_t leases = 0;
    for (uint32_t i = 0; i < table->page_count; i++) {
        const struct page *page = &table->pages[i];
        check((page->owner == PAGE_OWNER_NONE) == (page->leases == 0));
        held += page->leases > 0;
        leases += page->leases;
    }
    check(held == table->held_count && leases == table->leases);
    for (uint32_t i = 0; i < table->free_count; i++) {
        check(table->free_pages[i].index < table->page_count);
        check(table->pages[table->free_pages[i].index].owner == PAGE_OWNER_NONE);
    }
    check_ledger(table);
}
