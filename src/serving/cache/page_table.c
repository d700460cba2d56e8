/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/page_table.h"

#include "base/check.h"

size_t page_table_bytes(uint32_t page_count) {
    return (size_t)page_count * (sizeof(struct page) + sizeof(struct page_id)) + 32;
}

enum status page_table_open(struct page_table *table, struct arena *arena, uint32_t page_count) {
    struct page *pages = arena_take(arena, page_count * sizeof *pages);
    struct page_id *free_pages = arena_take(arena, page_count * sizeof *free_pages);
    if (!pages || !free_pages) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < page_count; i++) {
        pages[i] = (struct page){0};
        free_pages[i].index = page_count - 1 - i; /* so that page 0 goes first */
    }
    *table = (struct page_table){.page_count = page_count,
                                 .free_count = page_count,
                                 .pages = pages,
                                 .free_pages = free_pages};
    return STATUS_OK;
}

static void check_ledger(const struct page_table *table) {
    check(table->free_count + table->held_count + table->cached_count == table->page_count);
    check(table->leases >= table->held_count);
}

static struct page *page_at(struct page_table *table, struct page_id page) {
    check(page.index < table->page_count);
    return &table->pages[page.index];
}

bool page_table_claim(struct page_table *table, uint32_t count, struct page_id *pages_out) {
    if (count > table->free_count) return false;
    for (uint32_t i = 0; i < count; i++) {
        pages_out[i] = table->free_pages[--table->free_count];
        struct page *page = page_at(table, pages_out[i]);
        check(page->leases == 0 && !page->kept);
        page->leases = 1;
    }
    table->held_count += count;
    table->leases += count;
    check_ledger(table);
    return true;
}

void page_table_lease(struct page_table *table, struct page_id id) {
    struct page *page = page_at(table, id);
    check(page->leases > 0 || page->kept);
    if (page->leases++ == 0) {
        table->cached_count--;
        table->held_count++;
    }
    table->leases++;
    check_ledger(table);
}

static void set_free(struct page_table *table, struct page_id id) {
    table->free_pages[table->free_count++] = id;
}

void page_table_release(struct page_table *table, const struct page_id *pages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct page *page = page_at(table, pages[i]);
        check(page->leases > 0);
        table->leases--;
        if (--page->leases > 0) continue;
        table->held_count--;
        if (page->kept)
            table->cached_count++;
        else
            set_free(table, pages[i]);
    }
    check_ledger(table);
}

void page_table_keep(struct page_table *table, struct page_id id) {
    struct page *page = page_at(table, id);
    check(page->leases > 0 && !page->kept);
    page->kept = true;
}

void page_table_drop(struct page_table *table, struct page_id id) {
    struct page *page = page_at(table, id);
    check(page->leases == 0 && page->kept);
    page->kept = false;
    table->cached_count--;
    set_free(table, id);
    check_ledger(table);
}

void page_table_audit(const struct page_table *table) {
    uint32_t held = 0, cached = 0;
    uint64_t leases = 0;
    for (uint32_t i = 0; i < table->page_count; i++) {
        const struct page *page = &table->pages[i];
        held += page->leases > 0;
        cached += page->kept && page->leases == 0;
        leases += page->leases;
    }
    check(held == table->held_count && cached == table->cached_count && leases == table->leases);
    for (uint32_t i = 0; i < table->free_count; i++) {
        check(table->free_pages[i].index < table->page_count);
        const struct page *page = &table->pages[table->free_pages[i].index];
        check(page->leases == 0 && !page->kept);
    }
    check_ledger(table);
}
