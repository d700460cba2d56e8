/* SPDX-License-Identifier: Apache-2.0
 * The KV pages of one rank: which are free, which are held, by whom and how often. A page has one
 * owner (a unit's slot) and a lease count; it is free again when its last lease ends. The ledger
 *     free + held = total
 * holds after every call, and the leases given equal the leases returned once nobody holds a page.
 *
 * It hands out numbers only; the bytes of a page belong to the engine.
 */
#ifndef CACHE_PAGE_TABLE_H
#define CACHE_PAGE_TABLE_H

#include "base/arena.h"
#include "contract/ids.h"

#define PAGE_OWNER_NONE UINT32_MAX

struct page_table {
    uint32_t page_count;
    uint32_t free_count;
    uint32_t held_count;
    uint64_t leases; /* outstanding, over all pages */
    struct page {
        uint32_t owner; /* PAGE_OWNER_NONE: free */
        uint32_t leases;
    } * pages;
    struct page_id *free_pages; /* [free_count] a stack; the page freed last is claimed first */
};

/* Arena bytes that suffice for page_table_open. */
size_t page_table_bytes(uint32_t page_count);

enum status page_table_open(struct page_table *table, struct arena *arena,
                            uint32_t page_count) MUST_USE;

/* Gives `owner` one lease on each of `count` free pages, named in pages_out: all or, when fewer are
 * free, none (false). */
bool page_table_claim(struct page_table *table, uint32_t owner, uint32_t count,
                      struct page_id *pages_out);

/* One more lease on pages that `owner` holds. */
void page_table_lease(struct page_table *table, uint32_t owner, const struct page_id *pages,
                      uint32_t count);

/* Ends one lease of each page; those without a lease left are free. */
void page_table_release(struct page_table *table, uint32_t owner, const struct page_id *pages,
                        uint32_t count);

/* Recounts the whole table and check()s the ledger. Slow: for tests, simulation and audits. */
void page_table_audit(const struct page_table *table);

#endif
