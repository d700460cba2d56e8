/* SPDX-License-Identifier: Apache-2.0
 * Protects queues of records: in order, and bounded in bytes.
 */
#include "contract/machine.h"
#include "contract/record_unit.h"
#include "host/wire/record_queue.h"
#include "test_case.h"

static struct record_cancel numbered(uint64_t number) {
    return (struct record_cancel){record_head(RECORD_CANCEL, sizeof(struct record_cancel)),
                                  {number, 0, 0, 0}};
}

static void force(struct record_queue *queue, uint64_t number) {
    struct record_cancel record = numbered(number);
    record_queue_force(queue, &record.record);
}

TEST(a_queue_is_bounded) {
    struct record_queue queue = {.bytes_max = 3 * sizeof(struct record_cancel)};
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(record_queue_has_room(&queue));
        force(&queue, i);
    }
    assert_false(record_queue_has_room(&queue));
    record_queue_drop(&queue);
    assert_true(record_queue_has_room(&queue));
    force(&queue, 3);
    for (uint64_t i = 1; i <= 3; i++) {
        const struct record_cancel *first = (const void *)record_queue_first(&queue);
        assert_int_equal(first->request.high, i);
        record_queue_drop(&queue);
    }
    assert_null(record_queue_first(&queue));
    assert_int_equal(queue.bytes, 0);
}

TEST(records_that_move_go_behind_the_others_and_are_not_copied) {
    struct record_queue from = {.bytes_max = 1}, to = {.bytes_max = 1};
    force(&from, 1);
    const struct record *moved = record_queue_first(&from);
    record_queue_move(&from, &to); /* into an empty queue */
    assert_ptr_equal(record_queue_first(&to), moved);
    record_queue_move(&from, &to); /* nothing */
    force(&from, 2);
    force(&from, 3);
    record_queue_move(&from, &to);
    force(&to, 4);
    assert_int_equal(from.count + from.bytes, 0);
    assert_int_equal(from.bytes_max, 1);
    assert_null(record_queue_first(&from));
    assert_int_equal(to.count, 4);
    assert_int_equal(to.bytes, 4 * sizeof(struct record_cancel));
    for (uint64_t i = 1; i <= 4; i++, record_queue_drop(&to))
        assert_int_equal(((const struct record_cancel *)record_queue_first(&to))->request.high, i);
    force(&from, 5);
    record_queue_drop(&from);
    assert_null(record_queue_first(&from));
}

TEST(a_units_record_is_put_in_its_envelope) {
    struct record_queue queue = {.bytes_max = 1};
    struct record_cancel record = numbered(7);
    record_queue_force_from_unit(&queue, (struct unit_id){3}, &record.record);
    const struct record_envelope *envelope = (const void *)record_queue_first(&queue);
    assert_int_equal(envelope->record.kind, RECORD_FROM_UNIT);
    assert_int_equal(envelope->record.bytes, queue.bytes);
    assert_int_equal(envelope->record.bytes, machine_envelope_bytes(RECORD_CANCEL, NULL));
    assert_int_equal(envelope->unit.value, 3);
    assert_int_equal(envelope->inner_bytes, sizeof record);
    assert_memory_equal(envelope_inner(envelope), &record, sizeof record);
    record_queue_clear(&queue);
    assert_int_equal(queue.bytes, 0);
}
