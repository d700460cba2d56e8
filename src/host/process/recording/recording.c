/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/recording/recording.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"

#define FILE_BYTES_MAX ((size_t)1 << 40)
#define OWN_BYTES offsetof(struct recording_chunk, own_checksum)

_Static_assert(sizeof(struct recording_start) % 8 == 0, "chunks begin on multiples of 8");
_Static_assert(sizeof(struct recording_chunk) % 8 == 0, "payloads do, too");
_Static_assert(sizeof(struct recording_entry) % 8 == 0, "records do, too");

const char *recording_end_name(enum recording_end end) {
    static const char *const names[RECORDING_END_COUNT] = {
        [RECORDING_CLOSED] = "the process ended",
        [RECORDING_FULL] = "--record-bytes were used up",
        [RECORDING_BEHIND] = "records came faster than they could be written",
        [RECORDING_FAILED] = "the file could not be written",
        [RECORDING_KILLED] = "it was cut off: the process was killed, or is still running",
    };
    return names[end];
}

struct recording_chunk recording_chunk_of(enum recording_chunk_kind kind, uint32_t sequence,
                                          const void *payload, size_t bytes) {
    struct recording_chunk chunk = {.kind = kind,
                                    .sequence = sequence,
                                    .bytes = bytes,
                                    .checksum = checksum_of(payload, bytes)};
    chunk.own_checksum = checksum_of(&chunk, OWN_BYTES);
    return chunk;
}

static enum status damaged(const struct recording *recording, const char *name, const char *what,
                           struct error *error) {
    return error_set(error, STATUS_INVALID, "%s: chunk %u, at byte %zu, is damaged: %s", name,
                     recording->sequence, recording->at, what);
}

/* *payload_out NULL: the file ends here, or within the chunk. */
static enum status recording_take_chunk(struct recording *recording, const char *name,
                                        const struct recording_chunk **chunk_out,
                                        const char **payload_out, struct error *error) {
    size_t left = recording->bytes - recording->at;
    const struct recording_chunk *chunk =
        (const struct recording_chunk *)(const void *)(recording->memory + recording->at);
    *payload_out = NULL;
    if (left < sizeof *chunk) return STATUS_OK;
    if (chunk->own_checksum != checksum_of(chunk, OWN_BYTES))
        return damaged(recording, name, "its head's checksum is wrong", error);
    if (chunk->sequence != recording->sequence || chunk->kind >= RECORDING_KIND_COUNT ||
        chunk->bytes % 8)
        return damaged(recording, name, "it is not the chunk that follows", error);
    if (chunk->bytes > left - sizeof *chunk) return STATUS_OK;
    const char *payload = (const char *)(chunk + 1);
    if (chunk->checksum != checksum_of(payload, chunk->bytes))
        return damaged(recording, name, "its checksum is wrong", error);
    *payload_out = payload;
    *chunk_out = chunk;
    return STATUS_OK;
}

static void pass_chunk(struct recording *recording, const struct recording_chunk *chunk) {
    recording->at += sizeof *chunk + chunk->bytes;
    recording->sequence++;
}

enum status recording_open(const char *name, const void *memory, size_t bytes,
                           struct recording *out, struct error *error) {
    const struct recording_start *start = memory;
    const struct recording_chunk *chunk = NULL;
    const char *payload;
    struct recording recording = {
        .memory = memory, .bytes = bytes, .at = sizeof *start, .end = RECORDING_KILLED};
    if (bytes < sizeof *start || memcmp(start->magic, RECORDING_MAGIC, sizeof start->magic) != 0)
        return error_set(error, STATUS_INVALID, "%s: is not a recording by Fathom", name);
    if (start->version != RECORDING_VERSION || start->record_version != RECORD_VERSION)
        return error_set(error, STATUS_INVALID,
                         "%s: has version %u with records of version %u; this program reads %u "
                         "with %u: replay it with the Fathom that made it",
                         name, start->version, start->record_version, RECORDING_VERSION,
                         (uint32_t)RECORD_VERSION);
    enum status status = recording_take_chunk(&recording, name, &chunk, &payload, error);
    if (status) return status;
    if (!payload || chunk->kind != RECORDING_HEAD)
        return error_set(error, STATUS_INVALID,
                         "%s: ends before the description of what was recorded", name);
    recording.head = (struct bytes){payload, strnlen(payload, chunk->bytes)};
    pass_chunk(&recording, chunk);
    *out = recording;
    return STATUS_OK;
}

enum status recording_open_file(const char *path, const char *name, struct recording *out,
                                struct error *error) {
    int file;
    size_t bytes;
    enum status status = file_open(path, FILE_BYTES_MAX, &file, &bytes, error);
    if (status) return status;
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    close(file);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY, "%s: cannot be mapped into memory", name);
    status = recording_open(name, memory, bytes, out, error);
    if (status && memory) munmap(memory, bytes);
    return status;
}

void recording_close(struct recording *recording) {
    if (recording->memory) munmap((void *)(uintptr_t)recording->memory, recording->bytes);
    recording->memory = NULL;
}

/* ---- entries ---- */

const struct record *recording_given(const struct recording_entry *entry) {
    return entry->given_bytes ? (const struct record *)(const void *)(entry + 1) : NULL;
}

const struct record *recording_put(const struct recording_entry *entry,
                                   const struct record *previous) {
    const char *end = (const char *)entry + entry->bytes;
    const char *next = previous ? (const char *)previous + previous->bytes
                                : (const char *)(entry + 1) + entry->given_bytes;
    return next < end ? (const struct record *)(const void *)next : NULL;
}

static bool records_valid(const char *at, size_t bytes) {
    while (bytes) {
        const struct record *record = (const struct record *)(const void *)at;
        if (bytes < sizeof *record || record->bytes > bytes || !record_valid(at, record->bytes))
            return false;
        at += record->bytes;
        bytes -= record->bytes;
    }
    return true;
}

static bool recording_usage_valid(const struct recording_entry *entry, size_t left) {
    if (left < sizeof *entry || entry->bytes < sizeof *entry || entry->bytes > left ||
        entry->bytes % 8 || entry->call >= RECORDING_CALL_COUNT || entry->reserved)
        return false;
    size_t bytes = entry->bytes - sizeof *entry;
    const char *records = (const char *)(entry + 1);
    bool step = entry->call == RECORDING_STEP;
    if (entry->given_bytes > bytes || (entry->given_bytes == 0) != step) return false;
    return (step || record_valid(records, entry->given_bytes)) &&
           records_valid(records + entry->given_bytes, bytes - entry->given_bytes);
}

/* Goes to the next chunk of entries. At the end of the recording sets recording->ended. */
static enum status recording_next_chunk(struct recording *recording, const char *name,
                                        struct error *error) {
    const struct recording_chunk *chunk = NULL;
    const char *payload;
    enum status status = recording_take_chunk(recording, name, &chunk, &payload, error);
    if (status) return status;
    recording->ended = !payload || chunk->kind == RECORDING_END;
    if (!payload) return STATUS_OK;
    if (chunk->kind == RECORDING_HEAD)
        return damaged(recording, name, "it is a second head", error);
    if (chunk->kind == RECORDING_END) {
        uint64_t end = chunk->bytes == sizeof end ? *(const uint64_t *)(const void *)payload
                                                  : RECORDING_END_COUNT;
        if (end >= RECORDING_KILLED) return damaged(recording, name, "no such end", error);
        recording->end = (enum recording_end)end;
    } else {
        recording->entry_at = (size_t)(payload - recording->memory);
        recording->entries_end = recording->entry_at + chunk->bytes;
    }
    pass_chunk(recording, chunk);
    return STATUS_OK;
}

enum status recording_next(struct recording *recording, const char *name,
                           const struct recording_entry **entry_out, struct error *error) {
    *entry_out = NULL;
    while (recording->entry_at == recording->entries_end && !recording->ended) {
        enum status status = recording_next_chunk(recording, name, error);
        if (status) return status;
    }
    if (recording->entry_at == recording->entries_end) return STATUS_OK;
    const struct recording_entry *entry =
        (const struct recording_entry *)(const void *)(recording->memory + recording->entry_at);
    if (!recording_usage_valid(entry, recording->entries_end - recording->entry_at))
        return error_set(error, STATUS_INVALID, "%s: call %llu is invalid", name,
                         (unsigned long long)recording->entry_count + 1);
    recording->entry_at += entry->bytes;
    recording->entry_count++;
    *entry_out = entry;
    return STATUS_OK;
}
