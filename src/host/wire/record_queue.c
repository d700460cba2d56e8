/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire/record_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct record_link {
    struct record_link *next;
    struct record record; /* followed by its tails */
};

static void record_queue_append(struct record_queue *queue, struct record_link *link) {
    link->next = NULL;
    if (queue->last)
        queue->last->next = link;
    else
        queue->first = link;
    queue->last = link;
    queue->bytes += link->record.bytes;
    queue->count++;
}

static struct record_link *record_queue_make_link(size_t bytes) {
    struct record_link *link = malloc(offsetof(struct record_link, record) + bytes);
    check(link != NULL);
    return link;
}

void record_queue_force(struct record_queue *queue, const struct record *record) {
    struct record_link *link = record_queue_make_link(record->bytes);
    memcpy(&link->record, record, record->bytes);
    record_queue_append(queue, link);
}

void record_queue_force_from_unit(struct record_queue *queue, struct unit_id unit,
                                  const struct record *record) {
    struct record_envelope head = {.unit = unit, .inner_bytes = record->bytes};
    record_set_head(&head, RECORD_FROM_UNIT);
    struct record_link *link = record_queue_make_link(head.record.bytes);
    memcpy(&link->record, &head, sizeof head);
    memcpy((char *)&link->record + sizeof head, record, record->bytes);
    record_queue_append(queue, link);
}

const struct record *record_queue_first(const struct record_queue *queue) {
    return queue->first ? &queue->first->record : NULL;
}

void record_queue_drop(struct record_queue *queue) {
    struct record_link *link = queue->first;
    queue->first = link->next;
    if (!queue->first) queue->last = NULL;
    queue->bytes -= link->record.bytes;
    queue->count--;
    free(link);
}

void record_queue_move(struct record_queue *from, struct record_queue *to) {
    if (!from->first) return;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    to->bytes += from->bytes;
    to->count += from->count;
    *from = (struct record_queue){.bytes_max = from->bytes_max};
}

void record_queue_clear(struct record_queue *queue) {
    while (queue->first)
        record_queue_drop(queue);
}
