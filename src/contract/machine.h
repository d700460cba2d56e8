/* SPDX-License-Identifier: Apache-2.0
 * A machine is a deterministic state machine: a gateway or a unit. It receives records and the time
 * as arguments and puts records in its outbox. It does no I/O, reads no clock, starts no thread and
 * allocates no memory after start-up. host/ runs it in real time, simulate/ in virtual time.
 */
#pragma once

#include "base/status.h"
#include "contract/record.h"

#define MACHINE_NEVER INT64_MAX

/* A bounded queue of records. The caller drains it completely after each call into the machine. */
struct outbox {
    char *memory;
    uint32_t capacity; /* bytes */
    uint32_t used;     /* bytes; the records are stored without gaps from `memory` on */
};

struct machine {
    void *self;
    struct outbox *outbox;
    /* Returns STATUS_FULL if the outbox or a table is full. The caller then keeps the record and
     * retries after it has drained the outbox. A malformed record is a bug of the caller. */
    enum status (*receive)(void *self, const struct record *record, int64_t now_ns);
    /* Does the work that is due, such as planning a step or expiring deadlines. Called after
     * `receive` and at next_wake_ns. */
    void (*step)(void *self, int64_t now_ns);
    /* The latest time for the next call of `step`; MACHINE_NEVER if only a record can change the
     * state. */
    int64_t (*next_wake_ns)(const void *self);
};

/* Passes a record to a machine that accepts any record while its outbox is empty. Returns false if
 * the caller must drain the outbox and pass the record again. */
bool machine_pass(const struct machine *machine, const struct record *record, int64_t now_ns);

/* Appends a record with the fields of `fixed` (the kind's fixed struct; its head need not be set)
 * and with zeroed tails for the caller to fill in. The count fields give the sizes of the tails. If
 * `fixed` is NULL, all fields are zero. Returns NULL if the outbox is full. */
void *machine_outbox_put(struct outbox *outbox, enum record_kind kind, const void *fixed);

/* machine_outbox_put without zeroing the tails: the caller must write every element. */
void *machine_outbox_put_bare(struct outbox *outbox, enum record_kind kind, const void *fixed);

/* Appends a record of `bytes` bytes (record_bytes) and sets only its head. The caller must write
 * the rest, including the zeros between and after tails. Returns NULL if the outbox is full. */
void *machine_outbox_put_head(struct outbox *outbox, enum record_kind kind, size_t bytes);

/* machine_outbox_put for a record to or from a unit: `kind` is TO_UNIT or FROM_UNIT. Returns the
 * inner record. */
void *machine_outbox_put_envelope(struct outbox *outbox, enum record_kind kind, struct unit_id unit,
                                  enum record_kind inner_kind, const void *inner_fixed);

/* Bytes of a record together with its envelope. */
size_t machine_envelope_bytes(enum record_kind inner_kind, const void *inner_fixed);

/* Free bytes of the outbox. */
static inline uint32_t outbox_room(const struct outbox *outbox) {
    return outbox->capacity - outbox->used;
}

/* Iterates over the records: pass NULL first. Returns NULL after the last record. */
const struct record *machine_outbox_next(const struct outbox *outbox,
                                         const struct record *previous);

/* Removes all records. */
void machine_outbox_clear(struct outbox *outbox);
