/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/store_format.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/format.h"

#define MARK_AT (STORE_PAGE_BYTES - sizeof(struct store_mark))
#define SLOTS_MAX (1u << 24)

_Static_assert(sizeof(struct kv_block_header) <= MARK_AT, "header and mark share a page");
_Static_assert(MARK_AT % 8 == 0, "the mark is aligned");
_Static_assert(sizeof(struct store_entry) == 88, "no padding that a checksum would miss");
_Static_assert(sizeof(struct store_segment) == 48, "no padding that a checksum would miss");

void store_format_folder(const struct kv_format *format, char name_out[STORE_NAME_BYTES]) {
    const struct kv_shape shape = kv_shape_of(format);
    char name[KV_SHAPE_NAME_BYTES];
    check(kv_format_is_valid(format));
    kv_block_shape_name(&shape, name);
    format_text(name_out, STORE_NAME_BYTES, "v%d-%s", STORE_VERSION, name);
}

bool store_format_parse_folder(const char *name, struct kv_format *format_out) {
    char version[STORE_NAME_BYTES];
    size_t count = format_text(version, sizeof version, "v%d-", STORE_VERSION);
    return strncmp(name, version, count) == 0 &&
           kv_block_parse_shape_name(name + count, format_out);
}

struct store_segment store_format_segment(const struct kv_format *format, uint64_t id,
                                          uint32_t slot_count) {
    struct store_segment segment = {
        .version = STORE_VERSION, .slot_count = slot_count, .shape = kv_shape_of(format), .id = id};
    memcpy(segment.magic, STORE_SEGMENT_MAGIC, sizeof segment.magic);
    segment.checksum = checksum_of(&segment, offsetof(struct store_segment, checksum));
    return segment;
}

bool store_format_segment_valid(const struct store_segment *segment) {
    struct kv_format format = kv_format_of(&segment->shape);
    return memcmp(segment->magic, STORE_SEGMENT_MAGIC, sizeof segment->magic) == 0 &&
           segment->checksum == checksum_of(segment, offsetof(struct store_segment, checksum)) &&
           segment->version == STORE_VERSION && kv_format_is_valid(&format) &&
           segment->slot_count > 0 && segment->slot_count <= SLOTS_MAX;
}

void store_format_seal(void *to, const void *block, const struct kv_format *format,
                       const struct block_key *key, const struct block_key *parent,
                       uint32_t position) {
    struct kv_block_header *header = to;
    struct store_mark *mark = (struct store_mark *)(void *)((char *)to + MARK_AT);
    size_t slice_bytes = kv_format_slice_bytes(format);
    memset(to, 0, STORE_PAGE_BYTES);
    kv_block_describe(header, format, KV_BLOCK_TOKENS);
    header->checksum_valid = 1;
    for (uint32_t i = 0; i < format->slice_count; i++) {
        size_t at = kv_format_slice_offset(format, i);
        if (to != block) memcpy((char *)to + at, (const char *)block + at, slice_bytes);
        header->checksum[i] =
            checksum_of((const char *)to + at, kv_format_filled_bytes(format, KV_BLOCK_TOKENS));
    }
    memcpy(mark->magic, STORE_MARK_MAGIC, sizeof mark->magic);
    mark->version = STORE_VERSION;
    mark->position = position;
    mark->key = *key;
    mark->parent = *parent;
    mark->checksum = checksum_of(to, STORE_PAGE_BYTES - sizeof mark->checksum);
}

const struct store_mark *store_format_mark(const void *page) {
    return (const struct store_mark *)(const void *)((const char *)page + MARK_AT);
}

enum store_flaw store_format_verify(const void *page, const struct kv_format *format,
                                    const struct block_key *key) {
    const struct kv_block_header *header = page;
    const struct store_mark *mark = store_format_mark(page);
    static const char zeros[8];
    if (memcmp(mark->magic, zeros, 8) == 0 && memcmp(header->magic, zeros, 8) == 0)
        return STORE_EMPTY;
    if (mark->checksum != checksum_of(page, STORE_PAGE_BYTES - sizeof mark->checksum) ||
        memcmp(mark->magic, STORE_MARK_MAGIC, sizeof mark->magic) != 0 ||
        memcmp(header->magic, KV_BLOCK_MAGIC, sizeof header->magic) != 0)
        return STORE_TORN;
    if (mark->version != STORE_VERSION || !header->checksum_valid ||
        !kv_block_is_described(header, format, KV_BLOCK_TOKENS))
        return STORE_OTHER_KIND;
    return key && !block_key_equal(key, &mark->key) ? STORE_OTHER_KEY : STORE_SOUND;
}

bool store_format_slice_sound(const void *page, const void *slice, const struct kv_format *format,
                              uint32_t index) {
    const struct kv_block_header *header = page;
    return index < format->slice_count &&
           header->checksum[index] ==
               checksum_of(slice, kv_format_filled_bytes(format, KV_BLOCK_TOKENS));
}

struct store_entry store_format_entry(enum store_entry_kind kind, const struct block_key *key,
                                      const struct block_key *parent, uint32_t slot,
                                      uint32_t position) {
    struct store_entry entry = {
        .key = *key, .parent = *parent, .slot = slot, .position = position, .kind = kind};
    entry.checksum = checksum_of(&entry, offsetof(struct store_entry, checksum));
    return entry;
}

bool store_format_entry_valid(const struct store_entry *entry, uint32_t slot_count) {
    return entry->checksum == checksum_of(entry, offsetof(struct store_entry, checksum)) &&
           entry->slot < slot_count &&
           (entry->kind == STORE_ENTRY_BLOCK || entry->kind == STORE_ENTRY_DEAD);
}

const char *store_format_flaw_name(enum store_flaw flaw) {
    static const char *const names[] = {
        [STORE_SOUND] = "sound",
        [STORE_EMPTY] = "never written",
        [STORE_TORN] = "damaged header",
        [STORE_OTHER_KIND] = "of another format",
        [STORE_OTHER_KEY] = "another block",
    };
    check((unsigned)flaw < ARRAY_COUNT(names));
    return names[flaw];
}
