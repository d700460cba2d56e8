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

static const char *const element_names[KV_ELEMENT_COUNT] = {
    [KV_ELEMENT_BF16] = "bf16", [KV_ELEMENT_F32] = "f32"};

static struct store_shape shape_of(const struct kv_format *format) {
    return (struct store_shape){format->groups[0].element, format->groups[0].width,
                                format->slice_count, format->mtp_count};
}

static struct kv_format format_of(const struct store_shape *shape) {
    return (struct kv_format)KV_FORMAT_MLA(shape->element, shape->width, shape->slice_count,
                                           shape->mtp_count);
}

void store_format_folder(const struct kv_format *format, char name_out[STORE_NAME_BYTES]) {
    struct store_shape shape = shape_of(format);
    check(kv_format_is_valid(format));
    format_text(name_out, STORE_NAME_BYTES, "v%d-%s-%u-%u-%u", STORE_VERSION,
                element_names[shape.element], shape.width, shape.slice_count, shape.mtp_count);
}

/* Parses a number without leading zeros and the character after it. Returns false if there is
 * none. */
static bool parse_number(const char **at, uint32_t *out) {
    uint64_t value = 0;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9' && value <= UINT32_MAX; ++*at)
        value = value * 10 + (uint64_t)(**at - '0');
    *out = (uint32_t)value;
    return *at > start && value <= UINT32_MAX && !(*start == '0' && *at > start + 1);
}

bool store_format_parse_folder(const char *name, struct kv_format *format_out) {
    char again[STORE_NAME_BYTES];
    struct store_shape shape = {.element = KV_ELEMENT_COUNT};
    for (uint32_t i = 0; i < KV_ELEMENT_COUNT; i++) {
        format_text(again, sizeof again, "v%d-%s-", STORE_VERSION, element_names[i]);
        if (strncmp(name, again, strlen(again)) == 0) shape.element = i;
    }
    if (shape.element == KV_ELEMENT_COUNT) return false;
    const char *at = strchr(strchr(name, '-') + 1, '-') + 1;
    if (!parse_number(&at, &shape.width) || *at++ != '-') return false;
    if (!parse_number(&at, &shape.slice_count) || *at++ != '-') return false;
    if (!parse_number(&at, &shape.mtp_count) || *at) return false;
    struct kv_format format = format_of(&shape);
    if (!kv_format_is_valid(&format)) return false;
    *format_out = format;
    return true;
}

struct store_segment store_format_segment(const struct kv_format *format, uint64_t id,
                                          uint32_t slot_count) {
    struct store_segment segment = {
        .version = STORE_VERSION, .slot_count = slot_count, .shape = shape_of(format), .id = id};
    memcpy(segment.magic, STORE_SEGMENT_MAGIC, sizeof segment.magic);
    segment.checksum = checksum_of(&segment, offsetof(struct store_segment, checksum));
    return segment;
}

bool store_format_segment_valid(const struct store_segment *segment) {
    struct kv_format format = format_of(&segment->shape);
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
    struct store_shape shape = shape_of(format);
    static const char zeros[8];
    if (memcmp(mark->magic, zeros, 8) == 0 && memcmp(header->magic, zeros, 8) == 0)
        return STORE_EMPTY;
    if (mark->checksum != checksum_of(page, STORE_PAGE_BYTES - sizeof mark->checksum) ||
        memcmp(mark->magic, STORE_MARK_MAGIC, sizeof mark->magic) != 0 ||
        memcmp(header->magic, KV_BLOCK_MAGIC, sizeof header->magic) != 0)
        return STORE_TORN;
    if (mark->version != STORE_VERSION || header->version != KV_BLOCK_VERSION ||
        header->element != shape.element || header->width != shape.width ||
        header->slice_count != shape.slice_count || header->mtp_count != shape.mtp_count ||
        header->slice_bytes != kv_format_slice_bytes(format) ||
        header->token_count != KV_BLOCK_TOKENS || !header->checksum_valid)
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
