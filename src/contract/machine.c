/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/machine.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "contract/record_unit.h"

bool machine_pass(const struct machine *machine, const struct record *record, int64_t now_ns) {
    enum status status = machine->receive(machine->self, record, now_ns);
    check(status == STATUS_OK || (status == STATUS_FULL && machine->outbox->used > 0));
    return status == STATUS_OK;
}

/* Appends zeroed space for a record to the outbox; NULL if it is full. */
static void *put_zeros(struct outbox *outbox, size_t bytes) {
    if (bytes > outbox_room(outbox)) return NULL;
    void *record = memset(outbox->memory + outbox->used, 0, bytes);
    outbox->used += (uint32_t)bytes;
    return record;
}

static void write_fixed(struct record *record, enum record_kind kind, const void *fixed,
                        size_t bytes) {
    if (fixed) memcpy(record, fixed, record_fixed_bytes(kind));
    *record = record_head(kind, bytes);
}

void *machine_outbox_put(struct outbox *outbox, enum record_kind kind, const void *fixed) {
    size_t bytes = record_bytes(kind, fixed);
    struct record *record = put_zeros(outbox, bytes);
    if (record) write_fixed(record, kind, fixed, bytes);
    return record;
}

void *machine_outbox_put_head(struct outbox *outbox, enum record_kind kind, size_t bytes) {
    if (bytes > outbox_room(outbox)) return NULL;
    struct record *record = (struct record *)(void *)(outbox->memory + outbox->used);
    outbox->used += (uint32_t)bytes;
    *record = record_head(kind, bytes);
    return record;
}

/* Writes zeros where padding precedes a tail or the end. */
void *machine_outbox_put_bare(struct outbox *outbox, enum record_kind kind, const void *fixed) {
    size_t bytes = record_bytes(kind, fixed);
    struct record *record = machine_outbox_put_head(outbox, kind, bytes);
    if (!record) return NULL;
    write_fixed(record, kind, fixed, bytes);
    size_t fixed_bytes = record_fixed_bytes(kind);
    memset((char *)record + fixed_bytes, 0, round_up(fixed_bytes, 8) - fixed_bytes);
    for (uint32_t i = 0; i < record_tail_count(kind); i++) {
        size_t behind = record_tail_bytes(record, i);
        char *end = (char *)record_tail(record, i) + behind;
        memset(end, 0, round_up(behind, 8) - behind);
    }
    return record;
}

size_t machine_envelope_bytes(enum record_kind inner_kind, const void *inner_fixed) {
    struct record_envelope head = {.inner_bytes = (uint32_t)record_bytes(inner_kind, inner_fixed)};
    return record_bytes(RECORD_TO_UNIT, &head);
}

void *machine_outbox_put_envelope(struct outbox *outbox, enum record_kind kind, struct unit_id unit,
                                  enum record_kind inner_kind, const void *inner_fixed) {
    size_t inner_bytes = record_bytes(inner_kind, inner_fixed);
    struct record_envelope head = {.unit = unit, .inner_bytes = (uint32_t)inner_bytes};
    struct record_envelope *envelope = machine_outbox_put(outbox, kind, &head);
    if (!envelope) return NULL;
    write_fixed(envelope_inner(envelope), inner_kind, inner_fixed, inner_bytes);
    return envelope_inner(envelope);
}

const struct record *machine_outbox_next(const struct outbox *outbox,
                                         const struct record *previous) {
    const char *next = previous ? (const char *)previous + previous->bytes : outbox->memory;
    return next < outbox->memory + outbox->used ? (const struct record *)next : NULL;
}

void machine_outbox_clear(struct outbox *outbox) {
    outbox->used = 0;
}
