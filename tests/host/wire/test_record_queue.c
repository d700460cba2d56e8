/* SPDX-License-Identifier: Apache-2.0
 * Protects queues of records: in order, and bounded in bytes.
 */
#include "contract/record_unit.h"
#include "host/wire/record_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct record_cancel numbered(uint64_t number) {
    return (struct record_cancel){record_head(RECORD_CANCEL, sizeof(struct record_cancel)),
                                  {number, 0, 0, 0}};
}

static void a_queue_is_bounded(void **state) {
    struct record_queue queue = {.bytes_max = 3 * sizeof(struct record_cancel)};
    for (uint64_t i = 0; i < 3; i++) {
        struct record_cancel record = numbered(i);
        assert_int_equal(record_queue_put(&queue, &record.record), STATUS_OK);
    }
    struct record_cancel record = numbered(3);
    assert_int_equal(record_queue_put(&queue, &record.record), STATUS_FULL);
    record_queue_drop(&queue);
    assert_int_equal(record_queue_put(&queue, &record.record), STATUS_OK);
    for (uint64_t i = 1; i <= 3; i++) {
        const struct record_cancel *first = (const void *)record_queue_first(&queue);
        assert_int_equal(first->request.high, i);
        record_queue_drop(&queue);
    }
    assert_null(record_queue_first(&queue));
    assert_int_equal(queue.bytes, 0);
}

static void force(struct record_queue *queue, uint64_t number) {
    struct record_cancel record = numbered(number);
    record_queue_force(queue, &record.record);
}

static void a_record_that_moves_goes_behind_the_others(void **state) {
    struct record_queue from = {.bytes_max = 1}, to = {.bytes_max = 1};
    force(&from, 1);
    force(&from, 2);
    force(&to, 0);
    record_queue_move(&from, &to);
    assert_int_equal(from.count, 1);
    assert_int_equal(to.count, 2);
    for (uint64_t i = 0; i < 2; i++, record_queue_drop(&to))
        assert_int_equal(((const struct record_cancel *)record_queue_first(&to))->request.high, i);
    assert_int_equal(((const struct record_cancel *)record_queue_first(&from))->request.high, 2);
    record_queue_clear(&from);
    assert_null(record_queue_first(&from));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_is_bounded),
        cmocka_unit_test(a_record_that_moves_goes_behind_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
