/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a KV storage: a folder's name, a sidecar, a header page. The first byte says which,
 * and whether the checksums are made right, so that the fields behind them are reached.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/checksum.h"
#include "serving/cache/store_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void folder(const uint8_t *data, size_t size) {
    char *name = malloc(size + 1), again[STORE_NAME_BYTES];
    struct kv_format format;
    check(name);
    if (size) memcpy(name, data, size);
    name[size] = '\0';
    if (store_format_parse_folder(name, &format)) {
        check(kv_format_is_valid(&format));
        store_format_folder(&format, again);
        check(strcmp(name, again) == 0);
    }
    free(name);
}

static void sidecar(const uint8_t *data, size_t size, bool sign) {
    struct store_segment segment;
    struct store_entry entry;
    if (size < sizeof segment) return;
    memcpy(&segment, data, sizeof segment);
    if (sign) segment.checksum = checksum_of(&segment, offsetof(struct store_segment, checksum));
    if (!store_format_segment_valid(&segment)) return;
    const struct kv_format format = kv_format_of(&segment.shape);
    check(segment.slot_count > 0 && kv_format_block_bytes(&format) > STORE_PAGE_BYTES);
    check(store_format_slot_offset(kv_format_block_bytes(&format), segment.slot_count) < INT64_MAX);
    for (size_t at = sizeof segment; at + sizeof entry <= size; at += sizeof entry) {
        memcpy(&entry, data + at, sizeof entry);
        if (sign) entry.checksum = checksum_of(&entry, offsetof(struct store_entry, checksum));
        if (store_format_entry_valid(&entry, segment.slot_count))
            check(entry.slot < segment.slot_count);
    }
}

static void page(const uint8_t *data, size_t size, bool sign) {
    static const struct kv_format format = KV_FORMAT_MLA(KV_ELEMENT_BF16, 8, 2, 1);
    static _Alignas(8) uint8_t bytes[STORE_PAGE_BYTES];
    size_t tail = sizeof(struct store_mark), head = size > tail ? size - tail : 0;
    if (head > STORE_PAGE_BYTES - tail) head = STORE_PAGE_BYTES - tail;
    memset(bytes, 0, sizeof bytes);
    if (head) memcpy(bytes, data, head);
    if (size > tail) memcpy(bytes + STORE_PAGE_BYTES - tail, data + size - tail, tail);
    uint64_t checksum = checksum_of(bytes, STORE_PAGE_BYTES - 8);
    if (sign) memcpy(bytes + STORE_PAGE_BYTES - 8, &checksum, 8);
    enum store_flaw flaw = store_format_verify(bytes, &format, NULL);
    check(*store_format_flaw_name(flaw));
    if (flaw != STORE_SOUND) return;
    const struct kv_block_header *header = (const void *)bytes;
    check(header->slice_count == 2 && header->token_count == KV_BLOCK_TOKENS);
    check(store_format_verify(bytes, &format, &store_format_mark(bytes)->key) == STORE_SOUND);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    bool sign = data[0] & 4;
    if (data[0] % 4 == 0) folder(data + 1, size - 1);
    if (data[0] % 4 == 1) sidecar(data + 1, size - 1, sign);
    if (data[0] % 4 == 2) page(data + 1, size - 1, sign);
    return 0;
}
