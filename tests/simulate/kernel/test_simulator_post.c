/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/simulator_post.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

/* Sizes vary, so that the ring's end is met in every way; a shadow knows what must come. Phases in
 * which more is put than taken let the queue grow. Returns how many were taken. */
static uint64_t come_and_go(struct simulator_post *post, double put_share, uint32_t phase) {
    uint64_t put = 0, taken = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        double share = phase && i / phase % 2 ? 1 - put_share : put_share;
        size_t bytes = 16 + 8 * (size_t)(random_uniform(1, 0, i) * 40);
        struct record *record = NULL;
        if (random_uniform(2, 0, i) < share)
            record = simulator_post_put(post, (int64_t)put, (uint32_t)put, bytes);
        if (record) {
            memset(record, (int)(put % 251), bytes);
            put++;
            continue;
        }
        const struct simulator_message *message = simulator_post_first(post);
        if (!message) continue;
        assert_int_equal(message->due_ns, taken);
        assert_int_equal(message->connection, taken);
        const struct simulator_message *behind = simulator_post_behind(post, message);
        assert_true((behind == NULL) == (post->count == 1));
        if (behind) assert_int_equal(behind->due_ns, taken + 1);
        const unsigned char *content = (const unsigned char *)&message->record;
        for (size_t at = 0; at < message->bytes - offsetof(struct simulator_message, record); at++)
            assert_int_equal(content[at], taken % 251);
        simulator_post_drop(post);
        taken++;
    }
    assert_int_equal(post->count, put - taken);
    return taken;
}

static void records_come_out_as_they_went_in(void **state) {
    (void)state;
    static _Alignas(16) char memory[4096];
    struct arena arena;
    struct simulator_post post;
    arena_over(&arena, memory, sizeof memory);
    assert_true(simulator_post_open(&post, &arena, 2000));
    assert_true(come_and_go(&post, 0.55, 0) > 5000);
}

static void a_ring_that_grows_keeps_their_order(void **state) {
    (void)state;
    static _Alignas(16) char memory[1 << 20];
    struct arena arena;
    struct simulator_post post;
    arena_over(&arena, memory, sizeof memory);
    assert_true(simulator_post_open(&post, &arena, sizeof memory));
    size_t first = post.span;
    assert_true(come_and_go(&post, 0.6, 2500) > 5000);
    assert_true(post.span > 4 * first);
    assert_true(post.span < sizeof memory);
}

/* A short queue that never empties must not wander through all of the memory. */
static void memory_beyond_a_short_queue_stays_untouched(void **state) {
    (void)state;
    static _Alignas(16) char memory[1 << 20];
    struct arena arena;
    struct simulator_post post;
    memset(memory, 0x5A, sizeof memory);
    arena_over(&arena, memory, sizeof memory);
    assert_true(simulator_post_open(&post, &arena, sizeof memory));
    for (int i = 0; i < 100000; i++) {
        memset(simulator_post_put(&post, i, 0, 200), 0, 200);
        if (i >= 100) simulator_post_drop(&post);
    }
    assert_int_equal(simulator_post_next_ns(&post), 99900);
    for (size_t at = 64 << 10; at < sizeof memory; at++)
        assert_int_equal(memory[at], 0x5A);
}

static void a_full_ring_takes_nothing(void **state) {
    (void)state;
    static _Alignas(16) char memory[1024];
    struct arena arena;
    struct simulator_post post;
    arena_over(&arena, memory, sizeof memory);
    assert_true(simulator_post_open(&post, &arena, 1024));
    while (simulator_post_put(&post, 5, 0, 64))
        ;
    assert_true(post.count >= 10);
    assert_int_equal(simulator_post_next_ns(&post), 5);
    simulator_post_clear(&post);
    assert_int_equal(simulator_post_next_ns(&post), MACHINE_NEVER);
    assert_non_null(simulator_post_put(&post, 6, 0, 900));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_as_they_went_in),
        cmocka_unit_test(a_ring_that_grows_keeps_their_order),
        cmocka_unit_test(memory_beyond_a_short_queue_stays_untouched),
        cmocka_unit_test(a_full_ring_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
