/* SPDX-License-Identifier: Apache-2.0
 * The KV block: 64 tokens of latent cache in one versioned format for page, host memory, wire and
 * disk, so that a block is moved by copying bytes. Little-endian.
 *
 *   header page   4 KiB: struct kv_block_header
 *   slice 0..n-1  one per layer, layer-major: [64][width] elements, padded to 4 KiB; then the MTP
 *                 layers' slices
 *
 * A row of a slice is the normalized latent, then the rotated shared key (forward pass, MLA). A
 * main layer keeps position p at row p % 64. An MTP layer computes position i from token i + 1, so
 * its row stands at the newest token's index i + 1: a block then depends on no token behind it.
 *
 * Checksums (XXH3-64 over a slice's rows 0..token_count-1) are filled in by the sender or the
 * storage; in a live page they are stale, and checksum_valid is 0. Rows from token_count on hold
 * anything at all, NaNs included: no reader may let them matter.
 */
#ifndef CONTRACT_KV_BLOCK_H
#define CONTRACT_KV_BLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"

#define KV_BLOCK_MAGIC "FATHOMKV"
#define KV_BLOCK_VERSION 1
#define KV_BLOCK_HEADER_BYTES ((size_t)KV_SLICE_ALIGN)

enum kv_element { KV_ELEMENT_BF16, KV_ELEMENT_F32, KV_ELEMENT_COUNT };

struct kv_block_header {
    char magic[8]; /* KV_BLOCK_MAGIC, no terminator */
    uint32_t version;
    uint32_t element;     /* enum kv_element */
    uint32_t token_count; /* rows that are valid, 0..64 */
    uint32_t width;       /* elements in a row */
    uint32_t slice_count; /* layers, MTP layers included */
    uint32_t mtp_count;   /* the last so many slices belong to MTP layers */
    uint64_t slice_bytes; /* stride of the slices */
    uint32_t checksum_valid;
    uint32_t reserved;
    uint64_t checksum[LIMIT_LAYERS];
};

_Static_assert(sizeof(struct kv_block_header) <= KV_SLICE_ALIGN, "the header fits its page");

static inline size_t kv_element_bytes(enum kv_element element) {
    return element == KV_ELEMENT_BF16 ? 2 : 4;
}
static inline size_t kv_block_slice_bytes(enum kv_element element, uint32_t width) {
    return round_up((size_t)KV_BLOCK_TOKENS * width * kv_element_bytes(element), KV_SLICE_ALIGN);
}
static inline size_t kv_block_bytes(enum kv_element element, uint32_t width, uint32_t slice_count) {
    return KV_BLOCK_HEADER_BYTES + slice_count * kv_block_slice_bytes(element, width);
}

/* Rows that a sequence's block `block` has when so many tokens of it stand. */
static inline uint32_t kv_block_rows(uint32_t token_count, uint32_t block) {
    uint64_t first = (uint64_t)block * KV_BLOCK_TOKENS;
    if (token_count <= first) return 0;
    return token_count - first < KV_BLOCK_TOKENS ? token_count - (uint32_t)first : KV_BLOCK_TOKENS;
}

/* Everything but the checksums, which are not valid then. */
static inline void kv_block_describe(struct kv_block_header *header, enum kv_element element,
                                     uint32_t width, uint32_t slice_count, uint32_t mtp_count,
                                     uint32_t token_count) {
    memcpy(header->magic, KV_BLOCK_MAGIC, sizeof header->magic);
    header->version = KV_BLOCK_VERSION;
    header->element = element;
    header->token_count = token_count;
    header->width = width;
    header->slice_count = slice_count;
    header->mtp_count = mtp_count;
    header->slice_bytes = kv_block_slice_bytes(element, width);
    header->checksum_valid = 0;
    header->reserved = 0;
}

#endif
