/* SPDX-License-Identifier: Apache-2.0
 * The file formats of the KV cache storage. A store's directory has one folder for each block
 * format. A folder contains segments, each with a data file and a sidecar:
 *
 *   ID.kv   one page: struct store_segment; then slots of fixed size, each a KV block
 *           (contract/kv_block.h) with struct store_mark at the end of its header page
 *   ID.idx  struct store_segment; then a struct store_entry for each slot that was filled, or
 *           found damaged, in that order
 *
 * All data is verified before use: segments and entries by their own checksums, a header page by
 * the checksum in its mark, and a slice by its checksum in the header page. The sidecar only
 * summarizes the header pages. Nothing is written twice, so no order of writes must be forced to
 * the disk: data that did not reach it fails its check.
 *
 * Pure, little-endian. Does no file I/O.
 */
#pragma once

#include "contract/kv_block.h"
#include "serving/cache/block_key.h"

#define STORE_VERSION 1
#define STORE_PAGE_BYTES ((size_t)KV_SLICE_ALIGN)
#define STORE_SEGMENT_MAGIC "FATHOMSG"
#define STORE_MARK_MAGIC "FATHOMSB"
#define STORE_NAME_BYTES 64

struct store_segment {
    char magic[8]; /* STORE_SEGMENT_MAGIC */
    uint32_t version;
    uint32_t slot_count;
    struct kv_shape shape;
    uint64_t id; /* also the name of the files, as 16 hexadecimal digits */
    uint64_t checksum;
};

struct store_mark {
    char magic[8]; /* STORE_MARK_MAGIC */
    uint32_t version;
    uint32_t position; /* blocks before it in its sequence */
    struct block_key key, parent;
    uint64_t checksum; /* checksum of the header page up to the mark */
};

enum store_entry_kind { STORE_ENTRY_BLOCK = 1, STORE_ENTRY_DEAD = 2 };

struct store_entry {
    struct block_key key, parent;
    uint32_t slot;
    uint32_t position;
    uint32_t kind; /* enum store_entry_kind; DEAD: do not read the slot */
    uint32_t reserved;
    uint64_t checksum;
};

enum store_flaw {
    STORE_SOUND,
    STORE_EMPTY,      /* never written: zeros */
    STORE_TORN,       /* fails its checksum, or has no header */
    STORE_OTHER_KIND, /* intact, but of another version or shape */
    STORE_OTHER_KEY,  /* intact, but a different block */
};

/* "v1-bf16-576-62-1": the name of the folder for blocks of a valid format. */
void store_format_folder(const struct kv_format *format, char name_out[STORE_NAME_BYTES]);

/* Parses the name of such a folder. Returns false if the name is not one of a supported format. */
bool store_format_parse_folder(const char *name, struct kv_format *format_out);

struct store_segment store_format_segment(const struct kv_format *format, uint64_t id,
                                          uint32_t slot_count);

/* True if the segment is intact, of this version, and its numbers are plausible. */
bool store_format_segment_valid(const struct store_segment *segment);

static inline uint64_t store_format_slot_offset(uint64_t block_bytes, uint32_t slot) {
    return STORE_PAGE_BYTES + slot * block_bytes;
}

/* Copies a whole block, checksumming each slice while it is in the CPU caches, and fills in its
 * header page: checksums and mark. `to` may be `block`. */
void store_format_seal(void *to, const void *block, const struct kv_format *format,
                       const struct block_key *key, const struct block_key *parent,
                       uint32_t position);

/* Verifies a header page. If `key` is NULL, any block is accepted. */
enum store_flaw store_format_verify(const void *page, const struct kv_format *format,
                                    const struct block_key *key);

/* The mark of an intact page. */
const struct store_mark *store_format_mark(const void *page);

/* True if a slice matches its checksum in the intact header page. */
bool store_format_slice_sound(const void *page, const void *slice, const struct kv_format *format,
                              uint32_t index);

struct store_entry store_format_entry(enum store_entry_kind kind, const struct block_key *key,
                                      const struct block_key *parent, uint32_t slot,
                                      uint32_t position);

/* True if the entry is intact and within a segment of slot_count slots. */
bool store_format_entry_valid(const struct store_entry *entry, uint32_t slot_count);

/* The flaw as short lower-case text. */
const char *store_format_flaw_name(enum store_flaw flaw);
