/* SPDX-License-Identifier: Apache-2.0
 * The KV pages of one rank: a run of KV blocks (contract/kv_block.h) in one anonymous mapping,
 * taken at start-up. Knows addresses and formats; who owns a page is the unit's business.
 */
#ifndef COMPUTE_MODEL_KV_PAGES_H
#define COMPUTE_MODEL_KV_PAGES_H

#include "compute/kernels/kernels.h"
#include "contract/kv_block.h"

struct kv_pages {
    char *memory;
    size_t mapped_bytes;
    uint32_t page_count;
    size_t page_bytes;
    size_t slice_bytes;
    size_t row_bytes;
    uint32_t width, slice_count, mtp_count;
    enum kv_element element;
};

/* `mtp_count` of the slices belong to MTP layers. Takes as many whole pages as `bytes` hold; at
 * least one, or STATUS_TOO_LARGE. */
enum status kv_pages_open(struct kv_pages *pages, enum kv_element element, uint32_t width,
                          uint32_t slice_count, uint32_t mtp_count, uint64_t bytes,
                          struct error *error);
void kv_pages_close(struct kv_pages *pages);

/* First row of a page's slice. */
static inline void *kv_pages_slice(const struct kv_pages *pages, uint32_t page, uint32_t slice) {
    return pages->memory + (size_t)page * pages->page_bytes + KV_BLOCK_HEADER_BYTES +
           (size_t)slice * pages->slice_bytes;
}

static inline struct kv_block_header *kv_pages_header(const struct kv_pages *pages, uint32_t page) {
    return (struct kv_block_header *)(void *)(pages->memory + (size_t)page * pages->page_bytes);
}

/* Rows 0..token_count-1 of the page are valid from now on; writes the header. */
void kv_pages_note(struct kv_pages *pages, uint32_t page, uint32_t token_count);

/* Stores a row: the first `count` floats of `row` at column `column`. */
void kv_pages_write(const struct kv_pages *pages, const struct kernels *kernels, void *slice,
                    uint32_t row, uint32_t column, const float *values, uint32_t count);

#endif
