/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/machine.h"

#include <string.h>

static void head(struct record *record, enum record_kind kind, size_t bytes) {
    *record = (struct record){RECORD_VERSION, (uint16_t)kind, (uint32_t)bytes};
}

void *outbox_put(struct outbox *outbox, enum record_kind kind, size_t bytes) {
    bytes = record_tail(bytes);
    if (bytes > outbox_room(outbox)) return NULL;
    struct record *record = (struct record *)(outbox->memory + outbox->used);
    memset(record, 0, bytes);
    head(record, kind, bytes);
    outbox->used += (uint32_t)bytes;
    return record;
}

void *outbox_put_carried(struct outbox *outbox, enum record_kind kind, struct unit_id unit,
                         enum record_kind inner_kind, size_t inner_bytes) {
    inner_bytes = record_tail(inner_bytes);
    struct record_carried *carried = outbox_put(outbox, kind, carried_bytes(inner_bytes));
    if (!carried) return NULL;
    carried->unit = unit;
    carried->inner_bytes = (uint32_t)inner_bytes;
    head(carried_inner(carried), inner_kind, inner_bytes);
    return carried_inner(carried);
}

const struct record *outbox_next(const struct outbox *outbox, const struct record *previous) {
    const char *next = previous ? (const char *)previous + previous->bytes : outbox->memory;
    return next < outbox->memory + outbox->used ? (const struct record *)next : NULL;
}

void outbox_clear(struct outbox *outbox) {
    outbox->used = 0;
}
