/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/event_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"

enum { EVENTS = 5000 };

static void opened(struct event_queue *queue, struct arena *arena, void **memory_out) {
    size_t bytes = event_queue_bytes(EVENTS);
    *memory_out = malloc(bytes);
    assert_non_null(*memory_out);
    arena_over(arena, *memory_out, bytes);
    assert_true(event_queue_open(queue, arena, EVENTS));
}

static void the_earliest_comes_first(void **state) {
    (void)state;
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

static void what_is_put_in_between_finds_its_place(void **state) {
    (void)state;
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
    assert_int_equal(queue.most, 64);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_comes_first),
        cmocka_unit_test(what_is_put_in_between_finds_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
