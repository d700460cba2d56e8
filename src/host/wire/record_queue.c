/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire/record_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct record_link {
    struct record_link *next;
    struct record record; /* and its tails */
};

void record_queue_force(struct record_queue *queue, const struct record *record) {
    struct record_link *link = malloc(offsetof(struct record_link, record) + record->bytes);
    check(link != NULL);
    link->next = NULL;
    memcpy(&link->record, record, record->bytes);
    if (queue->last)
        queue->last->next = link;
    else
        queue->first = link;
    queue->last = link;
    queue->bytes += record->bytes;
    queue->count++;
}

enum status record_queue_put(struct record_queue *queue, const struct record *record) {
    if (!record_queue_has_room(queue)) return STATUS_FULL;
    record_queue_force(queue, record);
    return STATUS_OK;
}

const struct record *record_queue_first(const struct record_queue *queue) {
    return queue->first ? &queue->first->record : NULL;
}

void record_queue_drop(struct record_queue *queue) {
    struct record_link *link = queue->first;
    queue->first = link->next;
    if (!link->next) queue->last = NULL;
    queue->bytes -= link->record.bytes;
    queue->count--;
    free(link);
}

void record_queue_clear(struct record_queue *queue) {
    while (queue->first)
        record_queue_drop(queue);
}
