/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/event_queue.h"

#include "base/random.h"
#include "test_case.h"

enum { EVENTS = 5000 };

static void opened(struct event_queue *queue, struct arena *arena, void **memory_out) {
    size_t bytes = event_queue_bytes(EVENTS);
    *memory_out = malloc(bytes);
    assert_non_null(*memory_out);
    arena_over(arena, *memory_out, bytes);
    assert_true(event_queue_open(queue, arena, EVENTS));
}

TEST(the_earliest_comes_first) {
    struct event_queue queue;
    struct arena arena;
    struct event event;
    void *memory;
    opened(&queue, &arena, &memory);
    for (uint32_t i = 0; i < EVENTS; i++)
        event_queue_add(
            &queue, (struct event){.due_ns = (int64_t)(random_uniform(1, 0, i) * 900), .index = i});
    int64_t last_ns = -1;
    uint32_t last = 0;
    for (uint32_t i = 0; i < EVENTS; i++) {
        assert_true(event_queue_take(&queue, &event));
        assert_true(event.due_ns >= last_ns);
        if (event.due_ns == last_ns) assert_true(event.index > last); /* as they were put in */
        last_ns = event.due_ns;
        last = event.index;
    }
    assert_false(event_queue_take(&queue, &event));
    free(memory);
}

TEST(what_is_put_in_between_finds_its_place) {
    struct event_queue queue;
    struct arena arena;
    struct event event;
    void *memory;
    opened(&queue, &arena, &memory);
    int64_t now_ns = 0;
    for (uint32_t i = 0; i < 64; i++)
        event_queue_add(&queue, (struct event){.due_ns = (int64_t)i});
    for (uint32_t i = 0; i < 20000; i++) {
        assert_true(event_queue_take(&queue, &event));
        assert_true(event.due_ns >= now_ns);
        now_ns = event.due_ns;
        event.due_ns += (int64_t)(random_uniform(2, 0, i) * 100);
        event_queue_add(&queue, event);
    }
    assert_int_equal(queue.count, 64);
    free(memory);
}

/* A machine that hears something all the time, and means to wake at one later moment, has not one
 * more event in the queue for each thing that it hears; and it does wake then. */
TEST(an_alarm_set_often_lies_in_the_queue_once) {
    static char memory[4096];
    struct arena arena;
    struct event_queue queue;
    struct event event;
    struct event_alarm alarm = event_queue_alarm_of(3, 5);
    arena_over(&arena, memory, sizeof memory);
    assert_true(event_queue_open(&queue, &arena, 8));
    event_queue_alarm_set(&alarm, &queue, 1000);
    for (int64_t now_ns = 1; now_ns <= 100; now_ns++) {
        event_queue_alarm_set(&alarm, &queue, now_ns);
        assert_true(event_queue_take(&queue, &event));
        assert_int_equal(event.due_ns, now_ns);
        assert_true(event_queue_alarm_rings(&alarm, &queue, now_ns));
        event_queue_alarm_set(&alarm, &queue, now_ns < 100 ? 1000 : 1500);
        assert_int_equal(queue.count, 1);
    }
    assert_true(event_queue_take(&queue, &event));
    assert_int_equal(event.due_ns, 1000);
    assert_false(
        event_queue_alarm_rings(&alarm, &queue, 1000)); /* it was set for later meanwhile */
    assert_true(event_queue_take(&queue, &event));
    assert_true(event.due_ns == 1500 && event.kind == 3 && event.index == 5);
    assert_true(event_queue_alarm_rings(&alarm, &queue, 1500));
    assert_int_equal(queue.count, 0);
}
