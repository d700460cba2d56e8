/* SPDX-License-Identifier: Apache-2.0
 * A queue of records, bounded in bytes. Not thread-safe; worker.c protects it with a lock.
 */
#pragma once

#include <stdbool.h>

#include "base/status.h"
#include "contract/record_unit.h"

struct record_queue {
    struct record_link *first, *last;
    size_t bytes, bytes_max;
    uint32_t count;
};

static inline bool record_queue_has_room(const struct record_queue *queue) {
    return queue->bytes < queue->bytes_max;
}

/* Appends a copy of the record, regardless of the bound. The process exits if memory is out. */
void record_queue_force(struct record_queue *queue, const struct record *record);

/* record_queue_force for the record in a FROM_UNIT envelope. */
void record_queue_force_from_unit(struct record_queue *queue, struct unit_id unit,
                                  const struct record *record);

/* The oldest record, NULL if empty; it stays until record_queue_drop. */
const struct record *record_queue_first(const struct record_queue *queue);
void record_queue_drop(struct record_queue *queue);

/* Moves all records of `from` to the end of `to` without copying, regardless of its bound. */
void record_queue_move(struct record_queue *from, struct record_queue *to);

/* Removes all records. */
void record_queue_clear(struct record_queue *queue);
