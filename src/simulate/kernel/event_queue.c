/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/event_queue.h"

#include "base/check.h"
#include "base/heap.h"

size_t event_queue_bytes(uint32_t capacity) {
    return capacity * sizeof(struct event) + 16;
}

bool event_queue_open(struct event_queue *queue, struct arena *arena, uint32_t capacity) {
    *queue = (struct event_queue){.capacity = capacity};
    queue->events = arena_take(arena, capacity * sizeof *queue->events);
    return queue->events != NULL;
}

static bool event_queue_is_before(const void *context, const void *a, const void *b) {
    const struct event *one = a, *other = b;
    return one->due_ns != other->due_ns ? one->due_ns < other->due_ns : one->order < other->order;
}

static const struct heap_order events_order = {sizeof(struct event), event_queue_is_before, NULL};

void event_queue_add(struct event_queue *queue, struct event event) {
    check(queue->count < queue->capacity);
    event.order = queue->order++;
    queue->events[queue->count] = event;
    heap_sift_up(&events_order, NULL, queue->events, queue->count++);
}

bool event_queue_take(struct event_queue *queue, struct event *event_out) {
    if (queue->count == 0) return false;
    heap_pop(&events_order, NULL, queue->events, queue->count--);
    *event_out = queue->events[queue->count];
    return true;
}

/* ---- alarms ---- */

struct event_alarm event_queue_alarm_of(uint32_t kind, uint32_t index) {
    return (struct event_alarm){.kind = kind, .index = index, .due_ns = INT64_MAX};
}

static void queue_alarm(struct event_alarm *alarm, struct event_queue *queue) {
    if (alarm->due_ns == INT64_MAX) return;
    if (alarm->count && alarm->queued_ns[alarm->count - 1] <= alarm->due_ns) return;
    check(alarm->count < EVENT_ALARM_DEPTH);
    alarm->queued_ns[alarm->count++] = alarm->due_ns;
    event_queue_add(
        queue, (struct event){.due_ns = alarm->due_ns, .kind = alarm->kind, .index = alarm->index});
}

void event_queue_alarm_set(struct event_alarm *alarm, struct event_queue *queue, int64_t due_ns) {
    if (due_ns >= alarm->due_ns) return;
    alarm->due_ns = due_ns;
    queue_alarm(alarm, queue);
}

bool event_queue_alarm_rings(struct event_alarm *alarm, struct event_queue *queue, int64_t now_ns) {
    check(alarm->count > 0 && alarm->queued_ns[alarm->count - 1] <= now_ns);
    alarm->count--;
    if (alarm->due_ns <= now_ns) {
        alarm->due_ns = INT64_MAX;
        return true;
    }
    queue_alarm(alarm, queue);
    return false;
}
