/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/event_queue.h"

#include "base/check.h"

#define CHILDREN 4 /* children of a node of the heap: they share a cache line or two */

size_t event_queue_bytes(uint32_t capacity) {
    return capacity * sizeof(struct event) + 16;
}

bool event_queue_open(struct event_queue *queue, struct arena *arena, uint32_t capacity) {
    *queue = (struct event_queue){.capacity = capacity};
    queue->events = arena_take(arena, capacity * sizeof *queue->events);
    return queue->events != NULL;
}

static bool event_queue_is_before(const struct event *a, const struct event *b) {
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->order < b->order);
}

void event_queue_add(struct event_queue *queue, struct event event) {
    check(queue->count < queue->capacity);
    uint32_t at = queue->count++;
    if (queue->count > queue->most) queue->most = queue->count;
    event.order = queue->order++;
    while (at > 0) {
        uint32_t parent = (at - 1) / CHILDREN;
        if (!event_queue_is_before(&event, &queue->events[parent])) break;
        queue->events[at] = queue->events[parent];
        at = parent;
    }
    queue->events[at] = event;
}

static uint32_t first_child(const struct event_queue *queue, uint32_t at) {
    uint32_t child = at * CHILDREN + 1, end = child + CHILDREN;
    if (end > queue->count) end = queue->count;
    for (uint32_t other = child + 1; other < end; other++)
        if (event_queue_is_before(&queue->events[other], &queue->events[child])) child = other;
    return child;
}

bool event_queue_take(struct event_queue *queue, struct event *event_out) {
    if (queue->count == 0) return false;
    *event_out = queue->events[0];
    struct event last = queue->events[--queue->count];
    uint32_t at = 0, child;
    while ((child = first_child(queue, at)) < queue->count &&
           event_queue_is_before(&queue->events[child], &last)) {
        queue->events[at] = queue->events[child];
        at = child;
    }
    if (queue->count > 0) queue->events[at] = last;
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
