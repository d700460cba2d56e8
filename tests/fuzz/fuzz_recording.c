/* SPDX-License-Identifier: Apache-2.0
 * A recording from elsewhere: whatever its bytes say, none is read outside of them, and each record
 * that is told of is valid. Chunks whose checksums are wrong are read once more with right ones,
 * and with records of today's version, so that what stands behind them is tried, too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/process/recording/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_on(const char *memory, size_t size) {
    struct recording recording;
    struct error error;
    const struct recording_entry *entry;
    if (recording_open("it", memory, size, &recording, &error)) return;
    check(recording.head.count <= size);
    while (!recording_next(&recording, "it", &entry, &error) && entry) {
        const struct record *given = recording_given(entry);
        check(!given || record_valid(given, given->bytes));
        for (const struct record *r = recording_put(entry, NULL); r; r = recording_put(entry, r))
            check(record_valid(r, r->bytes));
    }
}

/* The records of whole entries are of today's version, so that a seed is worth as much tomorrow. */
static void renew_records(char *memory, size_t size) {
    for (size_t at = 0; size - at >= sizeof(struct recording_entry);) {
        struct recording_entry *entry = (struct recording_entry *)(void *)(memory + at);
        size_t end = at + entry->bytes;
        if (entry->bytes < sizeof *entry || entry->bytes % 8 || entry->bytes > size - at) return;
        for (at += sizeof *entry; end - at >= sizeof(struct record);) {
            struct record *record = (struct record *)(void *)(memory + at);
            record->version = RECORD_VERSION;
            if (record->bytes < sizeof *record || record->bytes % 8 || record->bytes > end - at)
                return;
            at += record->bytes;
        }
        at = end;
    }
}

static void sum_again(char *memory, size_t size) {
    struct recording_start *start = (struct recording_start *)(void *)memory;
    size_t at = sizeof *start;
    if (size < at) return;
    memcpy(start->magic, RECORDING_MAGIC, sizeof start->magic);
    start->version = RECORDING_VERSION;
    start->record_version = RECORD_VERSION;
    for (uint32_t sequence = 0; size - at >= sizeof(struct recording_chunk); sequence++) {
        struct recording_chunk *chunk = (struct recording_chunk *)(void *)(memory + at);
        size_t most = (size - at - sizeof *chunk) / 8 * 8, bytes = chunk->bytes / 8 * 8;
        if (bytes > most) bytes = most;
        if (chunk->kind == RECORDING_ENTRIES) renew_records((char *)(chunk + 1), bytes);
        *chunk = recording_chunk_of(chunk->kind % RECORDING_KIND_COUNT, sequence, chunk + 1, bytes);
        at += sizeof *chunk + bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *memory = calloc(1, size + 1);
    check(memory);
    if (size) memcpy(memory, data, size);
    read_on(memory, size);
    sum_again(memory, size);
    read_on(memory, size);
    free(memory);
    return 0;
}
