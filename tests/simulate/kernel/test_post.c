/* SPDX-License-Identifier: Apache-2.0
 * Protects records in transit in virtual time: they arrive by their times, equal ones as they were
 * sent, and a cut connection loses its own later ones.
 */
#include "simulate/kernel/post.h"

#include "base/random.h"
#include "contract/record_unit.h"
#include "test_case.h"

static _Alignas(16) char memory[1 << 20];
static struct post post;

static int open_post(void **state) {
    (void)state;
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    memset(memory, 0x5A, sizeof memory);
    return !post_open(&post, &arena, sizeof memory - 64);
}

static void send(uint64_t number, int64_t due_ns, uint32_t connection) {
    struct record_cancel record = {record_head(RECORD_CANCEL, sizeof record), {.low = number}};
    post_send(&post, due_ns, connection, &record.record);
}

/* The next message is this one; it is removed. */
static void assert_next(uint64_t number, int64_t due_ns) {
    const struct post_message *message = post_at(&post, 0);
    assert_int_equal(post_next_ns(&post), due_ns);
    assert_int_equal(record_request(&message->record).low, number);
    post_drop(&post, 0);
}

TEST_AROUND(messages_come_when_they_are_due_and_equal_ones_as_sent, open_post, NULL) {
    send(1, 30, 0);
    send(2, 10, 0);
    send(3, 30, 0);
    send(4, 20, 0);
    assert_next(2, 10);
    assert_next(4, 20);
    assert_next(1, 30);
    assert_next(3, 30);
    assert_int_equal(post_next_ns(&post), MACHINE_NEVER);
    assert_null(post_at(&post, 0));
}

TEST_AROUND(a_cut_connection_loses_its_own_later_messages, open_post, NULL) {
    send(1, 10, 7);
    send(2, 20, 7);
    send(3, 20, 8);
    send(4, 30, 7);
    post_lose(&post, 7, 10);
    assert_next(1, 10);
    assert_next(3, 20);
    assert_null(post_at(&post, 0));
}

/* Sizes vary. In phases more is put than taken, so the queue grows and shrinks. */
TEST_AROUND(records_come_out_as_they_went_in, open_post, NULL) {
    uint64_t put = 0, taken = 0;
    for (uint32_t i = 0; i < 40000; i++) {
        double share = i / 2500 % 2 ? 0.4 : 0.6;
        size_t bytes = 16 + 8 * (size_t)(random_uniform(1, 0, i) * 40);
        if (random_uniform(2, 0, i) < share) {
            struct record *record = post_put(&post, (int64_t)put, (uint32_t)put, bytes);
            memset(record, (int)(put++ % 251), bytes);
            continue;
        }
        const struct post_message *message = post_at(&post, 0);
        if (!message) continue;
        assert_int_equal(message->due_ns, taken);
        assert_int_equal(message->connection, taken);
        const struct post_message *behind = post_at(&post, message->bytes);
        assert_true((behind == NULL) == (put - taken == 1));
        if (behind) assert_int_equal(behind->due_ns, taken + 1);
        const unsigned char *content = (const unsigned char *)&message->record;
        for (size_t at = 0; at < message->bytes - offsetof(struct post_message, record); at++)
            assert_int_equal(content[at], taken % 251);
        post_drop(&post, 0);
        taken++;
    }
    assert_true(taken > 15000);
}

/* A short queue that never empties must not wander through all of the memory. */
TEST_AROUND(memory_beyond_a_short_queue_stays_untouched, open_post, NULL) {
    for (int i = 0; i < 100000; i++) {
        memset(post_put(&post, i, 0, 200), 0, 200);
        if (i >= 100) post_drop(&post, 0);
    }
    assert_int_equal(post_next_ns(&post), 99900);
    for (size_t at = 64 << 10; at < sizeof memory; at++)
        assert_int_equal(memory[at], 0x5A);
}

TEST_AROUND(a_full_post_takes_nothing, open_post, NULL) {
    post.capacity = 1024;
    while (post_put(&post, 5, 0, 64))
        ;
    assert_true(post.tail > 1024 - 2 * 64);
    assert_int_equal(post_next_ns(&post), 5);
    post_clear(&post);
    assert_int_equal(post_next_ns(&post), MACHINE_NEVER);
    assert_non_null(post_put(&post, 6, 0, 900));
}

TEST_AROUND(records_of_units_are_for_gateways, open_post, NULL) {
    const struct record_finished finished = {.record =
                                                 record_head(RECORD_FINISHED, sizeof finished)};
    post_send_link(&post, 7, 3, RECORD_UNIT_JOINED);
    post_send_from_unit(&post, 8, 3, &finished.record);
    const struct post_message *first = post_at(&post, 0), *second = post_at(&post, first->bytes);
    const struct record_envelope *envelope = (const void *)&second->record;
    assert_true(record_valid(&first->record, first->record.bytes));
    assert_int_equal(first->record.kind, RECORD_UNIT_JOINED);
    assert_true(record_valid(envelope, envelope->record.bytes));
    assert_int_equal(envelope->unit.value, 3);
    assert_memory_equal(envelope_inner(envelope), &finished, sizeof finished);
}
