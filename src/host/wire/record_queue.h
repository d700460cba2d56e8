/* SPDX-License-Identifier: Apache-2.0
 * A queue of records, bounded in bytes. Not shared between threads; worker.c puts a lock around it.
 */
#ifndef HOST_WIRE_RECORD_QUEUE_H
#define HOST_WIRE_RECORD_QUEUE_H

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

/* Copies the record to the end. STATUS_FULL when the queue already holds bytes_max or more. */
enum status record_queue_put(struct record_queue *queue, const struct record *record) MUST_USE;

/* Like record_queue_put, but ignores the bound: the number of such records is bounded elsewhere.
 * Running out of memory ends the process. */
void record_queue_force(struct record_queue *queue, const struct record *record);

/* Like record_queue_force, of a FROM_UNIT that contains the record. */
void record_queue_force_from_unit(struct record_queue *queue, struct unit_id unit,
                                  const struct record *record);

/* The oldest record, NULL when empty; it stays until record_queue_drop. */
const struct record *record_queue_first(const struct record_queue *queue);
void record_queue_drop(struct record_queue *queue);

/* Appends all records of `from` to `to`, whatever its bound, and copies nothing. */
void record_queue_move(struct record_queue *from, struct record_queue *to);

/* Drops everything. */
void record_queue_clear(struct record_queue *queue);

#endif
