/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/page_table.h"

#include "base/check.h"

size_t page_table_bytes(uint32_t page_count) {
    return (size_t)page_count * (sizeof(struct page) + sizeof(struct page_id)) + 32;
}

enum status page_table_open(struct page_table *table, struct arena *arena, uint32_t page_count,
                            const struct prefix_tree *tree) {
    struct page *pages = arena_take(arena, page_count * sizeof *pages);
    struct page_id *free_pages = arena_take(arena, page_count * sizeof *free_pages);
    if (!pages || !free_pages) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < page_count; i++) {
        pages[i] = (struct page){0};
        free_pages[i].index = page_count - 1 - i; /* so that page 0 is claimed first */
    }
    *table = (struct page_table){.page_count = page_count,
                                 .free_count = page_count,
                                 .first_cached = PAGE_NONE,
                                 .last_cached = PAGE_NONE,
                                 .tree = tree,
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

/* ---- cached pages, in order ---- */

/* The link to this page: a field of its neighbour, or the end of the list. */
static uint32_t *link_behind(struct page_table *table, uint32_t index) {
    return index == PAGE_NONE ? &table->first_cached : &table->pages[index].behind;
}

static uint32_t *link_before(struct page_table *table, uint32_t index) {
    return index == PAGE_NONE ? &table->last_cached : &table->pages[index].before;
}

static bool goes_first(const struct page_table *table, uint32_t a, uint32_t b) {
    if (!table->tree) return false;
    const struct prefix_node *first = &table->tree->nodes[a], *second = &table->tree->nodes[b];
    if (first->last_use != second->last_use) return first->last_use < second->last_use;
    return first->depth > second->depth;
}

/* Inserts a cached page before the page `behind`; PAGE_NONE: at the end. */
static void put_cached(struct page_table *table, uint32_t index, uint32_t behind) {
    uint32_t before = *link_before(table, behind);
    while (before != PAGE_NONE && goes_first(table, index, before)) {
        behind = before;
        before = *link_before(table, behind);
    }
    table->pages[index].before = before;
    table->pages[index].behind = behind;
    *link_behind(table, before) = *link_before(table, behind) = index;
    table->cached_count++;
}

static void take_cached(struct page_table *table, uint32_t index) {
    const struct page *page = &table->pages[index];
    *link_behind(table, page->before) = page->behind;
    *link_before(table, page->behind) = page->before;
    table->cached_count--;
}

/* ---- leases ---- */

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
        take_cached(table, id.index);
        table->held_count++;
    }
    table->leases++;
    check_ledger(table);
}

static void set_free(struct page_table *table, struct page_id id) {
    table->free_pages[table->free_count++] = id;
}

void page_table_release(struct page_table *table, const struct page_id *pages, uint32_t count) {
    uint32_t behind = PAGE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        struct page *page = page_at(table, pages[i]);
        check(page->leases > 0);
        table->leases--;
        if (--page->leases > 0) continue;
        table->held_count--;
        if (page->kept) {
            if (behind != PAGE_NONE && !goes_first(table, pages[i].index, behind))
                behind = PAGE_NONE;
            put_cached(table, pages[i].index, behind);
            behind = pages[i].index;
        } else {
            set_free(table, pages[i]);
        }
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
    take_cached(table, id.index);
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
    uint32_t before = PAGE_NONE, listed = 0;
    for (uint32_t i = table->first_cached; i != PAGE_NONE; i = table->pages[i].behind, listed++) {
        check(table->pages[i].kept && table->pages[i].leases == 0);
        check(table->pages[i].before == before && listed < cached);
        check(before == PAGE_NONE || !goes_first(table, i, before));
        before = i;
    }
    check(table->last_cached == before && listed == cached);
    for (uint32_t i = 0; i < table->free_count; i++) {
        check(table->free_pages[i].index < table->page_count);
        const struct page *page = &table->pages[table->free_pages[i].index];
        check(page->leases == 0 && !page->kept);
    }
    check_ledger(table);
}
