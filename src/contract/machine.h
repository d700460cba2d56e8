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

/* Room for a record of `bytes` (rounded up to 8), with version, kind and bytes filled in and the
 * rest zeroed; NULL when the outbox is full. */
void *outbox_put(struct outbox *outbox, enum record_kind kind, size_t bytes);

/* As outbox_put, of a record that travels to or from a unit (`kind`: TO_UNIT, FROM_UNIT): the inner
 * one is returned, for the caller to fill in. */
void *outbox_put_carried(struct outbox *outbox, enum record_kind kind, struct unit_id unit,
                         enum record_kind inner_kind, size_t inner_bytes);

/* Bytes that can still be put. */
static inline uint32_t outbox_room(const struct outbox *outbox) {
    return outbox->capacity - outbox->used;
}

/* Walks the records: pass NULL first; NULL when there are no more. */
const struct record *outbox_next(const struct outbox *outbox, const struct record *previous);

/* Forgets all records. */
void outbox_clear(struct outbox *outbox);

/* True if `record` of `bytes` (aligned to 8) is whole: version, kind, fixed size, tails inside,
 * enums in range, padding zero, a plan's rows within the plan. For records from outside this
 * process. */
bool record_valid(const void *record, size_t bytes);

/* True if a record of that kind may travel to a unit (`kind`: TO_UNIT), or from one (FROM_UNIT). */
bool record_may_be_carried(uint16_t kind, uint16_t inner_kind);

#endif
