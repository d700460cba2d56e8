/* SPDX-License-Identifier: Apache-2.0
 * What is due when, in virtual time: a heap of small events, earliest first. Events of the same
 * time come out in the order in which they were put in, so a run depends on nothing else.
 *
 * Events are never taken back: whoever put one in leaves a stamp in it, and knows by that whether
 * it still means it.
 */
#ifndef SIMULATE_TWIN_EVENT_QUEUE_H
#define SIMULATE_TWIN_EVENT_QUEUE_H

#include "base/arena.h"

struct event {
    int64_t due_ns;
    uint64_t order; /* by which it came */
    uint64_t stamp; /* as its owner likes, likewise below */
    uint32_t kind, index;
};

struct event_queue {
    struct event *events; /* [capacity], of them count: a heap with four children each */
    uint32_t capacity, count, most;
    uint64_t order;
};

size_t event_queue_bytes(uint32_t capacity);

/* False when the arena is out of memory. */
bool event_queue_open(struct event_queue *queue, struct arena *arena, uint32_t capacity);

/* More than its capacity is a bug. Its order is set here. */
void event_queue_add(struct event_queue *queue, struct event event);

/* The next one is taken out. False: there is none. */
bool event_queue_take(struct event_queue *queue, struct event *event_out);

/* When somebody is woken next. However often that is set anew, few events lie in the queue: the
 * ones for later stay there and count when their time comes, so none is added twice. */
#define EVENT_ALARM_DEPTH 64

struct event_alarm {
    uint32_t kind, index;                 /* of its events */
    uint32_t count;                       /* of them in the queue */
    int64_t due_ns;                       /* INT64_MAX: not set */
    int64_t queued_ns[EVENT_ALARM_DEPTH]; /* descending */
};

struct event_alarm event_alarm_of(uint32_t kind, uint32_t index);

/* At due_ns, or earlier if it was set so. */
void event_alarm_set(struct event_alarm *alarm, struct event_queue *queue, int64_t due_ns);

/* One of its events was taken out. True: it is time; then the alarm is not set any more. */
bool event_alarm_rings(struct event_alarm *alarm, struct event_queue *queue, int64_t now_ns);

#endif
