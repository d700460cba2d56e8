/* SPDX-License-Identifier: Apache-2.0
 * Where a page has the entries of V4's layers and their index keys. A layer that makes entries of
 * ratio r has max(1, 64 / r) rows in each page; entry j is in the page of its last token, which is
 * the first one that may read it. For everything outside the compute plane a page is one opaque
 * slice (compressed_rows_format).
 */
#pragma once

#include "base/limits.h"
#include "compute/model/activations.h"
#include "compute/model/kv_pages.h"
#include "compute/weights/shape.h"
#include "contract/kv_block.h"

enum compressed_kind { COMPRESSED_ENTRY, COMPRESSED_KEY, COMPRESSED_KINDS };

struct compressed_rows {
    uint32_t offset[LIMIT_LAYERS][COMPRESSED_KINDS]; /* in a slice, bytes */
    uint32_t width[COMPRESSED_KINDS];
    size_t element_bytes, bytes; /* of a slice */
};

struct compressed_rows compressed_rows_place(const struct shape *shape, enum kv_element element);
/* The format of a page, as the serving plane sees it. */
struct kv_format compressed_rows_format(const struct shape *shape, enum kv_element element);

/* Rows that a layer of ratio r has in a page. */
static inline uint32_t compressed_rows_each(uint32_t ratio) {
    return ratio < KV_BLOCK_TOKENS ? KV_BLOCK_TOKENS / ratio : 1;
}
/* The index among a sequence's pages of the one that has entry j. */
static inline uint32_t compressed_rows_page(uint32_t ratio, uint32_t entry) {
    return (entry * ratio + ratio - 1) / KV_BLOCK_TOKENS;
}
/* Bytes from the start of the slice to entry j of the layer. */
static inline size_t compressed_rows_at(const struct compressed_rows *rows, uint32_t layer,
                                        enum compressed_kind kind, uint32_t ratio, uint32_t entry) {
    return rows->offset[layer][kind] +
           entry % compressed_rows_each(ratio) * rows->width[kind] * rows->element_bytes;
}

/* A row's values, in the pages' element or in a ring's, which is the same. */
static inline void compressed_rows_write(const struct kv_pages *pages,
                                         const struct kernels *kernels, uint32_t width, void *row,
                                         const float *values) {
    if (pages->element == KV_ELEMENT_F32)
        memcpy(row, values, width * sizeof *values);
    else
        kernels->bf16_from_float(row, values, width);
}
static inline void compressed_rows_read(const struct kv_pages *pages, const struct kernels *kernels,
                                        uint32_t width, const void *row, float *values_out) {
    if (pages->element == KV_ELEMENT_F32)
        memcpy(values_out, row, width * sizeof *values_out);
    else
        kernels->float_from_bf16(values_out, row, width);
}
