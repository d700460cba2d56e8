/* SPDX-License-Identifier: Apache-2.0
 * The file format of a recording of one machine: the parameters with which it was created (a text,
 * the head), and each call with its time, its input record, its status and its output records. A
 * machine is deterministic, so a recording suffices to replay it.
 *
 *   file     "FATHOMRC", version, RECORD_VERSION; then chunks
 *   chunk    kind, bytes, sequence, checksum (XXH3-64) of the payload, checksum of this head; then
 *            the payload: the head's text, entries, or the reason of the end
 *   entry    struct recording_entry, the input record, the output records
 *
 * The size of each part is a multiple of 8 bytes, so that records can be used in place. If the last
 * chunk is truncated, the process was killed, and the file is valid up to that chunk. Numbers are
 * little endian. The reader validates everything before it uses it.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "contract/record.h"

#define RECORDING_MAGIC "FATHOMRC"
#define RECORDING_VERSION 1u
#define RECORDING_CHUNK_BYTES ((size_t)1 << 20) /* a longer entry makes a longer chunk */

struct recording_start { /* of the file */
    char magic[8];
    uint32_t version;        /* RECORDING_VERSION */
    uint32_t record_version; /* RECORD_VERSION */
};

enum recording_chunk_kind {
    RECORDING_HEAD,
    RECORDING_ENTRIES,
    RECORDING_END,
    RECORDING_KIND_COUNT
};

struct recording_chunk {
    uint32_t kind;         /* enum recording_chunk_kind: first the head, last the end */
    uint32_t sequence;     /* from 0 */
    uint64_t bytes;        /* of the payload */
    uint64_t checksum;     /* of the payload */
    uint64_t own_checksum; /* of the fields above */
};

enum recording_call { RECORDING_RECEIVE, RECORDING_STEP, RECORDING_CALL_COUNT };

struct recording_entry {
    uint32_t bytes;         /* with the records */
    uint8_t call;           /* enum recording_call */
    uint8_t status;         /* enum status, as receive() answered; a step: STATUS_OK */
    uint16_t reserved;      /* zero */
    uint32_t outbox_before; /* bytes in the outbox before the call */
    uint32_t given_bytes;   /* size of the input record; 0 for a step */
    int64_t now_ns;
};

enum recording_end {
    RECORDING_CLOSED, /* the process ended */
    RECORDING_FULL,   /* the file has reached its limit */
    RECORDING_BEHIND, /* records came faster than they could be written */
    RECORDING_FAILED, /* writing failed */
    RECORDING_KILLED, /* there is no END: the process was killed */
    RECORDING_END_COUNT
};

/* Fills a chunk's head for its payload. */
struct recording_chunk recording_chunk_of(enum recording_chunk_kind kind, uint32_t sequence,
                                          const void *payload, size_t bytes);

struct recording { /* being read */
    const char *memory;
    size_t bytes, at; /* at: the next chunk */
    uint32_t sequence;
    size_t entry_at, entries_end; /* of the current chunk */
    struct bytes head;
    uint64_t entry_count;   /* read so far */
    enum recording_end end; /* RECORDING_KILLED until the end is read */
    bool ended;
};

/* Opens a recording in memory, which is aligned to 8 and outlives *out. Returns STATUS_INVALID if
 * it is no recording of this version, or its head is damaged. Messages contain `name`. */
enum status recording_open(const char *name, const void *memory, size_t bytes,
                           struct recording *out, struct error *error) MUST_USE;

/* recording_open for a file, which stays mapped until recording_close. */
enum status recording_open_file(const char *path, const char *name, struct recording *out,
                                struct error *error) MUST_USE;
void recording_close(struct recording *recording);

/* Returns the next entry, with valid records, or NULL at the end. STATUS_INVALID: a chunk is
 * damaged. */
enum status recording_next(struct recording *recording, const char *name,
                           const struct recording_entry **entry_out, struct error *error) MUST_USE;

/* The input record of a call; NULL for a step. */
const struct record *recording_given(const struct recording_entry *entry);

/* The output record after `previous`; NULL: the first. Returns NULL after the last. */
const struct record *recording_put(const struct recording_entry *entry,
                                   const struct record *previous);

const char *recording_end_name(enum recording_end end);
