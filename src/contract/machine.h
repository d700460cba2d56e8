/* SPDX-License-Identifier: Apache-2.0
 * A machine: gateway or unit. It takes records and time as arguments and answers by putting records
 * into its outbox. It never does I/O, reads a clock, starts a thread or allocates after start-up;
 * so host/ can run it in the real world and simulate/ in an invented one.
 */
#ifndef CONTRACT_MACHINE_H
#define CONTRACT_MACHINE_H

#include "base/status.h"
#include "contract/record.h"

#define MACHINE_NEVER INT64_MAX

/* A bounded run of records. The world drains it whole after each call into the machine. */
struct outbox {
    char *memory;
    uint32_t capacity; /* bytes */
    uint32_t used;     /* bytes; records stand one behind the other from memory on */
};

struct machine {
    void *self;
    struct outbox *outbox;
    /* STATUS_FULL: the machine cannot take this now (outbox or table full); the caller keeps the
     * record and tries again after draining the outbox. Records that are malformed are bugs. */
    enum status (*receive)(void *self, const struct record *record, int64_t now_ns);
    /* Does what is due: forms a step, sends timeouts. Called after receives and at next_wake_ns. */
    void (*step)(void *self, int64_t now_ns);
    /* When step should be called at the latest; MACHINE_NEVER if only a record can change anything.
     */
    int64_t (*next_wake_ns)(const void *self);
};

/* A record with the fields of `fixed`, its own fixed struct (its head need not be set), and with
 * zeroed tails, of as many elements as the fields say, for the caller to fill in. `fixed` NULL: all
 * fields are zero. The answer is NULL when the outbox is full. */
void *machine_outbox_put(struct outbox *outbox, enum record_kind kind, const void *fixed);

/* machine_outbox_put without zeroed tails: the caller writes every element of them. */
void *machine_outbox_put_bare(struct outbox *outbox, enum record_kind kind, const void *fixed);

/* A record of so many bytes (record_bytes) of which only the head is set: the caller writes all that
 * is behind it, zeros between and behind tails included. NULL when the outbox is full. */
void *machine_outbox_put_head(struct outbox *outbox, enum record_kind kind, size_t bytes);

/* machine_outbox_put for a record to or from a unit (`kind`: TO_UNIT, FROM_UNIT). Returns the inner
 * record. */
void *machine_outbox_put_envelope(struct outbox *outbox, enum record_kind kind, struct unit_id unit,
                                  enum record_kind inner_kind, const void *inner_fixed);

/* Bytes of a record when it travels to or from a unit. */
size_t machine_envelope_bytes(enum record_kind inner_kind, const void *inner_fixed);

/* Bytes that can still be put. */
static inline uint32_t outbox_room(const struct outbox *outbox) {
    return outbox->capacity - outbox->used;
}

/* Walks the records: pass NULL first; NULL when there are no more. */
const struct record *machine_outbox_next(const struct outbox *outbox,
                                         const struct record *previous);

/* Forgets all records. */
void machine_outbox_clear(struct outbox *outbox);

#endif
