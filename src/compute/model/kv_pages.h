/* SPDX-License-Identifier: Apache-2.0
 * The KV pages of one rank: an array of KV blocks (contract/kv_block.h) in one anonymous mapping,
 * allocated at start-up. It has addresses and formats; the unit decides which request owns a page.
 *
 * With a device, steps read and write pages in device memory, with the same layout. The host
 * mapping then holds blocks that are being transferred or stored. kv_pages_take and kv_pages_give
 * copy them through a page-locked buffer, on any thread. Without a device these two functions do
 * nothing.
 */
#pragma once

#include "compute/device/device.h"
#include "compute/kernels/kernels.h"
#include "compute/model/activations.h"
#include "compute/weights/shape.h"
#include "contract/kv_block.h"

/* Indices of the groups: MLA's rows, and the keys of an indexer. */
#define KV_GROUP_MLA 0
#define KV_GROUP_INDEX 1

struct kv_pages {
    char *memory;
    size_t mapped_bytes;
    uint32_t page_count;
    struct kv_format format;
    size_t page_bytes, slice_bytes; /* given by the format */
    size_t row_bytes;               /* these three are of MLA's rows */
    uint32_t width;
    enum kv_element element;
    char *on_device; /* [page_count][page_bytes]; NULL: the CPU computes */
    struct kv_staging *staging;
};

/* The KV format of a model: a group with MLA's latent and rotated key and, if layers have an
 * indexer, a group with its keys. They are E4M3 if the checkpoint is FP8, except in f32 mode, which
 * rounds nothing. `mtp_count` of the slices belong to MTP layers. */
struct kv_format kv_pages_format(const struct shape *shape, enum activations activations,
                                 uint32_t slice_count, uint32_t mtp_count);

/* Allocates as many whole pages as fit into `bytes`. STATUS_TOO_LARGE: not even one fits. */
enum status kv_pages_open(struct kv_pages *pages, const struct kv_format *format, uint64_t bytes,
                          struct error *error);
void kv_pages_close(struct kv_pages *pages);

/* Allocates the pages on a device, too. The device must outlive them. */
enum status kv_pages_put_on(struct kv_pages *pages, struct device *device, struct error *error);

/* Copies a page's slices [first, first + count) from the device to the mapping (take) or back
 * (give). No step may write to them meanwhile. */
void kv_pages_take(const struct kv_pages *pages, uint32_t page, uint32_t first, uint32_t count);
void kv_pages_give(const struct kv_pages *pages, uint32_t page, uint32_t first, uint32_t count);

/* First row of a page's slice. */
static inline void *kv_pages_slice(const struct kv_pages *pages, uint32_t page, uint32_t slice) {
    return pages->memory + (size_t)page * pages->page_bytes + KV_BLOCK_HEADER_BYTES +
           (size_t)slice * pages->slice_bytes;
}

static inline struct kv_block_header *kv_pages_header(const struct kv_pages *pages, uint32_t page) {
    return (struct kv_block_header *)(void *)(pages->memory + (size_t)page * pages->page_bytes);
}

/* The row of a group that has token `token` of the page. */
static inline void *kv_pages_row(const struct kv_pages *pages, uint32_t page, uint32_t slice,
                                 uint32_t group, uint32_t token) {
    return (char *)kv_pages_slice(pages, page, slice) +
           kv_format_group_offset(&pages->format, group) +
           kv_group_rows_bytes(&pages->format.groups[group], token);
}

/* The element type of an indexer's keys. */
static inline enum kv_element kv_pages_index_element(const struct kv_pages *pages) {
    return (enum kv_element)pages->format.groups[KV_GROUP_INDEX].element;
}

/* Writes the page's header: rows 0..token_count-1 are valid from now on. */
void kv_pages_note(struct kv_pages *pages, uint32_t page, uint32_t token_count);

/* Stores the values of a whole row of a group at `row`. */
void kv_pages_write(const struct kv_pages *pages, const struct kernels *kernels, uint32_t group,
                    void *row, const float *values);

/* The values of a whole row of a group. */
void kv_pages_read(const struct kv_pages *pages, const struct kernels *kernels, uint32_t group,
                   const void *row, float *values_out);

/* Zeroes a token's rows in a slice, in all groups. */
void kv_pages_clear_row(const struct kv_pages *pages, uint32_t page, uint32_t slice,
                        uint32_t token);
