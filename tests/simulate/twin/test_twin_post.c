/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/twin_post.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

/* Sizes vary, so that the ring's end is met in every way; a shadow knows what must come. */
static void records_come_out_as_they_went_in(void **state) {
    (void)state;
    static _Alignas(16) char memory[4096];
    struct arena arena;
    struct twin_post post;
    uint64_t put = 0, taken = 0;
    arena_over(&arena, memory, sizeof memory);
    assert_true(twin_post_open(&post, &arena, 2000));
    for (uint32_t i = 0; i < 20000; i++) {
        size_t bytes = 16 + 8 * (size_t)(random_uniform(1, 0, i) * 40);
        struct record *record = NULL;
        if (random_uniform(2, 0, i) < 0.55)
            record = twin_post_put(&post, (int64_t)put, (uint32_t)put, bytes);
        if (record) {
            memset(record, (int)(put % 251), bytes);
            put++;
            continue;
        }
        const struct twin_message *message = twin_post_first(&post);
        if (!message) continue;
        assert_int_equal(message->due_ns, taken);
        assert_int_equal(message->connection, taken);
        const unsigned char *content = (const unsigned char *)&message->record;
        for (size_t at = 0; at < message->bytes - offsetof(struct twin_message, record); at++)
            assert_int_equal(content[at], taken % 251);
        twin_post_drop(&post);
        taken++;
    }
    assert_true(taken > 5000);
    assert_int_equal(post.count, put - taken);
}

static void a_full_ring_takes_nothing(void **state) {
    (void)state;
    static _Alignas(16) char memory[1024];
    struct arena arena;
    struct twin_post post;
    arena_over(&arena, memory, sizeof memory);
    assert_true(twin_post_open(&post, &arena, 1024));
    while (twin_post_put(&post, 5, 0, 64))
        ;
    assert_true(post.count >= 10);
    assert_int_equal(twin_post_next_ns(&post), 5);
    twin_post_clear(&post);
    assert_int_equal(twin_post_next_ns(&post), MACHINE_NEVER);
    assert_non_null(twin_post_put(&post, 6, 0, 900));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_as_they_went_in),
        cmocka_unit_test(a_full_ring_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
