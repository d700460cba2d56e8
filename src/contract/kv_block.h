/* SPDX-License-Identifier: Apache-2.0
 * The KV block: the KV cache of 64 tokens. Pages, host memory, the wire and the disk share one
 * versioned little-endian format, so every transfer is a copy of bytes.
 *
 *   header page   4 KiB: struct kv_block_header
 *   slice 0..n-1  one per layer, layer-major; then the MTP layers' slices. A slice consists of
 *                 groups of rows, each group padded to 4 KiB: [64 / tokens][width] elements
 *
 * struct kv_format lists the groups of a model. Only the functions here compute sizes and offsets
 * from it, and only they translate it to struct kv_shape, its form in files and messages. A model
 * with only MLA has one group with one row per token: the normalized latent, followed by the shared
 * key after RoPE. Sparse attention adds a second group: the indexer's key of each token.
 * A main layer stores position p in row p % 64. An MTP layer computes position i
 * from token i + 1, so it stores the result at position i + 1. A block therefore depends on no
 * later token.
 *
 * The sender or the KV storage sets the checksums (XXH3-64 over kv_format_filled_bytes of a slice).
 * In a live page they are stale, and checksum_valid is 0. Rows from token_count on are undefined
 * and may contain NaNs. No result may depend on them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"

#define KV_BLOCK_MAGIC "FATHOMKV"
#define KV_BLOCK_VERSION 1
#define KV_BLOCK_HEADER_BYTES ((size_t)KV_SLICE_ALIGN)
#define KV_GROUPS_MAX 4
#define KV_WIDTH_MAX (1u << 16)

/* E4M3: codes, one byte each; then a float32 scale for each QUANT_GROUP of them. */
enum kv_element { KV_ELEMENT_BF16, KV_ELEMENT_F32, KV_ELEMENT_E4M3, KV_ELEMENT_COUNT };

struct kv_group {     /* rows of one kind, present in every slice; width 0: none */
    uint32_t element; /* enum kv_element */
    uint32_t width;   /* elements of a row */
    uint32_t tokens;  /* tokens that one row covers; divides KV_BLOCK_TOKENS */
};

struct kv_format {        /* format of all blocks of a model */
    uint32_t slice_count; /* layers, MTP layers included */
    uint32_t mtp_count;   /* the last mtp_count slices belong to MTP layers */
    uint32_t group_count; /* groups of a slice, one after the other */
    struct kv_group groups[KV_GROUPS_MAX];
};

/* Initializer for a model with only MLA. */
#define KV_FORMAT_MLA(element, width, slice_count, mtp_count)                                      \
    {                                                                                              \
        slice_count, mtp_count, 1, {                                                               \
            { element, width, 1 }                                                                  \
        }                                                                                          \
    }

struct kv_block_header {
    char magic[8]; /* KV_BLOCK_MAGIC, no terminator */
    uint32_t version;
    uint16_t element, index_element; /* as in struct kv_shape, like the other sizes */
    uint32_t token_count;            /* valid tokens, 0..64 */
    uint32_t width;
    uint16_t slice_count, index_width;
    uint32_t mtp_count;
    uint64_t slice_bytes; /* stride between slices */
    uint32_t checksum_valid;
    uint32_t reserved;
    uint64_t checksum[LIMIT_LAYERS];
};

_Static_assert(sizeof(struct kv_block_header) <= KV_SLICE_ALIGN, "the header fits its page");

/* ---- sizes and offsets, in bytes ---- */

static inline size_t kv_group_row_bytes(const struct kv_group *group) {
    if (group->element == KV_ELEMENT_E4M3)
        return round_up(group->width, 4) + divide_up(group->width, QUANT_GROUP) * sizeof(float);
    return (size_t)group->width * (group->element == KV_ELEMENT_BF16 ? 2 : 4);
}
/* Bytes of the group's complete rows in a block with token_count tokens, without padding. */
static inline size_t kv_group_rows_bytes(const struct kv_group *group, uint32_t token_count) {
    return token_count / group->tokens * kv_group_row_bytes(group);
}
/* Offset of a group in a slice. With group_count, it is the size of a slice. */
static inline size_t kv_format_group_offset(const struct kv_format *format, uint32_t group) {
    size_t offset = 0;
    for (const struct kv_group *at = format->groups; at < &format->groups[group]; at++)
        offset += round_up(kv_group_rows_bytes(at, KV_BLOCK_TOKENS), KV_SLICE_ALIGN);
    return offset;
}
static inline size_t kv_format_slice_bytes(const struct kv_format *format) {
    return kv_format_group_offset(format, format->group_count);
}
/* Bytes from the start of a slice to the end of the last row for token_count tokens. Checksums
 * cover this range, and transfers send it. */
static inline size_t kv_format_filled_bytes(const struct kv_format *format, uint32_t token_count) {
    uint32_t last = format->group_count - 1;
    return kv_format_group_offset(format, last) +
           kv_group_rows_bytes(&format->groups[last], token_count);
}
/* Offset of a slice in a block. With slice_count, it is the size of a block. */
static inline size_t kv_format_slice_offset(const struct kv_format *format, uint32_t slice) {
    return KV_BLOCK_HEADER_BYTES + slice * kv_format_slice_bytes(format);
}
static inline size_t kv_format_block_bytes(const struct kv_format *format) {
    return kv_format_slice_offset(format, format->slice_count);
}
/* Bytes of one token's rows in all slices, without headers and padding. */
static inline size_t kv_format_token_bytes(const struct kv_format *format) {
    size_t rows = 0;
    for (uint32_t i = 0; i < format->group_count; i++)
        rows += kv_group_rows_bytes(&format->groups[i], KV_BLOCK_TOKENS);
    return format->slice_count * rows / KV_BLOCK_TOKENS;
}

/* The number of rows in block `block` of a sequence that has token_count tokens. */
static inline uint32_t kv_block_rows(uint32_t token_count, uint32_t block) {
    uint64_t first = (uint64_t)block * KV_BLOCK_TOKENS;
    if (token_count <= first) return 0;
    return token_count - first < KV_BLOCK_TOKENS ? token_count - (uint32_t)first : KV_BLOCK_TOKENS;
}

/* ---- version 1 of header, files and wire: one row per token in each group ---- */

struct kv_shape {
    uint16_t element; /* enum kv_element of MLA's rows */
    uint16_t index_element;
    uint32_t width;
    uint16_t slice_count;
    uint16_t index_width; /* of the indexer's keys; 0: none */
    uint32_t mtp_count;
};

#define KV_SHAPE_NAME_BYTES 64

static inline struct kv_shape kv_shape_of(const struct kv_format *format) {
    const struct kv_group *mla = &format->groups[0], *index = &format->groups[1];
    return (struct kv_shape){.element = (uint16_t)mla->element,
                             .index_element = (uint16_t)index->element,
                             .width = mla->width,
                             .slice_count = (uint16_t)format->slice_count,
                             .index_width = (uint16_t)index->width,
                             .mtp_count = format->mtp_count};
}

/* The result is invalid if the shape is. */
static inline struct kv_format kv_format_of(const struct kv_shape *shape) {
    struct kv_format format =
        KV_FORMAT_MLA(shape->element, shape->width, shape->slice_count, shape->mtp_count);
    if (!shape->index_width && !shape->index_element) return format;
    format.group_count = 2;
    format.groups[1] = (struct kv_group){shape->index_element, shape->index_width, 1};
    return format;
}

/* "bf16-576-62-1", and with keys of an indexer "bf16-576-62-1-e4m3-128". Different valid shapes
 * have different names. */
void kv_block_shape_name(const struct kv_shape *shape, char name_out[KV_SHAPE_NAME_BYTES]);

/* Parses the name of a valid shape. Returns false for all other texts. */
bool kv_block_parse_shape_name(const char *name, struct kv_format *format_out);

static inline bool kv_group_is_valid(const struct kv_group *group) {
    return group->tokens == 1 && group->element < KV_ELEMENT_COUNT && group->width > 0 &&
           group->width <= KV_WIDTH_MAX;
}

static inline bool kv_format_is_valid(const struct kv_format *format) {
    return (format->group_count == 1 ||
            (format->group_count == 2 && kv_group_is_valid(&format->groups[1]) &&
             format->groups[1].width <= UINT16_MAX)) &&
           kv_group_is_valid(&format->groups[0]) && format->groups[0].element != KV_ELEMENT_E4M3 &&
           format->slice_count > 0 && format->slice_count <= LIMIT_LAYERS &&
           format->mtp_count <= format->slice_count;
}

/* Sets all fields of the header except the checksums, which it marks as not valid. */
static inline void kv_block_describe(struct kv_block_header *header, const struct kv_format *format,
                                     uint32_t token_count) {
    const struct kv_shape shape = kv_shape_of(format);
    check(kv_format_is_valid(format));
    memcpy(header->magic, KV_BLOCK_MAGIC, sizeof header->magic);
    header->version = KV_BLOCK_VERSION;
    header->element = shape.element;
    header->index_element = shape.index_element;
    header->token_count = token_count;
    header->width = shape.width;
    header->slice_count = shape.slice_count;
    header->index_width = shape.index_width;
    header->mtp_count = shape.mtp_count;
    header->slice_bytes = kv_format_slice_bytes(format);
    header->checksum_valid = 0;
    header->reserved = 0;
}

/* True if the header describes a block of this format with token_count tokens. */
static inline bool kv_block_is_described(const struct kv_block_header *header,
                                         const struct kv_format *format, uint32_t token_count) {
    struct kv_block_header expected;
    kv_block_describe(&expected, format, token_count);
    return memcmp(header, &expected, offsetof(struct kv_block_header, checksum_valid)) == 0;
}
