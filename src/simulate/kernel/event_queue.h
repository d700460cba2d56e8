/* SPDX-License-Identifier: Apache-2.0
 * A queue of events in virtual time: a heap, earliest first. Events with equal times leave the
 * queue in the order in which they were added, so runs are reproducible.
 *
 * Events cannot be cancelled. Their owner stores a stamp in each and compares it when the event is
 * due, to see whether the event is still valid.
 */
#pragma once

#include "base/arena.h"

struct event {
    int64_t due_ns;
    uint64_t order; /* sequence number */
    uint64_t stamp; /* set by the owner, like the members below */
    uint32_t kind, index;
};

struct event_queue {
    struct event *events; /* [capacity], `count` of them used: a heap (base/heap.h) */
    uint32_t capacity, count;
    uint64_t order;
};

size_t event_queue_bytes(uint32_t capacity);

/* Returns false if the arena is out of memory. */
bool event_queue_open(struct event_queue *queue, struct arena *arena, uint32_t capacity);

/* Adds an event and sets its order. The queue must not be full. */
void event_queue_add(struct event_queue *queue, struct event event);

/* Removes the next event. Returns false if there is none. */
bool event_queue_take(struct event_queue *queue, struct event *event_out);

/* An alarm: the next time at which its owner must run. Setting it often adds few events to the
 * queue, because events with later times stay there and are reused when they are due. */
#define EVENT_ALARM_DEPTH 64

struct event_alarm {
    uint32_t kind, index;                 /* kind and index of its events */
    uint32_t count;                       /* of its events in the queue */
    int64_t due_ns;                       /* INT64_MAX: not set */
    int64_t queued_ns[EVENT_ALARM_DEPTH]; /* descending */
};

struct event_alarm event_queue_alarm_of(uint32_t kind, uint32_t index);

/* Sets the alarm to due_ns, unless it is set to an earlier time. */
void event_queue_alarm_set(struct event_alarm *alarm, struct event_queue *queue, int64_t due_ns);

/* Must be called when an event of the alarm leaves the queue. Returns true if the alarm is due, and
 * resets it. */
bool event_queue_alarm_rings(struct event_alarm *alarm, struct event_queue *queue, int64_t now_ns);
