/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/machine.h"

#include <string.h>

void *outbox_put(struct outbox *outbox, enum record_kind kind, size_t bytes) {
    bytes = record_tail(bytes);
    if (bytes > outbox_room(outbox)) return NULL;
    struct record *record = (struct record *)(outbox->memory + outbox->used);
    memset(record, 0, bytes);
    record->version = RECORD_VERSION;
    record->kind = (uint16_t)kind;
    record->bytes = (uint32_t)bytes;
    outbox->used += (uint32_t)bytes;
    return record;
}

const struct record *outbox_next(const struct outbox *outbox, const struct record *previous) {
    const char *next = previous ? (const char *)previous + previous->bytes : outbox->memory;
    return next < outbox->memory + outbox->used ? (const struct record *)next : NULL;
}

void outbox_clear(struct outbox *outbox) {
    outbox->used = 0;
}
