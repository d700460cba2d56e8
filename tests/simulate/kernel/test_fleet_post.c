/* SPDX-License-Identifier: Apache-2.0
 * Protects records on their way in virtual time: by when they arrive, equal ones as they were sent;
 * what a cut connection loses is its own and what would come later.
 */
#include "contract/record_unit.h"
#include "simulate/kernel/fleet_post.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct fleet_post post;
static void *memory;

static int open_post(void **state) {
    struct arena arena;
    memory = malloc(FLEET_POST_BYTES + 64);
    arena_over(&arena, memory, FLEET_POST_BYTES + 64);
    return !fleet_post_open(&post, &arena);
}

static int close_post(void **state) {
    free(memory);
    return 0;
}

static void send(uint64_t number, int64_t due_ns, uint32_t connection) {
    struct record_cancel record = {record_head(RECORD_CANCEL, sizeof record), {.low = number}};
    fleet_post_send(&post, due_ns, connection, &record.record);
}

/* What comes next is this; it is taken out. */
static void assert_next(uint64_t number, int64_t due_ns) {
    const struct fleet_message *message = fleet_post_at(&post, 0);
    assert_int_equal(fleet_post_next_ns(&post), due_ns);
    assert_int_equal(record_request(&message->record).low, number);
    fleet_post_drop(&post, 0);
}

static void messages_come_when_they_are_due_and_equal_ones_as_sent(void **state) {
    send(1, 30, 0);
    send(2, 10, 0);
    send(3, 30, 0);
    send(4, 20, 0);
    assert_next(2, 10);
    assert_next(4, 20);
    assert_next(1, 30);
    assert_next(3, 30);
    assert_int_equal(fleet_post_next_ns(&post), MACHINE_NEVER);
    assert_int_equal(post.used, 0);
}

static void a_cut_connection_loses_its_own_later_messages(void **state) {
    send(1, 10, 7);
    send(2, 20, 7);
    send(3, 20, 8);
    send(4, 30, 7);
    fleet_post_lose(&post, 7, 10);
    assert_next(1, 10);
    assert_next(3, 20);
    assert_null(fleet_post_at(&post, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_come_when_they_are_due_and_equal_ones_as_sent,
                                        open_post, close_post),
        cmocka_unit_test_setup_teardown(a_cut_connection_loses_its_own_later_messages, open_post,
                                        close_post),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
