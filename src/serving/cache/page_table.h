/* SPDX-License-Identifier: Apache-2.0
 * The allocator of the KV pages of one rank. A page is free, held (leased by requests that read or
 * write it), or cached (kept only by the prefix cache). The unit owns all pages. The equation
 *     free + held + cached = total
 * holds after every call, and no lease is outstanding when no request runs.
 *
 * The table manages page numbers only. The engine owns the memory of the pages.
 */
#pragma once

#include "base/arena.h"
#include "contract/ids.h"
#include "serving/cache/prefix_tree.h"

#define PAGE_NONE UINT32_MAX

struct page_table {
    uint32_t page_count;
    uint32_t free_count;
    uint32_t held_count;   /* leased, cached or not */
    uint32_t cached_count; /* in the cache and not leased */
    uint64_t leases;       /* leases that have not ended, over all pages */
    /* List of cached pages by last use, deepest first on a tie, so that every page precedes its
     * parent. Without a tree, the order is that in which their leases ended. PAGE_NONE: none. */
    uint32_t first_cached, last_cached;
    const struct prefix_tree *tree; /* orders the cached pages; NULL: none */
    struct page {
        uint32_t leases;
        uint32_t before, behind; /* neighbours of a cached page in that list */
        /* the prefix cache keeps the page: it is not freed with its last lease */
        bool kept;
    } * pages;
    /* [free_count] a stack: the page that was freed last is claimed first */
    struct page_id *free_pages;
};

/* Arena bytes that page_table_open needs. */
size_t page_table_bytes(uint32_t page_count);

/* `tree` need not be open yet. NULL: no tree orders the cached pages. */
enum status page_table_open(struct page_table *table, struct arena *arena, uint32_t page_count,
                            const struct prefix_tree *tree) MUST_USE;

/* Allocates `count` free pages with one lease each, and writes them to pages_out. If fewer are
 * free, allocates none and returns false. */
bool page_table_claim(struct page_table *table, uint32_t count, struct page_id *pages_out);

/* Adds a lease on a page that is held or cached. */
void page_table_lease(struct page_table *table, struct page_id id);

/* Ends one lease of each page. A page without a lease left becomes cached if it is kept, otherwise
 * free. Fast for pages in sequence order that were used just now. */
void page_table_release(struct page_table *table, const struct page_id *pages, uint32_t count);

/* Marks a held page as kept by the prefix cache. */
void page_table_keep(struct page_table *table, struct page_id id);

/* Frees a cached page. */
void page_table_drop(struct page_table *table, struct page_id id);

/* Recounts the whole table and checks the equation. Slow: for tests, simulation and audits. */
void page_table_audit(const struct page_table *table);
