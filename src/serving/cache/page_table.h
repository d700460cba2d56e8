/* SPDX-License-Identifier: Apache-2.0
 * The KV pages of one rank: which are free, which are read or written by running requests (held,
 * with a lease for each), which only the prefix cache keeps (cached). The unit owns them all. The
 * ledger
 *     free + held + cached = total
 * holds after every call, and the leases given equal the leases returned once nobody runs.
 *
 * It hands out numbers only; the bytes of a page belong to the engine.
 */
#ifndef SERVING_CACHE_PAGE_TABLE_H
#define SERVING_CACHE_PAGE_TABLE_H

#include "base/arena.h"
#include "contract/ids.h"
#include "serving/cache/prefix_tree.h"

#define PAGE_NONE UINT32_MAX

struct page_table {
    uint32_t page_count;
    uint32_t free_count;
    uint32_t held_count;   /* leased, kept or not */
    uint32_t cached_count; /* kept and unleased */
    uint64_t leases;       /* outstanding, over all pages */
    /* Cached pages as they were used last, the deepest of one use first: every page before its
     * parent. Without a tree as their leases ended. PAGE_NONE: none. */
    uint32_t first_cached, last_cached;
    const struct prefix_tree *tree; /* that keeps pages; NULL: none */
    struct page {
        uint32_t leases;
        uint32_t before, behind; /* a cached page's neighbours in that order */
        bool kept;               /* by the prefix cache: not free when its last lease ends */
    } * pages;
    struct page_id *free_pages; /* [free_count] a stack; the page freed last is claimed first */
};

/* Arena bytes that suffice for page_table_open. */
size_t page_table_bytes(uint32_t page_count);

/* `tree` may not be open yet; NULL: pages are kept by nobody who uses them again. */
enum status page_table_open(struct page_table *table, struct arena *arena, uint32_t page_count,
                            const struct prefix_tree *tree) MUST_USE;

/* Gives one lease on each of `count` free pages, named in pages_out: all or, when fewer are free,
 * none (false). */
bool page_table_claim(struct page_table *table, uint32_t count, struct page_id *pages_out);

/* One more lease on a page that is held or cached. */
void page_table_lease(struct page_table *table, struct page_id id);

/* Ends one lease of each page; those without a lease left are cached if kept, else free. Quick for
 * pages in the order of their sequence, used just now. */
void page_table_release(struct page_table *table, const struct page_id *pages, uint32_t count);

/* The cache keeps a held page from now on. */
void page_table_keep(struct page_table *table, struct page_id id);

/* The cache lets a cached page go: it is free. */
void page_table_drop(struct page_table *table, struct page_id id);

/* Recounts the whole table and check()s the ledger. Slow: for tests, simulation and audits. */
void page_table_audit(const struct page_table *table);

#endif
